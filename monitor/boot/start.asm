; SPDX-License-Identifier: MIT
; To C in long mode: from a Multiboot 1 or 2 loader (32-bit, paging off) to monitor_main(), and from
; a start-up IPI (real mode) to processor_arrive().

IMAGE_BASE      equ 0xffffffffc0000000
MULTIBOOT1      equ 0x1badb002
MULTIBOOT2      equ 0xe85250d6
STACK_BYTES     equ 0x8000              ; STACK_BYTES of host/traps.h

%define physical(symbol) (symbol - IMAGE_BASE)

; Long mode under the page tables %1, but for CS
%macro enter_long_mode 1
	mov eax, %1
	mov cr3, eax
	mov eax, 1 << 5 | 1 << 9 | 1 << 10      ; PAE, OSFXSR, OSXMMEXCPT
	mov cr4, eax
	mov ecx, 0xc0000080                     ; EFER
	mov eax, 1 << 8 | 1 << 11               ; LME, NXE
	xor edx, edx
	wrmsr
	mov eax, 1 << 31 | 1 << 16 | 1 << 5 | 1 << 4 | 1 << 1 | 1       ; PG, WP, NE, ET, MP, PE
	mov cr0, eax
%endmacro

section .multiboot align=8
	dd MULTIBOOT1, 3, -(MULTIBOOT1 + 3)     ; modules on page boundaries, memory map
	align 8
multiboot2_header:
	dd MULTIBOOT2, 0, .end - multiboot2_header, -(MULTIBOOT2 + .end - multiboot2_header)
	dd 6, 8, 5 | 1 << 16, 20, 0, 0, 0, 0, 0, 8  ; modules on page boundaries; optional: a framebuffer
.end:

section .boot align=16
bits 32
global start
extern monitor_main

; void start(void): EAX = loader's magic, EBX = its information
start:
	cli
	cld
	mov edi, eax                    ; the arguments of monitor_main, kept until then
	mov ebp, ebx
	mov eax, 0x80000000
	cpuid
	cmp eax, 0x80000001
	jb complain
	mov eax, 0x80000001
	cpuid
	and edx, 1 << 29 | 1 << 20      ; LM, NX
	cmp edx, 1 << 29 | 1 << 20
	jne complain

	; 4 GiB at 0 and at the direct map's base, the first GiB at IMAGE_BASE; 2 MiB pages
	mov ecx, 2048
.fill:	lea eax, [ecx - 1]
	shl eax, 21
	or eax, 0x83                    ; present, writable, large
	mov [physical(directories) + ecx * 8 - 8], eax
	loop .fill
	mov eax, physical(directories) + 3
	mov [physical(pointers) + 511 * 8], eax
.point:	mov [physical(pointers) + ecx * 8], eax
	add eax, 4096
	inc ecx
	cmp ecx, 4
	jb .point
	mov eax, physical(pointers) + 3
	mov [physical(root)], eax
	mov [physical(root) + 256 * 8], eax
	mov [physical(root) + 511 * 8], eax

	enter_long_mode physical(root)
	lgdt [gdt_pointer]
	jmp 8:.long
bits 64
.long:	mov edi, edi                    ; the upper halves are undefined after the mode switch
	mov esi, ebp
	mov rbx, monitor_main
	mov rax, to_c
	jmp rax

; Where a start-up IPI begins, copied to a page below 1 MiB; wake.c completes wake_data.
section .rodata
bits 16
global wake_start, wake_data, wake_end
extern processor_arrive
wake_start:
	enter_long_mode [cs:wake_data - wake_start]
	o32 lgdt [cs:wake_data - wake_start + 10]
	jmp far dword [cs:wake_data - wake_start + 4]
bits 64
.long:	mov rbx, processor_arrive
	mov rax, to_c
	jmp rax
align 16
wake_data:                              ; page tables, far pointer, GDT limit and base
	dd 0, wake_start.long - wake_start
	dw 8, 15
	dd .table - wake_start
.table:	dq 0, 0x00af9b000000ffff        ; 08H: 64-bit code
wake_end:

; The rest runs at the image's own addresses. RBX: what to call, with RDI and RSI
section .text
global start_busy
to_c:	lgdt [gdt_pointer_high]
	mov eax, 16
	mov ds, eax
	mov es, eax
	mov ss, eax
.wait:	pause
	lock bts dword [start_busy], 0  ; one at a time, until it has a separate stack
	jc .wait
	mov rsp, stack_top
	xor ebp, ebp
	call rbx

section .boot
bits 32
complain: mov esi, complaint
.next:	lodsb
	test al, al
	jz .end
	out 0xe9, al
	mov ah, al
	mov dx, 0x3fd                   ; line status of COM1, then of COM2
.port:	mov ecx, 100000
.wait:	in al, dx
	test al, 1 << 5                 ; transmitter holding register empty
	loopz .wait
	sub dx, 5
	mov al, ah
	out dx, al
	sub dx, 0x100 - 5
	cmp dh, 1
	ja .port
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
	dq 0x00cf9b000000ffff           ; 18H: 32-bit code
.end:
gdt_pointer_high:
	dw gdt.end - gdt - 1
	dq gdt

section .bss align=0x8000
stack:          resb STACK_BYTES
stack_top:
root:           resb 4096
pointers:       resb 4096
directories:    resb 4 * 4096
start_busy:     resd 1
