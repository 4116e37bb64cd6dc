; SPDX-License-Identifier: MIT
; The stack of a task that does not run ends, upwards from its saved RSP, in what is popped here.

section .text

; void task_switch(uint64_t *from_rsp, uint64_t to_rsp)
; Callers have saved the rest, as the C calling convention has it.
align 16
global task_switch
task_switch:
	push rbp
	push rbx
	push r12
	push r13
	push r14
	push r15
	mov [rdi], rsp
	mov rsp, rsi
	pop r15
	pop r14
	pop r13
	pop r12
	pop rbx
	pop rbp
	ret
