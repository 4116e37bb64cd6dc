; SPDX-License-Identifier: MIT
; The way out of long mode. Copied to a page that is mapped where it stands; independent of where.

MULTIBOOT2_LOADER_MAGIC equ 0x36d76289

section .rodata
bits 64
global leave_start, leave_end

; _Noreturn void leave(uint32_t entry, uint32_t information)
leave_start:
	mov ebx, esi
	push 0x18                       ; 32-bit code
	lea rax, [rel .compatibility]
	push rax
	o64 retf
bits 32
.compatibility:
	mov eax, 0x10
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
	mov eax, MULTIBOOT2_LOADER_MAGIC
	jmp edi
leave_end:
