; SPDX-License-Identifier: MIT
; A static program whose taken branches are known: section .expected lists all of ring 3, source and target, in
; their order; with UNLISTED there is none. Linux; no library. nasm -f elf64, ld -static

%ifndef ROUNDS
%define ROUNDS  200
%define CALLS   1                       ; one round of so many, a power of 2, calls the system
%endif
SYS_GETPID      equ 39
SYS_EXECVE      equ 59
SYS_EXIT        equ 60

; One record: the branch at %1 goes to %2.
%macro taken 2
section .expected
	dq %1, %2
section .text
%endmacro

section .text
global _start
_start:	cmp dword [rsp], 1
.named:	jne named
.alone:	jmp begin
	ud2
begin:	mov ebx, ROUNDS
	xor r12d, r12d
round:	lea rdi, [rel copy]             ; a page for the first time, each other round's bytes again
	lea rsi, [rel _start]
	mov ecx, 64
	rep movsb                       ; no branch, however often it repeats
	test ebx, ebx
.never:	jz wrong
.call:	call leaf
.back:	mov ecx, 3
.loop:	loop .loop
	jrcxz .zero
	ud2
.zero:	mov eax, ebx
	and eax, 1
	lea rdx, [rel ways]
.way:	jmp [rdx + rax * 8]
even:	add r12d, 2
.join:	jmp join
	ud2
odd:	inc r12d
join:	lea rax, [rel leaf]
.call:	call rax
.back:
%if CALLS > 1
	test ebx, CALLS - 1
.quiet:	jnz .called
%endif
	mov eax, SYS_GETPID
	syscall                         ; into ring 0 and back: no record of ring 3
.called:
	push qword [rel address]
.ret:	ret
	ud2
after:	pxor xmm0, xmm0
	dec ebx
.again:	jnz near round
finished:
	cmp r12d, ROUNDS / 2 * 3
.sum:	jne wrong
	mov eax, SYS_EXIT
	xor edi, edi
	syscall
wrong:	mov eax, SYS_EXIT
	mov edi, 1
	syscall

; With `exec`: executes itself without. With another word: begins when standard input has something, or ends.
named:	mov rax, [rsp + 16]
	cmp byte [rax], 'e'
	jne hold
	mov rdi, [rsp + 8]
	push 0
	push rdi
	mov rsi, rsp
	xor edx, edx
	mov eax, SYS_EXECVE
	syscall
	jmp wrong

hold:	xor edi, edi
	lea rsi, [rel copy]
	mov edx, 1
	xor eax, eax                    ; read
	syscall
.done:	jmp begin

leaf:	cmp ebx, ROUNDS / 2
.half:	jbe .low
	nop
.low:	ret

section .data
ways:	dq even, odd
address: dq after

section .bss
	alignb 4096
copy:	resb 4096

%ifndef UNLISTED
section .text
	taken _start.alone, begin
%assign left ROUNDS
%rep ROUNDS
	taken round.call, leaf
%if left <= ROUNDS / 2
	taken leaf.half, leaf.low
%endif
	taken leaf.low, round.back
	taken round.loop, round.loop
	taken round.loop, round.loop
	taken round.loop + 2, round.zero
%if left % 2
	taken round.way, odd
%else
	taken round.way, even
	taken even.join, join
%endif
	taken join.call, leaf
%if left <= ROUNDS / 2
	taken leaf.half, leaf.low
%endif
	taken leaf.low, join.back
%if left % CALLS
	taken join.quiet, join.called
%endif
	taken join.ret, after
%if left > 1
	taken after.again, round
%endif
%assign left left - 1
%endrep
%endif
