#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Tests of tools/linux, tools/linux-image and tools/linux-disk, without a Linux; prints TAP.
# shellcheck disable=SC2317 # functions are run by `try`
set -u

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree" || exit 2
tested=linux
# shellcheck source=tests/runner/tap.sh
. "$here/tap.sh"

# debian_kernel LIB: tools/linux-image where apt has a kernel whose modules are below LIB; what it takes of the package
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
	PATH=$PWD/$root/apt:$PATH "$top/tools/linux-image" "$root/there" && (cd "$root/there" && find . -type f | sort | tr '\n' ' ')
}

try 'a boot of Linux that is none, beside one' 2 'no boot is called frob: nehalem-4 ' "$top/tools/linux" check nehalem-4 frob
try 'a program of Linux that is none' 2 'there is no build/linux/frob;' "$top/tools/linux" program frob
taken='/there/vmlinuz.*\./config \./modules/6/virtio_blk\.ko \./vmlinuz'
try "Debian 12's kernel" 0 "$taken" debian_kernel lib
try "Debian 13's kernel, whose modules are below usr" 0 "$taken" debian_kernel usr/lib
try 'a root disk of no size' 2 "needs a size, as 4G, not 'x'" "$top/tools/linux-disk" -s x
try 'a root disk: an option that is none' 2 "unknown option '--frob'" "$top/tools/linux-disk" --frob
try 'a root disk with no such package' 2 'apt knows no package spoor-none' "$top/tools/linux-disk" spoor-none

echo "1..$number"
exit "$failed"
