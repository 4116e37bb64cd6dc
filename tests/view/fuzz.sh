#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fuzz.sh [SECONDS]: the readers of traces, of ELF files and of logs on random ones, for so long each or 300 of each, with the sanitizers for
# addresses and undefined behaviour; prints TAP. Begins with the trace of test_stack and with example.elf.
set -u
cd "$(dirname "$0")/../.." || exit 2
long=${1:+-max_total_time=$1} scratch=$(mktemp -d)
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
mkdir "$scratch/files"
{ printf '\1'; cat build/view-test/example.elf; } >"$scratch/files/elf"
strip -o "$scratch/stripped" build/view-test/example.elf
{ printf '\1'; cat "$scratch/stripped"; } >"$scratch/files/stripped"
printf '\0# %016x -> %016x  start+0x0 -> main+0x0\r\n%x->%x\n' 0x400000 0x400010 0x400020 0x400000 >"$scratch/files/log"

tested=fuzz
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# fuzz NAME LENGTH CORPUS CLAIM
fuzz()
{
	local runs
	build/view-test/fuzz_"$1" "${long:--runs=300}" -max_len="$2" -artifact_prefix="$scratch/" "$scratch/$3" >"$scratch/said" 2>&1 &&
		runs=$(sed -nE 's/^Done ([0-9]+) runs.*/\1/p' "$scratch/said") && [ "$runs" -ge 300 ]
	result "$runs $4" || tail -n 30 "$scratch/said" | sed 's/^/# /'
}

echo 1..2
fuzz stream 40000 corpus 'random traces are read or refused'
# What is left in memory where `view` would end is no leak.
ASAN_OPTIONS=detect_leaks=0 fuzz file 30000 files 'random ELF files and logs are read or refused'
exit $failed
