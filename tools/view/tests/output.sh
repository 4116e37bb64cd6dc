#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# output.sh: what becomes of the file that `view` writes, whatever it is, and of those next to it; prints TAP. Devices are made
# in a directory of this test: none of the machine's is written to.
set -u
cd "$(dirname "$0")/../../.." || exit 2
view=$PWD/build/view program=$PWD/build/view-test/stepped
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
build/view-test/test_stack "$program" "$scratch/trace.spt" "$scratch/records" >/dev/null || exit 2
cd "$scratch" || exit 2
mkdir there

tested=output
# shellcheck source=tests/runner/tap.sh
. "$OLDPWD/tests/runner/tap.sh"

# writes COMMAND FILE: one that has an output; `said` has its words
writes()
{
	local options=(-p "$program")
	[ "$1" != rx ] || options=(-q)
	timeout 20 "$view" "$1" "${options[@]}" -o "$2" trace.spt >said 2>&1
}

# The output of each, as it is in a file of no other name.
commands=(html perf perfetto rx)
for command in "${commands[@]}"; do
	writes "$command" there/"$command"
	[ -s there/"$command" ] && [ "$(stat -c %a there/"$command")" = "$(printf %o $((0666 & ~$(umask))))" ]
	result "$command writes a file"
done

# same COMMAND FILE: that is what it wrote. None of them has a time or its own name inside.
same() { cmp there/"$1" "$2"; }

# Neither a part nor a link that has become a file is left.
alone() { [ "$(ls -A kept)" = "$1" ]; }

mkdir kept
for command in "${commands[@]}"; do
	rm -rf kept/*
	mkfifo kept/fifo
	timeout 20 cat kept/fifo >taken &
	writes "$command" kept/fifo && wait $! && [ -p kept/fifo ] && alone fifo && same "$command" taken
	result "$command writes into a FIFO"
	kill $! 2>/dev/null

	rm -rf kept/*
	echo before >kept/file && chmod 640 kept/file && ln -s kept/file link
	writes "$command" link && [ -L link ] && [ ! -L kept/file ] && alone file && same "$command" kept/file &&
		[ "$(stat -c %a kept/file)" = 640 ]
	result "$command writes the file that a link leads to, whose mode stays"
	rm kept/file
	writes "$command" link && [ -L link ] && alone file && same "$command" kept/file
	result "$command makes the file that a link leads to"
	rm link

	rm -rf kept/*
	! writes "$command" kept && grep -q 'kept: Is a directory' said && alone ''
	result "$command does not write to a directory"

	echo before >kept/file
	(ulimit -f 1 && writes "$command" kept/file)
	[ $? = 1 ] && grep -q '^view: kept/file: File too large' said && alone file && [ "$(cat kept/file)" = before ]
	result "$command leaves the old file and no part where there is no room"

	rm -rf kept/*
	cp trace.spt before && ln trace.spt kept/trace
	! writes "$command" kept/trace && grep -q '^view: kept/trace: is an input, which is not written over' said && alone trace && cmp before kept/trace
	result "$command does not write over what it reads"

	# The name of 508 bytes with .part after it had a buffer of 512.
	rm -rf kept/*
	deep=$(printf 'd%.0s' {1..200})/$(printf 'e%.0s' {1..200})
	mkdir -p "$deep"
	file=$deep/$(printf 'f%.0s' {1..106})
	echo other >"$file.pa" && echo other >"$file.part"
	writes "$command" "$file" && same "$command" "$file" && [ ${#file} = 508 ] && [ "$(cat "$file.pa" "$file.part")" = $'other\nother' ]
	result "$command writes to a path of 508 bytes, and to no other"
	rm -r "${deep%%/*}"
done

# As root: a device stays one. 1, 3 is the number of /dev/null, 1, 7 that of /dev/full.
if mknod null c 1 3 2>/dev/null && : >null && mknod full c 1 7; then
	for command in "${commands[@]}"; do
		writes "$command" null && [ -c null ] && ! writes "$command" full && [ -c full ] && grep -q 'full: No space left' said && ! ls -- *.part 2>/dev/null
		result "$command writes into a device"
	done
	mknod disk b 7 200 && ! writes html disk && [ -b disk ] && grep -q 'disk: is a disk, which is not' said
	result 'a disk is not written over'
else
	echo "# no devices: neither root nor a file system that has them"
fi

"$view" html -p "$program" -o /proc/self/fd/1 trace.spt 2>/dev/null | cmp - there/html
result 'standard output, by its name'

cp "$program" program && cp program before && ! "$view" html -p program -o program trace.spt 2>said && grep -q 'program: is an input' said &&
	cmp before program && cp trace.spt before && ln trace.spt linked && ! "$view" rx -q -o linked <trace.spt 2>said && grep -q 'linked: is an input' said && cmp before trace.spt
result 'neither the program nor standard input is written over'

# A line that has no end: an interrupt ends it, what arrived is kept.
mkfifo line
head -c 3000 trace.spt >line & # holds the line open no longer than that
exec 8<>line
"$view" rx -q -o cut.spt line >said 2>&1 &
receiver=$!
for ((i = 0; i < 100; i++)); do
	[ -z "$(find . -maxdepth 1 -name 'view-*.part')" ] || break
	sleep 0.1
done
sleep 1
kill -TERM $receiver
wait $receiver
[ $? = 1 ] && [ "$(stat -c %s cut.spt)" -gt 100 ] && cmp -n "$(stat -c %s cut.spt)" cut.spt trace.spt && grep -q 'missing\|damaged\|END' said && ! ls -- *.part 2>/dev/null
result 'rx keeps what arrived before an interrupt'
exec 8>&-

# A frame MARK (type 4, task 1, number 99) with an escape in its text.
perl -e '
	sub crc { my $crc = 0xffffffff; for my $byte (unpack "C*", shift) { $crc ^= $byte; $crc = $crc >> 1 ^ ($crc & 1 ? 0x82f63b78 : 0) for 1 .. 8 } $crc ^ 0xffffffff }
	my $frame = pack("C4 L<2 x28", 4, 1, 0, 0, 99, 1) . "a \e[2J mark";
	$frame .= pack "L<", crc($frame);
	print "\0", map({ chr(1 + length) . $_ } split /\0/, $frame, -1), "\0"' | cat trace.spt - >marked.spt
for command in dump calls; do "$view" "$command" --damaged -p "$program" marked.spt 2>/dev/null; done >shown
grep -q 'a ?.2J mark' shown && ! LC_ALL=C grep -q $'[^ -~\t]' shown
result 'marks are printable'

# A function and a source file with an escape in the name, no longer than they were, and a log with one.
perl -0777 -pe 's/\0descend\0/\0d\e[2Jnd\0/g; s/stepped\.c/s\e[2Jed.c/g' "$program" >escapes.elf
address=$(nm "$program" | sed -n 's/ . descend$//p')
for command in dump calls 'diff trace.spt' 'stats -n 100' check; do
	# shellcheck disable=SC2086
	"$view" $command -p escapes.elf trace.spt
done >shown 2>&1
"$view" panic -e escapes.elf - <<<"$address -> $address" >>shown
"$view" panic -e escapes.elf - 2>>shown <<<"$address -> $address  a"$'\e[2J+0x1 -> b'
"$view" html -p escapes.elf -o page trace.spt 2>/dev/null
grep -q 'is a?\[2J+0x1 in the log, but d?\[2Jnd+0x0 in' shown && [ "$(grep -c 'd?\[2Jnd.*s?\[2Jed.c:' shown)" -ge 100 ] &&
	! LC_ALL=C grep -q $'[^ -~\t]' shown && grep -q 'd?\[2Jnd' page && grep -q 's?\[2Jed.c' page && ! grep -q '\\u001b' page
result 'names of an ELF file and of a log are printable'

echo "1..$number"
exit $failed
