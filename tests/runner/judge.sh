#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Feeds the logs of logs.sh to tools/judge and prints TAP: one result for each line of cases.txt, then one for each log, of
# which a stream has to get the exit status that the file gets.
set -u

here=$(cd "$(dirname "$0")" && pwd)
judge=$here/../../tools/judge
mapfile -t cases < <(grep -vE '^(#|$)' "$here/cases.txt")
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
# shellcheck source=tests/runner/logs.sh
. "$here/logs.sh"
recorded_logs "$made" || exit 1
logs=("$made"/*.log)

echo "1..$((${#cases[@]} + ${#logs[@]}))"
number=0 failed=0
for line in "${cases[@]}"; do
	read -r log arguments expected words <<<"$line"
	[ "$arguments" != - ] || arguments=''
	options=${arguments//,/ }
	# shellcheck disable=SC2086 # one word or several, none with a blank
	verdict=$("$judge" ${options//=/ } "$made/$log.log" 2>&1 >/dev/null)
	code=$?
	number=$((number + 1))
	if [ $code = "$expected" ] && [[ $verdict =~ $words ]]; then
		echo "ok $number judge $log $arguments"
	else
		echo "not ok $number judge $log $arguments"
		echo "# expected $expected: $words"
		echo "# got $code: $verdict"
		failed=1
	fi
done
for log in "${logs[@]}"; do
	"$judge" "$log" >/dev/null 2>&1
	expected=$?
	verdict=$("$judge" - <"$log" 2>&1)
	code=$?
	number=$((number + 1))
	if [ $code = $expected ]; then
		echo "ok $number judge - ${log##*/}"
	else
		echo "not ok $number judge - ${log##*/}"
		echo "# expected $expected as from the file, got $code: $verdict"
		failed=1
	fi
done
exit $failed
