#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# round_trip.sh [THOUSANDS [SEED]]: so many thousand records (10,000) of a random program, of ring 3 and the kernel, on one, two
# and four processors, from virtual silicon to `view rx`; prints TAP. The judge: CRC32C over the records as the kernel read them
# out of the ring, and their number. Takes some minutes.
set -u
cd "$(dirname "$0")/../../.." || exit 2
thousands=${1:-10000} seed=${2:-$RANDOM}
program=build/view-test/corpus/distinct.elf
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tested=round-trip
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

echo 1..3
for smp in 1 2 4; do
	# A round is about 99,000 branches.
	./run-qemu.sh -q -s $smp -T 3600 -l "$scratch/log" --trace "$scratch/trace.spt" --program $program $(((thousands / 99 + 1) << 32 | seed)) \
		-a 'trace_view=both trace_size=4000000 timeout=3600' >"$scratch/verdict" 2>&1
	build/view rx -q "$scratch/trace.spt" 2>"$scratch/said"
	status=$?
	records=$(sed -nE 's/.* ([0-9]+) records, 0 lost.*/\1/p' "$scratch/said")
	[ $status = 0 ] && [ "$records" -ge $((1000 * thousands)) ] &&
		build/view dump --raw -p $program "$scratch/trace.spt" 2>/dev/null | perl -e '
			binmode STDIN; $/ = \24; while (<STDIN>) { my ($from) = unpack "Q<"; $kernel++ if $from >> 63; $user++ if !($from >> 63) }
			exit($user > 5 * $kernel && $kernel > 1000 ? 0 : 1)'
	result "$records records of the kernel and of ring 3 on $smp processors, seed $seed: none other, none missing" || sed 's/^/# /' "$scratch/verdict" "$scratch/said"
done
exit $failed
