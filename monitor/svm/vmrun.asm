; SPDX-License-Identifier: MIT

section .text

; void vmrun(uint64_t gpr[16], uint64_t vmcb_physical): with GIF = 0. RAX and RSP of the guest
; travel in the VMCB; FS, GS, LDTR, TR and the system call MSRs by VMLOAD and VMSAVE, and stay
; behind: the monitor uses none of them.
global vmrun
vmrun:
	push rbx
	push rbp
	push r12
	push r13
	push r14
	push r15
	push rdi
	mov rax, rsi
	vmload
	mov rcx, [rdi + 1 * 8]
	mov rdx, [rdi + 2 * 8]
	mov rbx, [rdi + 3 * 8]
	mov rbp, [rdi + 5 * 8]
	mov rsi, [rdi + 6 * 8]
%assign i 8
%rep 8
	mov r%+i, [rdi + i * 8]
%assign i i + 1
%endrep
	mov rdi, [rdi + 7 * 8]
	vmrun
	vmsave
	xchg rdi, [rsp]
	mov [rdi + 1 * 8], rcx
	mov [rdi + 2 * 8], rdx
	mov [rdi + 3 * 8], rbx
	mov [rdi + 5 * 8], rbp
	mov [rdi + 6 * 8], rsi
%assign i 8
%rep 8
	mov [rdi + i * 8], r%+i
%assign i i + 1
%endrep
	pop qword [rdi + 7 * 8]
	pop r15
	pop r14
	pop r13
	pop r12
	pop rbp
	pop rbx
	ret
