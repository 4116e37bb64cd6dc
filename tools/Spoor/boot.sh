# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Boots for run-qemu.sh, which sources it: QEMU under tools/supervise, and another boot where one died.
# shellcheck disable=SC2154 # the variables of run-qemu.sh

stop() { while kill "${!-}" 2>/dev/null; do sleep 0.1; done; } # one that has only just been started may lose a signal

# run LOG...: one boot, whose console goes to these files. Sets `status`: QEMU's exit status, `timeout` or `interrupt`.
# Signals are held until judge() ignores them.
run()
{
	local limit copy=$((1 - (quiet | list)))
	limit="$timeout*$((smp < processors ? smp : processors))"
	if [ "$gdb" = 1 ]; then
		limit=0
		echo "run-qemu.sh: waiting for: gdb -ex 'target remote :1234' $build/spoor.elf" >&2
	fi

	if [ "$interactive" = 1 ]; then
		"${command[@]}" 2>"$scratch/errors" | tee "$@"
		status=${PIPESTATUS[0]}
		return
	fi
	trap 'interrupted=1; stop' "${signals[@]}"
	rm -f "$scratch/status"
	"$top/tools/supervise" "$limit" $copy "$scratch/status" "$scratch/errors" "$@" -- "${command[@]}" &
	[ "$interrupted" = 0 ] || stop # it was not yet there
	wait "$!"
	local left=$?
	if ! read -r status 2>/dev/null <"$scratch/status"; then
		[ "$interrupted" = 1 ] || die "the console log could not be written in full, supervise left" \
			"with $left; is the disk full?"
		status=interrupt
	fi
	[ "$status-$accel" != timeout-kvm ] ||
		echo "run-qemu.sh: a host that lacks unrestricted guests interprets firmware and boot" \
			"loader under KVM, which takes minutes: raise -T, or leave GRUB out with" \
			"--boot kernel, or take --accel tcg" >&2
}

# Of a run of Spoor's tests with one log, which can be written again.
may_boot_again()
{
	[ "$boots" -gt 1 ] && [ "$gdb-$list-$interactive-$trace$linux" = 0-0-0- ] && [[ -z $log || -f $log ]]
}

# The words for another boot, which SMBIOS may have no room for: command_for_grub()
have_room()
{
	[ "$boot-$emulator" = kernel-qemu ] || [ "$emulator" = bochs ] || [ $((${#kernel_words} + ${#monitor_words} + 20)) -le 255 ]
}

# Boots until each test has a result: tools/resume joins the boots' logs. A boot that does not go on where the one before
# it ended adds nothing. Sets `status` to what belongs to the console's log; $kept.boot1 and so on are those of the boots.
boot_all()
{
	local nth=1 next='' from='' words why='' ended='' first=$kernel_words console=$scratch/console
	run "$console" ${log:+"$log"}
	may_boot_again || return 0
	while "$top/tools/resume" --status "$status" --errors "$scratch/errors" ${from:+--from "$from" --why "$why"} \
		"$scratch/whole" "$console" >"$scratch/next" 2>"$scratch/said"; do
		{ read -r next from words; read -r why; } <"$scratch/next"
		ended=$status
		[ "$next" = next ] || { ended=$from && break; }
		kernel_words="$first $words"
		if [ "$nth" = "$boots" ] || [ "$interrupted" = 1 ] || ! have_room; then break; fi
		keep_boot
		nth=$((nth + 1))
		compose
		run "$console"
	done
	[ "$interrupted" = 0 ] || [ "$next" = end ] || ended=interrupt
	if [ $nth = 1 ]; then
		[ "$ended" != interrupt ] || status=interrupt
		return
	fi
	keep_boot
	status=$ended
	cp "$scratch/whole" "$console" || die 'cannot write the log; is the disk full?'
	[ -z "$log" ] || cp "$console" "$log" || die "cannot write the log $log; is the disk full?"
	echo "run-qemu.sh: $nth boots: $kept.boot1 to .boot$nth" >&2
}

keep_boot() { cp "$console" "$kept.boot$nth" || die "cannot write $kept.boot$nth; is the disk full?"; }
