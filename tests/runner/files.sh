#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of the files that run-qemu.sh reads and writes, with a stand-in for QEMU: programs, traces, logs; prints TAP.
# shellcheck disable=SC2317,SC2016 # functions and words are run by `try`
set -u
# shellcheck source=tests/runner/tree.sh
. "$(dirname "$0")/tree.sh" || exit 2
tested=files

# frames TYPE...: a trace with frames of these types (docs/trace-stream.5), 5 is END, 5:N counts N in `lost`; - is one that
# the disk had no room for.
frames()
{
	perl -e 'for my $word (@ARGV) {
			my $number = $sequence++;
			my ($type, $lost) = split /:/, $word;
			next if $type eq "-";
			my $bytes = pack("CCCC L<2 S<2 Q<3 L<", $type, 1, 0, 0, $number, 0, 0, 0, 0, $lost // 0, 0, 0);
			print "\0", map({ chr(1 + length) . $_ } split /\0/, $bytes, -1), "\0";
		}' "$@"
}

# traced BYTES TYPE...: a run whose trace is no more than so many bytes of that.
traced()
{
	frames "${@:2}" | head -c "$1" >whole.spt
	FAKE_ACT='cp whole.spt trace.spt' ./run-qemu.sh -q --trace trace.spt
}

# elf TYPE BYTES: an ELF file with a segment of that type and 400 bytes, and no more than BYTES of it.
elf()
{
	perl -e 'print pack("A4 C3 x9 S<2 L< Q<3 L< S<6", "\x7fELF", 2, 1, 1, 2, 62, 1, 0x400000, 64, 0, 0, 64, 56, 1, 0, 0, 0),
		pack("L<2 Q<6", shift, 5, 0, 0x400000, 0x400000, 400, 400, 4096), "\xf4" x 280' "$1" | head -c "$2"
}

with_elf()
{
	elf "$1" "$2" >given.elf
	./run-qemu.sh -n --program given.elf
}

try 'a log that is a FIFO' 2 'cannot write the log fifo: a FIFO waits for its reader' eval 'mkfifo fifo; timeout 10 ./run-qemu.sh -l fifo'
try 'a trace that is whole' 0 'pass \(0\): 3 pass' traced 1000 1 2 3 9 5
try 'a trace on a full disk' 2 'ERROR \(2\): the trace trace.spt is cut within a frame; is the disk full. 3 pass' traced 100 1 2 3 9 5
try 'a trace on a full disk, at the end of a frame' 2 'trace.spt is cut: its last frame, END, is missing' traced 1000 1 2 3 9
try 'a trace that lacks a frame' 2 'trace.spt lacks a frame, number 2;' traced 1000 1 2 - 9 5
try 'a trace on a disk that was full from the start' 2 'trace.spt is empty' traced 0 5
FAKE_LOG=$here/logs/fail.log FAKE_STATUS=35 try 'a failure, with a trace on a full disk' 1 'FAIL \(1\): the trace trace.spt is cut within' traced 100 1 2 3 9 5
try 'a trace that lacks tasks' 2 'ERROR \(2\): the trace trace.spt is not whole: 101 tasks or CPUs could not be traced. 3 pass' traced 1000 1 2 3 9 5:101
FAKE_LOG=$here/logs/fail.log FAKE_STATUS=35 try 'a failure, with a trace that lacks tasks' 1 'FAIL \(1\): the trace trace.spt is not whole: 1 tasks' traced 1000 1 5:1
FAKE_LOG=$here/logs/pebs-without-bts.log FAKE_STATUS=39 try 'no BTS, and a trace without its tasks' 3 'SKIPPED \(3\): the trace trace.spt is not whole: 2 tasks' traced 1000 1 5:2
FAKE_LOG=$here/logs/nothing-ran.log FAKE_STATUS=39 try 'no trace unit, so no trace' 3 'SKIPPED \(3\): 1 pass' traced 0 5
try 'a trace that is no file' 2 'cannot write the trace fifo: it is no regular file' eval 'timeout 10 ./run-qemu.sh --trace fifo'
try 'a trace in a directory' 2 'cannot write the trace docs: it is no regular file' ./run-qemu.sh --trace docs
try 'a program' 0 ',given.elf.$' with_elf 1 400
try 'a program that is cut' 2 'the program given.elf is cut: it has 399 bytes and needs 400' with_elf 1 399
try 'a program that is cut in its headers' 2 'the program given.elf is cut: it has 119 bytes and needs 120' with_elf 1 119
try 'a program for a C library' 2 'given.elf has thread-local storage: it is for the C library of an operating' with_elf 7 400
try 'a program with a blank' 2 'a blank in its name: a b.elf' eval 'elf 1 400 >"a b.elf"; elf 1 400 >a; ./run-qemu.sh --program "a b.elf"'
echo "1..$number"
exit $failed
