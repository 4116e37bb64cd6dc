#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of `tools/judge -`, which reads a console while the machine runs; prints TAP.
# shellcheck disable=SC2317 # functions are run by name
set -u
cd "$(dirname "$0")/../.." || exit 2
logs=tests/runner/logs
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# console COMMAND...: the judge's options are in `options`; its console is what COMMAND writes, and stays open after it for
# longer than any of these tests takes. Prints what the judge says and how many seconds it took.
console()
{
	local started=$SECONDS code
	mkfifo "$scratch/console"
	{ "$@"; exec sleep 100; } >"$scratch/console" &
	timeout 20 tools/judge "${options[@]}" - <"$scratch/console" 2>&1
	code=$?
	kill $!
	rm "$scratch/console"
	echo "exit $code, $((SECONDS - started <= 9 ? 1 : 0))"
}

leaves_at_done() { options=() && console cat "$logs/pass.log"; }
reboots() { sed 's/end=exit/end=reboot/' "$logs/pass.log" && echo SeaBIOS; }
leaves_before_reboot() { options=() && console reboots; }
says_more_after_done() { cat "$logs/pass.log" && sleep 0.3 && echo 'ok 4 bts_late'; }
reads_after_done() { options=() && console says_more_after_done; }
leaves_at_second_boot() { options=() && console cat "$logs/two-boots.log"; }
never_boots() { options=(--boot 1) && console echo 'GRUB loading'; }
silent() { options=(--silence 1) && console cat "$logs/truncated.log"; }
beats() { head -n 8 "$logs/pass.log" && sleep 1.5 && echo '# beat ts=1 test=bts_wrap' && sleep 1.5 && tail -n 2 "$logs/pass.log"; }
slow_but_alive() { options=(--silence 3) && console beats; }
chatters() { head -n 8 "$logs/pass.log" && while sleep 0.2; do echo noise; done; }
noise_is_silence() { options=(--silence 2) && console chatters; }
panics() { grep -v DONE "$logs/panic.log"; }
panic_is_no_timeout() { options=(--silence 1) && console panics; }
keeps_and_copies()
{
	options=(--keep "$scratch/kept" --copy)
	console cat "$logs/pass.log" >"$scratch/copied"
	cmp "$scratch/kept" "$logs/pass.log" && cmp <(head -c "$(stat -c %s "$logs/pass.log")" "$scratch/copied") "$logs/pass.log" &&
		tail -n 2 "$scratch/copied"
}

# No line of the console passes for the verdict, in whatever pieces it arrives; what was held back is not lost.
in_pieces() { while IFS= read -rn 1 -d '' byte; do printf %s "$byte" && sleep 0.001; done; }
pretends()
{
	{ head -n 5 "$logs/pass.log" && echo 'verdict: pass (0)' && printf verd; } | in_pieces |
		tools/judge --copy - 2>&1 | grep -a verd
}

# One that is stopped from outside says so, and what it had seen.
interrupted()
{
	mkfifo "$scratch/console"
	rm -f "$scratch/kept"
	{ cat "$logs/truncated.log"; exec sleep 100; } >"$scratch/console" &
	local machine=$!
	tools/judge --keep "$scratch/kept" - <"$scratch/console" 2>"$scratch/said" &
	until [ -s "$scratch/kept" ]; do sleep 0.1; done
	kill "$!"
	wait "$!"
	echo "exit $?, $(cat "$scratch/said")"
	kill "$machine"
	rm "$scratch/console"
}

junit() { tools/judge --junit "$scratch/junit.xml" - <"$logs/every-kind.log"; xmllint --noout --schema tests/runner/junit.xsd "$scratch/junit.xml" 2>&1; }

tests=(
	'leaves_at_done|verdict: pass \(0\).*exit 0, 1'
	'leaves_before_reboot|verdict: pass \(0\).*exit 0, 1'
	'reads_after_done|CRASH \(4\): a line after the DONE line: ok 4 bts_late.*exit 4, 1'
	'leaves_at_second_boot|CRASH \(4\): more than one boot.*exit 4, 1'
	'never_boots|TIMEOUT \(124\): the kernel did not reach its tests.*GRUB loading; nothing more for 1 s .--boot.*exit 124, 1'
	'silent|TIMEOUT \(124\): 1 of 3 results came, the last: ok 1 ds_enumerated; nothing more for 1 s.*exit 124, 1'
	'slow_but_alive|verdict: pass \(0\).*exit 0, 1'
	'noise_is_silence|TIMEOUT \(124\): 2 of 3 results came.*nothing more for 2 s.*exit 124, 1'
	'panic_is_no_timeout|CRASH \(4\): the guest panicked: # panic: #GP.*exit 4, 1'
	'keeps_and_copies|verdict: pass \(0\): .*log: .*/kept.exit 0, 1'
	'pretends|^> verdict: pass \(0\).verd.verdict: CRASH \(4\)[^$]*$'
	'interrupted|exit 130, verdict: INTERRUPTED \(130\): interrupted; 1 of 3 results came'
	'junit|junit.xml validates'
)
echo "1..${#tests[@]}"
failed=0
for number in "${!tests[@]}"; do
	name=${tests[number]%%|*} words=${tests[number]#*|}
	said=$("$name" 2>"$scratch/errors")
	if [[ $said =~ $words ]]; then
		echo "ok $((number + 1)) judge -: $name"
	else
		echo "not ok $((number + 1)) judge -: $name"
		echo "# expected: $words"
		echo "# got: ${said//$'\n'/$'\n# '}"
		failed=1
	fi
done
exit $failed
