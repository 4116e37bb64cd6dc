#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of tools/mutate with a unit of one function, which is compiled, and a stand-in for QEMU; prints TAP.
# shellcheck disable=SC2016,SC2317 # what the stand-in and `try` run
set -u
# shellcheck source=tests/runner/tree.sh
. "$(dirname "$0")/tree.sh" || exit 2
tested=mutate

rm monitor Makefile build/*.elf32
mkdir -p monitor/ds monitor/lbr build/obj/monitor/lbr tests
cat >monitor/ds/behaviour.h <<'END'
struct ds_behaviour {
	unsigned masked, lbr;
	enum { DS_OTHER_NONE, DS_OTHER_SEVEN } other;
};
END
cat >monitor/silicon.h <<'END'
#pragma once
#include "monitor/ds/behaviour.h"
const struct ds_behaviour *ds_behaviour_of(void *vcpu);
END
cat >monitor/lbr/stack.c <<'END'
#include "monitor/silicon.h"
unsigned rule(void *vcpu, unsigned a, unsigned b);
static inline unsigned never(unsigned a) { return a + 9; }
unsigned rule(void *vcpu, unsigned a, unsigned b)
{
	if (ds_behaviour_of(vcpu)->other == DS_OTHER_SEVEN)
		return a < b ? 6 : b;
	return a < b ? 5 : b;
}
END
cat >Makefile <<'END'
build/monitor.elf32: build/obj/monitor/lbr/stack.c.o
	ld -r -o build/monitor.elf $<
	objcopy build/monitor.elf build/monitor.elf32
build/obj/%.o: %
	gcc -I. -O2 -g -c -o $@ $<
END
make -s build/monitor.elf32 && cp build/monitor.elf32 build/spoor.elf32 && git init -q . || exit 2
printf '%s\n' '/*' '!/monitor' '!/tests' '!/Makefile' >.git/info/exclude

# mutate PLAIN_LOG LOG [OPTION...]: tools/mutate, where the unit as it is writes PLAIN_LOG and a mutant LOG
mutate()
{
	PLAIN=$here/logs/$1.log LOG=$here/logs/$2.log FAKE_LOG='' FAKE_ACT='case $* in
		*mutate/plain*) cat "$PLAIN" ;;
		*) touch booted; cat "$LOG"; [[ $LOG != */fail.log ]] || exit 35 ;;
		esac' tools/mutate "${@:3}" LBR
}

again=(--again --count 3)
try 'lists what can be made' 0 'LBR monitor/lbr/stack.c:8 rule: < becomes <=.LBR ' mutate pass fail --list
try 'a unit that there is not' 2 'no such unit: LBT; there are BTS ' tools/mutate LBT
try 'an option that there is not' 2 '--some is unknown' tools/mutate --some
try 'mutants that a test notices' 0 'ok 2 - LBR monitor/lbr/stack.c:8 rule: [^:]*: bts_wrap.*ok 5 - LBR: 3 of 3 \(100.0 %\) noticed, 0 of them by a crash' \
	mutate pass fail "${again[@]}"
rm -f booted
try 'resumes: what is known is booted no more' 0 'LBR: 3 of 3' mutate pass pass --count 3
[ ! -e booted ]
result 'nothing was booted'
try 'the same mutants by the same seed' 0 'LBR: 3 of 3' mutate pass fail --count 3 --seed 1
[ ! -e booted ]
result 'nothing was booted by the same seed'
try 'mutants that nobody notices' 1 'not ok 2 - LBR [^#]* # todo nobody noticed.*not ok 5 - LBR: 0 of 3 ' mutate pass pass "${again[@]}"
try 'mutants that crash' 0 'ok 2 - LBR [^#]*: selftest_panic_mid_line by a crash.*LBR: 3 of 3 \(100.0 %\) noticed, 3 of them' mutate pass died "${again[@]}"
# They crash as long as they have the usual time.
busy()
{
	LOG=$here/logs FAKE_LOG='' FAKE_ACT='case $* in
		*mutate/plain* | *timeout=120*) cat "$LOG/pass.log" ;;
		*) cat "$LOG/died.log" ;;
		esac' tools/mutate "${again[@]}" LBR
}
try 'a crash for want of time is none' 1 'not ok 2 - LBR [^#]* # todo nobody noticed.*LBR: 0 of 3 ' busy
# The tests of the unit pass; the witnesses fail but of the rules as they are.
witnesses()
{
	LOG=$here/logs FAKE_LOG='' FAKE_ACT='case $* in
		*mutate/plain*) cat "$LOG/pass.log" ;;
		*witnesses_*) touch booted; cat "$LOG/'$1'.log"; exit '$2' ;;
		*) touch unit; cat "$LOG/pass.log" ;;
		esac' tools/mutate --count 3 --witnesses LBR
}
rm -f booted unit
try 'what only the witnesses notice' 0 'only the witnesses notice 3 of 3 that no other test notices.*LBR: 3 of 3' witnesses fail 35
[[ -e booted && ! -e unit ]]
result 'only the witnesses are booted where the tests of the unit are known to pass'
try 'what they do not notice' 0 'only the witnesses notice 3 of 3' witnesses pass 33
try 'what drops out' 1 'only 3 mutants can be made.*dropped: 4 are of what this processor does not choose, 1 are what a processor may choose, 3 have the object code of the rules' \
	mutate pass fail --again --count 90
try 'the rules as they are fail' 2 'the rules as they are, profile=icelake pt=on: caught bts_wrap' \
	env PLAIN="$here/logs/fail.log" FAKE_LOG="$here/logs/fail.log" FAKE_STATUS=35 tools/mutate --again LBR
printf '%s\n' 'monitor/lbr/stack.c | rule | SDM Vol 3, 17.4.8: it is' '-	return a < b ? 5 : b;' '+	return a <= b ? 5 : b;' >tests/equivalents.txt
try 'an equivalent mutant' 0 'ok 1 - tests/equivalents.txt: 1 mutants that no test can notice' mutate pass pass --check
try 'an equivalent mutant that a test notices' 1 'not ok [0-9]* - LBR [^:]*:8 rule: < becomes <=: bts_wrap notices what tests/equivalents.txt calls' \
	mutate pass fail "${again[@]}"
try 'equivalent mutants, more than 12 %' 1 'not ok [0-9]* - LBR: 0 of 3 .* without the 1 equivalent ones of 2' \
	mutate pass pass "${again[@]}"
sed -i 's/a <= b/a << b/; s/17.4.8/17.4.88/' tests/equivalents.txt
try 'an entry of no mutant, and without a source' 1 "no mutant makes 'return a << b .* no 'SDM Vol 3, 17.4.88'" mutate pass pass --check
echo "1..$number"
exit $failed
