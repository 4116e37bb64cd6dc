#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# corpus.sh DIRECTORY: five traces with the files that ran, for tests of decoders; prints TAP. Of each: NAME.spt, NAME.elf,
# NAME.txt (a record a line), NAME.calls, NAME.data and NAME.aux (perf.data of both kinds), a line of figures.txt. QEMU counts
# instructions in place of time, so a trace is the same each time: each is made twice. Programs without a system call but the
# last are stepped through on this machine as well: the same branches, the same number of instructions.
set -u
cd "$(dirname "$0")/../../.." || exit 2
view=build/view out=$(realpath -m "${1:?usage: corpus.sh DIRECTORY}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$out"
rm -f "$out"/*

tested=corpus
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# trace FILE.spt ELF OPTION...
trace()
{
	local file=$1 elf=$2
	shift 2
	./run-qemu.sh -q -l "$scratch/log" --trace "$file" --program "$elf" "$@" -- -icount shift=3,sleep=off >"$scratch/verdict" 2>&1
}

# make_trace NAME ELF OPTION...: all its files, and two results
make_trace()
{
	local name=$1 elf=$2 branches instructions distinct bytes each
	shift 2
	cp "$elf" "$out/$name.elf"
	trace "$out/$name.spt" "$elf" "$@" && trace "$scratch/again.spt" "$elf" "$@" && cmp -s "$out/$name.spt" "$scratch/again.spt"
	result "$name: two runs give the same bytes"

	local use=(-e "$out/spoor.elf" -p "$out/$name.elf" "$out/$name.spt")
	$view dump "${use[@]}" >"$out/$name.txt" && $view calls "${use[@]}" >"$out/$name.calls" &&
		$view perf -o "$out/$name.data" "${use[@]}" 2>/dev/null && $view perf --aux -o "$out/$name.aux" "${use[@]}" 2>/dev/null
	$view stats "${use[@]}" >"$scratch/stats"
	read -r branches instructions < <(perl -ne '$b += $1, $i += $2 if /(\d+) branches, (\d+) instructions/; END { print "$b $i\n" }' "$scratch/stats")
	distinct=$(sed -nE 's/^([0-9]+) different.*/\1/p' "$scratch/stats")
	bytes=$(stat -c %s "$out/$name.spt")
	each=$(awk "BEGIN { printf \"%.3f\", $bytes / $branches }")
	echo "$name $branches $distinct $instructions $bytes $each" >>"$out/figures.txt"
	$view check "${use[@]}" | grep '^not ok' >"$scratch/tap"
	[ "$(grep -vc 'nothing is missing' "$scratch/tap")" = 0 ] && [ "$(wc -l <"$scratch/tap")" = "$([ "$name" = newest ]; echo $((!$?)))" ] && awk "BEGIN { exit($each <= 1.5 && $each > 0.1 ? 0 : 1) }" && [ "$(wc -l <"$out/$name.txt")" -ge "$branches" ]
	result "$name: $branches branches, $distinct of them different, $instructions instructions, $each bytes each: check passes, at most 1.5" ||
		sed 's/^/# /' "$scratch/tap"
}

# branches < RECORDS: those of ring 3, a line each
branches()
{
	perl -e 'binmode STDIN; $/ = \24; while (<STDIN>) { my ($f, $t) = unpack "Q<2"; printf "%x %x\n", $f, $t unless ($f | $t) >> 63 }'
}

# stepped NAME: the same program on this machine
stepped()
{
	local name=$1 figures
	figures=$(build/view-test/test_stack "$out/$name.elf" "$scratch/native.spt" "$scratch/native" | sed -nE 's/^# [0-9]+ branches, ([0-9]+) instructions.*/\1/p')
	$view dump --raw -p "$out/$name.elf" "$out/$name.spt" 2>/dev/null | branches >"$scratch/got"
	# The last is the system call that ends it, into a kernel that is not traced.
	branches <"$scratch/native" | cmp -s - "$scratch/got" && [ -s "$scratch/got" ] &&
		[ "$figures" = "$(awk -v "name=$name" '$1 == name { print $4 + 1 }' "$out/figures.txt")" ]
	result "$name: the branches and the $figures instructions of the same file on this machine"
}

echo 1..16
cp build/spoor.elf "$out/"
echo '# name branches different instructions bytes bytes-a-branch' >"$out/figures.txt"
tests=build/view-test
make_trace sort $tests/example.elf -a trace_size=400000
make_trace jumps $tests/corpus/jumps.elf -a trace_size=400000
make_trace distinct $tests/corpus/distinct.elf -a trace_size=400000
make_trace tasks $tests/corpus/tasks.elf -a 'trace=cpus trace_view=both trace_size=16000000'
make_trace newest $tests/example.elf -a 'trace_mode=wrap trace_size=240000'
stepped sort
stepped jumps
stepped distinct
[ "$(awk '$1 == "distinct" { print $3 }' "$out/figures.txt")" -ge 20000 ]
result 'distinct: at least 20,000 different branches'
[ "$(grep -o ' task [0-9]* arrives' "$out/tasks.calls" | sort | uniq -c | awk '$1 >= 3' | wc -l)" -ge 4 ] && [ "$(grep -c ' trap_stubs \[event\]' "$out/tasks.calls")" -ge 3 ]
result 'tasks: the kernel with interrupts and four tasks'
tail -n 1 "$out/tasks.calls" | grep -q ' 0 gaps, 0 repairs, 0 discontinuities'
result 'tasks: the calls of the kernel over switches, interrupts and system calls need no repair'
exit $failed
