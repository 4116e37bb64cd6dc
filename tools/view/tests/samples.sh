#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# samples.sh: the stacks of samples that a program of ring 3 saves over COM2 (tests/user/stacks.c): of a program of which
# three quarters are inner() called by middle(), and the rest inner() called by outer(). Prints TAP.
set -u
cd "$(dirname "$0")/../../.." || exit 2
view=build/view
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

tested=samples
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh

# folded PROFILE TEST: the stacks of what the test saves
folded()
{
	./run-qemu.sh -q -l "$scratch/log" -T 300 -t "$2" -r "$2" -M "profile=$1" -a timeout=250 --com2 "$scratch/line" \
		>"$scratch/said" 2>&1 && $view rx -q -o "$scratch/spt" "$scratch/line" >>"$scratch/said" 2>&1 &&
		$view stacks "$scratch/spt" >"$scratch/folded" 2>>"$scratch/said" && return
	sed 's/^/# /' "$scratch/said"
	return 1
}

# share PATTERN LEAST MOST: so many percent of the samples have such a stack
share()
{
	pattern=$1 least=$2 most=$3 perl -ne '
		my ($stack, $count) = /^(.*) (\d+)$/ or die "no folded stack: $_";
		$all += $count; $of += $count if $stack =~ /$ENV{pattern}/;
		END { $all ||= 1; $of = 100 * $of / $all; print "# $ENV{pattern}: $of % of $all\n";
		exit !($of >= $ENV{least} && $of <= $ENV{most}) }' "$scratch/folded"
}

# calls: what a profile by calls has to say of that program
calls()
{
	share '^stacks;.*work;outer;middle;inner$' 60 85 && share '^stacks;.*work;outer;inner$' 12 35 &&
		share '^stacks;.*work;' 97 100
}

echo 1..5
folded haswell samples_user_saves && calls
result 'samples at interrupts have the calls that a program is in, by their share'

grep -q '^[0-9]* samples, \([0-9]*\) at interrupts' "$scratch/said" &&
	[ "$(sed -n 's/^\([0-9]*\) samples, .*/\1/p' "$scratch/said")" = "$(sed -n 's/^.* samples, \([0-9]*\) at interrupts.*/\1/p' "$scratch/said")" ]
result 'all of them are counted as of interrupts'

folded icelake samples_user_saves_precise && calls && grep -q '^[0-9]* samples, 0 at interrupts' "$scratch/said"
result 'those of PEBS have them as well, and none is of an interrupt'

folded nehalem samples_user_saves && share '^stacks;inner;inner\S*->inner\S*;inner\S*->inner' 70 100
result 'without call stacks samples have the newest branches: the loop'

$view rx -q -o "$scratch/whole.spt" "$scratch/line" >/dev/null 2>&1 && $view stacks --depth=1 "$scratch/whole.spt" 2>/dev/null |
	grep -q '^stacks;[a-z_]*;[^;]* [0-9]*$' && ! $view stacks --cpu=63 "$scratch/whole.spt" >/dev/null 2>&1
result 'fewer branches where fewer are wanted, and none of a CPU that there is not'
exit $failed
