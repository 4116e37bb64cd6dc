#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# perfetto.sh: what `view perfetto` makes of the trace of test_stack, decoded by protoc; prints TAP. A part of
# `make check-view`.
set -u
cd "$(dirname "$0")/../../.." || exit 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
program=build/view-test/stepped
build/view-test/test_stack "$program" "$scratch/trace.spt" "$scratch/records" >/dev/null
build/view perfetto -p "$program" -o "$scratch/trace.perfetto" "$scratch/trace.spt" 2>"$scratch/said"
protoc --decode=Trace --proto_path=tools/view/tests tools/view/tests/perfetto.proto <"$scratch/trace.perfetto" >"$scratch/text"
decoded=$?
tested=perfetto
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

echo 1..4
# A field that the description does not have is shown by its number.
[ $decoded = 0 ] && [ -s "$scratch/text" ] && ! grep -qE '^ *[0-9]+[:{ ]' "$scratch/text"
result 'protoc decodes it, and no field is unknown'

# Slices nest, times do not go back, and each name is sent before it is used.
perl -ne '
	if (/timestamp: (\d+)/) { $back++ if $1 < $last; $last = $1 }
	$known{$1} = 1 if /^\s+iid: (\d+)/;
	$used{$1} = 1 if /name_iid: (\d+)/;
	if (/TYPE_SLICE_BEGIN/) { $depth++; $begins++; $deepest = $depth if $depth > $deepest }
	if (/TYPE_SLICE_END/) { $depth--; $under++ if $depth < 0 }
	END { exit(!$back && !$under && $depth == 0 && $begins > 1000 && $deepest >= 15 && keys %used == keys %known ? 0 : 1) }' "$scratch/text"
result 'slices nest in order'

[ "$(grep -c TYPE_SLICE_BEGIN "$scratch/text")" = "$(sed -nE 's/.*: ([0-9]+) calls/\1/p' "$scratch/said")" ] &&
	grep -q '"descend"' "$scratch/text" && grep -q '"task 1 (stepped)"' "$scratch/text"
result 'calls, names and the task are there'

# A run on the virtual silicon: each stay of the task on its CPU, by its stamps, in nanoseconds from the first.
program=build/view-test/example.elf
./run-qemu.sh -q -l "$scratch/log" --trace "$scratch/run.spt" --program $program >/dev/null 2>&1
build/view perfetto -p $program -o "$scratch/run.perfetto" "$scratch/run.spt" 2>/dev/null
build/view dump -p $program "$scratch/run.spt" | perl -ne '
	BEGIN { ($hz) = `build/view stats -p build/view-test/example.elf $ARGV[0]` =~ /counter (\d+) Hz/; shift }
	if (/(ARRIVES|DEPARTS) task \d+ tsc (\d+)/) { $first //= $2; printf "%s %d\n", $1 eq "ARRIVES" ? "BEGIN" : "END", ($2 - $first) * 1e9 / $hz }' \
	"$scratch/run.spt" - >"$scratch/expected"
protoc --decode=Trace --proto_path=tools/view/tests tools/view/tests/perfetto.proto <"$scratch/run.perfetto" | perl -ne '
	$time = $1 if /timestamp: (\d+)/; $kind = $1 if /TYPE_SLICE_(BEGIN|END)/;
	print "$kind $time\n" if /track_uuid: 65536/' >"$scratch/got"
[ "$(wc -l <"$scratch/expected")" -ge 2 ] && cmp -s "$scratch/expected" "$scratch/got"
result 'the stays of a task on its CPU are there in real time'
exit $failed
