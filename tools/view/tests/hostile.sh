#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hostile.sh [--page FILE]: traces that are made to hold `view` up or to lead it astray. Each has so many seconds of CPU
# and so much memory. After them large ones that a machine can send. Prints TAP. --page: only writes the page of a CPU
# with 54,300 tasks, for browser.pl.
# shellcheck disable=SC2016,SC2317 # it is Perl; functions are run by name
set -u
cd "$(dirname "$0")/../../.." || exit 2
view=$PWD/build/view program=$PWD/build/view-test/stepped
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tested=hostile
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# made FILE CODE: a trace that CODE of Perl prints by hello(CPUS), frame(TYPE, STREAM, PAYLOAD, FIELD => VALUE...), item(TAG, TEXT),
# records([FROM, TO, FLAGS]...) and totals([STREAM, FRAMES, RECORDS, LOST]...): docs/trace-stream.5
made()
{
	perl -we '
		my @table = map { my $crc = $_; $crc = $crc & 1 ? 0x82f63b78 ^ $crc >> 1 : $crc >> 1 for 1 .. 8; $crc } 0 .. 255;
		my $sequence = 0;
		sub crc32c { my $crc = ~0 & 0xffffffff; $crc = $table[($crc ^ $_) & 255] ^ $crc >> 8 for unpack "C*", $_[0]; return ~$crc & 0xffffffff }
		sub cobs { join "", map { my $piece = $_; my $out = ""; $out .= "\xff" . substr($piece, 0, 254, "") while length $piece >= 254;
			$out . chr(1 + length $piece) . $piece } split /\0/, $_[0], -1 }
		sub frame {
			my ($type, $stream, $payload, %has) = @_;
			my $bytes = pack("C4 L<2 S<2 Q<3", $type, 1, $has{encoding} // 0, 0, $sequence++, $stream, $has{count} // 0, $has{stamps} // 0,
				$has{index} // 0, $has{lost} // 0, 0) . $payload;
			return "\0" . cobs($bytes . pack("L<", crc32c($bytes))) . "\0";
		}
		sub item { return pack("S<2", $_[0], length $_[1]) . $_[1] }
		sub hello { return frame(1, 0, item(1, "spoor.elf") . item(7, pack("Q<", 1e9)) . item(8, pack("L<", $_[0])) . ($_[1] // "")) }
		sub records { return join "", map { pack "Q<3", @$_ } @_ }
		sub totals { return frame(5, 0, join("", map { pack "L<2 Q<2", @$_ } @_), count => scalar @_) }
		binmode STDOUT;
		print eval $ARGV[0]; die $@ if $@;' "$2" >"$scratch/$1"
}

# within SECONDS COMMAND...: of CPU, in 2 GB; its words are in `said`
within()
{
	(ulimit -t "$1" -v 2000000 && shift && exec "$@" >"$scratch/out" 2>"$scratch/said")
}

# refuses WORDS FILE: stats and rx do, at once
refuses()
{
	local command status
	for command in "stats --damaged" rx; do
		# shellcheck disable=SC2086 # an option
		within 5 "$view" $command "$scratch/$2"
		status=$?
		[ $status = 1 ] && grep -q -- "$1" "$scratch/said" && continue
		echo "# $command: exit $status"
		head -n 3 "$scratch/said" | sed 's/^/# /'
		return 1
	done
}

# takes SECONDS OPTION...: every command takes the trace, in so many seconds each
takes()
{
	local seconds=$1 command status
	shift
	for command in dump check stats calls 'diff' "html -o $scratch/html" "perf -o $scratch/perf" "perfetto -o $scratch/perfetto"; do
		[ "$command" != diff ] || command="diff ${*: -1}"
		# shellcheck disable=SC2086 # options
		within "$seconds" "$view" $command -e "$program" "$@"
		status=$?
		[ $status -le 1 ] && continue
		echo "# $command: exit $status"
		head -n 3 "$scratch/said" | sed 's/^/# /'
		return 1
	done
}

# A CPU on which each record is of another task.
make_switches()
{
	made switches 'hello(512), (map { my $first = 600 * $_; frame(3, 2 ** 31, records(map { ([~0 & ~15 | 2, $_, 1 << 63 | $first + $_], [0x400000, 0x400010, 0]) } 1 .. 300),
		count => 600, stamps => 300, index => $first) } 0 .. 180), totals([2 ** 31, 181, 181 * 600, 0])'
}

if [ "${1-}" = --page ]; then
	make_switches
	"$view" html -o "$2" "$scratch/switches"
	exit
fi

made ids 'hello(4), map { frame(3, $_, records([0x400000, 0x400010, 0]), count => 1) } 1 .. 50000'
refuses 'more streams have frames than END has room for: 682' ids
result 'more streams with records than END has room for'

made named 'hello(4), map { frame(2, $_, item(1, "task")) } 1 .. 70000'
refuses 'a trace has 65536 streams at most' named
result 'more streams than a trace can have'

made cpus 'hello(2 ** 31), totals()'
refuses 'HELLO has more CPUs than a machine can have: 512' cpus
result 'a HELLO with 2^31 CPUs'

made cpu 'hello(4), frame(3, 2 ** 31 + 512, records([0x400000, 0x400010, 0]), count => 1), totals([2 ** 31 + 512, 1, 1, 0])'
refuses 'there is no such CPU: a machine has 512 at most' cpu
result 'a stream of a CPU that cannot be'

made stamp 'hello(4), frame(3, 1, records([~0 & ~15 | 2, 5, 1 << 63 | 512 << 32 | 1]), count => 1, stamps => 1), totals([1, 1, 1, 0])'
refuses 'a stamp has a CPU that no machine has' stamp
result 'a stamp of a CPU that cannot be'

# A task each with a program that is there, 500 with records, and all CPUs.
mkdir "$scratch/programs"
cp "$program" "$scratch/programs/prog.elf"
made legal 'hello(512), (map { frame(2, $_, item(1, "task") . item(11, "prog") . item(13, pack "Q<", $_ << 12)) } 1 .. 60000),
	(map { frame(3, $_, records([0x400000, 0x400010, 0]), count => 1) } 1 .. 682), totals(map { [$_, 1, 1, 0] } 1 .. 682)'
takes 5 --programs "$scratch/programs" "$scratch/legal" && [ "$(grep -c 'class="stream"' "$scratch/html")" = 682 ] &&
	within 5 "$view" rx -q "$scratch/legal"
result '60,000 tasks, of which 682 have records'

# Many programs of one file: its checksum is not taken for each.
sum=$("$view" stats --programs "$scratch/programs" -e "$program" "$scratch/legal" >/dev/null 2>&1; made sum 'hello(1), frame(2, 1, item(11, "prog") . item(3, "\1\0\0\0")), totals()'
	"$view" stats --programs "$scratch/programs" "$scratch/sum" 2>&1 | sed -nE 's/.*checksum is ([0-9a-f]{8}).*/\1/p')
made sums "hello(4), map { frame(2, \$_, item(1, 'task') . item(11, 'prog') . item(3, pack 'L<', 0x${sum:-0})) } 1 .. 60000"
[ -n "$sum" ] && within 5 "$view" stats --damaged --programs "$scratch/programs" "$scratch/sums"
result '60,000 tasks of one program with its checksum'

make_switches
takes 5 "$scratch/switches"
result 'a CPU with 54,300 tasks'

made tasks 'hello(4), (map { my $first = 600 * $_; frame(3, 2 ** 31, records(map { [~0 & ~15 | 2, $_, 1 << 63 | $first + $_] } 1 .. 600),
	count => 600, stamps => 600, index => $first) } 0 .. 119), totals([2 ** 31, 120, 120 * 600, 0])'
! within 5 "$view" calls "$scratch/tasks" && grep -q 'CPU 0 has more than 65536 tasks' "$scratch/said"
result 'a CPU with more tasks than a trace can have'

# The program is there, outside.
cp "$program" "$scratch/outside.elf"
refused=0
for name in ../outside "$scratch/outside" prog/../../outside; do
	made away "hello(1), frame(2, 1, item(1, 'task') . item(11, '$name')), frame(3, 1, records([0x400000, 0x400010, 0]), count => 1), totals([1, 1, 1, 0])"
	within 5 "$view" stats --programs "$scratch/programs" "$scratch/away"
	grep -q "a task has the program '$name': a file's name without a directory" "$scratch/said" &&
		within 5 "$view" stats --program "$program" "$scratch/away" && refused=$((refused + 1))
done
[ $refused = 3 ]
result 'a program with a directory in its name is not opened'

# A function that calls itself 250,000 times, and as many returns to none of the calls, but into it. calls, html and perfetto would
# print each frame.
printf '.globl _start\n_start: call _start\nreturns: ret\n nop\nelsewhere: nop\n ret\n' |
	cc -x assembler -nostdlib -static -no-pie -Wl,-e,_start -Wl,--build-id=none -o "$scratch/programs/deep.elf" - || exit 2
at=$(nm "$scratch/programs/deep.elf" | awk '/ _start$/ { print $1 }')
made deep 'my $call = records(([0x'"$at"', 0x'"$at"', 0]) x 500); my $return = records(([0x'"$at"' + 8, 0x'"$at"' + 7, 0]) x 500);
	hello(1), (map { frame(3, 1, $_ < 500 ? $call : $return, count => 500, index => 500 * $_) } 0 .. 999), totals([1, 1000, 500000, 0])'
within 5 "$view" stats -p "$scratch/programs/deep.elf" "$scratch/deep" && grep -q '500000 branches' "$scratch/out" &&
	within 5 "$view" perf -o "$scratch/perf" -p "$scratch/programs/deep.elf" "$scratch/deep" &&
	within 8 "$view" diff -p "$scratch/programs/deep.elf" "$scratch/deep" "$scratch/deep"
result 'returns to nowhere out of deep recursion'

# Branches that had one place of the table of stats: to = from * C / D modulo 2^64; each step of Newton's doubles the inverse's bits.
made alike 'no warnings "portable"; use integer; my ($c, $d) = map { unpack "q<", pack "Q<", $_ } 0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f;
	my $inverse = $d; $inverse *= 2 - $d * $inverse for 1 .. 6;
	hello(1), (map { my $first = 600 * $_; frame(3, 1, join("", map { my $from = 0x400000 + $first + $_; pack "q<3", $from, $from * $c * $inverse, 0 } 1 .. 600),
		count => 600, index => $first) } 0 .. 299), totals([1, 300, 180000, 0])'
within 5 "$view" stats -p "$program" "$scratch/alike" && grep -q '180000 different branches' "$scratch/out"
result '180,000 branches that a fixed hash takes for one'

# Packets of Processor Trace, of CPU 0: a program that jumps to itself, and that is left elsewhere.
printf '.globl _start\n_start: jmp _start\n' | cc -x assembler -nostdlib -static -no-pie -Wl,-e,_start -Wl,--build-id=none -o "$scratch/programs/loop.elf" - || exit 2
start=$(nm "$scratch/programs/loop.elf" | awk '/ _start$/ { print $1 }')
packets='my $start = pack "Q<", 0x'$start'; my $begin = "\x02\x82" x 8 . "\x99\x01\x02\x23\xd1$start"; my $cpu = 3 << 30; my $at = 0;'
made endless "$packets"'my $bytes = ($begin . "\xdd" . pack("Q<", 0x400000) . "\xcd$start") x 300;
	hello(1), frame(7, $cpu, $bytes), totals([$cpu, 1, length $bytes, 0])'
! within 5 "$view" check -p "$scratch/programs/loop.elf" "$scratch/endless" && grep -q 'the code goes on without an end' "$scratch/said" &&
	[ "$(sed -nE 's/^# CPU 0 .PT.: ([0-9]+) branches.*/\1/p' "$scratch/out")" -lt 1000 ]
result 'packets that say of an endless loop that it was left elsewhere'

made roots "$packets"'hello(1), (map { my $index = $at; $at += length $begin;
	(frame(2, $_, item(11, "loop") . item(13, pack "Q<", $_ << 12)), frame(7, $cpu, $begin, index => $index)) } 1 .. 3000), totals([$cpu, 3000, $at, 0])'
within 5 "$view" stats --programs "$scratch/programs" "$scratch/roots"
result 'packets of 3,000 programs, one after the other'

echo "1..$number"
exit $failed
