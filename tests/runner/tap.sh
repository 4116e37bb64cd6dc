# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For tests in shell, which source it: results as TAP, each beginning with $tested. A test ends with
# `exit $failed`.
number=0 failed=0

# result CLAIM: of the last command's exit status, which it returns as 0 or 1. CLAIM has no $(...): its status would be taken.
result()
{
	local status=$?
	number=$((number + 1))
	[ $status = 0 ] && { echo "ok $number $tested: $1"; return; }
	echo "not ok $number $tested: $1"
	failed=1
	return 1
}

# try NAME CODE WORDS COMMAND...: the exit status, and a regular expression for all it printed.
try()
{
	local name=$1 expected=$2 words=$3 said code
	shift 3
	said=$("$@" 2>&1)
	code=$?
	[ $code = "$expected" ] && [[ $said =~ $words ]]
	result "$name" || printf '# expected %s: %s\n# got %s: %s\n' "$expected" "$words" "$code" "${said//$'\n'/$'\n# '}"
}
