// SPDX-License-Identifier: MIT
#include "kernel/trap/trap.h"
#include "tests/lib/caught.h"
#include "tests/lib/machine.h"
#include "tests/lib/rig.h"

#define CR4_OSXMMEXCPT (1ul << 10)

extern const char fp_sse[], fp_sse_load[], fp_x87[], fp_x87_load[], fp_state[];

/* RDI: an MXCSR or control word that masks nothing, or a state with it; divides 0 by 0 then. */
__asm__(".pushsection .text\n"
	"fp_sse: ldmxcsr (%rdi)\n\txorps %xmm0, %xmm0\n\tdivps %xmm0, %xmm0\n\tjmp *%rbx\n"
	"fp_sse_load: ldmxcsr (%rdi)\n\tcvtps2pi 8(%rdi), %mm0\n\tjmp *%rbx\n"
	"fp_x87: fldcw 4(%rdi)\n\tfldz\n\tfldz\n\tfdivp\n\tfwait\n\tjmp *%rbx\n"
	"fp_x87_load: fldcw 4(%rdi)\n\tfldz\n\tfdivs 16(%rdi)\n\tfldz\n\tjmp *%rbx\n"
	"fp_state: fxrstor64 (%rsi)\n\txorpd %xmm1, %xmm1\n\tdivsd %xmm1, %xmm1\n\tjmp *%rbx\n"
	".popsection");

static const struct {
	uint32_t mxcsr;
	uint16_t control, unused;
	float huge[2], zero;
} operands = {0, 0x340, 0, {1e30f, 1e30f}, 0};
static uint8_t state[512] __attribute__((aligned(16)));

static struct faulted run(const char *code, uint64_t debugctl)
{
	static const uint8_t mxcsr[4] = {0x80, 0x1f, 0, 0};
	struct faulted caught;

	caught = caught_run(code, (uint64_t)&operands, (uint64_t)state, 0, false, debugctl);
	__asm__ volatile("fninit\n\tldmxcsr %0" : : "m"(mxcsr));
	return caught;
}

/* QEMU 7.2 raises few of them: then none must come traced either. `raises`: it has to come. */
static void check(const struct rig *rig, const char *code, bool raises)
{
	struct faulted untraced = run(code, 0), traced;
	uint64_t before = rig_index(rig);

	traced = run(code, rig_all());
	EXPECT(rig_index(rig) != before);
	EXPECT(!raises || untraced.vector == VECTOR_MF);
	EXPECT(caught_same(&untraced, &traced));
}

TEST(bts_transparent_fp_faults, .group = "transparency", .ids = "", .needs = NEED_BTS,
     .claim = "exceptions of SSE and x87 that are not masked come traced as they do untraced",
     .source = "SDM Vol 1, 8.4 and 11.5: #MF and #XM")
{
	uint64_t cr0, cr4;
	struct rig rig;

	rig_open(&rig, 256);
	machine_open();
	__asm__ volatile("mov %%cr0, %0; mov %%cr4, %1" : "=r"(cr0), "=r"(cr4));
	__asm__ volatile("mov %0, %%cr0" : : "r"(cr0 | 1ul << 5));
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4 | CR4_OSXMMEXCPT));
	__asm__ volatile("fninit\n\tfxsave64 %0" : "=m"(state));
	state[FXSAVE_MXCSR] = state[FXSAVE_MXCSR + 1] = 0;
	caught_open();
	check(&rig, fp_sse, false);
	check(&rig, fp_sse_load, false);
	check(&rig, fp_x87, true);
	check(&rig, fp_x87_load, false);
	check(&rig, fp_state, false);
	caught_close();
	__asm__ volatile("mov %0, %%cr4; mov %1, %%cr0" : : "r"(cr4), "r"(cr0));
	machine_close();
	rig_close(&rig);
}
