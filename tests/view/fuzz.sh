#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fuzz.sh [SECONDS]: the readers of traces on random ones, for so long (5) each, with the sanitizers for
# addresses and undefined behaviour; prints TAP. Begins with the trace of test_stack.
set -u
cd "$(dirname "$0")/../.." || exit 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/corpus"
build/view-test/test_stack build/view-test/stepped "$scratch/trace.spt" "$scratch/records" >/dev/null
{ printf '\1'; cat "$scratch/trace.spt"; } >"$scratch/corpus/line"
# The same frames without their packing for the line: COBS undone, CRC cut off, the size in place of the sequence number.
perl -0777 -ne '
	print "\0";
	for my $chunk (grep { length } split /\0/) {
		my $out = "";
		for (my $at = 0; $at < length $chunk;) {
			my $code = ord substr($chunk, $at, 1);
			$out .= substr($chunk, $at + 1, $code - 1);
			$at += $code;
			$out .= "\0" if $code < 255 && $at < length $chunk;
		}
		my $payload = substr($out, 40, -4);
		print substr($out, 0, 4), pack("V", length $payload), substr($out, 8, 32), $payload;
	}' "$scratch/trace.spt" >"$scratch/corpus/frames"
echo 1..1
if build/view-test/fuzz_stream -max_total_time="${1:-5}" -max_len=40000 -artifact_prefix="$scratch/" "$scratch/corpus" >"$scratch/said" 2>&1 &&
	runs=$(sed -nE 's/^Done ([0-9]+) runs.*/\1/p' "$scratch/said") && [ "$runs" -ge 500 ]; then
	echo "ok 1 fuzz: $runs random traces are read or refused"
else
	echo 'not ok 1 fuzz: random traces are read or refused'
	tail -n 30 "$scratch/said" | sed 's/^/# /'
	exit 1
fi
