#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of run-qemu.sh itself, with a stand-in for QEMU; prints TAP.
# shellcheck disable=SC2317,SC2016 # functions and words are run by `try`
set -u

# shellcheck source=tests/runner/tree.sh
. "$(dirname "$0")/tree.sh" || exit 2
tested=runner

# The command line that a dry run prints, with what has to stand in it.
composes()
{
	try "composes: $1" 0 "$2" ./run-qemu.sh -n "${@:3}"
}

without()
{
	local file=$1
	shift
	mv "$file" "$file.away"
	"$@"
	local code=$?
	mv "$file.away" "$file"
	return "$code"
}

# How long each test may take under lockstep.
lockstep_limits()
{
	rm -f arguments
	FAKE_ACT='echo "$*" >>arguments' tools/lockstep >/dev/null
	grep -o 'timeout=[0-9]*' arguments | sort -u
}

# A process that uses SECONDS of a processor: $use SECONDS
use='perl -e '\''$s = shift; do { @t = times } while $t[0] + $t[1] < $s'\'

# supervised LIMIT SECONDS...: what supervise says of processes that use these, one after the other.
supervised()
{
	tools/supervise "$1" 0 status errors log -- sh -c ":$(printf "; $use %s" "${@:2}")" && cat status
}

# The same of one that has an eighth of a processor for eight seconds.
eighth()
{
	tools/supervise '1*2*60' 0 status errors log -- sh -c "for i in 1 2 3 4 5 6 7 8; do $use 0.125; sleep 0.875; done" && cat status
}

quiet_lines()
{
	FAKE_LOG=$here/logs/every-kind.log FAKE_STATUS=35 ./run-qemu.sh -q 2>/dev/null
}

junit()
{
	tools/judge --machine 'rack 7' --junit junit.xml "$here/logs/every-kind.log" 2>/dev/null
	sed "s/ of [0-9]* rules/ of N rules/" junit.xml | diff "$here/logs/every-kind.xml" -
}

# Whatever the log was worth, what Jenkins reads is well formed.
junit_is_valid()
{
	local log
	recorded_logs logs && for log in logs/*.log; do
		tools/judge --junit junit.xml "$log" 2>/dev/null
		xmllint --noout --schema "$here/junit.xsd" junit.xml >said 2>&1 || cat said
	done
}

junit_of_a_cut_log()
{
	tools/judge --junit junit.xml "$here/logs/every-kind-cut.log" 2>/dev/null
	grep -o '<testcase .*name="[a-z0-9_]*"' junit.xml | sed 's/.* name=//' | tr '\n' ' '
}

# wrapped WAY SECONDS [SIGNAL]: a QEMU whose wrapper does WAY. With that time limit, or after the signal,
# run-qemu.sh leaves within seconds, and with it all it started.
wrapped()
{
	local code pid started=$SECONDS
	: >pids
	WRAPPED=$1 PIDS=$tree/pids QEMU=$here/wrapped-qemu \
		env --default-signal=INT,HUP ./run-qemu.sh -q -T "$2" &
	until [ -z "${3-}" ] || [ "$(wc -l <pids)" -ge 2 ]; do sleep 0.1; done
	[ -z "${3-}" ] || kill -"$3" $!
	wait $!
	code=$?
	[ -s pids ] || code=97
	[ $((SECONDS - started)) -le $(($2 + 10)) ] || code=98
	while read -r pid; do
		! kill -0 "$pid" 2>/dev/null || code=99
	done <pids
	return "$code"
}

# Readers that take nothing.
stalled()
{
	local started=$SECONDS
	# More than a pipe holds.
	FAKE_ACT='touch stalled; yes "# a line" | head -n 30000' ./run-qemu.sh -T 2 -l log 2>&1 |
		{ exec sleep 30; } &
	until [ -e stalled ] || [ $((SECONDS - started)) -gt 10 ]; do sleep 0.1; done
	while kill -0 $! 2>/dev/null && pgrep -f "^[^ ]*bash .*run-qemu.sh -T 2 -l log$" >/dev/null; do
		sleep 0.2
	done
	kill $!
	[ $((SECONDS - started)) -le 12 ] && grep -c '# a line' log
}

leaves_nothing()
{
	mkdir -p relative
	TMPDIR=relative ./run-qemu.sh "$@" >/dev/null 2>&1
	echo "exit $?, left: $(ls -A relative)"
}

# The pattern that docs/lab.md gives to LAVA, over a log: every result with its word.
lava()
{
	local pattern log=${1:-every-kind}
	pattern=$(sed -n 's/^ *pattern: "\(.*\)"$/\1/p' "$top/tools/fleet/lava-${2:-qemu}-job.yaml")
	perl -0777 -ne 'BEGIN { $p = shift; $p =~ s/\\\\/\\/g }
		print "$+{test_case_id}=$+{result};" while /$p/g' "$pattern" "$here/logs/$log.log"
}

# Tools that do not begin what -h or --help prints with their name; none does anything else then.
silent_tools()
{
	local tool word
	while read -r word tool; do
		timeout 20 "$tool" "$word" 2>&1 </dev/null | sed '/./!d; q' | grep -qE "^(usage: )?${tool##*/}( |:|$)" ||
			echo "${tool##*/} $word"
	done < <(find "$top/tools" -maxdepth 1 -type f -executable -printf '-h %p\n--help %p\n')
}

# A log and a QEMU that paint the reader's terminal: what is quoted of them is printable ASCII.
painted()
{
	FAKE_LOG=$here/logs/painted.log FAKE_WORDS=$'\e[31mred' ./run-qemu.sh "$@" 2>words >lines
	LC_ALL=C grep -c $'[^ -~\t]' words
	LC_ALL=C grep '[^ -~]' lines
}

reader_leaves()
{
	./run-qemu.sh -l log | head -n 1
	local code=${PIPESTATUS[0]}
	cmp log "$FAKE_LOG" && return "$code"
}

# A shell starts its background jobs deaf to SIGINT, which a terminal's foreground job is not; `nohup` to SIGHUP.
interrupted()
{
	local runner code
	FAKE_ACT='echo $$ >pid; exec sleep 60' env --default-signal=INT,QUIT,HUP ./run-qemu.sh &
	runner=$!
	until [ -s pid ]; do sleep 0.1; done
	kill -"$1" "$runner"
	wait "$runner"
	code=$?
	kill -0 "$(cat pid)" 2>/dev/null && echo 'QEMU still runs' && code=99
	rm -f pid
	return "$code"
}

# tools/check with one part, which prints these lines and leaves with CODE.
check()
{
	local code=$1
	shift
	printf '#!/bin/sh\nprintf "%%s\\n" %s\nexit %s\n' "${*@Q}" "$code" >tools/assertions
	chmod +x tools/assertions
	tools/check assertions
}

# tools/release in a repository of one commit, after a `make check` of COMMIT with RESULT, and parts that it skipped.
release()
{
	local commit=$1 result=$2
	shift 2
	rm -rf release && mkdir -p release/{tools,docs,boot/grub,build/pxe,build/check} && cd release || return
	cp "$top/tools/release" tools && cp /bin/true build/monitor.elf
	printf '#!/bin/sh\nls "$1"\nexit %s\n' "${CONTENTS:-0}" >tools/contents && chmod +x tools/contents
	printf '#!/bin/sh\n: >"$1"\n' >tools/container && chmod +x tools/container
	printf '#!/bin/sh\nmkdir "$2" && echo "$1" >"$2/1234.list"\n' >tools/tests-of && chmod +x tools/tests-of
	touch build/spoor.iso build/pxe/spoor.0 boot/grub/41_spoor docs/tests.md LICENSE
	echo /build >.gitignore
	git init -q . && git add . && git -c user.name=x -c user.email=x@example.org commit -q -m x || return
	[ "$commit" != HEAD ] || commit=$(git describe --always --abbrev=40)
	[ -z "$commit" ] || printf '%s\n' "$commit" "$@" >build/check/whole
	echo "$result" >build/check/result
	[ -z "$commit" ] || printf '%s\n' "${TRIED-$commit}" "${FRESH-fresh=yes}" "${SAID-9 passed, 0 failed}" >build/check/fresh
	[ -z "${CHANGED-}" ] || echo change >>LICENSE
	# The make that runs check-boot
	printf '#!/bin/sh\nexit %s\n' "${CHECK_BOOT:-0}" >build/make && chmod +x build/make
	PATH=$PWD/build:$PATH tools/release && (cd build/release && sha256sum --check --quiet SHA256SUMS && ls)
}

# The commands of CI services' files, without those that install and build: of GitLab one shell runs all, of GitHub
# another one each, and those after a failure `if: always()`.
in_one_shell() { bash -eo pipefail; }
in_many() { local line code=0; while read -r line; do bash -ec "$line" || code=$?; done; return "$code"; }
ci_job()
{
	rm -f build/spoor.{log,xml}
	sed -nE 's/^ +- (run: )?|^ +run: //p' "$top/tools/fleet/$1" | grep -E '^(\./run-qemu|tools/|exit)' | "$2" 2>&1
	local code=$?
	echo "exit $code, $(grep -c '<testcase' build/spoor.xml) tests, $(wc -l <build/spoor.log) lines"
}

# The commands of a CI service's file for Linux, which is YAML, are those that docs/guests.md says, and goals of the Makefile; it
# installs what these need.
linux_job()
{
	perl -MCPAN::Meta::YAML -we 'sub commands {
			my ($at, $is) = @_;
			ref $at eq "HASH" ? map { commands($at->{$_}, /^(run|script)$/) } sort keys %$at :
				ref $at ? map { commands($_, $is) } @$at : $is ? $at : ();
		}
		print "$_\n" for commands(CPAN::Meta::YAML->read($ARGV[0])->[0], 0)' "$top/tools/fleet/$1" >commands || return
	sed '/^\*\*CI/,$!d' "$top/docs/guests.md" | awk '/^```/ { fences++; next } fences == 1' | diff - commands || return
	(cd "$top" && sed -nE 's/^make (deps )?/make -n deps /p' "$OLDPWD/commands" | bash -e) | grep -o 'tools/deps .*'
}

# A new test of every group that a test has, in a copy of the suite.
new_tests()
{
	local group
	mkdir -p new/tests new/tools
	cp -r "$top/tests/suite" new/tests
	cp "$top/tools/new-test" new/tools
	while read -r group; do
		new/tools/new-test "bts_new_${group,,}" "$group" || return
	done < <(grep -rho '\.group = "[A-Za-z]*"' new/tests | sort -u | cut -d '"' -f 2)
}

# What make would do for a goal.
goal()
{
	make -n -C "$top" --no-print-directory "$@"
}

# tools/bench with the limits given, one a line; it reads ELF files of the build and boots fake-qemu.
bench()
{
	mkdir -p tests/suite/bench build/host
	printf '%s\n' "$@" >tests/suite/bench/budgets.txt
	cp /bin/true build/monitor.elf && cp /bin/true build/spoor.elf && cp /bin/true build/no-tests.elf &&
		cp /bin/true build/host/branch_cost
	FAKE_LOG=${BENCH_LOG:-$here/logs/bench.log} tools/bench
}

path_with_blank()
{
	mkdir 'a b'
	cp -r build tools 'a b'
	cp "$top/run-qemu.sh" 'a b'
	'a b/run-qemu.sh' "$@"
}

try 'passes on a good log' 0 'verdict: pass' ./run-qemu.sh
try 'streams the log' 0 'KTAP version 1.*ok 3 bts_threshold' ./run-qemu.sh
try 'passes the words of QEMU on' 0 'fake-qemu: a warning' env FAKE_WORDS='a warning' ./run-qemu.sh
try 'a guest that fails' 1 'FAIL' env FAKE_LOG="$here/logs/fail.log" FAKE_STATUS=35 ./run-qemu.sh
try 'a guest that skips all' 3 'SKIPPED' env FAKE_LOG="$here/logs/skipped.log" FAKE_STATUS=39 ./run-qemu.sh
try 'quiet prints the failed results only' 0 '^not ok 5 bts_wrap.not ok 6 bts_silent # ERROR [^#]*$' \
	eval 'quiet_lines || [ $? = 1 ]'
try 'what is quoted is printable: words of QEMU' 0 '^0$' eval 'painted | head -n 1'
try 'what is quoted is printable: failed results' 1 '^0$' painted -q
try 'list prints a table' 0 'NAME.*bts_wrap_half +W +BTS +W1 W2' \
	env FAKE_LOG="$here/logs/list.log" ./run-qemu.sh --list
try 'the pattern for LAVA' 0 \
	'^ds_enumerated=ok;bts_la57=SKIP;bts_erratum=ok;bts_slots=ok;bts_wrap=not ok;bts_silent=not ok;$' lava
try 'LAVA: no test that needs a branch trace ran' 0 ';Bail=Bail;$' lava nothing-ran
try 'LAVA: the same on a rack' 0 ';Bail=Bail;$' lava nothing-ran pxe
try 'LAVA: a panic' 0 '^bts_record_format=ok;selftest_panic_mid_line=not ok;$' lava died
try 'prove: no test that needs a branch trace ran' 0 'Further testing stopped: no test that needs' \
	eval '! prove --exec cat "$here/logs/nothing-ran.log" 2>&1'
try 'prove: a panic' 0 'Failed test: +2' eval '! prove --exec cat "$here/logs/died.log" 2>&1'
try 'prove reads a log' 0 'Tests: 6 Failed: 2' eval '! prove --exec cat "$here/logs/every-kind.log" 2>&1'
for service in 'gitlab-ci.yml in_one_shell' 'github-workflow.yml in_many'; do
	# shellcheck disable=SC2086 # two words
	try "the commands of ${service%% *}" 0 'exit 0, 3 tests, 1[0-9] lines$' ci_job $service
	# shellcheck disable=SC2086
	FAKE_LOG=$here/logs/fail.log FAKE_STATUS=35 try "the commands of ${service%% *}, a test fails" 0 \
		'FAIL.*exit 1, 3 tests, 1[0-9] lines$' ci_job $service
done
for service in gitlab-ci github-workflow; do
	try "the commands of linux-$service.yml" 0 '^(tools/deps install image linux record run).\1$' linux_job "linux-$service.yml"
done
try 'JUnit XML' 0 '^$' junit
try 'JUnit XML of every log is valid' 0 '^$' junit_is_valid
try 'JUnit: a line that was cut is no test case' 0 \
	'^"ds_enumerated" "bts_la57" "bts_erratum" "bts_slots" "run" $' junit_of_a_cut_log
try 'JUnit: no test that needs a branch trace ran' 0 'errors="1".*name="run" time="0.000000">.*<error message=".*nothing that needs a branch' \
	eval 'tools/judge --junit junit.xml "$here/logs/nothing-ran.log" 2>&1; cat junit.xml'
try 'JUnit: a time that is none' 0 'time="0.000000"/>' \
	eval 'tools/judge --junit junit.xml "$here/logs/time-absurd.log" 2>/dev/null; ! grep -i inf junit.xml && cat junit.xml'
try 'the judge wants a value for --status' 2 'usage: judge' tools/judge "$FAKE_LOG" --status
try 'keeps a log that nobody asked for' 0 'log: ./build/run.log.*same' \
	eval 'rm -f build/run.log; ./run-qemu.sh -q 2>&1 && cmp build/run.log "$FAKE_LOG" && echo same'
try 'keeps a log' 0 '^$' eval './run-qemu.sh -l log >/dev/null 2>&1 && cmp log "$FAKE_LOG"'
try 'a reader that leaves loses no line of the log' 0 'verdict: pass' reader_leaves

try 'triple fault' 4 'triple fault' env FAKE_STATUS=0 ./run-qemu.sh
try 'Linux powers off' 0 'pass \(0\): the guest powered off' \
	env FAKE_LOG="$here/logs/linux-poweroff.log" FAKE_STATUS=0 ./run-qemu.sh --linux README.md
typed()
{
	echo 'typed into it' | FAKE_LOG='' FAKE_ACT="cat; cat $here/logs/linux-poweroff.log" FAKE_STATUS=0 \
		./run-qemu.sh --linux README.md --interactive
	echo "exit $?, kept: $(head -n 1 build/run.log)"
}
try 'Linux is typed into' 0 'typed into it.*the guest powered off.*exit 0, kept: typed into it' typed
try 'Linux is not there' 2 "cannot read nowhere; 'make linux' has" ./run-qemu.sh --linux nowhere
try 'its initrd is not there' 2 'cannot read nowhere;' ./run-qemu.sh --linux README.md --initrd nowhere
try 'an initrd of nothing' 2 'are of a Linux' ./run-qemu.sh --initrd README.md
try 'a directory as an initrd' 2 'cannot read docs;' ./run-qemu.sh --linux README.md --initrd docs
try 'an initrd larger than memory' 2 'have 10 MB: --memory 10 is too little' eval 'truncate -s 10M big && ./run-qemu.sh -m 10 --linux README.md --initrd big'
try 'a Linux on a CD without an initrd' 2 "iso needs --initrd: the menu's entry loads one" ./run-qemu.sh --linux README.md -b iso
try 'its disk is not there' 2 'there is no disk nowhere;' ./run-qemu.sh --linux README.md --disk nowhere
try 'a directory as a disk' 2 'there is no disk docs;' ./run-qemu.sh --linux README.md --disk docs
try 'a console of nothing' 2 'are of a Linux' ./run-qemu.sh --interactive
try 'a disk of nothing' 2 'are of a Linux' ./run-qemu.sh --disk README.md
try 'a Linux with a blank' 2 'with a blank in its name: c d' sh -c 'touch "c d" && ./run-qemu.sh --linux "c d"'
try 'a Linux and tests' 2 'linux does not take .*--test' ./run-qemu.sh --linux README.md -t 'bts_*'
try 'a Linux from a stick' 2 'knows kernel or iso or other' ./run-qemu.sh --linux README.md -b usb
try 'a Linux alone on a CD' 2 'without the monitor works with --boot kernel' ./run-qemu.sh --linux README.md -K -b iso
try 'QEMU refuses its arguments' 2 'could not run: fake-qemu: -foo: invalid option' \
	env FAKE_LOG= FAKE_STATUS=1 FAKE_WORDS='-foo: invalid option' ./run-qemu.sh
try 'QEMU aborts' 2 'killed by signal 6: fake-qemu: Assertion failed' \
	env FAKE_WORDS='Assertion failed' FAKE_ACT='kill -ABRT $$' ./run-qemu.sh
try 'QEMU is killed' 2 'killed by signal 9' env FAKE_ACT='kill -KILL $$' ./run-qemu.sh
try 'QEMU is terminated' 2 'stopped from outside' \
	env FAKE_STATUS=0 FAKE_WORDS='terminating on signal 15 from pid 1' ./run-qemu.sh
# Of QEMU's own seconds on a processor, of as many processors as it has, and many times as many by the clock.
try 'time limit' 124 'TIMEOUT' env FAKE_ACT='while :; do :; done' ./run-qemu.sh -T 1
try 'time limit, QEMU waits for a processor' 0 'verdict: pass' env FAKE_ACT='sleep 2.5' ./run-qemu.sh -T 1
try 'time limit, QEMU used less than that of each' 0 '^0$' supervised '1*2*60' 1.5
# Beside a load of 16, for longer than one that has halted is given.
try 'time limit, QEMU has an eighth of a processor' 0 '^0$' eighth
try 'time limit, QEMU used it' 0 '^timeout$' supervised '1*2*60' 60
try 'time limit, processes of QEMU used it' 0 '^timeout$' supervised '1*1*60' 0.4 0.4 0.4 60
try 'time limit, the guest of QEMU has halted' 0 '^timeout$' \
	eval "tools/supervise '1*1*60' 0 status errors log -- sleep 50 && cat status"
try 'time limit, QEMU does nothing' 124 'TIMEOUT' env FAKE_ACT='exec sleep 60' ./run-qemu.sh -T 1
try 'time limit for a QEMU that does not listen' 124 'TIMEOUT' \
	env FAKE_ACT='trap "" TERM; while :; do :; done' ./run-qemu.sh -T 1
try 'TIMEOUT_SCALE' 0 'pass' env TIMEOUT_SCALE=9 FAKE_ACT="$use 2.5" ./run-qemu.sh -T 1
TIMEOUT_SCALE=3 try 'TIMEOUT_SCALE, each test under lockstep' 0 '^timeout=600$' lockstep_limits
try 'interrupt' 130 'INTERRUPTED' interrupted INT
for signal in TERM HUP QUIT USR1 USR2 ALRM; do
	try "signal $signal" 130 'INTERRUPTED' interrupted $signal
done
try 'a broken pipe is no end' 0 'pass' env FAKE_ACT='kill -PIPE $(ps -o ppid= $PPID); sleep 0.3' ./run-qemu.sh
try 'a wrapper that is deaf' 124 'verdict: TIMEOUT' wrapped deaf 1
for way in child child-deaf session; do
	try "a wrapper that leaves a process: $way" 0 'verdict: pass' wrapped $way 60
done
try 'a wrapper that detaches a process' 124 'verdict: TIMEOUT' wrapped daemon 1
for signal in TERM INT HUP; do
	try "a wrapper that is deaf, signal $signal" 130 'verdict: INTERRUPTED' wrapped deaf 60 $signal
done
try 'standard output is closed' 0 'verdict: pass' eval './run-qemu.sh >&-'
try 'standard output and error are closed' 0 '^$' eval 'timeout 10 ./run-qemu.sh >&- 2>&-'
try 'a failure, with both closed' 1 '^$' \
	eval 'FAKE_LOG=$here/logs/fail.log FAKE_STATUS=35 timeout 10 ./run-qemu.sh <&- >&- 2>&-'
try 'standard output is full' 0 'verdict: pass' eval './run-qemu.sh >/dev/full'
try 'a reader that takes nothing' 0 '^30000$' stalled
try 'a relative TMPDIR' 0 '^exit 0, left: $' leaves_nothing
FAKE_ACT='while :; do :; done' try 'a relative TMPDIR, time limit' 0 '^exit 124, left: $' leaves_nothing -T 1

try 'log file that is full' 2 'could not be written in full' ./run-qemu.sh -l /dev/full
try 'log file that cannot be made' 2 'cannot write the log' ./run-qemu.sh -l /nowhere/log
try 'no kernel' 2 "spoor.elf is missing: 'make images'" without build/spoor.elf ./run-qemu.sh
try 'no monitor' 2 "monitor.elf32 is missing" without build/monitor.elf32 ./run-qemu.sh
try 'no ISO' 2 "spoor.iso is missing: 'make iso'" without build/spoor.iso ./run-qemu.sh -b iso
try 'no PXE image' 2 "spoor.0 is missing: 'make pxe'" without build/pxe/spoor.0 ./run-qemu.sh -b pxe
try 'no kernel on the PXE server' 2 "pxe/spoor.elf is missing: 'make pxe'" without build/pxe/spoor.elf ./run-qemu.sh -b pxe
old='QEMU emulator version 7.1.0 (Debian 1:7.1+dfsg-2)'
try 'QEMU is too old' 2 'fake-qemu is QEMU 7\.1: 7\.2 or newer is needed' \
	env FAKE_VERSION="$old" FAKE_ACT='touch booted' ./run-qemu.sh
try 'nothing was booted' 1 '' test -e booted
try 'QEMU is much too old' 2 'is QEMU 2\.11' env FAKE_VERSION='QEMU emulator version 2.11.1' ./run-qemu.sh
try 'QEMU is new' 0 'verdict: pass' env FAKE_VERSION='QEMU emulator version 10.0.13' ./run-qemu.sh
try 'QEMU does not say its version' 0 'verdict: pass' env FAKE_VERSION='' ./run-qemu.sh
try 'no QEMU' 2 'apt-get install qemu-system-x86' env QEMU=no-such-qemu ./run-qemu.sh
try 'a path with a blank' 2 'path with a blank' path_with_blank
try 'from another directory' 0 'pass' eval 'cd / && "$tree/run-qemu.sh"'

try 'unknown option' 2 "unknown option '-z'" ./run-qemu.sh -z
try 'option without its value' 2 '-t needs a value' ./run-qemu.sh -t
try 'an option in place of a value' 2 "-l needs a value, not '-a'" ./run-qemu.sh -l -a seed=1
try 'an empty word in place of a value' 2 '-t needs a value, not an empty word' ./run-qemu.sh -t ''
composes 'no words' "spoor.elf end=exit'" -a ''
composes 'tests that are left out' "test=-bts_wrap'" -t -bts_wrap
try 'less memory than firmware takes' 2 '--memory needs 2 or more' ./run-qemu.sh -m 1
try 'unknown way to boot' 2 'kernel or iso or usb or pxe' ./run-qemu.sh -b floppy
try 'unknown firmware' 2 'bios or uefi' ./run-qemu.sh -f coreboot
try 'unknown accelerator' 2 'tcg or kvm' ./run-qemu.sh -x hvf
try 'no processors' 2 '--smp needs a number' ./run-qemu.sh -s 0
try 'memory that is no number' 2 '--memory needs a number' ./run-qemu.sh -m 1G
try 'more memory than there can be' 2 'a number from 1 to 9999999' ./run-qemu.sh -m 10000000
try 'time limit that is no number' 2 '--timeout needs' ./run-qemu.sh -T soon
try 'scale that is no number' 2 'TIMEOUT_SCALE needs' env TIMEOUT_SCALE=x ./run-qemu.sh
try 'bochs-options' 2 '--emulator bochs does not take' ./run-qemu.sh -e bochs -b iso
composes 'bochs' 'tools/bochs --cpu ryzen --smp 2 --memory 256 --kernel-only' -e bochs -s 2 -K
composes 'bochs-words' "--memory 256 'end=poweroff test=a' vbts=on" -e bochs -t a
try 'UEFI without a boot loader' 2 'cannot load Multiboot under UEFI' ./run-qemu.sh -f uefi
try 'checks in an image' 2 'works with --boot kernel only' ./run-qemu.sh -u -b iso
try 'words for an absent monitor' 2 'leaves out' ./run-qemu.sh -K -M vbts=on
try 'words too long for SMBIOS' 2 'takes up to 255' ./run-qemu.sh -b iso -a "$(printf 'x%.0s' {1..300})"
try 'a quote in the words for SMBIOS' 2 "has a \"'\"" ./run-qemu.sh -b iso -a "a'b"
try 'make run: silicon with all trace units' 0 $'run-qemu.sh --monitor .profile=icelake pt=on.$' goal run
try 'make run: other options' 0 $'run-qemu.sh -s 2$' goal run RUN='-s 2'
try 'make linux-shell: no options' 0 'tools/guests/linux shell *$' goal linux-shell
try 'help' 0 'usage: run-qemu.sh' ./run-qemu.sh -h
try 'version' 0 '^spoor [0-9]' ./run-qemu.sh -V

try 'check: results that are counted' 0 $'\n1 passed, 0 failed, 1 skipped$' \
	check 0 1..2 'ok 1 a' 'ok 2 b # SKIP none'
try 'check: a result that fails' 1 $'\n1 passed, 1 failed$' check 1 1..2 'ok 1 a' 'not ok 2 b'
try 'check: a plan that is not kept' 1 $'\n1 passed, 1 failed$' check 0 1..2 'ok 1 a'
try 'check: an exit status against all results' 1 $'\n1 passed, 1 failed$' check 3 1..1 'ok 1 a'
try 'check: a part that says nothing' 1 $'\n0 passed, 1 failed$' check 0
try 'check: parts alone are not the whole' 0 '^$' eval '! ls build/check/whole 2>/dev/null'
try 'release' 0 $'CONTENTS\nLICENSE\nSHA256SUMS\nlists\nmonitor.elf\npxe\nresult\nspoor-container.tar\nspoor.iso\ntests.md$' release HEAD '9 passed, 0 failed'
try 'release: no check' 1 "'make check' has not run whole" release '' '9 passed, 0 failed'
try 'release: a check of another commit' 1 "'make check' ran on 1234" release 1234 '9 passed, 0 failed'
try 'release: a check that failed' 1 'release: .*8 passed, 1 failed' release HEAD '8 passed, 1 failed'
try 'release: a part that was skipped' 1 "'make check' skipped: lava:" release HEAD '8 passed, 0 failed' lava
FRESH='fresh=no: no network' try 'release: no new root' 1 "'.ci/run' has run in no new root: no network" release HEAD '9 passed, 0 failed'
TRIED=1234 try 'release: a new root of another commit' 1 "'.ci/run' ran on 1234" release HEAD '9 passed, 0 failed'
SAID='8 passed, 1 failed' try 'release: a new root where a test fails' 1 'in a new root: 8 passed, 1 failed' release HEAD '9 passed, 0 failed'
CHANGED=1 try 'release: not committed' 1 'not committed' release HEAD '9 passed, 0 failed'
CONTENTS=1 try 'release: a file that nobody listed' 1 'an image holds what boot/contents.txt does not list' release HEAD '9 passed, 0 failed'
CHECK_BOOT=1 try 'release: a way to boot fails' 1 "'make check-boot' fails" release HEAD '9 passed, 0 failed'
try 'every tool has -h and --help' 0 '^$' silent_tools
try 'boots: no such boot' 2 'no boot is named keernel in' "$top/tools/boots" kernel keernel
try 'a word that a tool does not know' 2 "'--chek' is unknown" "$top/tools/assertions" --chek
try 'soak: a time that is none' 2 "'10m': soak" "$top/tools/soak" 10m
try 'check: no such part' 2 'no such part: lin' tools/check lin
try 'a new test of each group' 0 'ptrace/bts_new_i.c.*filter/bts_new_p.c.*robustness/bts_new_z.c.*tracers/' new_tests
try 'a new test of no group' 2 'GROUP is one of: A B C E' new/tools/new-test bts_foo Q
try 'a new test without a group' 2 'GROUP is one of' new/tools/new-test bts_foo ''
try 'a new test of a name that is taken' 2 'there is a test bts_filter_by_cpl already' \
	new/tools/new-test bts_filter_by_cpl P
try 'bench: limits that are kept' 0 'switch_records +17 records +<= 17 +ok' \
	bench 'switch_records <= 17 why' 'over_steps >= 300 why'
try 'bench: a limit from above that is passed' 1 'switch_records +17 records +<= 16.9 +OVER' \
	bench 'switch_records <= 16.9 why' 'over_steps >= 250 why'
try 'bench: a limit from below that is passed' 1 'over_steps +300 percent +>= 301 +UNDER' \
	bench 'switch_records <= 20 why' 'over_steps >= 301 why'
try 'bench: the bytes that are left of a limit' 0 'pxe_bytes +5 bytes +<= 8 +3 ok.*switch_records +17 records +<= 17 +ok' \
	bench 'pxe_bytes <= 8 why' 'switch_records <= 17 why'
try 'bench: the path of a record can be read' 0 'bts_path_lines +[0-9]+ lines +<= 2500 +ok' \
	bench 'bts_path_lines <= 2500 why' 'kernel_lines >= 2500 why'
try 'bench: the lines of each unit are left out of the rest' 0 'kernel_lines_pt +[0-9]+ lines .*kernel_lines_rest +[0-9]+ lines +>= 2500 +ok' \
	bench 'kernel_lines_rest >= 2500 why'
try 'bench: a table of units that names no file' 2 'there is no kernel/none/' eval 'rm docs && mkdir docs &&
	sed "s|.kernel/ubsan/.|\`kernel/none/\`|" "$top/docs/design.md" >docs/design.md && tools/bench --source; status=$?
	rm -r docs && ln -s "$top/docs" . && (exit $status)'
try 'bench: more files than the limit' 1 'not ok - source_files [0-9]+ <= 1$' \
	eval 'mkdir -p tests/suite/bench; echo "source_files <= 1 why" >tests/suite/bench/budgets.txt; tools/bench --source'
FAKE_COUNT='' try 'bench: a boot that valgrind does not count' 2 'no count in build/bench.valgrind' bench '# no limit'
try 'bench: a limit without its figure' 1 'no_such_figure +- - +<= 5 +NOT MEASURED' bench 'no_such_figure <= 5 why'
try 'bench: a limit that cannot be read' 2 'budgets.txt:2: figure' bench '# comment' 'switch_records < 20 why'
try 'bench: a suite that fails' 1 'did not pass' \
	eval 'BENCH_LOG=$here/logs/fail.log FAKE_STATUS=35 bench "# no limit"'

if [ -c /dev/kvm ] && (: <>/dev/kvm) 2>/dev/null; then
	try 'what QEMU gets under kvm' 0 'fake-qemu: -accel kvm -cpu host,pmu=on,migratable=no -smp 1 ' \
		env MSR=/nowhere FAKE_LOG="$here/logs/pass.log" FAKE_ACT='echo "fake-qemu: $*" >&2' ./run-qemu.sh -x kvm -c host
	try 'a QEMU without KVM' 2 "lists no processor model 'host'" env FAKE_MODELS='x86 max  all' ./run-qemu.sh -x kvm -c host
	try 'time limit under kvm' 124 'interprets.*verdict: TIMEOUT' \
		env FAKE_ACT='exec sleep 60' ./run-qemu.sh -x kvm -T 1
else
	try 'kvm is refused' 2 'cannot be opened|there is no /dev/kvm' ./run-qemu.sh -x kvm
fi

composes 'kernel' "fake-qemu'? -accel tcg -cpu max -smp 1 -m 256 -nodefaults -display none -vga none -no-reboot -device \
isa-debug-exit,iobase=0xf4,iosize=4 -global hpet.msi=on -serial stdio -kernel ./build/monitor.elf32 -append end=exit -initrd './build/spoor.elf end=exit'\$"
composes 'commas in -initrd are doubled' "test=a,,-b'" -t a,-b
composes 'words for both' "-append 'end=exit vbts=on x,y' -initrd './build/spoor.elf end=exit seed=1'" \
	-M 'vbts=on x,y' -a seed=1
composes 'Linux' "-append end=exit -initrd 'README.md console=ttyS0 panic=-1 no_timer_check a,,b,a,,b'" \
	--linux README.md --initrd a,b -a a,b
composes 'Linux without the monitor' "-kernel README.md -append 'console=ttyS0 panic=-1 no_timer_check' -initrd a,,b" \
	-K --linux README.md --initrd a,b
composes 'disks of a Linux' "-drive if=virtio,format=raw,file=README.md -drive if=virtio,format=raw,file=a,,b" \
	--linux README.md --disk README.md --disk a,b
composes 'Linux from a CD' "value=spoor.linux.*console=ttyS0.*snapshot=on,.*ide-hd,drive=linux,bus=ide.1 .*spoor.iso" -b iso --linux README.md --initrd README.md
composes 'words that are given one by one' "end=exit seed=1 scale=50'" -a seed=1 -a scale=50
BUILD=/b composes 'images from elsewhere' '-kernel /b/monitor.elf32 .*/b/spoor.elf end=exit' --
composes 'kernel alone' "-kernel ./build/spoor.elf32 -append 'end=exit test=a,-b'" -K -t a,-b
# A file in the place of the host's MSRs: IA32_PERF_CAPABILITIES is at 345H.
msrs() { head -c $((0x345)) /dev/zero >msrs && printf '%b' "\\x$1\\x24\\0\\0\\0\\0\\0\\0" >>msrs; }
MSR=/nowhere composes 'what KVM shows when asked' '-accel kvm -cpu max,pmu=on,migratable=no ' -x kvm
MSR=/nowhere composes 'the host as KVM shows it' '-accel kvm -cpu host,pmu=on,migratable=no ' -x kvm -c host
MSR=/nowhere composes 'flags are not added to' '-accel kvm -cpu host,pmu=off ' -x kvm -c host,pmu=off
composes 'no switches of KVM without it' '-accel tcg -cpu max ' -c max
for format in c5:5 04:4 3e:62; do
	msrs "${format%:*}"
	MSR=msrs composes "LBR of the host's format ${format#*:}" "-cpu host,pmu=on,migratable=no,lbr-fmt=${format#*:} " -x kvm -c host
done
for format in 00 43 ff; do # none; Nehalem's, without a call stack; architectural LBR
	msrs "$format"
	MSR=msrs composes "no LBR of format $format" '-cpu max,pmu=on,migratable=no ' -x kvm
done
head -c 100 msrs >msrs.short
MSR=msrs.short composes 'no LBR of a file that is too short' '-cpu host,pmu=on,migratable=no ' -x kvm -c host
composes 'processor and size' '-accel kvm -cpu qemu64,\+svm -smp 2 -m 512 ' \
	-x kvm -c qemu64,+svm -s 2 -m 512
composes 'what a run is for' "spoor.elf end=exit units=pebs,,pt'" --units pebs,pt
try 'units without a value' 2 '--units needs a value' ./run-qemu.sh --units
try 'units that are an empty word' 2 '--units needs a value, not an empty word' ./run-qemu.sh --units ''
try 'units of a Linux' 2 'does not take .* or --units' ./run-qemu.sh --linux README.md --units pt
composes 'tests that may not be skipped' "spoor.elf end=exit test=a require=b,,-c'" -t a -r b,-c
try 'the words that repeat a failure' 1 "again: ./run-qemu.sh -t bts_wrap -a seed=77 -a scale=50 -c qemu64 -M 'lockstep=on vbts=on' -- -M q35;" \
	env FAKE_LOG="$here/logs/fail-again.log" FAKE_STATUS=35 ./run-qemu.sh -M lockstep=on -M vbts=on -c qemu64 -- -M q35
composes 'ISO' "value=spoor.monitor.*end=exit test=a,,-b.*end=exit vbts=on.*media=cdrom,readonly=on,.*spoor.iso -device ide-cd,drive=cd,bootindex=0$" \
	-b iso -t a,-b -M vbts=on
composes 'kernel with checks' "-initrd './build/ubsan/spoor.elf end=exit'" -u
BUILD=/b,c composes 'ISO, kernel alone' 'value=spoor.kernel.*end=exit.*file=/b,,c/spoor.iso' -b iso -K
composes 'stick' 'qemu-xhci.*readonly=on,.*spoor.iso -device usb-storage,drive=stick,bootindex=0$' -b usb
composes 'PXE under BIOS' 'tftp=./build/pxe,bootfile=spoor.0 ' -b pxe
composes 'PXE under UEFI' '-machine q35 -bios .*OVMF.fd.*bootfile=spoor.efi ' -b pxe -f uefi
composes 'list' 'spoor.elf end=exit list' --list
composes 'gdb' ' -s -S$' -g
composes "the caller's arguments last" ' hpet.msi=on -kernel .* -M q35 -debugcon stdio$' -- -M q35 -debugcon stdio
echo "1..$number"
exit $failed
