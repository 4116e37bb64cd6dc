#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shadow.sh [--all]: the calls that `view` finds after each branch, compared with a stack kept by RSP, which virtual silicon
# tells of in the same run (stack=on); prints TAP. QEMU counts instructions in place of time.
set -u
cd "$(dirname "$0")/../../.." || exit 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tested=shadow
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# compare NAME WORDS CONDITION: the figures of test_shadow fulfil what CONDITION says in awk
compare()
{
	local elf=build/view-test/corpus/$1.elf words=$2 condition=$3 same branches
	./run-qemu.sh -q -T 300 -l "$scratch/log" --trace "$scratch/spt" --program "$elf" -M stack=on \
		-a "trace_size=16000000 timeout=250 $words" -- -icount shift=0,sleep=off \
		-chardev "file,id=told,path=$scratch/told" -device isa-debugcon,iobase=0x4e9,chardev=told >"$scratch/said" 2>&1 &&
		build/view-test/test_shadow "$scratch/spt" "$scratch/told" build/spoor.elf "$elf" >"$scratch/said" 2>&1 &&
		awk "/^# [0-9]+ branches/ { for (i = 2; i < NF; i++) n[\$(i + 1)] = \$i } /tail calls/ { tail = \$4 } END { exit($condition ? 0 : 1) }" "$scratch/said"
	same=$?
	branches=$(awk '/^# [0-9]+ branches/ { print $2 }' "$scratch/said")
	[ $same = 0 ]
	result "$1, ${words:-ring 3 alone}: ${branches:-no} branches, the calls of each are those by RSP"
	sed 's/^#* */# /' "$scratch/said"
}

kernel='trace=cpus trace_view=both'
all=${1-}
echo "1..$([ "$all" = --all ] && echo 3 || echo 1)"
compare jumps "$kernel" 'n["branches,"] > 12000 && n["unwound"] > 50 && n["deep,"] > 20 && tail > 500 && n["interrupts"] > 5 && n["tasks,"] >= 4'
if [ "$all" = --all ]; then
	compare jumps '' 'n["branches,"] > 5000 && n["unwound"] > 50 && tail >= 200'
	compare tasks "$kernel" 'n["branches,"] > 90000 && n["interrupts"] > 100 && n["tasks,"] >= 6'
fi
exit $failed
