; SPDX-License-Identifier: MIT
; The way out of long mode. Copied behind the GDT of a page that is mapped where it is; independent of where.

GDT_BYTES       equ 4 * 8               ; as KERNEL_GDT_BYTES, KERNEL_CS and KERNEL_DS of kernel.h
CODE_32         equ 0x10
DATA_32         equ 0x18
PAGE            equ 4096

section .rodata
bits 64
global leave_start, leave_end

; _Noreturn void leave(uint32_t entry, uint32_t eax, uint32_t ebx, uint32_t esi)
leave_start:
	mov ebx, edx
	mov ebp, ecx
	lea rax, [rel leave_start - GDT_BYTES]
	sub rsp, 16
	mov word [rsp], GDT_BYTES - 1
	mov [rsp + 2], rax
	lgdt [rsp]
	lea ecx, [rel .compatibility]
	mov [rsp], ecx
	mov word [rsp + 4], CODE_32
	mov rcx, rsp
	lea rsp, [rax + PAGE]           ; read-only: nothing is pushed before paging is off
	jmp far dword [rcx]
bits 32
.compatibility:
	mov eax, DATA_32
	mov ds, eax
	mov es, eax
	mov fs, eax
	mov gs, eax
	mov ss, eax
	mov eax, 0x11                   ; PE, ET: paging off ends long mode
	mov cr0, eax
	xor eax, eax
	mov cr4, eax
	mov ecx, 0xc0000080             ; EFER
	xor edx, edx
	wrmsr
	mov eax, esi
	mov esi, ebp
	push edi
	xor ebp, ebp
	xor ecx, ecx
	xor edi, edi
	ret
leave_end:
