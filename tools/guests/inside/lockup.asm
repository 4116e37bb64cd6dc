; SPDX-License-Identifier: MIT
; Takes some seconds, 4 * 2^32 to 5 * 2^32 cycles of the TSC. As the first function of a module (nasm -f bin) it runs
; with interrupts off. As a program of Linux (nasm -f elf64) all that it executes is before `end`.

BITS 64
%ifidn __OUTPUT_FORMAT__, bin
	cli
%else
global _start
_start:
%endif
	rdtsc
	mov ecx, edx
.loop:	rdtsc
	sub edx, ecx
	cmp edx, 5
	jb .loop
%ifidn __OUTPUT_FORMAT__, bin
	sti
	xor eax, eax
	ret
%else
	mov eax, 60                     ; exit
	xor edi, edi
	syscall
end:
%endif
