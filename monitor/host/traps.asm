; SPDX-License-Identifier: MIT
; Entry points of the monitor's own interrupts and exceptions.

%define HAS_ERROR_CODE(v) (v == 8 || (v >= 10 && v <= 14) || v == 17 || v == 21 || v == 29 || v == 30)

section .text
extern trap

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

%macro each 2-*                         ; each push, rax, rcx: one after the other
%xdefine operation %1
%rep %0 - 1
%rotate 1
	operation %1
%endrep
%endmacro

; Builds the struct trap_frame of traps.c around a call of trap(), which returns it.
enter_trap:
	each push, rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11, rbp
	mov rdi, rsp
	sub rsp, 16                     ; trap() may move the frame down by 8
	and rsp, -16
	cld
	call trap
	mov rsp, rax
	each pop, rbp, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax
	add rsp, 16
	iretq

; void interrupt_window(void): IF = 1 for one instruction
global interrupt_window
interrupt_window:
	sti
	nop
	cli
	ret

; void halt_window(bool interruptible, const volatile bool *nmi): an NMI that finds the processor
; between halt_window and halt_window_end continues at the latter, so that none is slept through
global halt_window, halt_window_end
halt_window:
	cmp byte [rsi], 0
	jne halt_window_end
	test dil, dil
	jz .halt
	sti
.halt:	hlt
halt_window_end:
	cli
	ret
