#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# stream.sh: rx, dump, check, stats and calls on the trace that test_stack made of a program of this
# machine; its records as they are, objdump, readelf and the program itself are the judges. Prints TAP.
set -u
cd "$(dirname "$0")/../../.." || exit 2
view=build/view program=build/view-test/stepped
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trace=$scratch/trace.spt
build/view-test/test_stack "$program" "$trace" "$scratch/records" "$scratch/counts" >"$scratch/tap" || cat "$scratch/tap"
records=$(($(stat -c %s "$scratch/records") / 24))

tested=stream
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# refuses CODE WORDS COMMAND...: it leaves with CODE, says WORDS and prints nothing
refuses()
{
	local code=$1 words=$2 status=0
	shift 2
	"$@" >"$scratch/out" 2>"$scratch/said" || status=$?
	[ $status = "$code" ] && [ ! -s "$scratch/out" ] && grep -q -- "$words" "$scratch/said"
}

echo 1..29
$view rx -q -o "$scratch/copy.spt" <"$trace" >"$scratch/text" 2>"$scratch/said" &&
	cmp -s "$trace" "$scratch/copy.spt" && [ ! -s "$scratch/text" ] &&
	grep -q " $records records, 0 lost" "$scratch/said"
result 'rx keeps the frames as they are'

{ printf 'KTAP version 1\n1..1\n'; cat "$trace"; printf 'ok 1 hello\n'; } >"$scratch/line"
$view rx -o "$scratch/copy.spt" "$scratch/line" >"$scratch/text" 2>/dev/null &&
	[ "$(cat "$scratch/text")" = $'KTAP version 1\n1..1\nok 1 hello' ] && cmp -s "$trace" "$scratch/copy.spt"
result 'and lets console text through'

# A byte in the middle is another one, and none begins or ends a frame by it; 3000 bytes are missing; the end is.
damage()
{
	perl -0777 -pe 'pos = length($_) / 2; s/\G(.*?)([^\0\1])/$1 . chr(ord($2) ^ 1)/es' "$trace" >"$scratch/flipped"
	perl -0777 -pe 'substr($_, length($_) / 3, 3000) = ""' "$trace" >"$scratch/dropped"
	head -c -60 "$trace" >"$scratch/cut"
}
damage
refuses 1 '1 frames are damaged, 1 missing' $view rx -o "$scratch/bad.spt" "$scratch/flipped" &&
	refuses 1 'missing' $view rx "$scratch/dropped" &&
	refuses 1 'damaged\|no frame END' $view rx "$scratch/cut" && [ -s "$scratch/bad.spt" ]
result 'rx leaves with 1 where a frame is damaged, missing or cut, and keeps the rest'

refuses 1 'damaged' $view dump -p "$program" "$scratch/flipped" &&
	$view dump -p "$program" --damaged "$scratch/flipped" 2>/dev/null | grep -q 'GAP [0-9]* records'
result 'a damaged trace is refused, or shown with its gap'

$view dump -p "$program" --raw "$trace" 2>/dev/null | cmp -s - "$scratch/records"
result 'dump --raw is byte by byte what was recorded'

$view dump -a -p "$program" "$trace" 2>/dev/null | sed -E 's/.*: ([0-9a-f]{16}) -> ([0-9a-f]{16}) (.)$/\1 \2 \3/' >"$scratch/dumped"
perl -e '$/ = \24; while (<>) { my ($f, $t, $g) = unpack "Q<3"; printf "%016x %016x %s\n", $f, $t, $g & 16 ? "P" : "-" }' \
	"$scratch/records" | cmp -s - "$scratch/dumped" && [ -s "$scratch/dumped" ]
result 'dump has a line for each record'

# What objdump says of each instruction that a branch of the program is from.
$view dump -p "$program" "$trace" 2>/dev/null | awk '{ print $NF }' >"$scratch/flows"
objdump -d --no-show-raw-insn "$program" | perl -e '
	while (<STDIN>) { $is{hex $1} = $2 if /^ *([0-9a-f]+):\s+(?:(?:addr32|data16|bnd|notrack|rep[nz]*|cs|ds|repz) )*(\w+)/ }
	open(my $records, "<", $ARGV[0]); open(my $flows, "<", $ARGV[1]); $/ = \24;
	while (my $record = <$records>) {
		my ($from, $to) = unpack "Q<2", $record; local $/ = "\n"; chomp(my $flow = <$flows>);
		my $op = $is{$from} // "?";
		my $want = $from >> 63 ? "?" : $op =~ /^call/ ? "call" : $op =~ /^ret/ ? "return" : $op =~ /^jmp/ ? "jmp"
			: $op =~ /^(?:j|loop)/ ? "jcc" : $op =~ /^syscall/ ? "syscall" : "event";
		$seen{$want}++;
		die "$op is $flow\n" if $want ne $flow;
	}
	exit(keys(%seen) == 7 ? 0 : 1)' "$scratch/records" "$scratch/flows"
result 'dump names the kinds of instructions as objdump does'

$view check -p "$program" "$trace" >"$scratch/tap" 2>/dev/null &&
	[ "$(grep -c '^ok' "$scratch/tap")" = 9 ] && prove -Q --exec cat "$scratch/tap"
result 'check passes what ran'

# The same file, but compare() begins with a return: linked at 400000H, loaded from offset 0.
cp "$program" "$scratch/other"
printf '\303' | dd of="$scratch/other" bs=1 conv=notrunc status=none seek=$((0x$(nm "$program" | awk '$3 == "compare" { print $1 }') - 0x400000))
! $view check -p "$scratch/other" "$trace" >"$scratch/tap" 2>/dev/null && grep -q '^not ok 2 .*each branch follows' "$scratch/tap"
result 'check fails on code that did not run'

! $view check -p "$program" "$scratch/cut" >"$scratch/tap" 2>/dev/null && grep -q '^not ok 1' "$scratch/tap"
result 'check fails on a stream that was cut'

$view stats -n 1 -p "$program" "$trace" >"$scratch/stats" 2>/dev/null &&
	grep -q "^task 1 (stepped) *$records branches" "$scratch/stats" &&
	[ "$(sed -nE 's/^([0-9]+) different.*/\1/p' "$scratch/stats")" = "$(cut -d' ' -f1,2 "$scratch/dumped" | sort -u | wc -l)" ] &&
	[ "$(tail -n 1 "$scratch/stats" | awk '{ print $1 }')" = "$(cut -d' ' -f1,2 "$scratch/dumped" | sort | uniq -c | sort -rn | awk 'NR == 1 { print $1 }')" ]
result 'stats counts branches as sort and uniq do'

awk -v "most=1.5" '/ bytes for .* records/ { exit($8 <= most && $8 > 0.2 ? 0 : 1) }' "$scratch/stats"
result 'a branch takes at most 1.5 bytes on the wire'

$view calls --strict -p "$program" "$trace" >"$scratch/calls" 2>/dev/null
result 'calls explains every branch'

# Each activation of descend() but the outermost is two columns further right, up to the jump back.
awk '/ descend$/ || / descend  / { print match($0, /descend/) }' "$scratch/calls" >"$scratch/columns"
perl -ne '$steps++ if defined $last && $_ == $last + 2; $back++ if defined $last && $_ < $last - 10; $last = $_;
	END { exit($steps >= 100 && $back >= 15 ? 0 : 1) }' "$scratch/columns"
result 'calls indents recursion, and takes longjmp() back'

grep -qE '^. .* handler \[event\]  .*stepped.c:[0-9]+' "$scratch/calls" && grep -qE ' (middle|last) \[jump\]' "$scratch/calls"
result 'with handlers of signals, tail calls and lines'

$view calls -f depth_of -d 1 -p "$program" "$trace" 2>/dev/null | grep -E '^ ' | awk '{ print $2 }' | sort -u | grep -qx depth_of &&
	[ "$($view calls -d 1 -p "$program" "$trace" 2>/dev/null | grep -cE '^  ')" -le 3 ] &&
	[ "$($view dump --from 100 --to 109 -p "$program" "$trace" 2>/dev/null | wc -l)" = 10 ] &&
	refuses 1 "no file .* function 'none'" $view calls -f none -p "$program" "$trace" && refuses 1 'no CPU 9' $view dump -c 9 -p "$program" "$trace" &&
	refuses 2 'from is after' $view dump --from 9 --to 8 -p "$program" "$trace"
result 'filters: function, depth, range, and what none of them can be'

# page FILE: of each function the instructions in it and not in its calls, from the profile in the page.
page()
{
	perl -MMIME::Base64 -MIO::Uncompress::Gunzip=gunzip -MJSON::PP -0777 -ne '
		my ($base64) = m{class="profile">([^<]*)<} or die "no profile\n";
		my ($stream) = m{class="stream">([^<]*)<} or die "no stream\n";
		my $packed = decode_base64($base64);
		gunzip(\$packed, \my $bytes) or die "not packed\n";
		my ($all, $at, @stack, %own) = (decode_json($stream), 0);
		my @numbers = map { my $number = 0; $number = $number << 7 | ord($_) & 127 for reverse split //; $number } $bytes =~ /[\x80-\xff]*[\x00-\x7f]/g;
		while (my ($entered, $passed) = splice @numbers, 0, 2) {
			$own{$stack[-1]} += $passed if @stack;
			$at += $passed;
			push(@stack, $all->{frames}[$entered - 1]{name}), next if $entered;
			die "a return of nothing at $at\n" if !@stack;
			pop @stack;
		}
		die "@stack do not end\n" if @stack;
		die "the end is $at\n" if $at != $all->{end};
		printf "%s %d\n", $_, $own{$_} for grep { $own{$_} } sort keys %own;' "$1"
}
$view html -p "$program" -o "$scratch/page.html" "$trace" 2>/dev/null && page "$scratch/page.html" >"$scratch/own"
perl -ne 'if (/^. +(\d+),(\d+) +(\S+)/) { $own{$3} += $2 - $1 + 1 } END { print "$_ $own{$_}\n" for sort keys %own }' "$scratch/calls" |
	cmp -s - "$scratch/own" && [ "$(wc -l <"$scratch/own")" -ge 20 ] &&
	grep -q 'Jamie Wong' "$scratch/page.html" && ! grep -qE '(src|href)="?(https?:)?//' "$scratch/page.html"
result 'html has the calls of calls in one page, with its licence'

# listing FILE: what the page has of the code of its one stream, as JSON
listing()
{
	perl -MMIME::Base64 -MIO::Uncompress::Gunzip=gunzip -0777 -ne '
		my ($base64) = m{class="listing">([^<]+)<} or die "no listing\n";
		my $packed = decode_base64($base64);
		gunzip(\$packed, \my $bytes) or die "not packed\n";
		print $bytes' "$1"
}

# A step executes one instruction, which test_stack counts. The page counts by blocks between branches.
listing "$scratch/page.html" >"$scratch/listing"
perl -MJSON::PP -0777 -ne '
	for my $function (@{decode_json($_)->{functions}}) {
		$ran{hex($function->{start}) + $_->[0]} += $_->[1] for @{$function->{rows}};
	}
	$ran{$_} && printf "%x %d\n", $_, $ran{$_} for sort { $a <=> $b } keys %ran' "$scratch/listing" >"$scratch/ran"
cmp "$scratch/counts" "$scratch/ran" && [ "$(wc -l <"$scratch/ran")" -gt 5000 ]
result 'html counts how often each instruction ran, as single steps do'

# Each row is of the line that readelf has for its address, and has the text of that line. (addr2line 2.40 takes another file.)
readelf --debug-dump=decodedline "$program" 2>/dev/null | perl -MJSON::PP -e '
	while (<STDIN>) { push @table, [hex $3, "$1:$2"] if /^(\S+\.[ch])\s+(\d+|-)\s+0x([0-9a-f]+)/ }
	@table = sort { $a->[0] <=> $b->[0] } @table;
	open(my $listing, "<", $ARGV[0]); local $/;
	my ($all, $rows) = decode_json(<$listing>);
	sub lines_of { open(my $in, "<", $_[0]) or die "$_[0]: $!\n"; local $/ = "\n"; return "", map { chomp; $_ } <$in> }
	my @text = map { [lines_of($_->{name})] } @{$all->{sources}};
	my @shown = map { my %shown = map { @$_ } @{$_->{lines}}; \%shown } @{$all->{sources}};
	for my $function (@{$all->{functions}}) {
		for my $row (@{$function->{rows}}) {
			my ($offset, undef, $source, $line, $code) = @$row;
			next if $source < 0;
			my $at = hex($function->{start}) + $offset;
			my ($found) = map { $_->[1] } grep { $_->[0] <= $at } reverse @table;
			my $name = $all->{sources}[$source]{name} =~ s{.*/}{}r . ":$line";
			die sprintf("# %x is of %s, not %s\n", $at, $found, $name) if $found ne $name;
			die "# $name is another line\n" if $shown[$source]{$line} ne $text[$source][$line];
			$rows++;
		}
	}
	exit($rows > 200 ? 0 : 1)' "$scratch/listing"
result 'html has the source line of each instruction'

# ends FILE: what the page has the last branches before, and these, a line each
ends()
{
	perl -MJSON::PP -0777 -ne 'my ($stream) = m{class="stream">([^<]*)<};
		for my $end (@{decode_json($stream)->{ends}}) { print "$end->{what}\n"; print map { "$_->[0] -> $_->[1]\n" } @{$end->{branches}} }' "$1"
}
ends "$scratch/page.html" >"$scratch/ends"
$view dump -p "$program" "$trace" 2>/dev/null | tail -n 32 | sed -E 's/.*: +(\S+) -> (\S+).*/\1 -> \2/' >"$scratch/last"
tail -n 32 "$scratch/ends" | sed -E 's/ \([^)]*:[0-9]+\)//g' | cmp -s - "$scratch/last" && [ "$(wc -l <"$scratch/last")" = 32 ] &&
	[ "$(grep -c '^the signal that handler handles$' "$scratch/ends")" = 8 ] && [ "$(grep -c '^the end$' "$scratch/ends")" = 1 ] &&
	[ "$(grep -B 1 '^the' "$scratch/ends" | grep -cE '^[a-z_]*(raise|kill).* -> \S+$')" = 8 ]
result 'html has the last branches before each signal and before the end'

$view html -n 3000 -p "$program" -o "$scratch/newest.html" "$trace" 2>"$scratch/said" && older=$((records - 3000)) &&
	grep -q "the newest 3000 branches are shown, $older older ones are not" "$scratch/said" &&
	grep -q "\"branches\":3000,\"left_out\":$older," "$scratch/newest.html" && grep -q '"newest":3000,' "$scratch/newest.html" &&
	page "$scratch/newest.html" | awk '{ sum += $2 } END { print sum }' >"$scratch/sum" &&
	[ "$(cat "$scratch/sum")" = "$($view html --from "$older" -p "$program" -o "$scratch/from.html" "$trace" 2>/dev/null; page "$scratch/from.html" | awk '{ sum += $2 } END { print sum }')" ] &&
	refuses 2 'newest is 1 or more' $view html -n 0 -o "$scratch/none.html" "$trace"
result 'html shows the newest branches of a longer trace, and says so'

# Code that is inlined is a frame: its instructions are those of which addr2line says so, each as often as single steps say.
cat >"$scratch/inlined.c" <<'END'
static volatile unsigned sink;
__attribute__((always_inline)) static inline unsigned innermost(unsigned x)
{
	for (unsigned i = 0; i < 3; i++)
		x = x * 3 + sink;
	return x;
}
__attribute__((always_inline)) static inline unsigned outer(unsigned x) { sink += x; return innermost(x) + sink; }
__attribute__((noinline)) static unsigned called(unsigned x) { return innermost(x + sink); }
__attribute__((noinline)) static unsigned work(unsigned x)
{
	unsigned y = outer(x);
	sink = called(y);
	return y + outer(sink);
}
int main(void) { for (unsigned i = 0; i < 50; i++) sink = work(i); return 0; }
END
gcc -g -O2 -static -no-pie -fcf-protection=none -o "$scratch/inlined" "$scratch/inlined.c" &&
	{ build/view-test/test_stack "$scratch/inlined" "$scratch/inlined.spt" "$scratch/inlined.records" "$scratch/inlined.counts" >"$scratch/tap"; true; } &&
	$view html -p "$scratch/inlined" -o "$scratch/inlined.html" "$scratch/inlined.spt" 2>/dev/null &&
	page "$scratch/inlined.html" | sed 's/ \[inlined\]//' | grep -E '^(innermost|outer|called|work) ' >"$scratch/frames"
cut -d' ' -f1 "$scratch/inlined.counts" | addr2line -i -f -a -e "$scratch/inlined" | awk '/^0x/ { getline; print }' |
	paste -d' ' - "$scratch/inlined.counts" | awk '$1 ~ /^(innermost|outer|called|work)$/ { ran[$1] += $3 } END { for (name in ran) print name, ran[name] }' | sort |
	cmp -s - "$scratch/frames" && [ "$(wc -l <"$scratch/frames")" = 4 ]
result 'html has frames of inlined functions'

# Each place where the page adds something to the viewer is in the viewer once, or more than once.
sed -nE "/^const additions/,/^];/s/\['([^']*)', ['n]/\n\1\n/gp" tools/view/page.js | grep -E '[{(]$|\)$|=>\{$' >"$scratch/places"
while IFS= read -r place; do
	grep -qF -- "$place" third_party/speedscope/speedscope.js || echo "# $place is not in the viewer"
done <"$scratch/places" >"$scratch/absent"
[ "$(wc -l <"$scratch/places")" -ge 6 ] && [ ! -s "$scratch/absent" ] &&
	grep -qF 'format(e){return e.toLocaleString()' third_party/speedscope/speedscope.js && grep -qF "\"+' instr.'\"" tools/view/page.js
result 'the axis of html has a unit: speedscope is as the page expects' || cat "$scratch/absent"

# The frames of the middle are missing: a gap of the same number of records in dump, page and counters.
$view html -p "$program" --damaged -o "$scratch/page.html" "$scratch/flipped" 2>/dev/null && page "$scratch/page.html" >"$scratch/own"
missing=$($view dump -p "$program" --damaged "$scratch/flipped" 2>/dev/null | sed -nE 's/.*GAP ([0-9]+) records.*/\1/p')
[ "$missing" -gt 1000 ] && grep -q "^\[gap.* $missing$" "$scratch/own" && grep -q "\"missing\":$missing," "$scratch/page.html" &&
	refuses 1 'no branch of what is meant' $view html -p "$program" --from 99999999 -o "$scratch/none.html" "$trace" &&
	! ls "$scratch"/none.html* 2>/dev/null
result 'html shows a gap with its size, and writes no page without a branch'

refuses 1 'no frame of a trace stream' $view dump Makefile && : >"$scratch/empty" &&
	refuses 1 'no frame of a trace stream' $view rx "$scratch/empty" &&
	refuses 1 'No such file' $view stats "$scratch/none" &&
	refuses 2 'which trace' $view check && refuses 2 'is no number' $view dump --from x "$trace" &&
	refuses 1 "no task 'nobody'" $view dump -t nobody -p "$program" "$trace"
result 'foreign files, none, and wrong command lines: a sentence'

# Another sum, in a frame that is right: type 9, CRC32C over all before it, and no zero more than COBS takes.
perl -0777 -ne '
	sub crc { my $crc = 0xffffffff; for my $byte (unpack "C*", shift) { $crc ^= $byte; $crc = $crc >> 1 ^ ($crc & 1 ? 0x82f63b78 : 0) for 1 .. 8 } $crc ^ 0xffffffff }
	for my $chunk (split /(\0)/) {
		my $frame = "";
		for (my $rest = $chunk; length $rest > 1 && length $chunk < 250;) {
			my $code = ord $rest; $frame .= substr($rest, 1, $code - 1) . "\0"; $rest = substr($rest, $code);
		}
		chop $frame;
		print(ord $frame == 9 && length $frame == 48 ? do {
			substr($frame, 40, 1) ^= "\1"; substr($frame, 44, 4) = pack "V", crc(substr($frame, 0, 44));
			join "", map { chr(1 + length) . $_ } split /\0/, $frame, -1 } : $chunk);
	}' "$trace" >"$scratch/summed"
! cmp -s "$trace" "$scratch/summed" && refuses 1 'the records are not those that were sent' $view rx "$scratch/summed" &&
	refuses 1 'the records are not those that were sent' $view dump "$scratch/summed"
result 'records that are not those that were in the ring are refused'

# The version is byte 1 of the first frame's header, after the delimiter and the code of COBS.
perl -e 'use strict; binmode STDIN; local $/; my $in = <STDIN>; substr($in, 3, 1) = chr 2; print $in' <"$trace" >"$scratch/future"
refuses 1 'damaged' $view dump "$scratch/future"
result 'a frame that is not as it was sent is no frame'

# names FILE: what view calls the functions of a program of C++ and Rust
names()
{
	for symbol in "${symbols[@]}"; do
		address=$(nm "$scratch/named" | awk -v name="$symbol" '$3 == name { print $1 }')
		echo "$address -> $address"
	done >"$scratch/log"
	$view panic -e "$1" "$scratch/log" 2>"$scratch/said" | sed -nE 's/^ +([^ ].*)\+0x0 .*-> .*/\1/p' | tac
}

symbols=(_ZN3one3BoxIlE3getERKi _ZN4core3fmt5write17h0123456789abcdefE _RNvC4main4work main)
for symbol in "${symbols[@]}"; do
	echo "int $(tr -dc '[:alnum:]' <<<"$symbol")(int x) __asm__(\"$symbol\"); int $(tr -dc '[:alnum:]' <<<"$symbol")(int x) { return x + ${#symbol}; }"
done | gcc -w -O1 -x c -o "$scratch/named" - && strip -o "$scratch/stripped" "$scratch/named"
[ "$(names "$scratch/named")" = $'one::Box<long>::get(int const&)\ncore::fmt::write\nmain::work\nmain' ]
result 'functions of C++ and Rust have the names of their sources'

[ "$(names "$scratch/stripped")" = "$(for symbol in "${symbols[@]}"; do
	nm "$scratch/named" | awk -v name="$symbol" '$3 == name { sub(/^0+/, "", $1); print "stripped:0x" $1 }'
done)" ]
result 'functions of a stripped file have their start for a name'
exit $failed
