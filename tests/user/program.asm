; SPDX-License-Identifier: MIT
; One program of ring 3 as part of the kernel's image: struct program (kernel/process/program.h).
; NAME and FILE come from the command line.

section .rodata
name:
	db NAME, 0
image:
	incbin FILE
end:

section .user_programs progbits alloc noexec nowrite align=8
	dq name, image, end
