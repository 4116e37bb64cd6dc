; SPDX-License-Identifier: MIT
; Some seconds, 4 * 2^32 to 5 * 2^32 cycles of the TSC: as the first function of a module (nasm -f bin) with interrupts
; off, as a program of Linux (nasm -f elf64) with all that it executes up to `end`.

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
