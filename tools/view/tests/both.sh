#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# both.sh [--all]: BTS and Processor Trace of one run of the machine, on the profile icelake, through the kernel to
# `view same`; on skylake, which has one at a time, of two runs. Prints TAP.
set -u
cd "$(dirname "$0")/../../.." || exit 2
view=build/view
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tested=both
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# trace NAME PROFILE PROGRAM OPTION...: NAME.spt
trace()
{
	local name=$1 profile=$2 program=$3
	shift 3
	./run-qemu.sh -q -l "$scratch/log" -T 300 --trace "$scratch/$name.spt" --program "$program" \
		-M "pt=on profile=$profile" -a timeout=250 "$@" >"$scratch/verdict" 2>&1
	case $? in
	0) ;;
	*) sed 's/^/# /' "$scratch/verdict" && return 1 ;;
	esac
}

# same_of_each TRACE: the listing of each task, of five or more, by its CPU's packets is that by BTS
same_of_each()
{
	$view dump --programs "$scratch/programs" "$1" | perl -ne '
		/^\s*(\S+)\s+(\d+) \[\d+\] .*?: +(\S+ -> \S+)/ or next;
		push @{$listing{$1 eq "cpu" ? "PT" : "BTS"}{$2}}, $3;
		$program{$1} = 1;
		END {
			my $bts = $listing{BTS};
			exit 1 if keys(%$bts) < 5 || keys(%program) < 3;
			for my $task (sort keys %$bts) {
				print("task $task differs\n"), exit 1 if "@{$bts->{$task}}" ne "@{$listing{PT}{$task} // []}";
			}
		}'
}

# same PROGRAM LEAST TRACE...: both decoders find the same, on each CPU so many branches
same()
{
	local program=$1 least=$2
	shift 2
	$view same -p "$program" "$@" >"$scratch/same" 2>&1 &&
		awk -v "least=$least" '/^CPU [0-9]+, by (instructions|blocks): / { all++; good += $5 >= least && $9 >= least }
			END { exit(all >= 2 && good == all ? 0 : 1) }' "$scratch/same" && return
	sed 's/^/# /' "$scratch/same"
	return 1
}

plan=3 events=build/view-test/events.elf example=build/view-test/example.elf programs=build/view-test/programs.elf
[ "${1-}" != --all ] || plan=11
echo 1..$plan
trace events icelake "$events" -a trace_unit=both -s 2 && same "$events" 500 "$scratch/events.spt" &&
	$view dump -p "$events" "$scratch/events.spt" >"$scratch/dump" &&
	awk '/ ARRIVES task / { on[$2 " " $3] = 1; if (on[$2 " [000]"] && on[$2 " [001]"]) moved = 1 } END { exit(moved ? 0 : 1) }' "$scratch/dump"
result 'system calls, faults, signals, interrupts, a task on two CPUs: the same branches'

$view check -p "$events" "$scratch/events.spt" >"$scratch/tap" 2>&1 && [ "$(grep -c '^ok .*CPU . (PT)' "$scratch/tap")" = 18 ] &&
	$view calls -c 1 -p "$events" "$scratch/events.spt" 2>&1 | grep -qE ' (even|odd|work)  tools/view/tests/events.c:[0-9]+'
result 'check and calls take the packets of a machine'

mkdir "$scratch/programs" && cp "$programs" build/user/hello.elf "$scratch/programs" &&
	trace programs icelake "$programs" -a trace_unit=both &&
	$view same --programs "$scratch/programs" "$scratch/programs.spt" >"$scratch/same" 2>&1 &&
	[ "$(awk '$5 == $9 && $5 > 1000' "$scratch/same" | wc -l)" = 2 ] && same_of_each "$scratch/programs.spt" &&
	$view check --programs "$scratch/programs" "$scratch/programs.spt" >"$scratch/tap" 2>&1
result 'two programs at the same addresses, by turns on one CPU: its CR3 identifies each' || sed 's/^/# /' "$scratch/same"
[ $plan = 11 ] || exit $failed

trace kernel icelake "$example" -a 'trace_unit=both trace_view=both trace_size=8000000' &&
	same "$example" 10000 "$scratch/kernel.spt" && grep -q ' [1-9][0-9]* of PT while BTS was off' "$scratch/same"
result "the kernel's branches too"

for program in memory registers jumped_to_nowhere; do
	trace $program icelake build/user/$program.elf -a trace_unit=both && same build/user/$program.elf 2000 "$scratch/$program.spt"
	result "the same branches of $program"
done

trace bts skylake "$example" -a 'trace_unit=bts seed=14' && trace pt skylake "$example" -a 'trace_unit=pt seed=14' &&
	same "$example" 10000 "$scratch/bts.spt" "$scratch/pt.spt"
result 'of two runs of a processor that has one at a time'
! trace neither skylake "$example" -a trace_unit=both >/dev/null && grep -q 'could not be traced' "$scratch/verdict" && grep -aq '^# export: example is not traced: error 16' "$scratch/log"
result 'which refuses BTS beside Processor Trace'

trace wrapped icelake "$example" -a 'trace_unit=both trace_mode=wrap trace_size=4000000 trace_packets=4096' &&
	same "$example" 500 "$scratch/wrapped.spt" && grep -q 'the last of 1[0-9]\{4\}' "$scratch/same"
result 'of a buffer that wrapped the last ones'
trace stopped icelake "$example" -a 'trace_unit=both trace_mode=stop trace_size=4000000 trace_packets=4096' &&
	same "$example" 500 "$scratch/stopped.spt" && grep -q 'the first of 1[0-9]\{4\}' "$scratch/same"
result 'of a buffer that was full the first ones'
exit $failed
