; SPDX-License-Identifier: MIT
; The archive of archive.asm as part of the kernel's image: how many bytes it has, and an LZ4 block.
; BYTES and FILE, which is in lz4's legacy format, are from the command line.

LEGACY_HEADER equ 8 ; magic number, bytes of the block

section .user_programs progbits alloc noexec nowrite align=8
	dd BYTES
	incbin FILE, LEGACY_HEADER
