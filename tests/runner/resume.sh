#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of run-qemu.sh where a boot dies within a test, with a stand-in for QEMU: prints TAP.
# shellcheck disable=SC2317,SC2016 # functions and words are run by `try`
set -u
# shellcheck source=tests/runner/tree.sh
. "$(dirname "$0")/tree.sh" || exit 2
tested=resume
export FAKE_LOG='' FAKE_STATUS=37

# boot NUMBER PLAN STATUS LINE...: the console and the exit status of that boot. GIT is its kernel's, BANNER another line of its
# banner, END is said last without a newline.
boot()
{
	printf '%s\r\n' "# spoor version=0.1 git=${GIT:-c7d2ceb}" '# command_line="end=exit"' \
		'# ds=1 dtes64=1 dscpl=1 bts_unavail=0 silicon=virtual' '# tsc_hz=1000 clock=hpet seed=77 scale=100 timeout=60' ${BANNER:+"$BANNER"} \
		'KTAP version 1' "1..$2" "${@:4}" >"console$1"
	printf %s "${END-}" >>"console$1"
	echo "$3" >"status$1"
}

# run OPTION...: a run of these boots; prints the words of each that say where it begins, the verdict, and of the log its
# results and what is said of restarts.
run()
{
	rm -f arguments log*
	FAKE_ACT='[[ "$*" =~ from=[0-9]+\ seed=[0-9]+ ]]; echo "${BASH_REMATCH:--}" >>arguments; n=$(wc -l <arguments); [ -e console$n ] && cat console$n; eval "${DURING-}"
		read -r left <status$n; [ "$left" != kill ] || kill -KILL $$; [ "$left" != hang ] || exec sleep 60; exit "$left"' \
		./run-qemu.sh -q -l log "$@" 2>said >/dev/null
	local code=$?
	tr '\n' ';' <arguments
	grep '^verdict' said | tr '\n' ';'
	tr -d '\r' <log | grep -E '^((not )?ok|# SPOOR DONE|# restart|KTAP|# spoor|1\.\.)' | tr '\n' ';'
	return "$code"
}

done_line() { echo "# SPOOR DONE silicon=virtual pass=$1 fail=$2 skip=0 error=$3 xfail=0 obs=0 rc=$4 slow=0"; }
ended() { printf '%s\n' '# claim: it holds (A1)' '# again: run-qemu.sh -t b -a seed=77' '# time group=A us=0' "not ok $1 $2 # ERROR an earlier boot ended in it"; }
# The second boot of most of what follows.
second() { mapfile -t lines < <(ended 2 b) && boot 2 4 37 "${lines[@]}" 'ok 3 c' 'ok 4 d' "$(done_line 2 0 1 2)"; }
merged='# spoor [^;]*;KTAP version 1;1..4;ok 1 a;# restart: '

boot 1 4 0 'ok 1 a' '# said by b' && second
try 'a triple fault' 2 "^-;from=3 seed=77;verdict: ERROR \(2\): 3 pass, 1 error, .*${merged}the machine reset [^;]*;not ok 2 b # ERROR the machine reset or powered off, as after a triple fault;ok 3 c;ok 4 d;# SPOOR DONE silicon=virtual pass=3 fail=0 skip=0 error=1 xfail=0 obs=0 rc=2 slow=0 restarts=1;\$" run
try 'its boots are kept as they were' 0 '^# said by b.*run-qemu.sh: 2 boots: log.boot1 to .boot2' \
	eval 'cmp console1 log.boot1 && cmp console2 log.boot2 && [ ! -e log.boot3 ] && grep "^# said by b" log && cat said'
try 'judge gives the log the same verdict' 2 'ERROR \(2\): 3 pass, 1 error' tools/judge log
try 'judge refuses its boots one after the other' 4 'more than one boot' eval 'cat log.boot1 log.boot2 >both; tools/judge both'
try 'judge refuses the second alone' 4 'result 1 expected' tools/judge log.boot2
try 'JUnit of it' 0 '<testsuite name="spoor" tests="4" failures="0" errors="1" skipped="0" .*name="b" [^<]*<error message="not ok 2 b # ERROR the machine reset.*# said by b' \
	eval 'tools/judge --junit xml log 2>/dev/null; xmllint --noout --schema "$here/junit.xsd" xml && cat xml'
try 'no other boot where none is wanted' 4 '^-;verdict: CRASH \(4\): the guest reset .* 1 of 4 results came, [^;]*; log: log;# spoor [^;]*;KTAP version 1;1..4;ok 1 a;$' run --boots 1
boot 1 4 41 'ok 1 a' '# panic: #GP' 'not ok 2 b # ERROR panic: #GP' "$(done_line 1 0 1 4)"
try 'a panic, whose test has its line' 2 "from=3 .*${merged%;*};not ok 2 b # ERROR panic: #GP;# restart: the kernel ended the boot: panic: #GP;ok 3 c;ok 4 d;# SPOOR DONE .*pass=3 .*error=1 .*restarts=1;\$" run
try 'no panic is a pass' 4 'panicked: # panic: #GP' eval 'sed "/^# restart/d; s/ restarts=1//" log >other; tools/judge other'
boot 1 4 41 'ok 1 a' '# monitor: the guest wrote what is not provided'
try 'the monitor gives up' 2 "${merged}the boot ended, says the monitor: the guest wrote .*not ok 2 b # ERROR the boot ended, says the monitor" run
boot 1 4 kill 'ok 1 a'
try 'QEMU is killed' 2 "${merged}QEMU was killed by signal 9;not ok 2 b # ERROR QEMU was killed by signal 9;ok 3" run
boot 1 4 hang 'ok 1 a' '# beat ts=10 test=b'
try 'a boot reaches its time limit' 2 "${merged}the boot reached its time limit;not ok 2 b # ERROR the boot" run -T 1
boot 1 4 37 'ok 1 a' 'not ok 2 b # ERROR hung: it ran' 'not ok 3 c # ERROR not run: b hung' 'not ok 4 d # ERROR not run: b hung' "$(done_line 1 0 3 2)"
try 'results that were not run' 2 'from=3 .*ok 1 a;not ok 2 b # ERROR hung: it ran;# restart: the kernel ended the boot;ok 3 c;ok 4 d;# SPOOR DONE .*pass=3 .*error=1 ' run
boot 1 4 hang 'ok 1 a' 'not ok 2 b # ERROR hung: it ran' && second
try 'a kernel that hangs when it starts again' 2 'from=3 .*ok 1 a;not ok 2 b # ERROR hung: it ran;# restart: the boot reached its time limit;ok 3 c;ok 4 d;# SPOOR DONE .*pass=3 .*error=1 ' run -T 2
boot 1 4 41 'ok 1 a' 'not ok 2 b # ERROR hung: it ran' 'Bail out! the copy is damaged' "$(done_line 1 0 1 4)"
try 'a kernel that cannot start again' 2 'from=3 .*ok 1 a;not ok 2 b # ERROR hung: it ran;# restart: the kernel ended the boot: hung: it ran;ok 3 c;ok 4 d;# SPOOR DONE .*pass=3 .*error=1 ' run
mapfile -t lines < <(ended 3 c)
boot 1 4 0 'ok 1 a' '# panic: #GP' 'not ok 2 b # ERROR panic: #GP' '# restart: the kernel has started again after result 2' && boot 2 4 37 "${lines[@]}" 'ok 4 d' "$(done_line 1 0 1 2)"
try 'a kernel that started again' 2 'from=4 .*not ok 2 b # ERROR panic: #GP;# restart: the kernel has [^;]*;# restart: the machine reset [^;]*;not ok 3 c # ERROR the machine reset [^;]*;ok 4 d;# SPOOR DONE .*pass=2 .*error=2 .*restarts=2;$' run
boot 1 4 0 'not ok 1 a' && second
try 'a failure before' 1 'FAIL \(1\): 2 pass, 1 fail, 1 error.*rc=1 slow=0 restarts=1;$' run
END='ok 2 b' boot 1 4 0 'ok 1 a' && second
try 'a line that was cut' 2 'from=3 .*not ok 2 b # ERROR the machine.*pass=3 ' run
mapfile -t lines < <(ended 4 d)
boot 1 4 0 'ok 1 a' 'ok 2 b' 'ok 3 c' && boot 2 4 37 "${lines[@]}" "$(done_line 0 0 1 2)"
try 'the last test' 2 'from=5 .*ok 3 c;# restart: [^;]*;not ok 4 d # ERROR the machine reset.*pass=3 fail=0 skip=0 error=1 ' run
mapfile -t lines < <(ended 2 b)
boot 1 4 0 'ok 1 a' && boot 2 4 41 "${lines[@]}" && mapfile -t lines < <(ended 3 c) && boot 3 4 37 "${lines[@]}" 'ok 4 d' "$(done_line 1 0 1 2)"
try 'three boots' 2 '^-;from=3 seed=77;from=4 seed=77;.*not ok 2 b # ERROR the machine reset[^;]*;# restart: QEMU left with exit status 41;not ok 3 c # ERROR QEMU left.*pass=2 .*error=2 .*restarts=2;$' run
try 'no more boots than are wanted' 4 '^-;from=3 seed=77;verdict: CRASH \(4\): the guest panicked without a word; 2 of 4 results came' run --boots 2
boot 1 4 0 'ok 1 a' && GIT=other second
try 'the second boot is of another kernel' 4 "from=3 .*verdict: CRASH \(4\): the guest reset .* 1 of 4 results came.*${merged%;*};\$" run
boot 1 4 0 'ok 1 a' && second && sed -i '/^KTAP/,$d' console2 && echo 0 >status2
try 'the second boot dies before its tests' 4 "from=3 .*the guest reset .* 1 of 4 results came.*${merged%;*};\$" run
boot 1 4 0 'ok 1 a' && boot 2 4 33 'ok 1 a' 'ok 2 b' 'ok 3 c' 'ok 4 d' "$(done_line 4 0 0 0)"
try 'a kernel that does not know the word' 4 "from=3 .*the guest reset .* 1 of 4 results came.*${merged%;*};\$" run
boot 1 1 0 'KTAP is not all'
sed -i '/not all/d' console1
try 'one test has no other that has a result' 4 '^-;verdict: CRASH \(4\): the guest reset .* none of 1 results came' run
boot 1 4 0 'ok 1 a' && second
try 'no room for the words' 4 '^-;verdict: CRASH' run -b iso -a "machine=$(printf 'x%.0s' {1..200})"
try 'words in SMBIOS' 2 "^-;from=3 seed=77;verdict: ERROR" run -b iso
DURING='[ $n = 1 ] || kill -TERM $(ps -o ppid= $PPID)' try 'a signal in the second boot' 130 'from=3 .*INTERRUPTED \(130\)' run
unit() { echo "# unit=$1 rc=$2 rules=0/81 pass=$3 fail=0 skip=0 error=$4 xfail=0 obs=0"; }
export BANNER='# contract=2 bts=present pebs=absent pt=absent'
mapfile -t lines < <(ended 2 bts_wrap_order) && mapfile -t units < <(unit bts 2 0 1; unit pebs 3 0 0; unit counters 0 1 0; unit lbr 3 0 0; unit pt 3 0 0)
boot 1 3 0 'ok 1 bts_record_format' && boot 2 3 37 "${lines[@]}" 'ok 3 pmu_leaf_fixed' "${units[@]}" "$(done_line 1 0 1 2)"
try 'lines by unit are of all boots' 2 'from=3 .*verdict: ERROR \(2\): 2 pass, 1 error.*' run
try 'and their rules' 0 '# unit=bts rc=2 rules=1/81 pass=1 fail=0 skip=0 error=1 .*# unit=pebs rc=3 rules=0/81 .*# unit=counters rc=0 rules=1/81 pass=1 ' cat log
unset BANNER
try 'boots that are no number' 2 '--boots needs a number' ./run-qemu.sh --boots 0
echo "1..$number"
exit $failed
