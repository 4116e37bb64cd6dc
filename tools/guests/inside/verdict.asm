; SPDX-License-Identifier: MIT
; verdict 0|1|2: a static program that ends QEMU by its isa-debug-exit as pass, fail or error. Linux, root; nasm -f elf64

SYS_EXIT        equ 60
SYS_IOPERM      equ 173
PORT            equ 0xf4

section .text
global _start
_start:	mov eax, SYS_IOPERM
	mov edi, PORT
	mov esi, 4
	mov edx, 1
	syscall
	test eax, eax
	jnz .end
	mov rdx, [rsp + 16]             ; argv[1]
	movzx eax, byte [rdx]
	sub eax, '0' - 0x10
	mov dx, PORT
	out dx, eax
.end:	mov eax, SYS_EXIT
	mov edi, 1
	syscall
