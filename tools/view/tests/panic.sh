#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# panic.sh: `view panic` on the log of a panic in a traced task, as it is and as somebody pasted it;
# prints TAP. Judges: the names that the log itself has, and addr2line of binutils for the lines.
set -u
cd "$(dirname "$0")/../../.." || exit 2
view=build/view
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$scratch/panic.log
./run-qemu.sh -q -a unsafe=1 -t selftest_panic_traced -l "$log" >/dev/null 2>&1

tested=panic
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# refuses CODE WORDS COMMAND...: it leaves with CODE, says WORDS and prints nothing
refuses()
{
	local code=$1 words=$2 status=0
	shift 2
	"$@" >"$scratch/out" 2>"$scratch/said" || status=$?
	[ $status = "$code" ] && [ ! -s "$scratch/out" ] && grep -q "$words" "$scratch/said"
}

branches()
{
	sed -n '/ branches, oldest first:/,/ calls, oldest first:/p' "$1" | grep -e ' -> '
}

echo 1..10
$view panic "$log" >"$scratch/shown"
[ "$(branches "$scratch/shown" | wc -l)" = 32 ]
result 'all 32 branches are shown'

# The log has "FROM -> TO  name -> name", newest first.
grep -aoE '[0-9a-f]{16} -> [0-9a-f]{16}  .*' "$log" | tr -d '\r' | tac >"$scratch/raw"
sed -E 's/.*  (.*)/\1/' "$scratch/raw" | tr -s ' ' >"$scratch/expected"
branches "$scratch/shown" | sed -E 's/ \([^)]*\)//g; s/^ *//' | tr -s ' ' >"$scratch/names"
[ -s "$scratch/expected" ] && diff "$scratch/expected" "$scratch/names" | sed 's/^/# /' && [ "${PIPESTATUS[0]}" = 0 ]
result 'with the names that the kernel found, oldest first'

# The files' last names: addr2line has other directories for nasm's.
cut -d' ' -f1,3 "$scratch/raw" | tr ' ' '\n' | addr2line -e build/spoor.elf |
	sed 's/ (.*//; s|.*/||' | grep -v '?' >"$scratch/expected"
branches "$scratch/shown" | grep -oE '\([^ ]*:[0-9]+\)' | sed 's/[()]//g; s|.*/||' >"$scratch/lines"
[ "$(wc -l <"$scratch/expected")" -ge 4 ] && cmp -s "$scratch/expected" "$scratch/lines"
result 'and the lines that addr2line finds'

grep -A9 'calls, oldest' "$scratch/shown" | grep -qE '^    trap_stubs\+0x60 .*\(interrupt, exception'
result 'the exception is in the call tree, under its function'

# As from a chat: quoted, with time stamps, CR LF, cut in front, other text around it.
sed -nE '/last branches/,/claim/p' "$log" | tr -d '\r' | sed -E 's/^# */> [   12.345678] | /; s/$/\r/' >"$scratch/pasted"
$view panic - <"$scratch/pasted" | sed 's/^[^ ]*:[0-9]*:/log:/' >"$scratch/one"
sed 's/^[^ ]*:[0-9]*:/log:/' "$scratch/shown" | cmp -s - "$scratch/one" && [ -s "$scratch/one" ]
result 'a log that was pasted says the same'

cut -d' ' -f1-3 "$scratch/raw" | $view panic --oldest-first - | sed 's/^[^ ]*:[0-9]*:/log:/' | cmp -s - "$scratch/one" && [ -s "$scratch/one" ]
result 'and bare addresses, oldest first'

sed 's/chain_walk+0x[0-9a-f]*/&0/' "$log" >"$scratch/other.log"
refuses 1 'not the file that ran' $view panic "$scratch/other.log"
result 'a file that is not the one that ran is refused'

refuses 1 'no line has a branch' $view panic Makefile &&
	refuses 1 'No such file' $view panic "$scratch/none" &&
	refuses 2 'needs one log' $view panic
result 'a log without branches, no log: a sentence'

objcopy --strip-all build/spoor.elf "$scratch/stripped.elf"
refuses 1 'has no symbols' $view panic -e "$scratch/stripped.elf" "$log" &&
	refuses 1 'is not an ELF file' $view panic -e Makefile "$log" &&
	refuses 1 'x86-64' $view panic -e build/spoor.elf32 "$log"
result 'a stripped file, another kind of file: a sentence'

# All units of four CPUs: BTS stops first, and what the LBR stack has ends where the NMI or the exception enters the kernel.
./run-qemu.sh -q -a 'unsafe=1 freeze=panic' -s 4 -M 'profile=icelake pt=on' -t selftest_panic_units -l "$log" >/dev/null 2>&1
$view panic "$log" >"$scratch/shown"
cat >"$scratch/compare.pl" <<'END'
local $/;
my @of = map { [/^  (\S+.* -> .*)$/mg] } map { (split /calls, oldest first:/)[0] } split /^\S+: \d+ branches, oldest first:$/m, <>;
@of == 12 or die @of . " groups\n";
while (my ($bts, $pt, $lbr) = splice @of, 0, 3) {
	my $packets = join "\n", @$pt, '';
	@$bts > 20 && @$lbr > 4 or die 'only ' . @$bts . ' and ' . @$lbr . "\n";
	index($packets, join "\n", @$_, '') >= 0 or die "not in the packets:\n" . join "\n", @$_, '' for $bts, $lbr;
	$bts->[-1] eq $lbr->[-1] or die "$bts->[-1], $lbr->[-1]\n";
	$bts->[-1] =~ /trap_stubs/ or die "$bts->[-1]\n";
}
END
perl "$scratch/compare.pl" "$scratch/shown" 2>&1 | sed 's/^/# /' && [ "${PIPESTATUS[0]}" = 0 ]
result 'of each CPU BTS, the LBR stack and Intel PT have the same branches up to the same event'
exit $failed
