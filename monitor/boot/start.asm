; SPDX-License-Identifier: MIT
; From a Multiboot 1 or 2 loader (32-bit, paging off) to monitor_main() in long mode.

IMAGE_BASE      equ 0xffffffffc0000000
MULTIBOOT1      equ 0x1badb002
MULTIBOOT1_WANT equ 3                   ; modules on page boundaries, memory map
MULTIBOOT2      equ 0xe85250d6
STACK_BYTES     equ 0x8000

%define physical(symbol) (symbol - IMAGE_BASE)

section .multiboot align=8
	dd MULTIBOOT1, MULTIBOOT1_WANT, -(MULTIBOOT1 + MULTIBOOT1_WANT)
	align 8
multiboot2_header:
	dd MULTIBOOT2, 0, .end - multiboot2_header
	dd -(MULTIBOOT2 + .end - multiboot2_header)
	dd 6, 8                         ; modules on page boundaries
	dd 0, 8
.end:

section .boot align=16
bits 32
global start
extern monitor_main

; void start(void): EAX = loader's magic, EBX = its information
start:
	cli
	cld
	mov esp, physical(stack_top)
	mov edi, eax                    ; the arguments of monitor_main, kept until then
	mov esi, ebx
	call require_long_mode

	; 4 GiB at 0 and at the direct map's base, the first GiB at IMAGE_BASE; 2 MiB pages
	mov ecx, 2048
.fill:	lea eax, [ecx - 1]
	shl eax, 21
	or eax, 0x83                    ; present, writable, large
	mov [physical(directories) + ecx * 8 - 8], eax
	loop .fill
	mov eax, physical(directories) + 3
	mov [physical(pointers_image) + 511 * 8], eax
.point:	mov [physical(pointers) + ecx * 8], eax
	add eax, 4096
	inc ecx
	cmp ecx, 4
	jb .point
	mov dword [physical(root)], physical(pointers) + 3
	mov dword [physical(root) + 256 * 8], physical(pointers) + 3
	mov dword [physical(root) + 511 * 8], physical(pointers_image) + 3

	mov eax, physical(root)
	mov cr3, eax
	mov eax, 1 << 5 | 1 << 9 | 1 << 10      ; PAE, OSFXSR, OSXMMEXCPT
	mov cr4, eax
	mov ecx, 0xc0000080                     ; EFER
	rdmsr
	or eax, 1 << 8 | 1 << 11                ; LME, NXE
	wrmsr
	mov eax, 1 << 31 | 1 << 16 | 1 << 5 | 1 << 4 | 1 << 1 | 1       ; PG, WP, NE, ET, MP, PE
	mov cr0, eax
	lgdt [gdt_pointer]
	jmp 8:.long

bits 64
.long:	mov rax, .high
	jmp rax

; The rest runs at the image's own addresses.
section .text
.high:	lgdt [gdt_pointer_high]
	mov eax, 16
	mov ds, eax
	mov es, eax
	mov ss, eax
	xor eax, eax
	mov fs, eax
	mov gs, eax
	lldt ax
	mov rsp, stack_top
	xor ebp, ebp
	mov edi, edi                    ; the upper halves are undefined after the mode switch
	mov esi, esi
	call monitor_main
	ud2

section .boot
bits 32
; void require_long_mode(void): returns only if there is long mode with NX; keeps EDI, ESI
require_long_mode:
	mov eax, 0x80000000
	cpuid
	cmp eax, 0x80000001
	jb .without
	mov eax, 0x80000001
	cpuid
	and edx, 1 << 29 | 1 << 20      ; LM, NX
	cmp edx, 1 << 29 | 1 << 20
	jne .without
	ret
.without:
	mov esi, complaint
.next:	lodsb
	test al, al
	jz .end
	out 0xe9, al
	mov ah, al
	mov dx, 0x3fd
	mov ecx, 100000
.wait:	in al, dx
	test al, 1 << 5                 ; transmitter holding register empty
	loopz .wait
	mov al, ah
	mov dx, 0x3f8
	out dx, al
	jmp .next
.end:	mov al, 0x12                    ; isa-debug-exit: status 37, error
	out 0xf4, al
.halt:	hlt
	jmp .halt
complaint:
	db "# monitor: this processor has no long mode with NX; nothing can be run on it", 10, 0
gdt_pointer:
	dw gdt.end - gdt - 1
	dd physical(gdt)

section .rodata
align 8
; Accessed bits set beforehand: the table is read-only.
gdt:	dq 0
	dq 0x00af9b000000ffff           ; 08H: 64-bit code
	dq 0x00cf93000000ffff           ; 10H: data
.end:
gdt_pointer_high:
	dw gdt.end - gdt - 1
	dq gdt

section .bss
alignb 4096
root:           resb 4096
pointers:       resb 4096
pointers_image: resb 4096
directories:    resb 4 * 4096
stack:          resb STACK_BYTES
stack_top:
