; SPDX-License-Identifier: MIT
; A Multiboot 1 kernel that hands over to its first module, an ELF64 kernel, as firmware, iPXE or a
; kexec'd Linux may: interrupts wait in the local APIC, and LDTR names a table. The module's own
; words become the command line, and the other modules go with it.

LAPIC           equ 0xfee00000
LAPIC_SPURIOUS  equ LAPIC + 0xf0
LAPIC_ICR       equ LAPIC + 0x300
ICR_SELF        equ 0x40000
MULTIBOOT1_LOADER equ 0x2badb002
BASE            equ 0x2000000           ; guest.mk links it there, out of the way of what it loads

section .text
bits 32
	dd 0x1badb002, 3, -(0x1badb002 + 3)

global start
start:
	cli
	cld
	mov esp, stack_top
	lgdt [gdt_pointer]
	jmp 8:.flat
.flat:	mov eax, 16
	mov ds, eax
	mov es, eax
	mov ss, eax
	mov eax, 24
	lldt ax

	or dword [LAPIC_SPURIOUS], 0x1ff
	mov esi, vectors
	mov ecx, vectors_end - vectors
.pend:	lodsb
	movzx eax, al
	or eax, ICR_SELF
	mov [LAPIC_ICR], eax
.sent:	test dword [LAPIC_ICR], 0x1000
	jnz .sent
	loop .pend

	mov esi, [ebx + 24]             ; the first module: start, end, words
	mov ebp, [esi]
	mov eax, [esi + 8]
	mov [ebx + 16], eax
	add dword [ebx + 24], 16
	dec dword [ebx + 20]

	movzx ecx, word [ebp + 56]      ; EBP: ELF header; EDX: program header
	mov edx, ebp
	add edx, [ebp + 32]
.segment:
	push ecx
	cmp dword [edx], 1              ; PT_LOAD
	jne .next
	mov esi, ebp
	add esi, [edx + 8]
	mov edi, [edx + 24]
	mov ecx, [edx + 32]
	rep movsb
	mov ecx, [edx + 40]
	sub ecx, [edx + 32]
	xor eax, eax
	rep stosb
.next:	movzx eax, word [ebp + 54]
	add edx, eax
	pop ecx
	loop .segment
	mov eax, MULTIBOOT1_LOADER
	jmp [ebp + 24]

; Of Spoor's own: timer, trace work, PMI, call, kick, test; Linux's local timer; nobody's.
vectors:
	db 0x20, 0x21, 0x22, 0x23, 0x24, 0x30, 0xec, 0xf0, 0xfe
vectors_end:

align 8
gdt:	dq 0, 0x00cf9b000000ffff, 0x00cf93000000ffff
	dw 15, gdt - $$                 ; 18H: a local descriptor table; its low half of the base
	db (BASE >> 16) & 255, 0x82, 0, BASE >> 24
gdt_pointer:
	dw 31
	dd gdt

section .bss
	resb 1024
stack_top:
