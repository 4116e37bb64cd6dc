#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# signals.sh [COUNT [SEED]]: COUNT (40) runs of run-qemu.sh, each with one or two signals at a random
# moment, from its first line, before which no script can answer, to its verdict; prints TAP. Every run has to leave within
# seconds with the exit status and the sentence of the contract, without a process or a file.
set -u

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
count=${1:-40} RANDOM=${2:-$$}
seed=${2:-$$}
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{build,tools,tmp}
ln -s "$top/run-qemu.sh" "$top/Makefile" "$tree"
ln -s "$top"/tools/{judge,supervise} "$tree/tools"
touch "$tree"/build/{monitor.elf32,spoor.elf}
cd "$tree" || exit 2
signals=(HUP INT QUIT TERM USR1 USR2 ALRM PIPE)
export QEMU=$here/fake-qemu FAKE_LOG=$here/logs/pass.log FAKE_ACT='sleep 0.2' TMPDIR=$tree/tmp

catches_signals()
{
	local caught
	caught=$(sed -n 's/^SigCgt:[[:space:]]*/0x/p' "/proc/$1/status" 2>/dev/null)
	((caught >> 9 & 1)) # SIGUSR1, signal 10
}

# Prints what is wrong with a run that got these signals, if anything is.
fault()
{
	local code=$1 said verdict
	said=$(cat said)
	verdict=$(grep -c '^verdict: ' said)
	case $code in
	0) [[ $verdict = 1 && $said == *'verdict: pass (0): 3 pass'* ]] || echo "0 without its verdict" ;;
	130) [[ $verdict = 1 && $said == *'verdict: INTERRUPTED (130): '* ]] ||
		echo "130 without its verdict" ;;
	124) echo 'still there after 10 seconds' ;;
	*) echo "exit status $code" ;;
	esac
	[ -z "$(ls tmp)" ] || echo "left in TMPDIR: $(ls tmp)"
	grep -alsz "^SIGNALLED=$tree$" /proc/[0-9]*/environ | while read -r file; do
		echo "left running: $(tr '\0' ' ' <"${file%environ}cmdline")"
	done
}

echo "1..$count"
failed=0
for ((i = 1; i <= count; i++)); do
	first=${signals[RANDOM % 8]} second=${signals[RANDOM % 8]}
	delay=$(printf '0.%03d' $((RANDOM % (i % 4 ? 400 : 50))))
	env --default-signal="${signals[0]},INT,QUIT,PIPE" "SIGNALLED=$tree" timeout -k 1 10 ./run-qemu.sh -q >said 2>&1 &
	limit=$!
	until runner=$(pgrep -P $limit) && catches_signals "$runner"; do
		kill -0 $limit 2>/dev/null || break
	done
	sleep "$delay"
	kill -s "$first" "$runner" 2>/dev/null &&
		[ $((i % 3)) = 0 ] && kill -s "$second" "$runner" 2>/dev/null
	wait $limit
	code=$?
	wrong=$(fault $code)
	if [ -z "$wrong" ]; then
		echo "ok $i signals: $first after $delay s, exit $code"
	else
		echo "not ok $i signals: $first after $delay s; again: signals.sh $count $seed"
		echo "# ${wrong//$'\n'/$'\n# '}; $(tr '\n' ' ' <said)"
		failed=1
		rm -rf tmp/*
	fi
done
exit $failed
