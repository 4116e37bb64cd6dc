; SPDX-License-Identifier: MIT
; NMIs that a task gate takes: their IRET has NT set and switches back (SDM Vol 3, 7.3 and 7.4). Protected mode
; alone has that, so start.asm calls it before it enters long mode.

LAPIC_ID  equ 0xfee00020
LAPIC_ICR equ 0xfee00300
ICR_NMI   equ 0x4400
TSS_EIP   equ 32
TSS_FLAGS equ 36
NMIS      equ 2

section .text
bits 32
global take_nmis_by_task
; Leaves nmis_by_task and nmi_task_flags for boot_main(), and its own GDT, IDT and TSS in use. All registers change.
take_nmis_by_task:
	pop ebp
	lgdt [gdt_pointer]
	jmp 8:.flat
.flat:	mov ax, 16
	mov ds, ax
	mov es, ax
	mov ss, ax
	mov fs, ax
	mov gs, ax
	mov esp, stack_top
	mov eax, main_task
	mov edi, gdt.main
	call set_base
	mov eax, nmi_task
	mov edi, gdt.nmi
	call set_base
	lidt [idt_pointer]
	mov ax, 24
	ltr ax
	mov ebx, 1
.next:	mov eax, [LAPIC_ID]
	mov [LAPIC_ICR + 16], eax
	mov dword [LAPIC_ICR], ICR_NMI
	mov ecx, 10000000
.wait:	cmp [nmis_by_task], ebx
	je .came
	pause
	loop .wait
	jmp .done
.came:	mov eax, [nmi_task + TSS_FLAGS]
	or [nmi_task_flags], eax
	inc ebx
	cmp ebx, NMIS
	jbe .next
.done:	jmp ebp

; EAX into the descriptor at EDI
set_base:
	mov [edi + 2], ax
	shr eax, 16
	mov [edi + 4], al
	mov [edi + 7], ah
	ret

nmi_entry:
	inc dword [nmis_by_task]
	iretd
	jmp nmi_entry

section .data
align 8
gdt:	dq 0, 0x00cf9b000000ffff, 0x00cf93000000ffff
.main:	dq 0x0000890000000067           ; 18H, 20H: TSSs of 32 bits
.nmi:	dq 0x0000890000000067
gdt_pointer:
	dw 39
	dd gdt
align 8
idt:	dq 0, 0
	dq 0x0000850000200000           ; vector 2: a task gate
idt_pointer:
	dw 23
	dd idt

align 4
nmi_task:
	times TSS_EIP db 0
	dd nmi_entry, 2, 0, 0, 0, 0     ; EIP, EFLAGS, EAX, ECX, EDX, EBX
	dd nmi_stack_top, 0, 0, 0       ; ESP, EBP, ESI, EDI
	dd 16, 8, 16, 16, 16, 16, 0     ; ES, CS, SS, DS, FS, GS, LDT
	dd 104 << 16

global nmis_by_task, nmi_task_flags
nmis_by_task:   dd 0
nmi_task_flags: dd 0

section .bss
alignb 16
main_task:  resb 104
alignb 16
	resb 256
stack_top:
	resb 256
nmi_stack_top:
