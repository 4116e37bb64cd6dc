#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# restart.sh [OPTION of run-qemu.sh...]: tests that hang, panic or crash the machine, and all others, in QEMU: prints TAP. A run
# with them has to name exactly those, and to have every result that a run without them has. Without options: each way to boot.
set -u
# shellcheck source=tests/runner/tap.sh
cd "$(dirname "$0")/../.." && . tests/runner/tap.sh || exit 2
tested=restart
made=build/check
mkdir -p $made

others='ds_*,smp_call*,user_times,pt_after_reset,selftest_panic_deaf_after'
few='ds_*,user_times' # a menu's words are 255 bytes
hang=selftest_hang,selftest_hang_interrupts_off,selftest_hang_waits
panic=selftest_panic_mid_line,selftest_double_fault
locked=selftest_panic_locked # on CPU 3 of four
several=$locked,selftest_panic_deaf,selftest_panic_boot_deaf

# results LOG: what each test is, a line each, without numbers and reasons
results() { tr -d '\r' <"$1" | sed -nE 's/^(not )?ok [0-9]+ ([a-z0-9_]+)( # [A-Z]+)?.*/\2 \1\3/p'; }

# goes_on NAME RESTARTS CULPRITS OPTION...: prints what is wrong
goes_on()
{
	local name=$1 restarts=$2 culprits=$3 log=$made/restart-$1 code names seed
	shift 3
	IFS=, read -ra names <<<"$culprits"
	./run-qemu.sh -q -T 240 -l "$log-without.log" -t "$others" -a 'repeat=2 seed=1' "$@" 2>"$log-without"
	rm -f "$log.log".boot*
	./run-qemu.sh -q -T 240 -l "$log.log" -t "$others,$culprits" -a 'repeat=2 timeout=4' "$@" 2>"$log" >"$log.failed"
	code=$?
	[ $code = 2 ] || echo "exit status $code"
	diff <(results "$log-without.log") <(results "$log.log" | grep -vE "^(${culprits//,/|}) ") || echo 'other results'
	diff <(printf '%s not  # ERROR\n' "${names[@]}" "${names[@]}" | sort) \
		<(results "$log.log" | grep -E "^(${culprits//,/|}) " | sort) || echo 'other culprits'
	grep -c '^# spoor version=' "$log.log" | grep -qx 1 || echo 'not one banner'
	tr -d '\r' <"$log.log" | grep -q "^# SPOOR DONE .* restarts=$restarts\$" || echo "not restarts=$restarts: $(grep '^# SPOOR DONE' "$log.log")"
	! grep '^# a line' "$log.log" | grep -v '^# a line that another CPU prints, to its end.\?$' || echo 'a line was cut'
	seed=$(sed -n 's/^# tsc_hz=.* seed=\([0-9]*\) .*/\1/p' "$log.log")
	diff <(sed -n 's/^# again: .* seed=\([0-9]*\).*/\1/p' "$log.log" | sort -nu) <(printf '%s\n' "$seed" $((seed + 1))) || echo 'other seeds'
	[ "$(wc -l < <(results "$log-without.log"))" -gt 20 ] || echo 'too few results'
}

at_once=3 # they wait for the time limits of tests more than they run
ways=()

# way RESTARTS CULPRITS NAME OPTION...: begins it
way()
{
	[ ${#ways[@]} -lt $at_once ] || wait -n
	ways+=("$3")
	goes_on "$3" "$1" "$2" "${@:4}" >"$made/restart-$3.wrong" 2>&1 &
}

if [ $# -gt 0 ]; then
	way 8 $hang,$panic given "$@"
else
	way 14 $hang,$panic,$several kernel -s 4
	way 14 $hang,$panic,$several alone -K -s 4
	way 14 $hang,$panic,$several ubsan -u -s 4
	way 6 selftest_panic_deaf,selftest_panic_mid_line,selftest_panic_beside_lines packets -s 3 -M 'profile=icelake pt=on'
	# Each triple fault is another boot.
	way 6 selftest_hang,selftest_panic_mid_line,selftest_fault_locked,selftest_triple_fault triple -s 2
	# So is each processor that answers no NMI or no INIT; a test has to follow.
	others+=,selftest_skip
	way 4 selftest_panic_boot_gone,selftest_panic_no_init silent -K -s 3
	others=$few
	way 10 $hang,$panic,$locked iso -b iso -s 4
	way 10 $hang,$panic,$locked pxe -b pxe -f uefi -s 4
fi
wait
for name in "${ways[@]}"; do
	[ ! -s "$made/restart-$name.wrong" ]
	result "$name: exactly those tests are in error, and all others are as without them" ||
		sed "s|^|# |; \$a# $made/restart-$name.log" "$made/restart-$name.wrong"
done
echo "1..$number"
exit "$failed"
