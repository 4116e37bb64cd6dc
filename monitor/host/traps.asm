; SPDX-License-Identifier: MIT
; Entry points of the monitor's own interrupts and exceptions.

%define HAS_ERROR_CODE(v) (v == 8 || (v >= 10 && v <= 14) || v == 17 || v == 21 || v == 29 || v == 30)

section .text
extern trap, nmi_pending

align 16
global trap_stubs
trap_stubs:                             ; one every 16 bytes
%assign vector 0
%rep 256
	align 16
%if !HAS_ERROR_CODE(vector)
	push 0
%endif
	push vector
	jmp enter_trap
%assign vector vector + 1
%endrep

; Builds the struct trap_frame of traps.c around a call of trap(). The stack is not always aligned.
enter_trap:
	push rax
	push rcx
	push rdx
	push rsi
	push rdi
	push r8
	push r9
	push r10
	push r11
	push rbp
	mov rbp, rsp
	mov rdi, rsp
	and rsp, -16
	cld
	call trap
	mov rsp, rbp
	pop rbp
	pop r11
	pop r10
	pop r9
	pop r8
	pop rdi
	pop rsi
	pop rdx
	pop rcx
	pop rax
	add rsp, 16
	iretq

; void interrupt_window(void): IF = 1 for one instruction
global interrupt_window
interrupt_window:
	sti
	nop
	cli
	ret

; void halt_window(bool interruptible): an NMI that finds the processor between halt_window and
; halt_window_end continues at the latter, so that none is slept through
global halt_window, halt_window_end
halt_window:
	cmp byte [nmi_pending], 0
	jne halt_window_end
	test dil, dil
	jz .halt
	sti
.halt:	hlt
halt_window_end:
	cli
	ret
