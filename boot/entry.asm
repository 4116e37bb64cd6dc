; SPDX-License-Identifier: MIT
; From the loader to C: Multiboot headers, the 32-bit entry, long mode.
; Both kinds of loader enter here alike: 32-bit protected mode, paging off, EAX = magic,
; EBX = physical address of the loader's information.

KERNEL_BASE equ 0xffffffff80000000
DIRECT_MAP_SLOT equ 256                 ; PML4 slot of FFFF800000000000H
EFER        equ 0xc0000080
EFER_LME_NXE equ (1 << 8) | (1 << 11)

extern kernel_main

section .multiboot progbits alloc noexec nowrite align=8
multiboot1:
	dd 0x1badb002, 3, -(0x1badb002 + 3) ; page-aligned modules, memory information
align 8
multiboot2:
	dd 0xe85250d6, 0, multiboot2_end - multiboot2
	dd -(0xe85250d6 + 0 + (multiboot2_end - multiboot2))
	dd 5 | 1 << 16, 20, 0, 0, 0, 0  ; optional: a framebuffer of any kind
	dd 0, 8                         ; end tag
multiboot2_end:

section .boot progbits alloc exec nowrite align=16
bits 32
global start32, boot_gdt_pointer, boot_pml4, boot_stack_end ; the last three for kernel/restart.c
start32:
	cli
	cld
	mov esp, boot_stack_end - KERNEL_BASE
	mov ebp, eax                    ; CPUID takes EAX and EBX
	mov edi, ebx
	mov eax, 0x80000000
	cpuid
	cmp eax, 0x80000001
	mov esi, no_long_mode
	jb refuse
	mov eax, 0x80000001
	cpuid
	test edx, 1 << 29
	jz refuse
	mov esi, no_nx
	test edx, 1 << 20
	jz refuse
	mov eax, 1
	cpuid
	mov esi, no_sse
	not edx
	test edx, 3 << 24
	jnz refuse

	; The first 4 GiB, once at the direct map and once at 0; the first 1 GiB at KERNEL_BASE too.
	mov eax, 0x83                   ; present, writable, 2 MiB
	mov esi, boot_pd - KERNEL_BASE
.fill:
	mov [esi], eax
	add esi, 8
	add eax, 0x200000
	jnc .fill
	mov eax, boot_pd - KERNEL_BASE + 3
	mov esi, boot_pdpt - KERNEL_BASE
	mov [boot_pdpt_kernel - KERNEL_BASE + 510 * 8], eax
	mov ecx, 4
.directories:
	mov [esi], eax
	add eax, 0x1000
	add esi, 8
	loop .directories
	mov eax, boot_pdpt - KERNEL_BASE + 3
	mov [boot_pml4 - KERNEL_BASE], eax
	mov [boot_pml4 - KERNEL_BASE + DIRECT_MAP_SLOT * 8], eax
	mov dword [boot_pml4 - KERNEL_BASE + 511 * 8], boot_pdpt_kernel - KERNEL_BASE + 3

; Every CPU passes here, the others with zeroes for the loader's registers.
enter_long_mode:
	mov eax, 1 << 5                 ; CR4.PAE
	mov cr4, eax
	mov eax, boot_pml4 - KERNEL_BASE
	mov cr3, eax
	mov ecx, EFER
	rdmsr
	or eax, EFER_LME_NXE
	wrmsr
	mov eax, 0x80010033             ; PG, WP, NE, ET, MP, PE
	mov cr0, eax
	lgdt [boot_gdt_pointer]
	jmp 8:long_mode

; ESI: the reason. Says it on COM1, COM2 and the debug console; under a hypervisor ends with exit value
; 37 (error). A machine has no such port, so it halts.
refuse:
	call put_text
	mov esi, refused_done
	call put_text
	mov eax, 1
	cpuid
	test ecx, ecx
	jns .halt
	mov al, 0x12
	out 0xf4, al
.halt:
	hlt
	jmp .halt

put_text:
	lodsb
	test al, al
	jz .end
	out 0xe9, al
	mov ah, al
	mov dx, 0x3fd                   ; line status of COM1, then of COM2
.port:	mov ecx, 100000                 ; bounded: a wedged port loses text, not the verdict
.wait:	in al, dx
	test al, 0x20
	loopz .wait
	sub dx, 5
	mov al, ah
	out dx, al
	sub dx, 0x100 - 5
	cmp dh, 1
	ja .port
	jmp put_text
.end:
	ret

bits 64
long_mode:
	xor eax, eax
	mov ds, eax
	mov es, eax
	mov ss, eax
	mov fs, eax
	mov gs, eax
	mov rax, start_stack
	mov rsp, [rax]
	mov esi, edi                    ; kernel_main(magic, information)
	mov edi, ebp
	xor ebp, ebp                    ; backtraces end here
	mov rax, start_function
	call [rax]
	ud2

bits 32
start_processor32:
	mov ax, 0x10
	mov ds, ax
	xor ebp, ebp
	xor edi, edi
	jmp enter_long_mode
bits 64

align 8
boot_gdt:
	dq 0, 0x00af9b000000ffff, 0x00cf93000000ffff, 0x00cf9b000000ffff ; code 64, data, code 32
boot_gdt_pointer:
	dw $ - boot_gdt - 1
	dq boot_gdt                     ; four bytes of it in 32-bit code
no_long_mode:
	db "# error: this CPU has no long mode (CPUID.80000001H:EDX[29]); Spoor is 64-bit", 13, 10, 0
no_nx:
	db "# error: this CPU has no NX bit (CPUID.80000001H:EDX[20]); Spoor keeps W^X by it", 13, 10, 0
no_sse:
	db "# error: this CPU has no FXSAVE or no SSE (CPUID.1:EDX[24], [25]); ring 3 has both", 13, 10, 0
refused_done:
	db "# SPOOR DONE silicon=none pass=0 fail=0 skip=0 error=1 xfail=0 obs=0 rc=2", 13, 10, 0

; Copied to a page below 1 MiB, where a start-up IPI makes a processor begin, in real mode.
section .rodata
global start_processor, start_processor_end
bits 16
start_processor:
	cli
	o32 lgdt [cs:.gdt - start_processor]
	mov eax, 1
	mov cr0, eax
	jmp dword 0x18:start_processor32
.gdt:
	dw 4 * 8 - 1
	dd boot_gdt
start_processor_end:
bits 64

; Where a processor goes on in C, and on what stack: the boot CPU's until kernel/smp/start.c sets another's.
section .data
align 8
global start_stack, start_function
start_stack: dq boot_stack_end
start_function: dq kernel_main

section .bss nobits alloc noexec write align=4096
boot_pml4: resb 4096
boot_pdpt: resb 4096
boot_pdpt_kernel: resb 4096
boot_pd: resb 4 * 4096
boot_stack: resb 16384
boot_stack_end:
