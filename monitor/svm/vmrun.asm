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

; void vmrun(uint64_t gpr[16], uint64_t vmcb_physical): with GIF = 0. RAX and RSP of the guest
; travel in the VMCB; FS, GS, LDTR, TR and the system call MSRs by VMLOAD and VMSAVE, and stay
; behind: the monitor uses none of them.
global vmrun
vmrun:
	push rdi
	mov rax, rsi
	vmload
	exchange_registers
	mov rdi, [rdi + 7 * 8]
	vmrun
	vmsave
	xchg rdi, [rsp]
	exchange_registers
	pop qword [rdi + 7 * 8]
	ret
