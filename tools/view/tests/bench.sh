#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench.sh [THOUSANDS]: how fast `view dump` and `view perf` are beside `perf script` on the same branches (6,000
# thousand of them), and how long Chromium takes to open the page of all, at most 5 s of CPU. Prints TAP. Limits are on
# CPU time. A part of `make check-view`.
set -u
cd "$(dirname "$0")/../../.." || exit 2
thousands=${1:-6000}
view=build/view program=build/view-test/example.elf
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
TIMEFORMAT='%U %S'

tested=bench
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# cpu COMMAND...: the seconds of CPU time that it takes
cpu()
{
	{ time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ print $1 + $2 }'
}

# beside NAME SECONDS: its speed over that of perf script, at least 1
beside()
{
	local ratio speed
	ratio=$(awk "BEGIN { printf \"%.2f\", $script / $2 }")
	speed=$(awk "BEGIN { printf \"%.2f\", $branches / $2 / 1e6 }")
	awk "BEGIN { exit($ratio >= 1 ? 0 : 1) }"
	result "$1: $speed million branches a second, $ratio times perf script"
}

echo 1..4
# A round is about 19,900 branches.
./run-qemu.sh -q -T 1800 -l "$scratch/log" --trace "$scratch/trace.spt" --program $program $((10 * thousands / 198)) -a timeout=1800 >"$scratch/verdict" 2>&1
branches=$($view stats -p $program "$scratch/trace.spt" | sed -nE 's/.* ([0-9]+) branches,.*/\1/p')
[ "$branches" -ge $((1000 * thousands)) ]
result "a trace of $branches branches" || sed 's/^/# /' "$scratch/verdict"
dump=$(cpu $view dump -p $program "$scratch/trace.spt")
perf=$(cpu $view perf --aux -p $program -o "$scratch/aux.data" "$scratch/trace.spt")
script=$(cpu perf script -i "$scratch/aux.data" --itrace=b -F ip,sym,symoff,addr)
beside 'view dump' "$dump"
beside 'view perf' "$perf"
took='' used='' size=0
$view html -p $program -o "$scratch/page.html" "$scratch/trace.spt" 2>/dev/null && read -r took used < <(tools/view/tests/browser.pl --open "$scratch/page.html") &&
	size=$(stat -c %s "$scratch/page.html") && awk "BEGIN { exit($used <= 5 ? 0 : 1) }"
result "Chromium shows the page of $((size / 1000)) kB after $took s, $used of CPU"
exit $failed
