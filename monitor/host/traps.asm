; SPDX-License-Identifier: MIT
; Entry points of the monitor's own interrupts and exceptions.

%define HAS_ERROR_CODE(v) (v == 8 || (v >= 10 && v <= 14) || v == 17 || v == 21 || v == 29 || v == 30)

section .text
extern trap, nmi_pending

%assign vector 0
%rep 256
stub_%+vector:
%if !HAS_ERROR_CODE(vector)
	push 0
%endif
	push vector
	jmp enter_trap
%assign vector vector + 1
%endrep

; Builds the struct trap_frame of traps.c around a call of trap().
enter_trap:
	cld
	push rax
	push rcx
	push rdx
	push rbx
	push rbp
	push rsi
	push rdi
	push r8
	push r9
	push r10
	push r11
	push r12
	push r13
	push r14
	push r15
	mov rdi, rsp
	mov rbx, rsp                    ; the monitor's stack may stand at any multiple of 8
	and rsp, -16
	call trap
	mov rsp, rbx
	pop r15
	pop r14
	pop r13
	pop r12
	pop r11
	pop r10
	pop r9
	pop r8
	pop rdi
	pop rsi
	pop rbp
	pop rbx
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

section .rodata
align 8
global trap_stubs
trap_stubs:
%assign vector 0
%rep 256
	dq stub_%+vector
%assign vector vector + 1
%endrep
