; SPDX-License-Identifier: MIT

section .text

; Exchanges all but RAX, RSP and RDI with gpr[] at RDI: the monitor's wait where the guest's stood
%macro exchange_registers 0
	xchg rcx, [rdi + 1 * 8]
	xchg rdx, [rdi + 2 * 8]
	xchg rbx, [rdi + 3 * 8]
	xchg rbp, [rdi + 5 * 8]
	xchg rsi, [rdi + 6 * 8]
%assign i 8
%rep 8
	xchg r%+i, [rdi + i * 8]
%assign i i + 1
%endrep
%endmacro

; bool vmrun(uint64_t gpr[16], uint64_t vmcb_physical, const volatile bool *nmi): with GIF = 1; false
; where *nmi was set before the guest ran. RAX and RSP of the guest travel in the VMCB; FS, GS, LDTR, TR
; and the system call MSRs by VMLOAD and VMSAVE, and stay loaded: the monitor uses none of them.
; An NMI that finds the processor from vmrun_window to vmrun_window_end continues at vmrun_abandoned.
global vmrun, vmrun_window, vmrun_window_end, vmrun_abandoned
vmrun:
	push rdi
	push rsi
	push rdx
	mov rax, rsi
	vmload
	exchange_registers
	mov rdi, [rdi + 7 * 8]
	mov rax, [rsp]
align 64                                ; up to vmrun_ended it is in one page
vmrun_window:
	cmp byte [rax], 0
	mov rax, [rsp + 8]
	jne short vmrun_abandoned
	vmrun
vmrun_window_end:
	times 15 nop                    ; refusal[] of nested.c
	mov rax, [rsp + 8]
	vmsave
	mov eax, 1
	jmp short vmrun_ended
vmrun_abandoned:
	xor eax, eax
vmrun_ended:
	xchg rdi, [rsp + 16]
	exchange_registers
	add rsp, 16
	pop qword [rdi + 7 * 8]
	ret
