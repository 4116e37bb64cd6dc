#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# hostile.sh: logs that are made to hold tools/judge and tools/report up, or to get a pass; prints TAP. Each has so many seconds of
# CPU and so much memory.
# shellcheck disable=SC2317 # functions are run by name
set -u
cd "$(dirname "$0")/../.." || exit 2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tested=hostile
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# within SECONDS MB COMMAND...
within()
{
	(ulimit -t "$1" -v $(($2 << 10)) && shift 2 && exec "$@")
}

# log COUNT [WORDS [LINES]]: of so many results, a pass; the kernel's words, lines of Perl that are printed ahead of the last result
log()
{
	perl -we '
		my ($count, $words, $lines) = @ARGV;
		print "# spoor version=0.1 git=0\n# command_line=\"$words\"\n# silicon=virtual hypervisor=\"SpoorMonitor\"\nKTAP version 1\n1..$count\n";
		print "ok $_ bts_wrap\n" for 1 .. $count - 1;
		print eval $lines, "ok $count bts_wrap\n# SPOOR DONE silicon=virtual pass=$count fail=0 skip=0 error=0 xfail=0 obs=0 rc=0\n"' "$1" "${2-end=exit}" "${3-""}"
}

# judged CODE WORDS COMMAND...: on what COMMAND prints, as a file and as a console, in 20 s and 600 MB: 3 s on an idle machine
judged()
{
	local code=$1 words=$2 way said got
	shift 2
	"$@" >"$scratch/log"
	for way in "$scratch/log" -; do
		said=$(within 20 600 tools/judge "$way" <"$scratch/log" 2>&1)
		got=$?
		[ $got = "$code" ] && [[ $said =~ $words ]] && [ ${#said} -le 6000 ] && continue
		echo "# judge $way: exit $got: ${said:0:300}"
		return 1
	done
}

one_line() { head -c 60000000 /dev/zero | tr '\0' A; }
judged 4 'no KTAP header; the last line: AAAA' one_line
result 'a console without a line'

judged 4 'a line has more than 65536 bytes' log 3 end=exit '"# " . "a" x 65535 . "\n"'
result 'a line of a result that is too long'

judged 0 'verdict: pass \(0\): 3 pass' log 3 end=exit '"# " . "a" x 65534 . "\n"'
result 'one that is as long as it can be'

firmware_draws() { perl -e 'print "\e[1;1HBIOS" x 30000, "\n"' && log 3; }
judged 0 'verdict: pass \(0\): 3 pass' firmware_draws
result 'firmware that draws without a newline, and then the banner'

judged 4 'the log has more than 67108864 bytes' log 3 end=exit '("# " . "a" x 60000 . "\n") x 1200'
result 'a log that is too long'

judged 4 'the log has more than 1000000 lines' log 3 end=exit '"# \n" x 1000000'
result 'a log of too many lines'

judged 0 'verdict: pass \(0\): 200000 pass' log 200000
result 'a log of 200,000 results'

judged 4 'not a line of the contract' log 3 end=exit '("\r" x 60000 . "a\n") x 200 . "a" . "\0" x 60000 . "a\n"'
result 'carriage returns and NULs that end no line'

# Each star of a glob could be anywhere.
many_stars() { log 3 "end=exit require=$(printf '*a%.0s' {1..12})?b" '"ok 3 " . "a" x 2000 . "bbb # SKIP no\n"' | sed '/^ok 3 bts_wrap/d; s/pass=3 fail=0 skip=0/pass=2 fail=0 skip=1/'; }
judged 0 'verdict: pass \(0\): 2 pass, 1 skip' many_stars
result 'a require= of many stars that does not match'

found=0
for glob in 'bts_*' '*w*p' '*_w?ap' '*' 'bts_wrap' 'b*s**wrap'; do
	some_stars() { log 2 "require=$glob" '"ok 2 bts_wrap # SKIP no\n"' | sed '/^ok 2 bts_wrap$/d; s/pass=2 fail=0 skip=0/pass=1 fail=0 skip=1/'; }
	judged 4 'the banner says require=.*, but: ok 2 bts_wrap # SKIP no' some_stars && found=$((found + 1))
done
[ $found = 6 ]
result 'a require= of stars that does'

one_line >"$scratch/log" && one_line >>"$scratch/log"
said=$(within 20 600 tools/report "$scratch/log")
[ $? = 1 ] && [[ $said == *'the log has more than 67108864 bytes'* ]]
result 'report of a log that is too long'

echo "1..$number"
exit $failed
