; SPDX-License-Identifier: MIT
; Where exceptions, interrupts, NMIs and SYSCALL enter the kernel, and the ways back.

extern exception_dispatch
extern interrupt_dispatch
extern nmi_dispatch
extern syscall_dispatch
global trap_stubs, syscall_entry, syscall_entry_32, user_enter, user_leave

USER_CODE   equ 0x23
USER_DATA   equ 0x1b
CPU_USER_RSP    equ 8                   ; struct cpu (kernel/cpu.h asserts these)
CPU_KERNEL_RSP  equ 16
CPU_RSP0        equ 36
SYSCALL_VECTOR  equ 0x100
IA32_GS_BASE    equ 0xc0000101

section .text

; One 16-byte stub a vector: vector and error code on the stack, then on.
; Vectors 8, 10 to 14, 17, 21, 29, 30 come with an error code (SDM Vol 3, 6.15).
%define HAS_ERROR ((1 << 8) | (0x1f << 10) | (1 << 17) | (1 << 21) | (1 << 29) | (1 << 30))
align 16
trap_stubs:
%assign vector 0
%rep 256
align 16
%if vector >= 32 || !((HAS_ERROR >> vector) & 1)
	push byte 0
%endif
	push strict dword vector
%if vector == 1 || vector == 2 || vector == 8 || vector == 18
	jmp paranoid_entry
%elif vector < 32
	jmp exception_entry
%else
	jmp interrupt_entry
%endif
%assign vector vector + 1
%endrep

%macro PUSH 1-*
%rep %0
	push %1
%rotate 1
%endrep
%endmacro

%macro POP 1-*
%rep %0
	pop %1
%rotate 1
%endrep
%endmacro

; The registers of struct trap_frame.
%macro SAVE 0
	PUSH rdi, rsi, rdx, rcx, rax, r8, r9, r10, r11, rbx, rbp, r12, r13, r14, r15
	cld
	mov rdi, rsp
%endmacro

%macro RESTORE 0
	POP r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi
	add rsp, 16
%endmacro

; Interrupted kernel code is the straight way: each jump here is a record in somebody's trace.
%macro ENTRY 2                          ; name, C function(struct trap_frame *)
%1:
	test byte [rsp + 24], 3         ; CS of the interrupted code
	jnz .from_user
	SAVE
	call %2
	RESTORE
	iretq
.from_user:
	swapgs
	SAVE
	push byte 2                     ; no AC (SMAP), no NT from the user
	popfq
	xor ebp, ebp
	call %2
	RESTORE
	swapgs
	iretq
%endmacro

align 16
	ENTRY exception_entry, exception_dispatch
align 16
	ENTRY interrupt_entry, interrupt_dispatch

; NMI, #MC, #DB and #DF can hit between SYSCALL and SWAPGS: CS does not tell whose GS is loaded,
; its base does. They run on stacks of their own (IST).
align 16
paranoid_entry:
	SAVE
	mov ecx, IA32_GS_BASE
	rdmsr
	xor ebx, ebx
	test edx, edx
	js .kernel_gs
	swapgs
	inc ebx
.kernel_gs:
	cmp qword [rdi + 15 * 8], 2
	jne .exception
	call nmi_dispatch
	jmp .out
.exception:
	call exception_dispatch
.out:
	test ebx, ebx
	jz .back
	swapgs
.back:
	RESTORE
	iretq

; SYSCALL: RCX = user RIP, R11 = user RFLAGS, the stack still the user's. IF is off by SFMASK.
align 16
syscall_entry_32:                       ; of compatibility mode, marked: syscall_dispatch()
	bts r11, 63
syscall_entry:
	swapgs
	mov [gs:CPU_USER_RSP], rsp
	mov rsp, [gs:CPU_KERNEL_RSP]
	push strict dword USER_DATA
	push qword [gs:CPU_USER_RSP]
	push r11
	push strict dword USER_CODE
	push rcx
	push byte 0
	push strict dword SYSCALL_VECTOR
	SAVE
	xor ebp, ebp
	call syscall_dispatch
	ud2                             ; it leaves through user_leave

; After SYSCALL only a TF that SFMASK left traps. Bochs 2.7 traps by the TF before: nothing to do.
section .exception_table progbits alloc noexec nowrite align=1
	dq syscall_entry, syscall_entry, syscall_entry_32, syscall_entry_32
section .text

; int user_enter(const struct trap_frame *user, uint64_t *kernel_rsp, bool sysret)
; Saves what C expects kept, leaves the stack pointer in *kernel_rsp and goes to ring 3. Returns
; as if called when user_leave() gets that stack pointer.
align 16
user_enter:
	PUSH rbx, rbp, r12, r13, r14, r15
	sub rsp, 8                      ; the stack of what enters from ring 3 is aligned
	cli
	mov [rsi], rsp
	mov [gs:CPU_KERNEL_RSP], rsp
	mov [gs:CPU_RSP0], rsp
	mov eax, edx
	mov rsp, rdi                    ; the frame is only read: nothing is pushed below it
	test eax, eax
	jnz .sysret
	RESTORE
	swapgs
	iretq
.sysret:
	RESTORE                         ; RCX and R11 as SYSCALL left them: RIP and RFLAGS
	mov rsp, [rsp + 24]
	swapgs
	o64 sysret

; _Noreturn void user_leave(uint64_t kernel_rsp)
; Only now off the stack that the exception came on, which for #DB is the CPU's and not the task's.
align 16
user_leave:
	lea rsp, [rdi + 8]
	push byte 2                     ; no AC from the user: #DB arrives with it
	popfq
	POP r15, r14, r13, r12, rbp, rbx
	ret
