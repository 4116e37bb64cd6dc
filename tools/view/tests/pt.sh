#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# pt.sh [SEEDS INSTRUCTIONS]: Processor Trace, decoded by libipt, against BTS of the same run, for random programs
# (16, of 20000 instructions each) on the virtual silicon; prints TAP.
# pt.sh --defect NAME: leaves with 0 if the comparison notices this defect of the silicon.
set -u
cd "$(dirname "$0")/../../.." || exit 2
view=build/view run=build/host/one_run
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
elf=$scratch/one.elf trace=$scratch/one.spt

tested=pt
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# same LEAST OPTION...: both decoders find the branches of BTS, at least so many
same()
{
	local least=$1
	shift
	$run "$@" "$trace" "$elf" && $view same -p "$elf" "$trace" >"$scratch/same" 2>&1 &&
		awk -v "least=$least" '/^CPU 0, by (instructions|blocks): / && $5 == $9 && $5 >= least { good++ }
			END { exit(good == 2 ? 0 : 1) }' "$scratch/same" && return
	sed 's/^/# /' "$scratch/same"
	return 1
}

# notices NAME: the comparison fails with this defect, and not without it
notices()
{
	local mode
	for mode in -- -w -s; do
		same 1000 $mode 3 300000 >/dev/null || return 1
		$run -d "$1" $mode 3 300000 "$trace" "$elf" || return 1
		$view same -p "$elf" "$trace" >"$scratch/same" 2>&1 || return 0
	done
	return 1
}

if [ "${1-}" = --defect ]; then
	notices "$2"
	exit
fi
seeds=${1:-16} instructions=${2:-20000}

echo 1..10
executed=0 wrong=0
for ((seed = 0; seed < seeds; seed++)); do
	same $((instructions / 10)) "$seed" "$instructions" || wrong=1
	executed=$((executed + $(sed -nE 's/.*by blocks.* ([0-9]+) instructions.*/\1/p' "$scratch/same")))
done
[ $wrong = 0 ] && [ $executed -gt $((seeds * instructions * 9 / 10)) ]
result "BTS and PT of $seeds programs have the same branches"
echo "# $executed instructions by each decoder"

same 20000 -w 3 300000 && grep -q 'the last of [1-9]' "$scratch/same"
result 'of packets that wrapped the branches are the last ones'
same 20000 -s 3 300000 && grep -q 'the first of [1-9]' "$scratch/same"
result 'of packets that stopped the branches are the first ones'

# What the manual leaves to the processor: docs/monitor.md. An overflow loses branches; the second FUP of an INT n
# is a separate event to libipt.
wrong=0
for choice in return=pops return=never leave=suppressed psb=last psb=told tnt=4 tnt=1 address=coarse address=six address=merged \
	tip=deferred period=varies period=extra order=reversed cycles=alone cycles=rare filler=pad filler=mnt; do
	for seed in 2 5 9; do
		same 1000 -v "pt-$choice" "$seed" 10000 || { wrong=1; echo "# pt-$choice, seed $seed"; }
	done
done
[ $wrong = 0 ]
result 'packets as other processors may write them have the branches of BTS'

# Records of the CPU's stream of packets, which knows no task, and of the task's stream of BTS.
same 3000 7 20000 && for pid in 0 1; do
	# But for conditional branches to the next instruction, two bytes on: libipt does not tell that they are taken.
	$view dump -t $pid -p "$elf" "$trace" | perl -ne 'next unless /(0x[0-9a-f]+) -> (0x[0-9a-f]+) +. (\w+)/;
		print "$1 $2\n" unless $3 eq "jcc" && hex($2) == hex($1) + 2' >"$scratch/dump$pid"
	$view calls -t $pid -p "$elf" "$trace" | awk '$1 ~ /^[0-9]+,[0-9]+$/ && !/from before/ { print $1, $2, $3 }' >"$scratch/calls$pid"
	$view perf -t $pid -p "$elf" -o "$scratch/perf$pid" "$trace" 2>"$scratch/perf-said$pid"
	$view perfetto -t $pid -p "$elf" -o "$scratch/perfetto$pid" "$trace" 2>"$scratch/perfetto-said$pid"
done
[ "$(wc -l <"$scratch/dump0")" -ge 3000 ] && cmp -s "$scratch/dump0" "$scratch/dump1" &&
	[ "$(wc -l <"$scratch/calls0")" -ge 1000 ] && cmp -s "$scratch/calls0" "$scratch/calls1" &&
	grep -qE ': [0-9]{4,} branches' "$scratch/perf-said0" && [ -s "$scratch/perf0" ] &&
	grep -qE ': [0-9]{3,} calls' "$scratch/perfetto-said0" && [ -s "$scratch/perfetto0" ]
result 'dump and calls show the same of both; perf and perfetto take packets'

$view check -p "$elf" "$trace" >"$scratch/tap" && [ "$(grep -c '^ok' "$scratch/tap")" = 18 ] &&
	grep -q 'CPU 0 (PT): both decoders' "$scratch/tap" &&
	$view stats -p "$elf" "$trace" | grep -qE '[0-9]{5} instructions in [0-9]{4,5} bytes of packets, [1-9]\.[0-9]{2} bits each'
result 'check and stats take packets'

$view diff -p "$elf" "$trace" "$trace" >"$scratch/differs" && grep -q '^CPU 0 (PT): [0-9]* branches, the same' "$scratch/differs" &&
	$run 7 20000 "$scratch/again.spt" "$elf" && $view same -p "$elf" "$trace" "$scratch/again.spt" >/dev/null &&
	cp "$trace" "$scratch/seven.spt" && $run 9 20000 "$trace" "$elf" &&
	! $view same -p "$elf" "$scratch/seven.spt" "$trace" >"$scratch/differs" 2>&1 &&
	grep -q '^- BTS ' "$scratch/differs" && grep -q '^+ PT ' "$scratch/differs"
result 'two runs are compared; another program differs, and it is said where'

same 600 3 6000 && build/view-test/test_pt "$trace" "$elf" >"$scratch/flips"
result 'one flipped bit of 400 is noticed, 95 times of 100' || sed 's/^/# /' "$scratch/flips"
grep '^# noticed' "$scratch/flips"

# A byte of the line is another: the frame is damaged, and its packets are missing.
perl -0777 -pe 'substr($_, length($_) / 2, 1) = chr(ord(substr($_, length($_) / 2, 1)) ^ 1)' "$scratch/seven.spt" >"$scratch/flipped"
$run 7 20000 "$trace" "$elf"
! $view check -p "$elf" "$scratch/flipped" >"$scratch/tap" 2>&1 && grep -q '^not ok 1 ' "$scratch/tap" &&
	! $view same -p "$elf" "$scratch/flipped" >"$scratch/said" 2>&1 && grep -q 'damaged' "$scratch/said"
result 'packets that are missing are noticed'

$view same build/view 2>&1 | grep -q 'no frame of a trace stream' &&
	build/view-test/test_stack build/view-test/stepped "$scratch/bts.spt" "$scratch/records" >/dev/null &&
	$view same -p build/view-test/stepped "$scratch/bts.spt" 2>&1 | grep -q 'no packets of Processor Trace'
result 'a trace without packets: a sentence'

exit $failed
