#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# kunit.sh [--fetch]: Linux' kunit.py reads the recorded logs; prints TAP. Of each log that tools/judge does not refuse,
# what it writes for KernelCI has to be the tests of the log with their results, and its exit status that of the run. It is
# in Debian's package linux-source-6.1 (139 MB), of which --fetch unpacks it in build/kunit/; nothing is installed.
# shellcheck disable=SC2317 # functions are run by `try`
set -u
cd "$(dirname "$0")/../.." || exit 2
logs=$PWD/tests/runner/logs
kunit=build/kunit/tools/testing/kunit/kunit.py # which looks for its tree in its path
tested=kunit.py
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

fetch()
{
	mkdir -p build/kunit && (cd "$scratch" && apt-get download -q linux-source-6.1 >&2) &&
		dpkg-deb --fsys-tarfile "$scratch"/*.deb | tar -xO --wildcards '*/linux-source-*.tar.xz' |
		tar -xJ -C build/kunit --strip-components=1 --wildcards '*/tools/testing/kunit/*.py'
}

# The log's tests and results in the words of KernelCI.
of_log()
{
	tr -d '\r' <"$1" | sed -nE 's/^ok [0-9]+ ([a-z0-9_]+) # SKIP.*/\1 SKIP/p; t
		s/^ok [0-9]+ ([a-z0-9_]+).*/\1 PASS/p; s/^not ok [0-9]+ ([a-z0-9_]+).*/\1 FAIL/p'
}

of_kunit()
{
	"$kunit" parse --json="$scratch/json" "$1" >"$scratch/said" 2>&1
	echo $? >"$scratch/code"
	sed -nE 's/^ +"name": "([a-z0-9_]+)",$/\1/p; s/^ +"status": "([A-Z]+)"$/\1/p' "$scratch/json" | paste -d ' ' - -
}

# agrees LOG CODE: CODE is the judge's. kunit.py of Linux 6.1 leaves with 1 if a test failed.
agrees()
{
	rm -f "$scratch/json"
	diff <(of_log "$1") <(of_kunit "$1") && [ "$(cat "$scratch/code")" = $(($2 == 1 || $2 == 2)) ]
}

scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
if ! [ -e "$kunit" ]; then
	[ "${1-}" = --fetch ] || { echo "1..0 # SKIP kunit.py is missing: 'make check-kunit' fetches it"; exit; }
	fetch || { echo 'Bail out! cannot fetch linux-source-6.1: Debian 12, and apt-get update'; exit 1; }
fi
for log in "$logs"/*.log; do
	tools/judge "$log" >/dev/null 2>&1
	code=$?
	# It wants a test in the plan, and the header at the beginning of its line: no escapes of a terminal.
	if [ $code -le 3 ] && grep -q '^1\.\.[1-9]' "$log" && grep -q '^KTAP' "$log"; then
		try "${log##*/}" 0 '^$' agrees "$log" $code
	fi
done
[ $number -gt 10 ]
result 'there were logs to read'
echo "1..$number"
exit $failed
