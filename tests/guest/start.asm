; SPDX-License-Identifier: MIT
; From a Multiboot 1 loader, and from a start-up IPI, to C in long mode, identity-mapped.

STACK_BYTES equ 8192
PROCESSORS  equ 16                      ; by APIC ID

section .multiboot align=8
	dd 0x1badb002, 3, -(0x1badb002 + 3)

section .text
bits 32
global start
extern boot_main, processor_main, take_nmis_by_task
start:
	cli
	mov esp, stacks + STACK_BYTES
	mov [boot_information], ebx
	call ask_bios
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

; The memory by the BIOS, as struct bios_memory of platform.c, in page 7. ESP is kept, no other register.
ASK_PAGE equ 0x7000
ANSWER   equ 0x7400                     ; count, AX and BX of E801H, AX of 88H and of INT 12H; the map
section .text
bits 32
ask_bios:
	mov esi, ask
	mov edi, ASK_PAGE
	mov ecx, ask_end - ask
	rep movsb
	mov [kept_esp], esp
	lgdt [gdt_pointer]
	jmp 0x20:ASK_PAGE
.asked:	mov ax, 16
	mov ds, ax
	mov es, ax
	mov ss, ax
	mov esp, [kept_esp]
	ret

section .rodata
bits 16
ask:	mov ax, 0x28
	mov ds, ax
	mov es, ax
	mov ss, ax
	mov eax, cr0
	and al, ~1
	mov cr0, eax
	jmp 0:ASK_PAGE + .real - ask
.real:	xor ax, ax
	mov ds, ax
	mov es, ax
	mov ss, ax
	mov sp, ASK_PAGE
	lidt [ASK_PAGE + .idt - ask]
	xor ebx, ebx
	mov [ANSWER], ebx
	mov di, ANSWER + 10
.next:	mov eax, 0xe820
	mov edx, 0x534d4150
	mov ecx, 20
	int 0x15
	jc .sizes
	add di, 20
	inc word [ANSWER]
	test ebx, ebx
	jnz .next
.sizes:	mov ax, 0xe801
	int 0x15
	mov [ANSWER + 2], ax
	mov [ANSWER + 4], bx
	mov ah, 0x88
	int 0x15
	mov [ANSWER + 6], ax
	int 0x12
	mov [ANSWER + 8], ax
	cli
	mov eax, cr0
	or al, 1
	mov cr0, eax
	jmp dword 0x18:ask_bios.asked
.idt:	dw 0x3ff
	dd 0
ask_end:

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
	mov [rsp + 72], rax
	pop r11
	pop r10
	pop r9
	pop r8
	pop rdi
	pop rsi
	pop rdx
	pop rcx
	pop rax
	add rsp, [rsp]
	iretq

section .rodata
align 8
gdt:	dq 0
	dq 0x00af9b000000ffff           ; 08H: 64-bit code
	dq 0x00cf93000000ffff           ; 10H: data
	dq 0x00cf9b000000ffff           ; 18H: 32-bit code
	dq 0x00009b000000ffff           ; 20H, 28H: 16-bit code and data
	dq 0x000093000000ffff
gdt_pointer:
	dw 47
	dq gdt

section .data
global boot_information
boot_information: dd 0
global entry
entry:	dq processor_main

section .bss align=4096
kept_esp:         resd 1
alignb 4096
root:             resb 4096
pointers:         resb 4096
page_directories: resb 4 * 4096
stacks:           resb PROCESSORS * STACK_BYTES
