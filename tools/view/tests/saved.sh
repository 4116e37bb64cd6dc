#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# saved.sh: the packets of Intel PT that a program of ring 3 saves over COM2 (tests/user/controller.c), against the
# branches that the kernel has by BTS. On icelake they are of the same run, on skylake, which has one unit at a time, of
# another one. Prints TAP.
set -u
cd "$(dirname "$0")/../../.." || exit 2
view=build/view
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tested=saved
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# run TEST PROFILE OPTION...: the test, not skipped
run()
{
	local name=$1 profile=$2
	shift 2
	./run-qemu.sh -q -l "$scratch/log" -T 300 -t "$name" -r "$name" -M "pt=on profile=$profile" -a timeout=250 "$@" \
		>"$scratch/verdict" 2>&1 && return
	sed 's/^/# /' "$scratch/verdict"
	return 1
}

# received NAME: what has left by COM2 is a whole trace
received()
{
	$view rx -q -o "$scratch/$1.spt" "$scratch/$1" >"$scratch/said" 2>&1 &&
		$view check --programs build/user "$scratch/$1.spt" >"$scratch/tap" 2>&1 && ! grep '^not ok' "$scratch/tap" && return
	sed 's/^/# /' "$scratch/said" "$scratch/tap"
	return 1
}

# branches bts|pt TRACE: of the newest program, which the other one had started, in their order
branches()
{
	$view dump --programs build/user "$2" | unit=$1 perl -ne '
		/^\s*(\S+)\s+(\d+) \[\d+\] .*?: +(\S+ -> \S+)/ && ($1 eq "cpu") == ($ENV{unit} eq "pt") or next;
		push @{$of{$2}}, $3;
		END { print map { "$_\n" } @{$of{(sort { $a <=> $b } keys %of)[-1]}} }'
}

# same BTS PT [PATTERN]: of both that program has the same branches, 500 or more, of those that match
same()
{
	branches bts "$1" | grep -E "${3-.}" >"$scratch/by-bts" && branches pt "$2" | grep -E "${3-.}" >"$scratch/by-pt" && [ "$(wc -l <"$scratch/by-bts")" -ge 500 ] &&
		cmp "$scratch/by-bts" "$scratch/by-pt" && return
	wc -l "$scratch/by-bts" "$scratch/by-pt" | sed 's/^/# /'
	return 1
}

echo 1..5
run pt_user_saves icelake --com2 "$scratch/one" --trace "$scratch/bts.spt" && received one
result 'a program saves a session over COM2, and view takes it for a whole trace'
same "$scratch/bts.spt" "$scratch/one.spt"
result 'the program that it started has the branches that BTS recorded in the same run'

run pt_user_saves icelake --com2 "$scratch/two" -s 2 && received two && same "$scratch/bts.spt" "$scratch/two.spt"
result 'on two processors too'

run pt_user_saves skylake --com2 "$scratch/pt" && received pt && run user_given skylake --trace "$scratch/alone.spt" --program build/user/controller.elf 400 &&
	same "$scratch/alone.spt" "$scratch/pt.spt"
result 'of two runs of a processor that has one unit at a time'

run pt_user_saves broadwell --com2 "$scratch/ranges" && received ranges && same "$scratch/bts.spt" "$scratch/ranges.spt" '^walk\S* -> walk'
result 'on a processor without ranges, whose packets have the kernel too'
exit $failed
