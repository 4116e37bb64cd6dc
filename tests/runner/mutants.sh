#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of tools/mutants with a stand-in for QEMU, whose monitor has one profile and one erratum; prints TAP.
# shellcheck disable=SC2016,SC2317 # what the stand-in and `try` run
set -u
# shellcheck source=tests/runner/tree.sh
. "$(dirname "$0")/tree.sh" || exit 2
tested=mutants

# variants NAME LOG [OPTION...]: tools/mutants --variants with the boot of that name, which writes LOG
variants()
{
	local name=$1
	BOOT_LOG=$2 FAKE_LOG='' FAKE_ACT='case $* in
		*vbts=list*) printf "# monitor: %s\n" "profile one: a processor" "profile icelake: another" "variant pt-x=1 (default): is" "variant pt-x=2: is not" ;;
		*defect=list*) echo "# monitor: defect wrap_at_threshold (SDM Vol 3, 17.4.9): ends early" ;;
		*erratum=list*) echo "# monitor: erratum AB1 (SDM Vol 3, 17.4.9): a flaw" ;;
		*timeout=240*) cat "${AGAIN_LOG:-$BOOT_LOG}" ;;
		*) cat "$BOOT_LOG" ;;
		esac' tools/mutants --variants "${@:3}" "$name"
}

# met LOG PASSES: LOG, in which the last test met an erratum, and so many passed
met()
{
	sed "s/^ok 3 .*/& # XFAIL AB1/; s/ pass=[0-9]* \(.*\) xfail=0 / pass=$2 \1 xfail=1 /" "$here/logs/$1.log" >"met-$1.log"
}

met slow 1
met slow-none 2
try 'a variant on which every test passes' 0 '^1..1.ok 1 - profile=one: pass.# 1 of 1 passed' variants profile=one "$here/logs/slow-none.log"
FAKE_STATUS=35 try 'a variant on which a test fails' 1 'not ok 1 - profile=one: failed: bts_wrap' variants profile=one "$here/logs/fail.log"
try 'a variant on which a test had too little time' 1 'not ok 1 - profile=one: this machine gave too little time to smp_storm' \
	variants profile=one "$here/logs/slow.log"
AGAIN_LOG=$here/logs/slow-none.log try 'a variant on which it had enough at the second boot' 0 '^1..1.ok 1 - profile=one: pass.# 1 of 1 passed' \
	variants profile=one "$here/logs/slow.log"
AGAIN_LOG=$here/logs/fail.log try 'a variant on which a test fails at the second boot' 1 'not ok 1 - profile=one: failed: bts_wrap' \
	variants profile=one "$here/logs/slow.log"
{ sed '/^ok 1 /Q' "$here/logs/slow-none.log" && echo '# beat ts=25 test=smp_fpu_storm'; } >stopped.log
AGAIN_LOG=$here/logs/slow-none.log try 'a variant on which QEMU stopped the first processor' 0 '^1..1.ok 1 - profile=one: pass.# 1 of 1 passed' \
	variants profile=one stopped.log
try 'a variant on which it stopped it twice' 1 'not ok 1 - profile=one: the run is not complete' variants profile=one stopped.log
try 'an erratum that a test meets' 0 'ok 1 - erratum=AB1: 1 expected failures' variants erratum=AB1 met-slow-none.log
try 'an erratum beside a test that had too little time' 1 'not ok 1 - erratum=AB1: this machine gave' variants erratum=AB1 met-slow.log
try 'an erratum that no test meets' 1 'not ok 1 - erratum=AB1: no test met it' variants erratum=AB1 "$here/logs/slow-none.log"
try 'a mix of variants' 0 '# seed 7.1..1.ok 1 - 7/2: pass' variants 7/2 "$here/logs/slow-none.log" --mixes 3 --seed 7
FAKE_STATUS=35 try 'a mix on which a test fails, with the words to boot it again' 1 \
	"not ok 1 - 7/2: failed: bts_wrap; -M 'vbts=auto,pt-x=[12] pt=on profile=icelake'" variants 7/2 "$here/logs/fail.log" --mixes 3 --seed 7
sed 's/^\(not ok [0-9]* [a-z_]*\)/\1 # ERROR it did not start/' "$here/logs/fail.log" >error.log
FAKE_STATUS=34 try 'a mix on which a test has an error' 1 "not ok 1 - 7/2: failed: bts_wrap; -M" variants 7/2 error.log --mixes 3 --seed 7
announced()
{
	sed '1i # monitor: defect=wrap_at_threshold\n# claim: the buffer ends at the maximum (SDM Vol 3, 17.4.9)' "$here/logs/$1.log"
}

announced fail >announced-fail.log
announced pass >announced-pass.log
FAKE_STATUS=35 try 'a variant on which a defect is caught' 0 '# seed 7.1..1.ok 1 - pt-x=2 wrap_at_threshold: caught by bts_wrap.# 1 of 1 caught' \
	variants 'pt-x=2 wrap_at_threshold' announced-fail.log --defects 1 --seed 7
try 'a variant on which no test catches a defect' 1 'not ok 1 - pt-x=2 wrap_at_threshold: no test caught it' \
	variants 'pt-x=2 wrap_at_threshold' announced-pass.log --defects 1
try 'mixes and defects at a time' 255 'one at a time' variants x x --mixes 1 --defects 1

# inert LOG LINE...: tools/mutants --inert with a tests/inert.txt of one boot and these lines, where the boot writes LOG
inert()
{
	mkdir -p tests
	printf '%s\n' 'boot | bts | bts_*,ds_* | profile=one' "${@:2}" >tests/inert.txt
	FAKE_LOG='' BOOT_LOG=$1 FAKE_ACT='cat "$BOOT_LOG"' tools/mutants --inert
}

sed 's/defect=wrap_at_threshold/variant=inert=bts/' announced-fail.log >inert.log
{ cat inert.log && echo 'not ok 4 bts_more # ERROR not run: bts_wrap hung'; } >inert-hung.log
rightly=('pass | bts | ds_enumerated | it reads CPUID' 'pass | bts | bts_threshold | nothing happens')
export FAKE_STATUS=35
try 'a unit that does nothing, and the tests that pass rightly' 0 'ok 1 - .*: 1 failed, 2 passed rightly' inert inert.log "${rightly[@]}"
try 'a test that passes wrongly' 1 'not ok 1 - .*: passed, and are not in tests/inert.txt: bts_threshold' inert inert.log "${rightly[0]}"
try 'a test that is to pass and fails' 1 'not ok 1 - .*: in tests/inert.txt, and did not pass: bts_wrap' \
	inert inert.log "${rightly[@]}" 'pass | bts | bts_wrap | it is to'
try 'a test that another kept from running' 1 'not ok 1 - .*: the run is not complete' inert inert-hung.log "${rightly[@]}"
echo "1..$number"
exit $failed
