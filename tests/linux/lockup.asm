; SPDX-License-Identifier: MIT
; What stands in a module's first function: it holds the processor with interrupts off for 2^33 to 3 * 2^32 cycles of
; the TSC. nasm -f bin

BITS 64
	cli
	rdtsc
	mov ecx, edx
.loop:	rdtsc
	sub edx, ecx
	cmp edx, 3
	jb .loop
	sti
	xor eax, eax
	ret
