#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# perf_data.sh: `view` on perf.data that perf 6.1 and 6.12 wrote of BTS and Processor Trace, in Linux on virtual silicon. What `perf
# script` says of it is the judge. Then files that are cut, foreign, or made to lead it astray. Prints TAP.
# shellcheck disable=SC2016,SC2317 # it is Perl; functions are run by name
set -u
cd "$(dirname "$0")/../../.." || exit 2
view=$PWD/build/view here=tools/view/tests/perf
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tested=perf_data
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# said CODE WORDS OPTION...: view leaves with CODE within 5 seconds of CPU and in 1 GB, and says WORDS; '': it need not
said()
{
	local code=$1 words=$2 status
	shift 2
	(ulimit -t 5 -v 1000000 && exec timeout 60 "$view" "$@") >"$scratch/out" 2>"$scratch/said"
	status=$?
	[ $status = "$code" ] && { [ -z "$words" ] || grep -q -- "$words" "$scratch/said"; } && return
	echo "# view $*: exit $status"
	head -n 3 "$scratch/said" | sed 's/^/# /'
	return 1
}

# changed FROM TO CODE: FROM, with what CODE of Perl does with $_, the file, `header(FIELD, NUMBER)`, which sets a number at FIELD,
# and `records(SUB)`, which gives SUB the place, type and size of each record
changed()
{
	perl -0777 -we '
		my $code = pop;
		$_ = <STDIN>;
		sub number { return unpack "Q<", substr($_, $_[0], 8) }
		sub header { substr($_, $_[0], 8) = pack "Q<", $_[1] }
		sub records {
			my ($sub) = @_;
			for (my ($at, $end) = (number(40), number(40) + number(48)); $at < $end;) {
				my ($type, undef, $size) = unpack "L<S<S<", substr($_, $at, 8);
				my $more = $type == 71 ? number($at + 8) : 0;
				$sub->($at, $type, $size);
				$at += $size + $more;
			}
		}
		eval $code; die $@ if $@;
		print' "$3" <"$scratch/$1" >"$scratch/$2"
}

# made FILE CODE: recorded.pt.data with other records: those that CODE of Perl returns by record(TYPE, MISC, BODY), named(TID, NAME),
# forked(TID, PARENT), mapped(TID, START, PATH) and wrote(TID, OFFSET, SIZE). Without the last, all of its packets.
made()
{
	changed recorded.pt.data "$1" '
		my $time = 0;
		sub record { my ($type, $misc, $body) = @_; return pack("L<S<S<", $type, $misc, 8 + length $body) . $body }
		sub ending { return pack("L<2 Q< L<2 Q<", $_[0], $_[0], ++$time, 0, 0, $id) }
		sub text { return pack("Z" . (length($_[0]) + 8 & ~7), $_[0]) }
		sub named { return record(3, 1 << 13, pack("L<2", $_[0], $_[0]) . text($_[1]) . ending($_[0])) }
		sub forked { return record(7, 0, pack("L<4 Q<", $_[0], $_[1], $_[0], $_[1], 0) . ending($_[0])) }
		sub mapped { return record(10, 2, pack("L<2 Q<3 L<2 Q<2 L<2", $_[0], $_[0], $_[1], 4096, 4096, 0, 0, 0, 0, 5, 2) . text($_[2]) . ending($_[0])) }
		sub wrote { return record(11, 0, pack("Q<3", $_[1], $_[2], 0) . ending($_[0])) }
		our ($id, $packets) = (0, "");
		records(sub { my ($at, $type, $size) = @_; my $more = $type == 71 ? number($at + 8) : 0;
			$packets .= substr($_, $at, $size + $more) if $type == 70 || $type == 71;
			$id = number($at + $size - 8) if $type == 11 });
		my $records = do { '"$2"' } . $packets;
		substr($_, number(40)) = $records;
		substr($_, 72, 32) = "\0" x 32;
		header(48, length $records)'
}

# Another byte of each 211th place, of each a file; none may end view but with 0 or 1.
survives()
{
	local status at
	for at in $(seq 0 211 "$(stat -c %s "$scratch/recorded.$1.data")"); do
		changed "recorded.$1.data" changed "substr(\$_, $at, 1) ^= chr(1 + $at % 255) if $at < length"
		(ulimit -t 5 -v 1000000 && exec "$view" dump --damaged --programs "$here" "$scratch/changed") >/dev/null 2>"$scratch/said"
		status=$?
		[ $status -le 1 ] || { echo "# byte $at: exit $status"; return 1; }
		head -c "$at" "$scratch/recorded.$1.data" >"$scratch/changed"
		(ulimit -t 5 -v 1000000 && exec "$view" dump --damaged --programs "$here" "$scratch/changed") >/dev/null 2>"$scratch/said"
		status=$?
		[ $status -le 1 ] || { echo "# $at bytes: exit $status"; return 1; }
	done
	[ "${at:-0}" -gt 1000 ]
}

echo 1..25
for version in 6.12 6.1; do
	zcat "$here/recorded-$version.gz" | tools/view/tests/perf_data.pl "$scratch/recorded" "$here" >"$scratch/compared"
	result "view finds the branches that perf script $version finds" || sed 's/^/# /' "$scratch/compared"
done

# Up to execve() it has one branch; BTS has how the kernel returns to its first instruction too, and to that after a page fault.
declare -A branches=([bts]='3 2509' [pt]='1 2300')
for unit in bts pt; do
	file=$scratch/recorded.$unit.data
	"$view" stats --programs "$here" "$file" >"$scratch/stats" 2>"$scratch/said" && [ ! -s "$scratch/said" ] &&
		[ "$(sed -nE 's/^task [0-9]+ \(program\) +([0-9]+) branches.* 0 gaps.*/\1/p' "$scratch/stats" | xargs)" = "${branches[$unit]}" ]
	result "$unit: a program that executes itself is two, without a gap" || sed 's/^/# /' "$scratch/stats" "$scratch/said"

	"$view" check --programs "$here" "$file" >"$scratch/tap" 2>/dev/null && grep -q '^ok .* each branch follows' "$scratch/tap" &&
		! grep -q '^not ok' "$scratch/tap"
	result "$unit: check finds that each branch follows from the one before" || grep -A 1 '^not ok' "$scratch/tap" | sed 's/^/# /'

	"$view" html --programs "$here" -o "$scratch/page.html" "$file" 2>/dev/null && grep -q '"name":"leaf"' "$scratch/page.html" &&
		"$view" calls --programs "$here" "$file" >"$scratch/calls" 2>/dev/null && grep -qE ' leaf( |$)' "$scratch/calls" &&
		"$view" perfetto --programs "$here" -o "$scratch/perfetto" "$file" 2>/dev/null
	result "$unit: html, calls and perfetto have its functions"

	survives "$unit"
	result "$unit: each cut and each byte that is another is read or refused"
done

said 0 'program is not there: its code is unknown' stats --programs "$scratch" "$scratch/recorded.bts.data"
result 'without the program: a warning'

cp "$here/program" "$scratch/program"
perl -0777 -pi -e 's/(GNU\0.{3})./$1\0/s' "$scratch/program"
said 0 'program is not the file that ran, by its build-id' stats --programs "$scratch" "$scratch/recorded.bts.data"
result 'with another program: a warning'

rm "$scratch/program"
mkfifo "$scratch/program"
said 0 'program is not there: its code is unknown' stats --programs "$scratch" "$scratch/recorded.bts.data"
result 'a FIFO is not read for the program'

: >"$scratch/empty"
head -c 60 "$scratch/recorded.bts.data" >"$scratch/short"
changed recorded.bts.data swapped 'substr($_, 0, 8) = reverse substr($_, 0, 8)'
changed recorded.bts.data pipe 'header(8, 16)'
changed recorded.bts.data packed 'records(sub { substr($_, $_[0], 1) = chr 81 if $_[1] == 70 })'
changed recorded.bts.data foreign 's/x86_64/mips64/'
changed recorded.bts.data other 'records(sub { substr($_, $_[0] + 8, 1) = chr 3 if $_[1] == 70 })'
said 1 'no frame of a trace stream' stats "$scratch/empty" && said 1 'ends within its header' stats "$scratch/short" &&
	said 1 'of the other byte order' stats "$scratch/swapped" && said 1 'a stream of `perf record -o -`' stats "$scratch/pipe" &&
	said 1 'are compressed' stats "$scratch/packed" && said 1 'it is of mips64' stats "$scratch/foreign" &&
	said 1 'no trace of intel_bts or intel_pt' stats "$scratch/other"
result 'files that are foreign: a sentence each'

changed recorded.pt.data cpus 'records(sub { my ($at, $type, $size) = @_; return if $type != 69;
	for (my $entry = $at + 16; $entry < $at + $size; $entry += 32) { header($entry + 24, ~0) } })'
said 1 'it is of whole CPUs' stats "$scratch/cpus"
result 'a trace of whole CPUs: a sentence'

head -c -3000 "$scratch/recorded.bts.data" >"$scratch/cut"
changed recorded.bts.data killed 'header(48, 0)'
said 1 'the file was cut\|is cut, or damaged' stats --programs "$here" "$scratch/cut" && said 1 'recording was not ended' stats --programs "$here" "$scratch/killed" &&
	said 0 '' dump --damaged --programs "$here" "$scratch/killed" && [ "$(grep -c ' -> ' "$scratch/out")" -gt 1000 ]
result 'a file that was cut, or of a perf that was killed: a sentence, or what is there'

# Linux says by PERF_AUX_FLAG_TRUNCATED that it had no room.
changed recorded.bts.data lost 'records(sub { header($_[0] + 24, 1) if $_[1] == 11 })'
said 0 'branches were lost [1-9]' dump --programs "$here" "$scratch/lost" && grep -q 'GAP of unknown length' "$scratch/out"
result 'branches that were lost: a gap'

changed recorded.bts.data last 'my $last; records(sub { $last = $_[0] if $_[1] == 11 }); header($last + 24, 1)'
said 0 'branches were lost 1 times' dump --programs "$here" "$scratch/last" && [ "$(grep -c 'GAP of unknown length' "$scratch/out")" = 1 ]
result 'the last branches that were lost: a gap'

# Between the first bytes of a task and the others is the end of its ring, of 128 MB: no record is whole in the last 8 bytes, and perf
# drops these.
changed recorded.bts.data wrapped 'my ($add, $end) = (0, 1 << 27);
	records(sub { my ($at, $type) = @_;
		($add ||= $end - 8 - number($at + 8) - number($at + 16)), return header($at + 8, $end - 8 - number($at + 16)) if $type == 11 && !$add;
		header($at + 8, number($at + 8) + $add + 8) if $type == 11;
		header($at + 16, number($at + 16) + $add) if $type == 71 })'
said 0 '' dump --programs "$here" "$scratch/recorded.bts.data" && cp "$scratch/out" "$scratch/whole" &&
	said 0 '' dump --programs "$here" "$scratch/wrapped" && [ ! -s "$scratch/said" ] && cmp "$scratch/whole" "$scratch/out" >/dev/null
result 'bytes that perf drops at the end of a ring are no gap'

said 1 'is an input, which is not written over' html --programs "$here" -o "$scratch/recorded.bts.data" "$scratch/recorded.bts.data" &&
	said 1 'is an input, which is not written over' html --programs "$here" -o "$here/program" "$scratch/recorded.bts.data" &&
	zcat "$here/recorded-6.1.gz" | tools/view/tests/perf_data.pl "$scratch/recorded" "$here" >"$scratch/compared"
result 'neither perf.data nor a program is written over'

mkdir "$scratch/directory"
cp "$scratch/recorded.pt.data" "$scratch/directory/data"
said 0 '' stats --programs "$here" "$scratch/directory" && said 1 'No such file' stats "$scratch"
result 'the directory of perf record --kcore is one, another is not'

made tasks 'join "", map { named($_, "task") . wrote($_, 0, 30) } 1 .. 70000'
said 1 'a trace has 65536 streams at most' stats --programs "$here" "$scratch/tasks"
result 'more tasks than a trace can have: a sentence'

made maps 'named(1, "task") . join "", map { mapped(1, 0x10000 * $_, "/program") } 1 .. 70000'
said 1 'a task has more than 65536 files in memory' stats --programs "$here" "$scratch/maps"
result 'more files than a task can have: a sentence'

# As of two libraries, of which a program has closed the first.
made replaced 'named(1, "task") . mapped(1, 0x11000, "/one") . mapped(1, 0x10000, "/two") . mapped(1, 0x11000, "/two") . wrote(1, 0, 30)'
made again 'named(1, "task") . mapped(1, 0x10000, "/one") . mapped(1, 0x10000, "/one") . wrote(1, 0, 30)'
said 0 '1 times a task had a file in memory where it had another before' stats --programs "$here" "$scratch/replaced" &&
	said 0 '' stats --programs "$here" "$scratch/again" && ! grep -q 'another before' "$scratch/said"
result 'a file in the place of another one: a warning'

# Each of 30,000 children has all files of its parent, and another one.
made children 'named(1, "task") . join("", map { mapped(1, 0x10000 * $_, "/program") } 1 .. 1000) . join "", map { forked($_, $_ - 1) } 2 .. 30000'
said 1 'its tasks have more than 4194304 files in memory' stats --programs "$here" "$scratch/children"
result 'more files than all tasks can have: a sentence'
exit $failed
