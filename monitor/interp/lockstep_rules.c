// SPDX-License-Identifier: MIT
/* The state that lockstep does not compare, each with the reason. */
#include <stddef.h>

#include "monitor/host/cpu.h"
#include "monitor/interp/lockstep.h"
#include "monitor/interp/memory.h"
#include "monitor/interp/string.h"

enum { ANY = -1 };

static const char twice[] = "acts on a device or the platform: not twice";
static const char time[] = "reads a clock";
static const char trap[] = "the trap is an instruction late: SDM Vol 3, 6.8.3, and QEMU's STI";
static const char lost[] = "QEMU loses RFLAGS.TF on the way, and with it the trap";

static const char width[] =
	"AMD's near branches have 16 bits after 66H, Intel's 64: SDM Vol 2, JMP";
static const char sign[] = "QEMU takes 16 unsigned bits as signed: SDM Vol 2, RET";
static const char own[] = "the processor has no such instruction";
static const char same[] = "Bochs returns within a level as in 32-bit code: SDM Vol 2, IRET";
static const char live[] = "the processor's own debug registers are not the guest's then";

/* `reg`: the reg field of ModRM. */
static const struct {
	uint16_t first, last;
	int8_t reg;
	const char *reason;
} exempt[] = {
	{0x6c, 0x6f, ANY, twice},   /* INS, OUTS */
	{0x8e, 0x8e, SS, trap},	    /* MOV SS */
	{0x17, 0x17, ANY, trap},    /* POP SS */
	{0xcc, 0xce, ANY, lost},    /* INT3, INT n, INTO */
	{0xe4, 0xe7, ANY, twice},   /* IN, OUT */
	{0xec, 0xef, ANY, twice},   /* IN, OUT */
	{0xf1, 0xf1, ANY, lost},    /* INT1 */
	{0xf4, 0xf4, ANY, twice},   /* HLT */
	{0xfb, 0xfb, ANY, trap},    /* STI */
	{0xf01, 0xf01, 7, time},    /* RDTSCP; SWAPGS, INVLPG beside it */
	{0xf05, 0xf05, ANY, lost},  /* SYSCALL */
	{0xf07, 0xf07, ANY, lost},  /* SYSRET */
	{0xf08, 0xf09, ANY, twice}, /* INVD, WBINVD */
	{0xf21, 0xf21, ANY, live},  /* MOV from DR */
	{0xf23, 0xf23, ANY, live},  /* MOV to DR */
	{0xf30, 0xf30, ANY, twice}, /* WRMSR */
	{0xf31, 0xf31, ANY, time},  /* RDTSC */
	{0xf32, 0xf32, ANY, twice}, /* RDMSR */
	{0xf34, 0xf35, ANY, lost},  /* SYSENTER, SYSEXIT */
	{0xfa2, 0xfa2, ANY, twice}, /* CPUID */
	{0xfc7, 0xfc7, 3, own},	    /* XRSTORS, where there is none underneath */
	{0xfc7, 0xfc7, 5, own},	    /* XSAVES */
	{0xfb2, 0xfb2, ANY, trap},  /* LSS */
};

/* RET, and JMP and CALL of a register or of memory */
static bool is_near_indirect(const struct insn *i)
{
	int reg = i->modrm >> 3 & 7;

	return (i->opcode & ~1u) == 0xc2 || (i->opcode == 0xff && (reg == 2 || reg == 4));
}

/* In 64-bit code, where alone addresses have 8 bytes. */
static bool is_narrow_branch(const struct insn *i)
{
	unsigned opcode = i->opcode;
	bool relative = (opcode & ~15u) == 0x70 || (opcode & ~15u) == 0xf80 ||
			(opcode & ~3u) == 0xe0 || opcode == 0xe8 || opcode == 0xe9 ||
			opcode == 0xeb;

	return i->prefixes & PREFIX_OPERAND && i->address_size == 8 &&
	       (relative || is_near_indirect(i));
}

const char *lockstep_exempt(const struct insn *i)
{
	int reg = i->modrm >> 3 & 7;

	if (is_narrow_branch(i))
		return width;
	if (i->opcode == 0xcf && i->size != 8 && i->address_size == 8 && !is_emulator())
		return same; /* IRET and IRETD, of which 64-bit code takes RSP and SS */
	if ((i->opcode | 8) == 0xca && i->immediate & 0x8000)
		return sign; /* RET n */
	if (i->opcode == 0x90 && i->prefixes & PREFIX_REP)
		return trap; /* PAUSE */
	if ((i->opcode & ~2u) == 0xf20 && i->rex & 4)
		return twice; /* CR8 is the local APIC's TPR */
	if (i->opcode == 0xf01 && (i->memory || i->modrm == 0xf8))
		return NULL;
	for (size_t n = 0; n < sizeof(exempt) / sizeof(exempt[0]); n++)
		if (i->opcode >= exempt[n].first && i->opcode <= exempt[n].last &&
		    (exempt[n].reg == ANY || exempt[n].reg == reg))
			return exempt[n].reason;
	return NULL;
}

bool lockstep_refuses_more(const struct vcpu *before, const struct insn *i,
			   const struct fault *fault)
{
	int reg = i->modrm >> 3 & 7;

	if (fault->vector == VECTOR_AC || (fault->vector == VECTOR_SS && i->memory))
		return true; /* QEMU raises #GP where an address by RSP is not canonical */
	if (fault->vector != VECTOR_GP)
		return false;
	return i->opcode == 0xf22 || (i->opcode == 0xf01 && i->memory && (reg == 2 || reg == 3)) ||
	       is_near_indirect(i) || (i->memory && !vcpu_in_64_bit_mode(before));
}

enum {
	ALL = FLAG_ARITHMETIC,
	NOT_CF = ALL & ~FLAG_CF,
	NOT_CF_ZF = ALL & ~(FLAG_CF | FLAG_ZF),
	NOT_CF_OF = ALL & ~(FLAG_CF | FLAG_OF),
	NOT_ZF = ALL & ~FLAG_ZF,
	SHIFTED = FLAG_AF | FLAG_OF | FLAG_CF, /* by more than one, or than there are bits */
};

/* `regs`: one bit for each value of the reg field. */
static const struct {
	uint16_t first, last;
	uint8_t regs;
	uint32_t flags;
} undefined_flags[] = {
	{0x08, 0x0d, 0xff, FLAG_AF},
	{0x20, 0x25, 0xff, FLAG_AF},
	{0x27, 0x27, 0xff, FLAG_OF},
	{0x2f, 0x2f, 0xff, FLAG_OF},
	{0x30, 0x35, 0xff, FLAG_AF},
	{0x37, 0x37, 0xff, NOT_CF & ~FLAG_AF},
	{0x3f, 0x3f, 0xff, NOT_CF & ~FLAG_AF},
	{0x69, 0x69, 0xff, NOT_CF_OF},
	{0x6b, 0x6b, 0xff, NOT_CF_OF},
	{0x80, 0x83, 0x52, FLAG_AF},
	{0x84, 0x85, 0xff, FLAG_AF},
	{0xa8, 0xa9, 0xff, FLAG_AF},
	{0xc0, 0xc1, 0x0f, FLAG_OF},
	{0xc0, 0xc1, 0xf0, SHIFTED},
	{0xd0, 0xd1, 0xf0, FLAG_AF},
	{0xd2, 0xd3, 0x0f, FLAG_OF},
	{0xd2, 0xd3, 0xf0, SHIFTED},
	{0xd4, 0xd5, 0xff, FLAG_OF | FLAG_AF | FLAG_CF},
	{0xf6, 0xf7, 0x03, FLAG_AF},
	{0xf6, 0xf7, 0x30, NOT_CF_OF},
	{0xf6, 0xf7, 0xc0, ALL},
	{0xfa3, 0xfa3, 0xff, NOT_CF_ZF},
	{0xfa4, 0xfa5, 0xff, SHIFTED},
	{0xfab, 0xfab, 0xff, NOT_CF_ZF},
	{0xfac, 0xfad, 0xff, SHIFTED},
	{0xfaf, 0xfaf, 0xff, NOT_CF_OF},
	{0xfb3, 0xfb3, 0xff, NOT_CF_ZF},
	{0xfba, 0xfbb, 0xff, NOT_CF_ZF},
	{0xfbc, 0xfbd, 0xff, NOT_ZF},
};

/* With several processors QEMU 7.2 executes an unaligned LOCK apart and loses its flags if
   RFLAGS.TF is set; memory is right. */
static bool loses_flags(const struct vcpu *vcpu, const struct insn *i)
{
	return i->prefixes & PREFIX_LOCK && i->memory && address_offset(vcpu, i) & (i->size - 1);
}

uint64_t lockstep_undefined_flags(const struct vcpu *vcpu, const struct insn *i)
{
	unsigned reg = 1u << (i->modrm >> 3 & 7);
	uint64_t flags = loses_flags(vcpu, i) ? ALL : 0;

	for (size_t n = 0; n < sizeof(undefined_flags) / sizeof(undefined_flags[0]); n++)
		if (i->opcode >= undefined_flags[n].first && i->opcode <= undefined_flags[n].last &&
		    undefined_flags[n].regs & reg)
			flags |= undefined_flags[n].flags;
	return flags;
}

bool lockstep_reads_first(const struct insn *i)
{
	bool stores_only = (i->opcode | 1) == 0x89 || (i->opcode | 1) == 0xa3 ||
			   (i->opcode | 1) == 0xc7 || i->opcode == 0x8c || i->form;

	return i->memory && !stores_only;
}

/* MOVS, CMPS, STOS, LODS, SCAS */
static bool repeats(const struct insn *i)
{
	return i->prefixes & PREFIX_ANY_REP && i->opcode >= 0xa4 && i->opcode <= 0xaf &&
	       (i->opcode & ~1u) != 0xa8;
}

void lockstep_correct(struct vcpu *vcpu, const struct insn *i, unsigned deviations)
{
	if (!repeats(i))
		return;
	if (string_register(vcpu, i, RCX)) {
		if (deviations & DEVIATION_RF_LOST)
			vcpu->rflags |= FLAG_RF;
	} else if (deviations & DEVIATION_STEP_TOO_MANY) {
		vcpu->rip = insn_next(i);
		vcpu->rflags &= ~(uint64_t)FLAG_RF;
	}
}
