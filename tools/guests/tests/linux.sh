#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of tools/guests/linux, tools/guests/linux-image and tools/guests/linux-disk, without a Linux; prints TAP.
# shellcheck disable=SC2317 # functions are run by `try`
set -u

# shellcheck source=tests/runner/tree.sh
. "$(dirname "$0")/../../../tests/runner/tree.sh" || exit 2
tested=linux

# debian_kernel LIB: tools/guests/linux-image where apt has a kernel whose modules are below LIB; what it takes of the package
debian_kernel()
{
	local package=linux-image-6-cloud-amd64 root=kernel.$RANDOM
	mkdir -p "$root"/{apt,package/{DEBIAN,boot,"$1"/modules/6}}
	printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: none <none@none>\nDescription: none\n' "$package" \
		>"$root/package/DEBIAN/control"
	touch "$root"/package/{boot/{vmlinuz,config}-6,"$1"/modules/6/virtio_blk.ko}
	dpkg-deb --build "$root/package" "$root/${package}_1_all.deb" >/dev/null
	printf '#!/bin/sh\necho "  Depends: %s"\n' "$package" >"$root/apt/apt-cache"
	printf '#!/bin/sh\ncp "%s"/*.deb .\n' "$PWD/$root" >"$root/apt/apt-get"
	chmod 755 "$root"/apt/*
	PATH=$PWD/$root/apt:$PATH "$top/tools/guests/linux-image" "$root/there" && (cd "$root/there" && find . -type f | sort | tr '\n' ' ')
}

# typed WORD: recipes.sh --linux, with a stand-in for the shell of a Linux that has prompts and, after WORD, nothing any more
typed()
{
	rm -rf typed && mkdir -p typed/{tools/guests,tests/runner} && cp "$here"/{recipes,tap}.sh typed/tests/runner && ln -s "$top/docs" typed || return
	cat >typed/tools/guests/linux <<-'EOF'
		#!/bin/bash
		exec >"$3"
		prompt='# '
		printf '%s' "$prompt"
		while read -r line; do
			echo "$line"
			case $line in
			"$WORD"*) exec tail -f /dev/null ;;
			gdb*) prompt='(gdb) ' ;;
			quit) prompt='(y or n) ' ;;
			y) prompt='# ' ;;
			poweroff*) exit ;;
			esac
			printf '%s' "$prompt"
		done
	EOF
	chmod +x typed/tools/guests/linux
	sleep() { command sleep 0.001; }
	export -f sleep
	WORD=$1 timeout 120 typed/tests/runner/recipes.sh --linux
}

try 'a Linux that powers off' 1 'ok [0-9]+ recipes: poweroff -f ends the shell.1..' typed never
try 'a Linux that does not power off' 1 $'# in 60 s this did not come: .has_ended.\nnot ok [0-9]+ recipes: poweroff -f ends' typed poweroff
try 'a Linux whose gdb does not answer' 1 $'# in 60 s this did not come: .ends_with. .[(]gdb[)] .\nnot ok' typed gdb
try 'a boot of Linux that is none, beside one' 2 'no boot is called frob: nehalem-4 ' "$top/tools/guests/linux" check nehalem-4 frob
try 'a program of Linux that is none' 2 'there is no build/linux/frob;' "$top/tools/guests/linux" program frob
taken='/there/vmlinuz.*\./config \./modules/6/virtio_blk\.ko \./vmlinuz'
try "Debian 12's kernel" 0 "$taken" debian_kernel lib
try "Debian 13's kernel, whose modules are below usr" 0 "$taken" debian_kernel usr/lib
try 'a kernel that is none' 1 'no kernel is called frob: 686-pae' "$top/tools/guests/linux-image" there frob
try 'a root disk of no size' 2 "needs a size, as 4G, not 'x'" "$top/tools/guests/linux-disk" -s x
try 'a root disk: an option that is none' 2 "unknown option '--frob'" "$top/tools/guests/linux-disk" --frob
try 'a root disk with no such package' 2 'apt knows no package spoor-none' "$top/tools/guests/linux-disk" spoor-none

echo "1..$number"
exit "$failed"
