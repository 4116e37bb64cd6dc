// SPDX-License-Identifier: MIT
#include "drivers/processor.h"
#include "lib/string.h"
#include "tests/framework/random.h"
#include "tests/lib/random_programs/machine.h"
#include "tests/lib/rig.h"

#define CR4_OSXSAVE  (1ul << 18)
#define LEAF_1_XSAVE (1u << 26)
#define LEAF_1_AVX   (1u << 28)
#define XCR0_AVX     7u
#define ROUNDS	     50
#define VECTORS	     8
#define BYTES	     (VECTORS * 32)

extern const char avx_code[];

/* RDI: eight vectors of 256 bits, RSI: rounds. Branches, so that there is something to record. */
__asm__(".pushsection .text\n"
	"avx_code: vmovups (%rdi), %ymm0\n\tvmovups 32(%rdi), %ymm1\n"
	"1:\tvxorps %ymm0, %ymm1, %ymm2\n\tvandnps 64(%rdi), %ymm2, %ymm3\n\t"
	"vshufps $0x1b, %ymm3, %ymm0, %ymm4\n\tvperm2f128 $1, %ymm4, %ymm2, %ymm5\n\t"
	"vpermilps $0x39, %ymm5, %ymm6\n\tvblendps $0x5a, %ymm6, %ymm1, %ymm7\n\t"
	"vunpcklps %ymm7, %ymm4, %ymm8\n\tvextractf128 $1, %ymm8, 96(%rdi)\n\t"
	"vinsertf128 $0, 112(%rdi), %ymm8, %ymm9\n\tvmovups %ymm9, 128(%rdi)\n\t"
	"vpaddd %xmm9, %xmm2, %xmm10\n\tvpsrlq $3, %xmm10, %xmm11\n\tvmovdqu %xmm11, 160(%rdi)\n\t"
	"vmovmskps %ymm9, %eax\n\tvorps %ymm9, %ymm1, %ymm0\n\tvmovups %ymm4, %ymm1\n\t"
	"vmovups %ymm0, 192(%rdi)\n\tdecq %rsi\n\tjnz 1b\n\tvmovups %ymm1, 224(%rdi)\n\t"
	"vzeroupper\n\tret\n"
	".popsection");

static uint8_t data[2][BYTES];

static void run(uint64_t debugctl, struct machine *machine, uint8_t *vectors)
{
	struct random random;

	random_seed(&random, 7);
	for (size_t at = 0; at < BYTES; at++)
		vectors[at] = (uint8_t)random_next(&random);
	machine_randomize(machine, &(struct random){1});
	machine->registers[RDI] = (uint64_t)vectors;
	machine->registers[RSI] = ROUNDS;
	machine_run(machine, avx_code, debugctl);
	machine->registers[RDI] = 0;
}

TEST(bts_transparent_avx, .group = "transparency", .ids = "", .needs = NEED_BTS,
     .claim = "a loop of AVX instructions ends in the same vectors traced and untraced",
     .source = "SDM Vol 3, 17.4.5: BTS stores records, and does nothing else")
{
	static struct machine untraced, traced;
	uint64_t cr4;
	struct rig rig;

	if (~cpuid(1, 0).ecx & (LEAF_1_XSAVE | LEAF_1_AVX))
		test_skip("no AVX (CPUID.1:ECX[28])");
	rig_open(&rig, 256);
	machine_open();
	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4 | CR4_OSXSAVE));
	__asm__ volatile("xsetbv" : : "a"(XCR0_AVX), "d"(0), "c"(0));
	run(0, &untraced, data[0]);
	run(rig_all(), &traced, data[1]);
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4));
	machine_close();
	EXPECT(machine_same(&untraced, &traced));
	EXPECT(memcmp(data[0], data[1], BYTES) == 0);
	EXPECT_EQ(rig_count(&rig), ROUNDS + 1);
	rig_close(&rig);
}
