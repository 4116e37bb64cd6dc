/* SPDX-License-Identifier: MIT */
/* The handlers that the opcode tables name. A row is indexed by kind and size (decode.h). */
#pragma once

#include "monitor/interp/decode.h"

typedef handler *const row_of_two[KINDS * SIZES];
typedef handler *const row_of_one[KINDS_OF_ONE * SIZES];
typedef handler *const row_of_sizes[SIZES];

/* alu.c, alu_one.c */
extern row_of_two run_add, run_or, run_adc, run_sbb, run_and, run_sub, run_xor, run_cmp, run_test;
extern row_of_one run_inc, run_dec, run_neg, run_not;

/* multiply.c: shifts and rotates too */
extern row_of_sizes run_rol, run_ror, run_rcl, run_rcr, run_shl, run_shr, run_sar, run_shld,
	run_shrd;
extern row_of_sizes run_mul, run_imul, run_imul_two, run_imul_three, run_div, run_idiv;
handler crc32_or_movbe;

/* bits.c */
extern row_of_sizes run_bt, run_bts, run_btr, run_btc, run_bsf, run_bsr, run_popcnt, run_bswap;

/* exchange.c */
extern row_of_sizes run_xchg, run_nop_or_xchg, run_xadd, run_cmpxchg;
handler cmpxchg_wide;

/* move.c */
extern row_of_two run_mov, run_movzx8, run_movzx16, run_movsx8, run_movsx16, run_movsxd;
extern row_of_sizes run_lea, run_cmov;
handler set_condition, extend_accumulator, extend_into_rdx, xlat;

/* stack.c */
handler push_register, push_immediate, push_memory, pop_register, pop_operand, push_flags,
	pop_flags;
handler enter_frame, leave_frame, push_segment, pop_segment;

/* flags.c */
handler lahf, sahf, cmc, clc, stc, cld, std_, cli, sti, nop;

/* branch.c, far.c, syscall.c */
extern handler *const run_jcc[17], *const run_jmp[2], *const run_call[2], *const run_ret[2];
handler jmp_operand, call_operand, loop_while, jump_if_rcx_zero;
handler far_jmp, far_call, far_ret, iret, int3, int1, into, int_n, syscall_, sysret, sysenter,
	sysexit;

/* string.c */
extern row_of_sizes run_movs, run_stos, run_lods, run_cmps, run_scas;
handler ins, outs, in_port, out_port;

/* system.c, debug.c, control.c, segment.c */
handler hlt, cpuid, rdtsc, rdmsr, wrmsr, cache_control, swapgs_group, fence, fs_gs_base;
handler mov_from_dr, mov_to_dr, mov_from_cr, mov_to_cr, clts, smsw, lmsw, invlpg_group;
handler sgdt_group, sidt_group, lgdt_group, lidt_group, sldt, str, lldt, ltr;
handler load_access_rights, load_limit, verify_read, verify_write;
handler mov_from_segment, mov_to_segment, load_far_pointer;

/* thunk.c, xsave.c */
handler wait_x87, xgetbv, xsaves, xrstors;
