; SPDX-License-Identifier: MIT
; A Linux kernel by its looks: a bzImage that checks what its loader gave it (Linux, boot.rst, "32-bit Boot
; Protocol") and leaves with the verdict through isa-debug-exit. Its initrd is to hold "initrd", its command line
; to end in "last". nasm -f bin

ORIGIN          equ 0x1000000
COM1            equ 0x3f8
EXIT_PORT       equ 0xf4
SETUP_SECTORS   equ 1

section .text start=0 vstart=0
	times 0x1f1 db 0
	db SETUP_SECTORS
	dw 0
	dd (code_end - code) / 16       ; syssize, in paragraphs
	dw 0, 0, 0, 0xaa55
	jmp short header_end
	db "HdrS"
	dw 0x20f                        ; protocol 2.15
	dd 0
	dw 0, 0
	db 0, 1                         ; type_of_loader; loadflags: LOADED_HIGH
	dw 0
	dd 0x100000, 0, 0, 0            ; code32_start, ramdisk_image, ramdisk_size
	dw 0
	db 0, 0
	dd 0, 0x3ffffff, 0x200000       ; cmd_line_ptr, initrd_addr_max, kernel_alignment
	db 1, 21                        ; relocatable_kernel, min_alignment
	dw 0
	dd 2047, 0                      ; cmdline_size
	dq 0
	dd 0, 0
	dq 0, ORIGIN                    ; setup_data, pref_address
	dd 0x400000, 0                  ; init_size
header_end:
	times 512 * (SETUP_SECTORS + 1) - ($ - $$) db 0

section .code follows=.text vstart=ORIGIN
bits 32
; %1: the condition that holds; %2: what to say if it does not
%macro need 2+
	j%1 %%holds
	call fail
	db %2, 10, 0
%%holds:
%endmacro

code:	mov esp, stack_top
	mov eax, ebp
	or eax, edi
	or eax, ebx
	need z, "EBP, EDI and EBX are not 0"
	mov eax, cs
	cmp eax, 0x10
	need e, "CS is not 10H"
	mov eax, ds
	cmp eax, 0x18
	need e, "DS is not 18H"
	mov eax, cr0
	and eax, 0x80000001
	cmp eax, 1
	need e, "paging is on"
	mov eax, 0x18
	mov ss, eax                     ; reads the loader's GDT
	pushfd
	pop eax
	test eax, 0x200
	need z, "interrupts are on"
	call here
here:	pop eax
	cmp eax, here
	need e, "the kernel is not where it prefers to be"

	cmp dword [esi + 0x202], "HdrS"
	need e, "the setup header was not copied"
	cmp byte [esi + 0x210], 0
	need ne, "type_of_loader is 0"
	cmp byte [esi + 0x1e8], 2
	need ae, "e820_entries is below 2"
	mov eax, [esi + 0x2d0 + 8]
	or eax, [esi + 0x2d0 + 12]
	need nz, "the first region of memory is empty"
	mov edi, [esi + 0x70]           ; acpi_rsdp_addr
	test edi, edi
	need nz, "acpi_rsdp_addr is 0"
	cmp dword [edi], "RSD "
	need e, "acpi_rsdp_addr has no RSDP"
	mov eax, [esi + 0x21c]
	cmp eax, 6
	need ae, "ramdisk_size is below 6"
	mov edi, [esi + 0x218]
	add eax, edi
	cmp eax, 0x4000000
	need be, "the initrd is above initrd_addr_max"
	cmp dword [edi], "init"
	need e, "the initrd has other bytes"
	cmp word [edi + 4], "rd"
	need e, "the initrd has other bytes at its end"
	mov edi, [esi + 0x228]          ; the words
.word:	inc edi
	cmp byte [edi], 0
	jne .word
	cmp dword [edi - 4], "last"
	need e, "the command line does not end in: last"
	mov esi, success
	call say
	mov al, 0x10
	out EXIT_PORT, al
	jmp $

fail:	pop esi
	call say
	mov al, 0x11
	out EXIT_PORT, al
	jmp $

; Writes the text at ESI.
say:	mov dx, COM1 + 5
.wait:	in al, dx
	test al, 0x20
	jz .wait
	lodsb
	test al, al
	jz .end
	mov dx, COM1
	out dx, al
	jmp say
.end:	ret
success: db "the loader kept to the boot protocol", 10, 0
	align 16, db 0
code_end:

section .bss follows=.code nobits align=16
	resb 4096
stack_top:
