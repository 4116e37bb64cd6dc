; SPDX-License-Identifier: MIT
; The programs of ring 3 as part of the kernel's image, as tools/pack made them. FILE comes from the
; command line.

section .user_programs progbits alloc noexec nowrite align=8
	incbin FILE
