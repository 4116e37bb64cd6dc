#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fuzz.sh [SECONDS]: the readers of traces, of ELF files, perf.data and logs, and of packets on random input, for so many
# seconds of CPU each or a number of runs. The sanitizers for addresses and undefined behaviour are on. Prints TAP. Begins with the
# trace of test_stack, with example.elf, and with the packets of a random program on virtual silicon.
set -u
cd "$(dirname "$0")/../../.." || exit 2
seconds=${1-} scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/stream" "$scratch/file" "$scratch/pt"

# frames CODE < TRACE: runs CODE of Perl on $_, each frame as it is without COBS
frames()
{
	perl -0777 -ne '
		for my $chunk (grep { length } split /\0/) {
			my $out = "";
			for (my $at = 0; $at < length $chunk;) {
				my $code = ord substr($chunk, $at, 1);
				$out .= substr($chunk, $at + 1, $code - 1);
				$at += $code;
				$out .= "\0" if $code < 255 && $at < length $chunk;
			}
			$_ = $out;
			'"$1"'
		}'
}

build/view-test/test_stack build/view-test/stepped "$scratch/trace.spt" "$scratch/records" >/dev/null
{ printf '\1'; cat "$scratch/trace.spt"; } >"$scratch/stream/line"
# Without CRC, and with the payload's size in place of the sequence number.
# shellcheck disable=SC2016 # it is Perl
{
	printf '\0'
	frames 'my $payload = substr($_, 40, -4); print substr($_, 0, 4), pack("V", length $payload), substr($_, 8, 32), $payload;' <"$scratch/trace.spt"
} >"$scratch/stream/frames"
{ printf '\1'; cat build/view-test/example.elf; } >"$scratch/file/elf"
strip -o "$scratch/stripped" build/view-test/example.elf
{ printf '\1'; cat "$scratch/stripped"; } >"$scratch/file/stripped"
printf '\0# %016x -> %016x  start+0x0 -> main+0x0\r\n%x->%x\n' 0x400000 0x400010 0x400020 0x400000 >"$scratch/file/log"
zcat tools/view/tests/perf/recorded-6.1.gz | tools/view/tests/perf_data.pl "$scratch/perf" tools/view/tests/perf >/dev/null
for unit in bts pt; do
	{ printf '\2'; cat "$scratch/perf.$unit.data"; } >"$scratch/file/$unit"
done
# The payloads of its frames PACKETS, and a byte that says into how many frames they are cut.
build/host/one_run 3 3000 "$scratch/packets.spt" "$scratch/one.elf"
# shellcheck disable=SC2016
{ printf '\3'; frames 'print substr($_, 40, -4) if ord($_) == 7;' <"$scratch/packets.spt"; } >"$scratch/pt/packets"

tested=fuzz
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# fuzz_once NAME OPTION...: sets `runs` and `used`, seconds of CPU
fuzz_once()
{
	local name=$1 TIMEFORMAT='%U %S'
	shift
	{ time build/view-test/fuzz_"$name" "$@" -artifact_prefix="${FINDINGS:-$scratch}/" "$scratch/$name" >"$scratch/said" 2>&1; } 2>"$scratch/time" || return 1
	runs=$(sed -nE 's/^Done ([0-9]+) runs.*/\1/p' "$scratch/said")
	used=$(awk '{ print int($1 + $2) }' "$scratch/time")
}

# fuzz NAME RUNS LENGTH CLAIM: a busy machine gives less CPU than time, so it runs again until enough was used
fuzz()
{
	local name=$1 least=$2 length=$3 claim=$4 total=0 spent=0 limit runs used
	while :; do
		limit=(-runs="$least")
		# Inputs at which view would end leave their memory: what reads them is begun anew before it has too much.
		[ -z "$seconds" ] || limit=(-runs=20000 -max_total_time=$((seconds - spent)))
		if ! fuzz_once "$name" "${limit[@]}" -max_len="$length"; then
			total=0
			break
		fi
		total=$((total + runs)) spent=$((spent + used))
		[ $spent -lt "${seconds:-0}" ] || break
	done
	[ $total -ge "$least" ]
	result "$total $claim" || tail -n 30 "$scratch/said" | sed 's/^/# /'
	sed -nE 's/.*(cov: [0-9]+ ft: [0-9]+ corp: [0-9]+).*/\1/p' "$scratch/said" | tail -n 1 | sed "s/^/# $spent seconds of CPU, /"
}

echo 1..3
fuzz stream 300 40000 'random traces are read or refused'
# What is left in memory where `view` would end is no leak.
ASAN_OPTIONS=detect_leaks=0 FUZZ_CODE=tools/view/tests/perf/program fuzz file 300 70000 'random ELF files, perf.data and logs are read or refused'
FUZZ_CODE=$scratch/one.elf fuzz pt 1000 4000 'random streams of packets are decoded or refused'
exit $failed
