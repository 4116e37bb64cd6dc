#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# export.sh: traces that leave the machine, from virtual silicon through the kernel to `view`; prints TAP.
# The judge: the same ELF, stepped through on this machine by test_stack.
set -u
cd "$(dirname "$0")/../../.." || exit 2
view=build/view program=build/view-test/example.elf
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tested='export'
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# refuses CODE WORDS COMMAND...: it leaves with CODE and says WORDS
refuses()
{
	local code=$1 words=$2 status=0
	shift 2
	"$@" >"$scratch/said" 2>&1 || status=$?
	[ $status = "$code" ] && grep -q -- "$words" "$scratch/said"
}

# trace NAME ROUNDS OPTION...: NAME.spt, with the verdict as exit status
trace()
{
	local name=$1 rounds=$2
	shift 2
	./run-qemu.sh -q -l "$scratch/log" --trace "$scratch/$name.spt" --program "$program" "$rounds" "$@" \
		>"$scratch/verdict" 2>&1
}

# branches < RECORDS: those of ring 3, a line each
branches()
{
	perl -e 'binmode STDIN; $/ = \24; while (<STDIN>) { my ($f, $t) = unpack "Q<2"; printf "%x %x\n", $f, $t unless ($f | $t) >> 63 }'
}

shown()
{
	$view dump --raw -p "$program" "$scratch/$1.spt" 2>/dev/null | branches
}

echo 1..14
build/view-test/test_stack "$program" "$scratch/native.spt" "$scratch/native" >/dev/null
branches <"$scratch/native" >"$scratch/expected"
trace plain 0
result 'a program is run and traced'

shown plain >"$scratch/got"
[ "$(wc -l <"$scratch/expected")" -gt 10000 ] && cmp -s "$scratch/expected" "$scratch/got"
result 'its branches are those of the same file on this machine'

$view check -p "$program" "$scratch/plain.spt" >"$scratch/tap" && [ "$(grep -c '^ok' "$scratch/tap")" = 9 ] &&
	$view calls --strict -p "$program" "$scratch/plain.spt" | grep -qE ' fibonacci  tools/view/tests/example.c:[0-9]+'
result 'check and calls understand them'

trace packed 8 && trace raw 8 -a trace_raw && trace smp 8 -s 2 -a trace_size=40000
shown packed | sha256sum >"$scratch/one"
[ "$(shown packed | wc -l)" -gt 100000 ] && shown raw | sha256sum | cmp -s - "$scratch/one" &&
	shown smp | sha256sum | cmp -s - "$scratch/one" &&
	[ "$(stat -c %s "$scratch/raw.spt")" -gt $((10 * $(stat -c %s "$scratch/packed.spt"))) ]
result 'packed, as they are in the ring, and on two processors with a small ring: the same branches'

$view stats -p "$program" "$scratch/packed.spt" | awk '/ bytes for .* records/ { exit($8 <= 1.5 && $8 > 0.05 ? 0 : 1) }'
result 'a branch takes at most 1.5 bytes on the wire, everything included'

trace both 0 -a 'trace_view=both trace_size=8000000' &&
	$view check -p "$program" "$scratch/both.spt" >"$scratch/tap" && shown both | cmp -s - "$scratch/expected" &&
	$view calls -p "$program" "$scratch/both.spt" >"$scratch/calls" && grep -q 'syscall_entry \[event\]' "$scratch/calls" &&
	tail -n 1 "$scratch/calls" | grep -q ' 0 gaps, .* 0 discontinuities'
result 'with the branches of the kernel too, each way is known'

trace again 0 -a 'trace_view=both trace_size=8000000' && trace longer 1 &&
	$view diff -p "$program" "$scratch/both.spt" "$scratch/again.spt" | grep -qE '^task [0-9]+ \(example\): [0-9]{5} branches, the same \([1-9]' &&
	! $view diff -p "$program" "$scratch/plain.spt" "$scratch/longer.spt" >"$scratch/differs" &&
	grep -qE '^- .* main\+0x[0-9a-f]+ -> say\+0x0' "$scratch/differs" && grep -qE '^\+ .* main\+0x[0-9a-f]+ -> main' "$scratch/differs"
result 'diff finds two runs the same but for interrupts, and where a longer one differs'

trace oldest 0 -a 'trace_mode=stop trace_size=4800' && shown oldest >"$scratch/got" &&
	[ "$(wc -l <"$scratch/got")" -ge 150 ] && head -n "$(wc -l <"$scratch/got")" "$scratch/expected" | cmp -s - "$scratch/got"
result 'trace_mode=stop keeps the oldest'

trace newest 0 -a 'trace_mode=wrap trace_size=4800' && shown newest >"$scratch/got" &&
	[ "$(wc -l <"$scratch/got")" -ge 150 ] && tail -n "$(wc -l <"$scratch/got")" "$scratch/expected" | cmp -s - "$scratch/got" &&
	[ "$($view dump -p "$program" "$scratch/newest.spt" | grep -c ' GAP ')" = 1 ]
result 'trace_mode=wrap keeps the newest, and says that there were others'

./run-qemu.sh -q -l "$scratch/log" --program "$program" -a 'console=com1 export=com2' -- -serial "file:$scratch/com2" >/dev/null 2>&1
$view rx -q -o "$scratch/com2.spt" "$scratch/com2" >/dev/null 2>&1 && shown com2 | cmp -s - "$scratch/expected"
result 'a second serial port brings the same'

./run-qemu.sh -q -l "$scratch/log" --trace "$scratch/cpus.spt" -t user_hello -s 2 -a 'trace=cpus trace_size=400000' >/dev/null 2>&1
$view stats "$scratch/cpus.spt" >"$scratch/stats" 2>&1 && grep -qE '^CPU 0 +[0-9]{5,} branches' "$scratch/stats" &&
	grep -qE '^CPU 1 +[0-9]{3,} branches' "$scratch/stats" &&
	[ "$($view check "$scratch/cpus.spt" 2>/dev/null | grep -c '^not ok .*: \(each\|direct\|other\)')" = 0 ] &&
	$view calls -c 0 "$scratch/cpus.spt" 2>/dev/null | grep -q ' sched[a-z_]* '
result 'the branches of the kernel on each CPU'

# untraced NAME OPTION...: check, dump and the page have the number of those that the log names
untraced()
{
	local name=$1 count flaw
	shift
	./run-qemu.sh -q -l "$scratch/log" -m 128 --trace "$scratch/$name.spt" "$@" >/dev/null 2>&1
	count=$(grep -ac '^# export: .* is not traced: error 12' "$scratch/log")
	flaw="$count tasks or CPUs could not be traced"
	[ "$count" -ge 1 ] && $view check "$scratch/$name.spt" 2>/dev/null | grep -A 1 '^not ok 1 - the stream is whole' | grep -qx "# $flaw" &&
		refuses 1 "$flaw" $view dump "$scratch/$name.spt" &&
		$view html --damaged -o "$scratch/page.html" "$scratch/$name.spt" 2>/dev/null && grep -q "\"flaw\":\"$flaw\"" "$scratch/page.html"
}
# There is memory for one ring.
untraced tasks -a trace_size=67108864 --program build/view-test/programs.elf &&
	untraced processors -a 'trace=cpus trace_size=67108864' -s 2 -t user_hello &&
	refuses 2 'the trace .* is not whole: 1 tasks or CPUs could not be traced. 1 pass' ./run-qemu.sh -q -l "$scratch/log" \
		--trace "$scratch/packets.spt" --program "$program" 0 -M profile=nehalem -a trace_unit=pt && ! $view check "$scratch/packets.spt" >"$scratch/tap" 2>/dev/null &&
	grep -qx '# 1 tasks or CPUs could not be traced' "$scratch/tap"
result 'tasks, CPUs and packets for which there is no trace are counted'

cp "$program" "$scratch/other.elf" && printf 'x' | dd of="$scratch/other.elf" bs=1 seek=4200 conv=notrunc status=none
cp build/spoor.elf "$scratch/kernel.elf"
perl -0777 -pi -e 's/(\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0)(.)/$1 . chr(ord($2) ^ 1)/se' "$scratch/kernel.elf"
refuses 1 'not the program that ran' $view dump -p "$scratch/other.elf" "$scratch/plain.spt" &&
	refuses 1 'not the kernel that ran' $view dump -e "$scratch/kernel.elf" -p "$program" "$scratch/plain.spt"
result 'another program, another kernel: refused by checksum and build-id'

refuses 2 'cannot read the program' ./run-qemu.sh --program "$scratch/none" &&
	refuses 2 'no static ELF64' ./run-qemu.sh --program tools/view/tests/export.sh && refuses 2 'no static ELF64' ./run-qemu.sh --program "$view" &&
	refuses 2 'cannot write the trace' ./run-qemu.sh --trace "$scratch/none/x.spt" &&
	refuses 2 'needs a value' ./run-qemu.sh --trace &&
	refuses 2 'boot kernel only' ./run-qemu.sh --program "$program" -b iso &&
	refuses 2 'export=' ./run-qemu.sh -q -a export=com9
result 'what cannot be done is said'
exit $failed
