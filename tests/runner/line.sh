#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# line.sh: the serial line of a process of ring 3, from the host's side; prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tested='the serial line'
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# boot TESTS OPTION...: these pass, none is skipped; 3: none of them needs a branch trace
boot()
{
	local tests=$1
	shift
	./run-qemu.sh -q -l "$scratch/log" -t "$tests" -r "$tests" "$@" >"$scratch/verdict" 2>&1
	[ $? != 3 ] || return 0
	sed 's/^/# /' "$scratch/verdict"
	return 1
}

# says SENTENCE: the log has it
says()
{
	grep -aq "^# com2: not for line: $1" "$scratch/log"
}

echo 1..6
boot 'user_line_*,-user_line_refused,-user_line_echoes' --com2 "$scratch/all"
result 'a machine with COM2 passes each test of the line'

boot user_line_sends --com2 "$scratch/sent" &&
	perl -we 'use integer; binmode STDOUT; print map { chr(($_ * $_ >> 5) & 255) } 0 .. 99999' >"$scratch/expected" &&
	cmp "$scratch/sent" "$scratch/expected"
result 'what a process sends arrives, to the last byte and in order'

mkfifo "$scratch/line.in" "$scratch/line.out"
perl -we 'binmode STDOUT; srand 4; print map { chr rand 256 } 1 .. 30000' >"$scratch/input"
{
	head -c 1 >/dev/null
	cat "$scratch/input" >"$scratch/line.in" &
	cat
} <"$scratch/line.out" >"$scratch/output" &
reader=$!
boot user_line_echoes -a console=com1 -M console=com1 -- -chardev "pipe,id=com2,path=$scratch/line" -device isa-serial,chardev=com2,index=1 &&
	wait $reader && cmp "$scratch/input" "$scratch/output"
result 'what the host sends arrives, also while the process reads nothing'
kill $reader 2>/dev/null

boot user_line_refused && says 'no UART answers at port 2F8H'
result 'without COM2 the line is refused in a sentence'

boot user_line_refused --com2 "$scratch/console" -a console=com1,com2 && says 'the console has it'
result 'with COM2 as a console too'

boot user_line_refused --com2 "$scratch/export" -a export=com2 && says "the kernel's traces leave by it"
result 'with COM2 as the line of the traces too'
exit $failed
