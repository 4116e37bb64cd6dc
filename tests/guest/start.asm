; SPDX-License-Identifier: MIT
; From a Multiboot 1 or 2 loader, and from a start-up IPI, to C in long mode, identity-mapped.

STACK_BYTES equ 8192
PROCESSORS  equ 16                      ; by APIC ID

section .multiboot align=8
	dd 0x1badb002, 3, -(0x1badb002 + 3)
	align 8
header:	dd 0xe85250d6, 0, .end - header, -(0xe85250d6 + .end - header)
	dd 0, 8
.end:

section .text
bits 32
global start
extern boot_main, processor_main, take_nmis_by_task
start:
	cli
	mov esp, stacks + STACK_BYTES
	call take_nmis_by_task
	mov edi, page_directories + 3
	mov ecx, 4
	mov ebx, pointers
.point:	mov [ebx], edi
	add edi, 4096
	add ebx, 8
	loop .point
	mov edi, page_directories
	mov eax, 0x83                   ; present, writable, 2 MiB
.fill:	mov [edi], eax
	add edi, 8
	add eax, 0x200000
	jnc .fill
	mov dword [root], pointers + 3
	mov dword [entry], boot_main

; EDI, ESI: arguments; [entry]: what to call
enter:
	mov eax, root
	mov cr3, eax
	mov eax, 1 << 5 | 1 << 9 | 1 << 10      ; PAE, OSFXSR, OSXMMEXCPT
	mov cr4, eax
	mov ecx, 0xc0000080                     ; EFER
	mov eax, 1 << 8                         ; LME
	xor edx, edx
	wrmsr
	mov eax, 1 << 31 | 1 << 16 | 1 << 5 | 1 << 4 | 1
	mov cr0, eax
	lgdt [gdt_pointer]
	jmp 8:.long
bits 64
.long:	mov ax, 16
	mov ds, ax
	mov es, ax
	mov ss, ax
	mov eax, 1
	cpuid
	shr ebx, 24                             ; the initial APIC ID
	imul ebx, STACK_BYTES
	lea rsp, [rbx + stacks + STACK_BYTES]
	xor ebp, ebp
	mov edi, edi
	mov esi, esi
	mov rax, [entry]
	call rax
	ud2

bits 32
arrive:
	mov ax, 16
	mov ds, ax
	mov es, ax
	mov ss, ax
	jmp enter

; Copied to the page where the start-up IPI begins: the state found there is passed on.
section .rodata
global arrival, arrival_cr0, arrival_end
bits 16
arrival:
	mov di, cs
	shl edi, 16
	mov di, sp                      ; CS and SP
	mov esi, edx                    ; the signature
	mov ebp, cr0
	mov [cs:arrival_cr0 - arrival], ebp
	o32 lgdt [cs:.pointer - arrival]
	mov eax, 0x11
	mov cr0, eax
	jmp dword 24:arrive
.pointer:
	dw 31
	dd gdt
align 4
arrival_cr0: dd 0
arrival_end:

; The interrupts and exceptions that are expected: vector 2, and 32 on. RDI: the vector
section .text
bits 64
global stubs
extern interrupt
	align 16
stubs:
%assign vector 0
%rep 64
	align 16
	push vector
	jmp taken
%assign vector vector + 1
%endrep
taken:
	push rax
	push rcx
	push rdx
	push rsi
	push rdi
	push r8
	push r9
	push r10
	push r11
	mov rdi, [rsp + 72]
	lea rsi, [rsp + 80]
	cld
	call interrupt
	pop r11
	pop r10
	pop r9
	pop r8
	pop rdi
	pop rsi
	pop rdx
	pop rcx
	pop rax
	add rsp, 8
	iretq

section .rodata
align 8
gdt:	dq 0
	dq 0x00af9b000000ffff           ; 08H: 64-bit code
	dq 0x00cf93000000ffff           ; 10H: data
	dq 0x00cf9b000000ffff           ; 18H: 32-bit code
gdt_pointer:
	dw 31
	dq gdt

section .data
global entry
entry:	dq processor_main

section .bss align=4096
root:             resb 4096
pointers:         resb 4096
page_directories: resb 4 * 4096
stacks:           resb PROCESSORS * STACK_BYTES
