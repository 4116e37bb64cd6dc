#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of tools/guests/check-kut, with a stand-in for kvm-unit-tests and one for QEMU; prints TAP.
# shellcheck disable=SC2016,SC2317 # what the stand-ins and `try` run
set -u
# shellcheck source=tests/runner/tree.sh
. "$(dirname "$0")/../../../tests/runner/tree.sh" || exit 2
tested=kut

mkdir -p kut/x86
printf '[%s]\nfile = %s.flat\narch = x86_64\n' a a none none >kut/x86/unittests.cfg
printf '#define N 1000000\n1000000000ull\n' >kut/x86/pmu.c
echo 200000000 >kut/x86/pmu_lbr.c
echo VSIZE 100000000 >kut/x86/sieve.c
echo 'exit 1' >kut/configure
chmod +x kut/configure
echo 'b | guest | ^x fails$ | of another test' >tools/guests/kvm-unit-tests.txt

try 'a test that is none, beside one' 2 'no such test: frob' tools/guests/check-kut kut a frob
try 'it cannot be built' 2 'building x86_64.*cannot build it for x86_64: see' tools/guests/check-kut kut a
echo 'mkdir x86; touch config.mak x86/a.flat; echo all: >Makefile' >kut/configure

# ways PLAIN [GUEST [INTERPRETED [LIKEWISE]]]: check-kut of the test `a` where QEMU does so in each way; without a word as in the
# way before, and on the Intel processor as plain.
ways()
{
	export plain=$1 guest=${2-$1}
	export interpreted=${3-$guest} likewise=${4-$1} FAKE_LOG='' FAKE_WORDS='warning: none'
	export FAKE_ACT='way=plain; [[ $* != *vendor=GenuineIntel* ]] || way=likewise; [[ $* != *monitor.elf32* ]] || way=guest
		[[ $* != *interpret=always* ]] || way=interpreted; eval "${!way}"'
	tools/guests/check-kut "${KUT-kut}" a
}

explained()
{
	echo "a | plain|guest|interpreted | $1 | the reason" >>tools/guests/kvm-unit-tests.txt
	ways "${@:2}"
	local code=$?
	sed -i '$d' tools/guests/kvm-unit-tests.txt
	return "$code"
}

in_history()
{
	git -C "$1" init -q . && git -C "$1" add . &&
		git -C "$1" -c user.name=x -c user.email=x@example.org commit -q -m x
}

passes='echo PASS: x; exit 1' fails='echo FAIL: x; exit 3' aborts='echo begins; exit 127'
try 'a test that passes' 0 'ok 1 a .*as plain.*1 checks passed plain, 1 as a guest, 1 interpreted; none' ways "$passes"
try 'a test that fails in each way' 0 'ok 1 a .*as plain' ways "$fails"
try 'a check that passes plain alone' 1 'not ok 1 .*guest: x fails.*guest: x does not pass' ways "$passes" "$fails"
try 'plain ends before a check that fails as a guest' 1 'not ok 1 .*# guest: x fails' ways "$aborts" "$fails" "$passes"
try 'plain ends before a check that fails interpreted' 1 'not ok 1 .*# interpreted: x fails' ways "$aborts" "$passes" "$fails"
try 'plain ends before a check that passes' 0 'ok 1 .*not worse than plain \(aborts\)' ways "$aborts" "$passes"
try 'each way ends at the same check' 0 'ok 1 .*not worse than plain \(aborts\)' ways "$aborts"
try 'a guest that ends after plain, and badly' 1 'not ok 1 .*# guest: end: aborts' ways "$aborts" 'echo PASS: x; exit 127'
try 'plain does not run' 1 'not ok 1 .*not run: no such thing,.*# guest: x fails' ways 'echo "qemu: no such thing" >&2; exit 1' "$fails"
try 'the guest does not run' 1 'not ok 1 .*# guest: end: not run: no such thing' ways "$aborts" 'echo "qemu: no such thing" >&2; exit 1'
triple='echo begins; echo "# monitor: guest triple fault at rip=0"; exit 41'
try 'a triple fault in each way' 0 'ok 1 .*not worse than plain \(resets\)' ways 'echo begins; exit 0' "$triple"
try 'a triple fault as a guest' 1 'not ok 1 .*# guest: end: resets' ways "$passes" "$triple"
try 'a guest on which QEMU fails' 1 'not ok 1 .*# guest: end: QEMU: no such thing' ways "$passes" 'echo PASS: x; echo "qemu: no such thing" >&2; exit 1'
try 'an Intel processor fails likewise' 0 'ok 1 .*4 explained' ways "$passes" "$fails" "$fails" "$fails"
try 'an Intel processor that does not run' 1 'not ok 1 .*# guest: x does not pass' ways "$passes" 'echo begins; exit 1' "$passes" 'exit 1'
try 'a difference that is explained' 0 'ok 1 .*4 explained' explained 'x (fails|does not pass)' "$passes" "$fails"
QEMU=/bin/false try 'QEMU fails and says nothing' 2 \
	'not ok 1 a x86_64 # not run: QEMU leaves with 1 and says nothing.*check-kut: 1 tests did not run in any way: a x86_64; see' tools/guests/check-kut kut a
QEMU=/bin/true try 'QEMU does nothing' 2 'not ok 1 a .*1 tests did not run in any way: a x86_64' tools/guests/check-kut kut a
QEMU=./nowhere try 'QEMU is not there' 2 'not run: failed to run command .*1 tests did not run in any way' tools/guests/check-kut kut a
refused='echo "qemu: no vmx-mbec" >&2; exit 1'
try 'QEMU refuses a test, which is explained' 2 'ok 1 a x86_64 # SKIP not run: no vmx-mbec.*no test ran' explained 'end: not run: no vmx-mbec' "$refused"
try 'a test that is not built' 2 'ok 1 none x86_64 # SKIP x86/none.flat is not built for it.*no test ran' tools/guests/check-kut kut none
try 'no commit' 0 '# kvm-unit-tests: no history.*# no history: 1 tests' ways "$passes"
mkdir other && cp -r kut other && in_history other
KUT=other/kut try 'the commit of another tree' 0 '# kvm-unit-tests: no history' ways "$passes"
in_history kut
commit=$(git -C kut rev-parse HEAD)
try 'the commit' 0 "# kvm-unit-tests: $commit.*# $commit: 1 tests" ways "$passes"
echo >>kut/x86/pmu.c
try 'the commit, with a change' 0 "# kvm-unit-tests: $commit-dirty" ways "$passes"
echo "1..$number"
exit $failed
