# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# For tests of tools in shell, which source it: a tree in which fake-qemu is QEMU is the current directory, and goes at the
# end. Sources tap.sh and logs.sh.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
tree=$(mktemp -d) || exit 2
# A signal may meet a child that is not yet another program.
trap '[ $BASHPID != $$ ] || rm -rf "$tree"' EXIT
mkdir -p "$tree"/build/{pxe,grub} "$tree/tools/guests"
ln -s "$top/run-qemu.sh" "$top/Makefile" "$tree"
ln -s "$top"/tools/{judge,bench,check,faults,kvm-switches,lockstep,mutants,mutate,resume,supervise,view,Spoor} "$tree/tools"
ln -s "$top"/tools/guests/{check-kut,guests.mk} "$tree/tools/guests"
ln -s "$top"/{README.md,boot,docs,kernel,drivers,lib,include,monitor} "$tree"
touch "$tree"/build/{monitor.elf32,spoor.elf32,spoor.elf,spoor.iso,pxe/{spoor.0,spoor.efi,monitor.elf,spoor.elf},grub/bootx64.efi} "$tree/a,b"
printf 12345 >"$tree/build/pxe/spoor.0"
cd "$tree" || exit 2
# shellcheck source=tests/runner/tap.sh
. "$here/tap.sh"
# shellcheck source=tests/runner/logs.sh
. "$here/logs.sh"
unset BUILD TIMEOUT_SCALE
export QEMU=$here/fake-qemu VALGRIND=$here/fake-valgrind FAKE_LOG=$here/logs/pass.log
