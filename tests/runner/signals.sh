#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# signals.sh [COUNT [SEED]]: COUNT (80) runs of run-qemu.sh, and two; prints TAP. These two get one
# just before and just after QEMU is started. Of the others the first half gets a signal at moments spread over its
# first 45 ms, the others one or two at random moments, from the first line, before which no script can answer, to the verdict.
# Every run has to leave within seconds with the exit status and the sentence of the contract, without a process or a file.
set -u
# What a shell finds ignored when it starts, as nohup leaves HUP, it cannot trap.
[ -n "${DEFAULT_SIGNALS-}" ] || DEFAULT_SIGNALS=1 exec env --default-signal bash "$0" "$@"

# shellcheck source=tests/runner/tree.sh
. "$(dirname "$0")/tree.sh" || exit 2
count=${1:-80} RANDOM=${2:-$$}
seed=${2:-$$}
mkdir tmp
signals=(HUP INT QUIT TERM USR1 USR2 ALRM PIPE)
export FAKE_ACT='sleep 0.2' TMPDIR=$tree/tmp

catches_signals()
{
	local caught
	caught=$(sed -n 's/^SigCgt:[[:space:]]*/0x/p' "/proc/$1/status" 2>/dev/null)
	((caught >> 9 & 1)) # SIGUSR1, signal 10
}

left()
{
	grep -alsz "^SIGNALLED=$tree$" /proc/[0-9]*/environ
}

# Prints what is wrong with a run that got these signals, if anything is. What only says its version may end a moment later.
fault()
{
	local code=$1 said verdict
	for _ in {1..10}; do
		left >/dev/null || break
		sleep 0.2
	done
	said=$(cat said)
	verdict=$(grep -c '^verdict: ' said)
	case $code in
	0) [[ $verdict = 1 && $said == *'verdict: pass (0): 3 pass'* ]] || echo "0 without its verdict" ;;
	130) [[ $verdict = 1 && $said == *'verdict: INTERRUPTED (130): '* ]] ||
		echo "130 without its verdict" ;;
	124) echo 'still there after 10 seconds' ;;
	129 | 138 | 143) [ -z "$said" ] || echo "killed after its first line" ;;
	lost) echo 'the signal is lost: the run went on to its end' ;;
	*) echo "exit status $code" ;;
	esac
	[ -z "$(ls tmp)" ] || echo "left in TMPDIR: $(ls tmp)"
	left | while read -r file; do
		echo "left running: $(tr '\0' ' ' <"${file%environ}cmdline")"
	done
}

# The shell itself starts it, whose background jobs are deaf to INT: what is between would take longer than a moment. Between
# fork and exec it is a part of this shell, which takes signals itself and forgets them.
early()
{
	local some=(HUP TERM USR1) words=()
	first=${some[i % 3]} delay=$(printf '0.%04d' $((i * 900 / count)))
	SIGNALLED=$tree FAKE_ACT='sleep 5' ./run-qemu.sh -q -T 9 >said 2>&1 &
	runner=$!
	while [[ " ${words[*]-} " != *' ./run-qemu.sh '* ]]; do
		mapfile -d '' -t words <"/proc/$runner/cmdline"
	done
	moment="after $delay s"
	sleep "$delay"
	kill -s "$first" "$runner"
	wait "$runner" 2>/dev/null
	code=$?
	[ $code != 0 ] || code=lost
}

late()
{
	local second=${signals[RANDOM % 8]} limit
	first=${signals[RANDOM % 8]} delay=$(printf '0.%03d' $((RANDOM % 400)))
	env --default-signal="${signals[0]},INT,QUIT,PIPE" "SIGNALLED=$tree" timeout -k 1 10 ./run-qemu.sh -q >said 2>&1 &
	limit=$!
	until runner=$(pgrep -P $limit) && catches_signals "$runner"; do
		kill -0 $limit 2>/dev/null || break
	done
	moment="after $delay s"
	sleep "$delay"
	kill -s "$first" "$runner" 2>/dev/null &&
		[ $((i % 3)) = 0 ] && kill -s "$second" "$runner" 2>/dev/null
	wait $limit
	code=$?
}

# start 1: just before the line that starts QEMU in the background; 2: just after it.
start()
{
	local moments=(- before after)
	first=USR1 moment="${moments[$1]} QEMU's start"
	rm -r tools/Spoor
	cp -r "$top/tools/Spoor" tools
	awk -v when="$1" 'when == 1 && /\/supervise" / { print "kill -USR1 $$" } { print }
		when == 2 && / &$/ { print "kill -USR1 $$" }' "$top/tools/Spoor/boot.sh" >tools/Spoor/boot.sh
	[ "$(grep -c '^kill' tools/Spoor/boot.sh)" = 1 ] || echo "# run-qemu.sh starts QEMU in another way"
	SIGNALLED=$tree ./run-qemu.sh -q >said 2>&1
	code=$?
	[ $code != 0 ] || code=lost
}

echo "1..$((count + 2))"
failed=0
for ((i = 1; i <= count + 2; i++)); do
	if ((i > count)); then start $((i - count)); elif ((i * 2 <= count)); then early; else late; fi
	wrong=$(fault $code)
	if [ -z "$wrong" ]; then
		echo "ok $i signals: $first $moment, exit $code"
	else
		echo "not ok $i signals: $first $moment; again: signals.sh $count $seed"
		echo "# ${wrong//$'\n'/$'\n# '}; $(tr '\n' ' ' <said)"
		failed=1
		rm -rf tmp/*
	fi
done
exit $failed
