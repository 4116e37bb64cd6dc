/* SPDX-License-Identifier: MIT */
/* The interpreter's reports to the comparison with the processor. Called only where it is on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "monitor/interp/decode.h"

struct fault;

/* The instruction at RIP is about to be interpreted. */
void lockstep_before(struct vcpu *vcpu);

/* It is about to write `bytes` bytes at `to`, in the host's view. */
void lockstep_write(struct vcpu *vcpu, uint8_t *to, unsigned bytes);

/* Where it is to read `bytes` bytes that are at `from` in the host's view: a copy of them. */
const uint8_t *lockstep_read(struct vcpu *vcpu, const uint8_t *from, unsigned bytes);

/* It accesses what is no memory: it is not compared. */
void lockstep_skip(struct vcpu *vcpu);

/* It is done, or is to raise `fault`, which is not delivered yet. */
void lockstep_after(struct vcpu *vcpu, const struct fault *fault);

/* An observation (monitor/observe.h) of the instruction that is under way; `value`: where a branch
   or event leads, the bits of a mode, CR3. */
enum sight { SAW_BRANCH, SAW_NOT_TAKEN, SAW_EVENT, SAW_RETIRED, SAW_CR3, SAW_MODE, SIGHTS };
void lockstep_saw(struct vcpu *vcpu, enum sight sight, uint64_t value);

/* lockstep_rules.c: NULL, or why the processor cannot be asked to execute `i` a second time. */
const char *lockstep_exempt(const struct insn *i);

/* True if QEMU does not look at what `i`, in the state `before`, has to refuse with `fault`:
   alignment, limits of segments, addresses that are not canonical, reserved bits of CR0, CR4, GDTR,
   IDTR. */
bool lockstep_refuses_more(const struct vcpu *before, const struct insn *i,
			   const struct fault *fault);

/* QEMU reads what an instruction reads and writes before it asks whether it may be written: the
   error code of a #PF then has W = 0. */
bool lockstep_reads_first(const struct insn *i);

/* Corrects what a processor with `deviations` made of a step by `i` that has left RIP at `i`. */
void lockstep_correct(struct vcpu *vcpu, const struct insn *i, unsigned deviations);

/* Flags that `i` leaves undefined (SDM Vol 1, appendix A), or that an emulator is known to lose. */
uint64_t lockstep_undefined_flags(const struct vcpu *vcpu, const struct insn *i);
