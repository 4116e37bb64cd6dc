; SPDX-License-Identifier: MIT
; The way out of long mode. Copied to a page that is mapped where it is; independent of where.

section .rodata
bits 64
global leave_start, leave_32, leave_end

; _Noreturn void leave(const struct departure *): kernel.c; physical, below 4 GiB
leave_start:
	mov rsp, rdi
	lgdt [rdi + 38]
	jmp far dword [rdi + 48]
bits 32
leave_32:
	mov eax, 0x18                   ; KERNEL_DS
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
	popad
	ret
leave_end:
