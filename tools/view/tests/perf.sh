#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# perf.sh: perf.data that `view perf` makes of the trace of test_stack.c and of those of `make corpus`, as the perf of Linux
# reads it; the records themselves are the judge. Prints TAP. A part of `make check-view`.
set -u
cd "$(dirname "$0")/../../.." || exit 2
view=build/view program=build/view-test/stepped
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
build/view-test/test_stack "$program" "$scratch/trace.spt" "$scratch/records" >/dev/null

# Of records the branches, with their prediction; stamps are none.
branches()
{
	perl -e 'binmode STDIN; $/ = \24; while (<STDIN>) {
		my ($from, $to, $flags) = unpack "Q<3"; printf "%x %x %s\n", $from, $to, $flags & 16 ? "P" : "M" unless $flags >> 63 }'
}

branches <"$scratch/records" >"$scratch/expected"
$view perf -p "$program" -o "$scratch/samples.data" "$scratch/trace.spt" 2>/dev/null
$view perf --aux -p "$program" -o "$scratch/aux.data" "$scratch/trace.spt" 2>/dev/null

tested=perf
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

read_perf()
{
	perf "$@" 2>/dev/null
}

# Newest first; a sample begins with the last branch of the one before, if that is of the same stay on a CPU.
sampled()
{
	read_perf script -D -i "$1" | perl -ne '
	sub flush { pop @pairs if defined $last && $pairs[-1] eq $last; $last = $pairs[0] // $last; print reverse map { "$_\n" } @pairs; @pairs = () }
	flush() if /PERF_RECORD_S(AMPLE|WITCH)/ && @pairs;
	undef $last if /PERF_RECORD_SWITCH/;
	push @pairs, sprintf "%x %x %s", hex $1, hex $2, $3 if /^\.+ +\d+: ([0-9a-f]{16}) -> ([0-9a-f]{16}) \d+ cycles +([PM])/;
	END { flush() if @pairs }'
}

# Without a kernel of which there is a file perf cannot decode what is from there, and says so.
in_aux_area()
{
	read_perf script -i "$1" --itrace=b -F ip,addr | sed -nE 's/^ *([0-9a-f]+) => *([0-9a-f]+)$/\1 \2/p' | grep -v '^0 \| 0$'
}

echo 1..16
sampled "$scratch/samples.data" >"$scratch/got"
[ -s "$scratch/got" ] && cmp -s "$scratch/expected" "$scratch/got"
result 'perf script has the branches of all samples, in order, with their prediction'

in_aux_area "$scratch/aux.data" >"$scratch/got"
awk '{ print $1, $2 }' "$scratch/expected" | cmp -s - "$scratch/got"
result 'perf script --itrace=b has the branches of the AUX area, in order'

# Instructions of the last block of each sample are not executed yet: more are listed than were, by few.
listed=$(read_perf script -i "$scratch/samples.data" -F +brstackinsn | grep -c 'insn:')
[ "$listed" -ge 95000 ] && [ "$listed" -le 99000 ]
result 'perf script -F +brstackinsn lists the instructions'

read_perf report -i "$scratch/samples.data" --branch-history --no-children --stdio >"$scratch/report"
grep -q 'compare stepped.c:' "$scratch/report" && grep -q 'msort_with_tmp' "$scratch/report"
result 'perf report --branch-history has functions and lines'

# Every sample in descend() has main() among its callers.
read_perf script -i "$scratch/samples.data" -F ip,sym | perl -00 -ne '
	next unless /^\s*[0-9a-f]+ descend/; $all++; $right++ if /\bmain\b/; END { exit($all && $all == $right ? 0 : 1) }'
result 'the call chains lead to main()'

read_perf annotate -i "$scratch/samples.data" --stdio compare | grep -qE '^ +100\.00 .*mov .*# \+100\.00%'
result 'perf annotate has the coverage of a function'

for name in sort jumps distinct tasks newest; do
	trace=build/corpus/$name
	$view dump --raw -e build/corpus/spoor.elf -p $trace.elf $trace.spt 2>/dev/null | branches >"$scratch/expected"
	sampled $trace.data >"$scratch/got"
	[ -s "$scratch/expected" ] && cmp "$scratch/expected" "$scratch/got"
	result "corpus: $name: perf script has the branches of all samples"
	in_aux_area $trace.aux >"$scratch/got"
	awk '{ print $1, $2 }' "$scratch/expected" | cmp - "$scratch/got"
	result "corpus: $name: perf script --itrace=b has those of the AUX area"
done
exit $failed
