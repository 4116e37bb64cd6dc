#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of tools/contents with the images that are built, in a directory as tools/release fills it, of what tools/container
# takes along, of the tests that tools/load chooses, and of the jumps of the monitor: prints TAP.
# shellcheck disable=SC2317,SC2016 # functions are run by `try`, and a pattern has a `$`
set -u
cd "$(dirname "$0")/../.." || exit 2
# shellcheck source=tests/runner/tap.sh
. tests/runner/tap.sh
tested=contents
made=$(mktemp -d) || exit 2
trap 'rm -rf "$made"' EXIT

# release_of NAME: such a directory. What is not an image may be empty.
release_of()
{
	mkdir -p "$made/$1/lists" && cp -r build/spoor.iso build/pxe boot/grub/41_spoor docs/tests.md LICENSE "$made/$1" &&
		touch "$made/$1"/{result,monitor.elf,spoor-container.tar,lists/12345678.list}
}

# listed: the parts of the ISO in a list, and the texts that are kept
listed()
{
	tools/contents "$made/whole" && grep -c 'Version 3, 29 June 2007' "$made/whole/LICENSES/GPL-3.0-or-later.txt" &&
		grep -c 'Version 2, June 1991' "$made/whole/LICENSES/GPL-2.0-or-later.txt" &&
		grep -h 'Copyright' "$made/whole/LICENSES"/{MIT,qrcodegen}.txt
}

# with_file: a file is put into the ISO
with_file()
{
	echo more >"$made/text"
	xorriso -dev "$made/more.iso/spoor.iso" -boot_image any keep -map "$made/text" /boot/more >"$made/said" 2>&1 ||
		{ cat "$made/said" && return 9; }
	tools/contents "$made/more.iso"
}

# What the runner, its parts and the judge call must be in the container. Bochs and Linux guests are not.
not_in_container()
{
	local file
	for file in $(grep -ohE '\$top/tools/[a-z-]+' run-qemu.sh tools/Spoor/boot.sh | sed 's|^.top/||' | sort -u) boot/contents.txt; do
		[ "$file" = tools/bochs ] || grep -qE "(^|[ 	])$file( |\$)" tools/container || echo "$file"
	done
	grep -ohE '\$top/tools/[a-z-]+' run-qemu.sh tools/Spoor/boot.sh | sort -u | wc -l
}

for name in whole more more.iso less; do release_of $name || exit 2; done
try 'each file, part and licence' 0 \
	'spoor.iso:boot-sector +GPL-3.0-or-later +grub2 [0-9].*spoor.iso:boot/spoor.elf +MIT AND GPL-2.0.* unifont 1:.*EFI/BOOT/BOOTX64.EFI +GPL-3.*Spoor authors.*Nayuki' listed
touch "$made/more/pxe/stray"
try 'a file that nobody listed' 1 'contents: pxe/stray is in no line of boot/contents.txt' tools/contents "$made/more"
try 'a file in the ISO that nobody listed' 1 'contents: spoor.iso:boot/more is in no line of boot/contents.txt' with_file
rm "$made/less/pxe/spoor.ipxe"
try 'a file that is not there' 1 'contents: pxe/spoor.ipxe of boot/contents.txt is not there' tools/contents "$made/less"
try 'a container has what it runs' 0 '^[4-9]$' not_in_container
try 'what waits is run beside a load' 0 $'\nptrace_debugger_runs\n' tools/load --list
try 'what does not wait is not' 1 '^$' bash -c 'tools/load --list | grep -x lbr_driver_reads'
# The interpreter goes from block to block by jumps: calls would fill its stack.
goes_on()
{
	objdump -d build/monitor.elf build/clang/monitor.elf 2>/dev/null |
		awk '/call.*<go_on>/ { calls++ } /jmp.*<go_on>/ { jumps++ } END { print calls + 0, jumps + 0 }'
}
try 'by either compiler nothing calls what goes on' 0 '^0 [1-9]' goes_on
echo "1..$number"
exit $failed
