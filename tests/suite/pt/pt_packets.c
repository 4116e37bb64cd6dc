// SPDX-License-Identifier: MIT
// The packets of short pieces of code, byte by byte.
#include "tests/lib/code.h"
#include "tests/lib/pt_rig.h"

/* Somewhere else in the kernel's code, with a single way on: to RBX. */
extern const char pt_elsewhere[], pt_jcc[];
__asm__(".pushsection .text\n"
	".globl pt_elsewhere\n"
	"pt_elsewhere: jmp *%rbx\n"
	/* JNZ and JZ, two bytes each, to the RET after them */
	"pt_jcc: jnz 1f\n\tjz 1f\n1:\tret\n"
	".popsection");
#define GO_ELSEWHERE                                                                               \
	"leaq 771f(%%rip), %%rbx\n\tleaq pt_elsewhere(%%rip), %%rax\n\tjmp *%%rax\n771:"

/* Expects the bytes of `...` of a body between enabling and disabling. */
#define EXPECT_BYTES(rig, control, body, ...)                                                      \
	do {                                                                                       \
		static const uint8_t expected_[] = {__VA_ARGS__};                                  \
		struct pt_bytes bytes_;                                                            \
                                                                                                   \
		pt_again(rig, control);                                                            \
		PT_TRACED(rig, control, body);                                                     \
		bytes_ = pt_bytes(rig);                                                            \
		for (size_t n_ = 0; n_ != sizeof(expected_); n_++)                                 \
			pt_put(&bytes_, expected_[n_]);                                            \
		pt_expect_traced(rig, &bytes_);                                                    \
	} while (0)

static uint64_t address_at(const uint8_t *packet)
{
	uint64_t ip = 0;

	for (unsigned n = 0; n < 6; n++)
		ip |= (uint64_t)packet[1 + n] << 8 * n;
	return (uint64_t)((int64_t)(ip << 16) >> 16);
}

TEST(pt_enable_packets, .group = "PT", .ids = "PT15 PT17", .needs = NEED_PT,
     .claim = "a trace begins with PSB to PSBEND, MODE.Exec and the address after the WRMSR, and "
	      "ends with the address of the one that clears TraceEn",
     .source = "SDM Vol 3, 36.2.7")
{
	unsigned psb = 0, psbend = 0, mode = 0, address = 0;
	struct pt_bytes none;
	struct pt_rig rig;

	pt_open(&rig, 1, false);
	PT_TRACED(&rig, PT_PLAIN, "nop");
	for (size_t at = 0, end = pt_header(&rig), bytes; at < end && (bytes = pt_packet(&rig, at));
	     at += bytes) {
		const uint8_t *packet = rig.memory + at;

		psb += packet[0] == 0x02 && packet[1] == 0x82;
		psbend += packet[0] == 0x02 && packet[1] == 0x23;
		if (packet[0] == 0x99)
			mode++, EXPECT_EQ(packet[1], 1); /* CS.L */
		if ((packet[0] & 0x1f) != PT_PGE)
			continue;
		EXPECT(mode > 0);
		EXPECT_EQ(packet[0] >> 5, 3);
		EXPECT_EQ(address_at(packet), rig.first);
		address++;
	}
	EXPECT_EQ(psb, 1);
	EXPECT_EQ(psbend, 1);
	EXPECT_EQ(address, 1);
	none = pt_bytes(&rig);
	pt_expect_traced(&rig, &none);
	pt_close(&rig);
}

TEST(pt_no_psb_within_period, .group = "PT", .ids = "PT16", .needs = NEED_PT,
     .claim = "with a PacketByteCnt other than 0 a trace begins without PSB",
     .source = "SDM Vol 3, 36.2.7")
{
	struct pt_rig rig;
	size_t end;

	if (!pt_caps()->psb_cyc)
		test_skip("the processor counts no packet bytes (CPUID.14H:EBX[1])");
	pt_open(&rig, 1, false);
	wrmsr(IA32_RTIT_STATUS, 100ull << 32);
	PT_TRACED(&rig, PT_PLAIN, "nop");
	end = pt_state(&rig.trace).end;
	EXPECT(end > 0 && end < 32);
	for (size_t at = 0; at + 1 < end; at++)
		EXPECT(rig.memory[at] != 0x02 || rig.memory[at + 1] != 0x82);
	EXPECT_EQ(rig.memory[0], 0x02);
	EXPECT_EQ(rig.memory[1], 0x03);
	pt_close(&rig);
}

TEST(pt_conditional_bits, .group = "PT", .ids = "PT18", .needs = NEED_PT,
     .claim = "conditional branches are bits of TNT, the oldest one highest, six to a byte",
     .source = "SDM Vol 3, 36.4.2")
{
	struct pt_rig rig;

	pt_open(&rig, 1, false);
	EXPECT_BYTES(&rig, PT_PLAIN,
		     "xorl %%eax, %%eax\n\tjz 1f\n1:\tjnz 1f\n1:\tjnz 1f\n1:", 0x18);
	EXPECT_BYTES(&rig, PT_PLAIN, "movl $3, %%esi\n1:\tdecl %%esi\n\tjnz 1b", 0x1c);
	EXPECT_BYTES(&rig, PT_PLAIN, "movl $20, %%ecx\n1:\tloop 1b", 0xfe, 0xfe, 0xfe, 0x0c);
	EXPECT_BYTES(&rig, PT_PLAIN, "xorl %%ecx, %%ecx\n\tjrcxz 1f\n1:", 0x06);
	pt_close(&rig);
}

TEST(pt_direct_is_silent, .group = "PT", .ids = "PT19", .needs = NEED_PT,
     .claim = "direct jumps and calls emit nothing", .source = "SDM Vol 3, 36.4.2")
{
	struct pt_rig rig;

	pt_open(&rig, 1, false);
	EXPECT_BYTES(&rig, PT_PLAIN, ".rept 100\n\tjmp 1f\n1:\n\t.endr\n\tcall 2f\n2:\tpopq %%rax");
	pt_close(&rig);
}

TEST(pt_indirect_targets, .group = "PT", .ids = "PT20", .needs = NEED_PT,
     .claim = "an indirect jump emits its target, without the upper bytes of the last address",
     .source = "SDM Vol 3, 36.4.2")
{
	struct pt_bytes bytes;
	struct pt_rig rig;

	pt_open(&rig, 1, false);
	PT_TRACED(&rig, PT_PLAIN, GO_ELSEWHERE);
	bytes = pt_bytes(&rig);
	pt_put_ip(&bytes, PT_TIP, (uint64_t)pt_elsewhere);
	pt_put_ip(&bytes, PT_TIP, pt_body_end(&rig));
	pt_expect_traced(&rig, &bytes);
	pt_close(&rig);
}

/* Two pages of code that are not within 64 KiB: JMP to RBX, JMP to RDI. */
const uint8_t *pt_far[2];

TEST(pt_far_targets, .group = "PT", .ids = "PT20", .needs = NEED_PT,
     .claim = "an address has two, four or six bytes, as many as differ from the last one",
     .source = "SDM Vol 3, 36.4.2")
{
	static const uint8_t jumps[2][2] = {{0xff, 0xe3}, {0xff, 0xe7}};
	enum { PAGES = 17 };
	uint8_t *code = test_area(PAGES);
	struct pt_bytes bytes;
	struct pt_rig rig;

	for (unsigned n = 0; n < 2; n++) {
		pt_far[n] = code + n * (PAGES - 1) * PT_RIG_BYTES;
		memcpy((uint8_t *)pt_far[n], jumps[n], sizeof(jumps[n]));
	}
	code_seal(code, PAGES);
	pt_open(&rig, 1, false);
	PT_TRACED(&rig, PT_PLAIN,
		  "leaq 771f(%%rip), %%rdi\n\tmovq pt_far + 8(%%rip), %%rbx\n\t"
		  "movq pt_far(%%rip), %%rax\n\tjmp *%%rax\n771:");
	bytes = pt_bytes(&rig);
	pt_put_ip(&bytes, PT_TIP, (uint64_t)pt_far[0]);
	pt_put_ip(&bytes, PT_TIP, (uint64_t)pt_far[1]);
	pt_put_ip(&bytes, PT_TIP, pt_body_end(&rig));
	pt_expect_traced(&rig, &bytes);
	EXPECT_EQ(bytes.byte[0] >> 5, 3);
	EXPECT_EQ(bytes.byte[7] >> 5, 2);
	pt_close(&rig);
	code_unseal(code, PAGES);
}

TEST(pt_returns_compressed, .group = "PT", .ids = "PT21 PT23", .needs = NEED_PT,
     .claim = "a RET to after its CALL is a taken bit, a CALL of the next instruction is none",
     .source = "SDM Vol 3, 36.4.2")
{
	struct pt_rig rig;

	pt_open(&rig, 1, false);
	EXPECT_BYTES(&rig, PT_PLAIN, "call 1f\n\tjmp 2f\n1:\tret\n2:", 0x06);
	EXPECT_BYTES(&rig, PT_PLAIN, "call 1f\n\tjmp 3f\n1:\tcall 2f\n\tret\n2:\tret\n3:", 0x0e);
	EXPECT_BYTES(&rig, PT_PLAIN,
		     "call 1f\n\tjmp 3f\n1:\tcall 2f\n2:\tpopq %%rax\n\tret\n3:", 0x06);
	EXPECT_BYTES(&rig, PT_PLAIN,
		     "movl $6, %%esi\n\tcall 1f\n\tjmp 3f\n1:\tdecl %%esi\n\tjz 2f\n\tcall 1b\n"
		     "2:\tret\n3:",
		     0x82, 0xfe);
	pt_close(&rig);
}

TEST(pt_return_elsewhere, .group = "PT", .ids = "PT22", .needs = NEED_PT,
     .claim = "a RET to another place than its CALL's emits the target",
     .source = "SDM Vol 3, 36.4.2")
{
	struct pt_bytes bytes;
	struct pt_rig rig;

	pt_open(&rig, 1, false);
	PT_TRACED(&rig, PT_PLAIN,
		  "call 1f\n\tnop\n1:\tleaq 2f(%%rip), %%rax\n\tmovq %%rax, (%%rsp)\n\tret\n2:");
	bytes = pt_bytes(&rig);
	pt_put_ip(&bytes, PT_TIP, pt_body_end(&rig));
	pt_expect_traced(&rig, &bytes);
	pt_close(&rig);
}

TEST(pt_return_after_other, .group = "PT", .ids = "PT22", .needs = NEED_PT,
     .claim = "after a RET that is not compressed the next one is compressed or has its target",
     .source = "SDM Vol 3, 36.4.2")
{
	struct pt_bytes bytes;
	struct pt_walk walk = {0};
	unsigned targets = 0;
	struct pt_rig rig;

	pt_open(&rig, 1, false);
	PT_TRACED(&rig, PT_PLAIN,
		  "call 1f\n\tjmp 3f\n1:\tcall 2f\n\tnop\n2:\tleaq 4f(%%rip), %%rax\n\t"
		  "movq %%rax, (%%rsp)\n\tret\n4:\tret\n3:");
	while (pt_next(&rig, &walk))
		targets += walk.packet == PT_TIP;
	test_observe("outer_return", "%s", targets == 2 ? "target" : "compressed");
	bytes = pt_bytes(&rig);
	pt_put_ip(&bytes, PT_TIP, pt_body_end(&rig) - 1); /* RET */
	if (targets == 2)
		pt_put_ip(&bytes, PT_TIP, rig.first + 5); /* after CALL */
	else
		pt_put(&bytes, 0x06);
	pt_expect_traced(&rig, &bytes);
	pt_close(&rig);
}

TEST(pt_returns_uncompressed, .group = "PT", .ids = "PT24", .needs = NEED_PT,
     .claim = "with DisRETC every RET emits its target", .source = "SDM Vol 3, 36.2.7")
{
	struct pt_bytes bytes;
	struct pt_rig rig;

	pt_open(&rig, 1, false);
	PT_TRACED(&rig, PT_PLAIN | RTIT_CTL_DIS_RETC, "call 1f\n\tjmp 2f\n1:\tret\n2:");
	bytes = pt_bytes(&rig);
	pt_put_ip(&bytes, PT_TIP, pt_body_end(&rig) - 3); /* of JMP and RET */
	pt_expect_traced(&rig, &bytes);
	pt_close(&rig);
}

TEST(pt_cr3_packet, .group = "PT", .ids = "PT30", .needs = NEED_PT,
     .claim = "MOV to CR3 emits the new value at CPL 0", .source = "SDM Vol 3, 36.4.2")
{
	struct pt_bytes bytes;
	struct pt_rig rig;
	uint64_t cr3;

	pt_open(&rig, 1, false);
	__asm__ volatile("movq %%cr3, %0" : "=r"(cr3));
	PT_TRACED(&rig, PT_PLAIN, "movq %%cr3, %%rax\n\tmovq %%rax, %%cr3");
	bytes = pt_bytes(&rig);
	pt_put(&bytes, 0x02);
	pt_put(&bytes, 0x43);
	for (unsigned n = 0; n < 6; n++)
		pt_put(&bytes, (uint8_t)((cr3 & ~0xfffull) >> 5 << 1 >> 8 * n));
	pt_expect_traced(&rig, &bytes);
	pt_close(&rig);
}

/* Range 0 is the first byte of pt_elsewhere alone, which decides. */
static void load_range(struct pt_rig *rig, unsigned use)
{
	if (!pt_caps()->ranges)
		test_skip("the processor has no address ranges");
	pt_open(rig, 1, false);
	rig->trace.configuration.range[0].first = (uint64_t)pt_elsewhere;
	rig->trace.configuration.range[0].last = (uint64_t)pt_elsewhere;
	rig->trace.configuration.range[0].use = use;
	pt_again(rig, PT_PLAIN);
}

TEST(pt_address_filter, .group = "PT", .ids = "PT31", .needs = NEED_PT,
     .claim = "with an address range packets begin and end with the branches into and out of it",
     .source = "SDM Vol 3, 36.2.5")
{
	struct pt_bytes bytes = {.last_ip = (uint64_t)pt_elsewhere};
	struct pt_rig rig;

	load_range(&rig, RTIT_ADDR_FILTER);
	PT_TRACED(&rig, PT_PLAIN | RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_FILTER),
		  "call 1f\n\tjmp 2f\n1:\tret\n2:\n\t" GO_ELSEWHERE);
	pt_put_ip(&bytes, PT_PGD, pt_body_end(&rig));
	pt_expect(&rig, &bytes);
	pt_close(&rig);
}

TEST(pt_filter_left_by_jcc, .group = "PT", .ids = "PT31", .needs = NEED_PT,
     .claim = "a conditional branch out of a range ends the packets, with its target or without",
     .source = "SDM Vol 3, 36.2.5")
{
	struct pt_bytes bytes = {.last_ip = (uint64_t)pt_jcc};
	struct pt_walk walk = {0};
	bool target = false;
	struct pt_rig rig;

	load_range(&rig, RTIT_ADDR_FILTER);
	rig.trace.configuration.range[0].first = (uint64_t)pt_jcc;
	rig.trace.configuration.range[0].last = (uint64_t)pt_jcc + 3;
	pt_again(&rig, PT_PLAIN);
	PT_TRACED(&rig, PT_PLAIN | RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_FILTER),
		  "xorl %%esi, %%esi\n\tcall pt_jcc");
	while (pt_next(&rig, &walk))
		target |= walk.packet == PT_PGD && walk.with_ip;
	test_observe("jcc_out_of_range", "%s", target ? "target" : "suppressed");
	pt_put(&bytes, 0x04); /* the JNZ that is not taken */
	if (target)
		pt_put_ip(&bytes, PT_PGD, (uint64_t)pt_jcc + 4);
	else
		pt_put(&bytes, PT_PGD);
	pt_expect(&rig, &bytes);
	pt_close(&rig);
}

TEST(pt_trace_stop, .group = "PT", .ids = "PT32", .needs = NEED_PT,
     .claim = "a branch into a TraceStop range emits its target and TraceStop, and sets Stopped",
     .source = "SDM Vol 3, 36.4.2")
{
	struct pt_bytes bytes;
	struct pt_rig rig;

	load_range(&rig, RTIT_ADDR_TRACE_STOP);
	PT_TRACED(&rig, PT_PLAIN | RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_TRACE_STOP), GO_ELSEWHERE);
	bytes = pt_bytes(&rig);
	pt_put_ip(&bytes, PT_PGD, (uint64_t)pt_elsewhere);
	pt_put(&bytes, 0x02);
	pt_put(&bytes, 0x83);
	pt_expect(&rig, &bytes);
	EXPECT(pt_state(&rig.trace).stopped);
	EXPECT(!pt_state(&rig.trace).full);
	pt_close(&rig);
}

TEST(pt_without_branches, .group = "PT", .ids = "PT47", .needs = NEED_PT,
     .claim = "without BranchEn branches emit nothing", .source = "SDM Vol 3, 36.2.5")
{
	struct pt_bytes none = {0};
	struct pt_rig rig;
	bool taken;

	pt_open(&rig, 1, false);
	taken = wrmsr_safe(IA32_RTIT_CTL, pt_on(RTIT_CTL_OS));
	EXPECT_OR_ERRATUM(taken, "BDM106");
	if (!taken) {
		pt_close(&rig);
		return;
	}
	pt_again(&rig, PT_PLAIN);
	PT_TRACED(&rig, RTIT_CTL_OS, "movl $20, %%ecx\n1:\tloop 1b\n\t" GO_ELSEWHERE);
	pt_expect(&rig, &none);
	for (size_t at = 0, bytes; (bytes = pt_packet(&rig, at)); at += bytes)
		EXPECT((rig.memory[at] & 0x1f) != PT_PGE);
	pt_close(&rig);
}

TEST(pt_tsc_packet, .group = "PT", .ids = "PT48", .needs = NEED_PT,
     .claim = "with TSCEn a trace begins with the time-stamp counter",
     .source = "SDM Vol 3, 36.4.2")
{
	struct pt_rig rig;
	uint64_t before, after, tsc = 0;
	unsigned found = 0;

	pt_open(&rig, 1, false);
	pt_again(&rig, PT_PLAIN | RTIT_CTL_TSC_EN);
	before = __builtin_ia32_rdtsc();
	PT_TRACED(&rig, PT_PLAIN | RTIT_CTL_TSC_EN, "nop");
	after = __builtin_ia32_rdtsc();
	for (size_t at = 0, bytes; (bytes = pt_packet(&rig, at)); at += bytes) {
		if (rig.memory[at] != 0x19)
			continue;
		for (unsigned n = 0; n < 7; n++)
			tsc = n ? tsc | (uint64_t)rig.memory[at + 1 + n] << 8 * n
				: rig.memory[at + 1];
		EXPECT(tsc >= (before & 0xffffffffffffff));
		EXPECT(tsc <= (after & 0xffffffffffffff));
		found++;
	}
	EXPECT(found > 0);
	pt_close(&rig);
}
