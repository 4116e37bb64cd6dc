// SPDX-License-Identifier: MIT
// The processor while packets are off: the last address, the cycle counter, FilterEn, an overflow.
#include "drivers/clock/tsc.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pt_rig.h"

#define AT(place) ((uint64_t)(place))

/* Two places of code that are not within 64 KiB: a direct JMP to the other one, which is MOV of RCX
   to CR3, MOV of RDX to CR3, JMP to RBX. CR3 of this address space by another PML4 table. */
const uint8_t *pt_near_last;
uint64_t pt_other_cr3;

TEST(pt_suppressed_address, .group = "PT", .ids = "PT153", .needs = NEED_PT,
     .claim = "where packets end without an address the last one before stays that which the next "
	      "is compressed by",
     .source = "SDM Vol 3, 36.4.2")
{
	static const uint8_t moves[] = {0x0f, 0x22, 0xd9, 0x0f, 0x22, 0xda, 0xff, 0xe3};
	enum { PAGES = 17, MOVE = 3 };
	const uint64_t control = PT_PLAIN | RTIT_CTL_CR3_FILTER;
	uint8_t *code = test_area(PAGES), *far = code + (PAGES - 1) * PT_RIG_BYTES;
	uint8_t *other = test_area(1), jump[5] = {0xe9};
	uint64_t own;

	if (!pt_caps()->cr3_filter)
		test_skip("the processor has no CR3 filter (CPUID.14H:EBX[0])");
	__asm__ volatile("movq %%cr3, %0" : "=r"(own));
	memcpy(other, direct(own & PTE_ADDRESS), PT_RIG_BYTES);
	pt_other_cr3 = pt_physical(other);
	pt_near_last = code;
	memcpy(jump + 1, &(uint32_t){(PAGES - 1) * PT_RIG_BYTES - sizeof(jump)}, 4);
	memcpy(code, jump, sizeof(jump));
	memcpy(far, moves, sizeof(moves));
	code_seal(code, PAGES);
	PT_RIG(rig, 1, false);
	pt_add_branch(&rig, FLOW_JMP, code, sizeof(jump));
	rig.blocks[0].target = AT(far);
	pt_add_branch(&rig, FLOW_CR3, far, MOVE);
	pt_add_branch(&rig, FLOW_CR3, far + MOVE, MOVE);
	pt_add_branch(&rig, FLOW_JMP_INDIRECT, far + 2 * MOVE, 2);
	rig.trace.configuration.cr3_match = own;
	pt_again(&rig, control);
	PT_TRACED(&rig, control,
		  "leaq 771f(%%rip), %%rbx\n\tmovq pt_other_cr3(%%rip), %%rcx\n\tmovq %%cr3, "
		  "%%rdx\n\tmovq pt_near_last(%%rip), %%rax\n\t" PT_JMP_TO("%%rax") "771:");
	PT_EXPECT_BODY(&rig, {.seen = SEEN_TARGET, .to = AT(code)}, {.seen = SEEN_LEAVE, .to = 0},
		       {.seen = SEEN_BEGIN, .to = AT(far) + 2 * MOVE},
		       {.seen = SEEN_TARGET, .to = pt_body_end(&rig)});
	code_unseal(code, PAGES);
}

/* A trace of CYC that begins without PSB, `away` ticks of the TSC after the last one ended. */
struct anew {
	uint64_t away, passed, sum;
	unsigned targets;
};

static struct anew trace_anew(struct pt_rig *rig, uint64_t away)
{
	const uint64_t control = PT_PLAIN | RTIT_CTL_CYC_EN;
	struct packet_reader reader;
	struct packet packet;
	struct anew anew = {.away = tsc_read()};

	pt_again(rig, control);
	wrmsr(IA32_RTIT_STATUS, 100ull << 32);
	while (tsc_read() - anew.away < away)
		__asm__ volatile("pause");
	anew.passed = tsc_read();
	anew.away = anew.passed - anew.away;
	PT_TRACED(rig, control,
		  "movl $20, %%esi\n\tleaq 1f(%%rip), %%rbx\n1:\tdecl %%esi\n\t" PT_JCC("jz", "2f")
			  PT_JMP_TO("%%rbx") "2:");
	anew.passed = tsc_read() - anew.passed;
	pt_reader(rig, &reader);
	while (packet_next(&reader, &packet)) {
		anew.sum += packet.kind == PACKET_CYC ? packet.value : 0;
		anew.targets += packet.kind == PACKET_TIP;
	}
	EXPECT(!reader.error);
	return anew;
}

/* A cycle of the core is at most 16 ticks of the TSC, and the other way round. A host of virtual
   silicon may take the processor away while the trace goes on: then it takes more than twice the
   least time. */
TEST(pt_cycles_begin_anew, .group = "PT", .ids = "PT154", .needs = NEED_PT,
     .claim = "the cycles that pass while TraceEn is clear are not among those of CYC",
     .source = "SDM Vol 3, 36.3.6")
{
	enum { RATIO = 16, AWAY = 2 * RATIO * RATIO, SHORT = 8, TURNS = 20 };
	uint64_t least = UINT64_MAX;
	struct pt_rig rig;
	struct anew anew = {0};
	unsigned told = 0;

	if (!pt_caps()->psb_cyc)
		test_skip("the processor has no CYC packets (CPUID.14H:EBX[1])");
	pt_open(&rig, 1, false);
	for (unsigned turn = 0; turn < SHORT + TURNS && !told; turn++) {
		anew = trace_anew(&rig, turn < SHORT ? 0 : 2 * AWAY * least);
		least = anew.passed < least ? anew.passed : least;
		EXPECT(anew.targets > 0);
		told += anew.away >= AWAY * anew.passed;
	}
	pt_close(&rig);
	if (told)
		EXPECT(anew.sum <= RATIO * anew.passed);
	else
		test_skip("the processor was taken away in each of %u traces", TURNS);
}

/* INT3, after which IA32_RTIT_STATUS is read, and its handler, which reads it as well. */
uint32_t pt_status_there, pt_status_back;
extern const char pt_reads[], pt_reads_end[], pt_reads_handler[], pt_reads_iret[];
__asm__(".pushsection .text\n"
	"pt_reads: int3\n\tmovl $0x571, %ecx\n\trdmsr\n\tmovl %eax, pt_status_back(%rip)\n\t" PT_JMP_TO(
		"%rbx") "pt_reads_end:\n"
			"pt_reads_handler: movl $0x571, %ecx\n\trdmsr\n\tmovl %eax, pt_status_there(%rip)\n"
			"pt_reads_iret: " PT_FAR("iretq") "\n"
							  ".popsection");

/* FilterEn of the handler, and after its IRET, with a range `n` from `first` to `last`. */
static void expect_enables(struct pt_rig *rig, unsigned n, const char *first, const char *last,
			   bool there)
{
	const uint32_t enables =
		RTIT_STATUS_FILTER_EN | RTIT_STATUS_CONTEXT_EN | RTIT_STATUS_TRIGGER_EN;
	const uint32_t on = enables, off = on & ~(uint32_t)RTIT_STATUS_FILTER_EN;

	pt_again(rig, PT_PLAIN);
	wrmsr(IA32_RTIT_ADDR0_A + 2 * n, AT(first));
	wrmsr(IA32_RTIT_ADDR0_A + 2 * n + 1, AT(last) - 1);
	PT_TRACED(rig, PT_PLAIN | RTIT_CTL_ADDR_CFG(n, RTIT_ADDR_FILTER),
		  "leaq 771f(%%rip), %%rbx\n\tleaq pt_reads(%%rip), %%rax\n\t" PT_JMP_TO(
			  "%%rax") "771:");
	if (there)
		PT_EXPECT_FLOW(rig, {.seen = SEEN_BEGIN, .to = AT(pt_reads_handler)},
			       {.seen = SEEN_LEAVE, .to = AT(pt_reads) + 1});
	else
		PT_EXPECT_FLOW(rig, {.seen = SEEN_BEGIN, .to = AT(pt_reads)},
			       {.seen = SEEN_END,
				.from = AT(pt_reads),
				.to = AT(pt_reads_handler),
				.next = AT(pt_reads) + 1},
			       {.seen = SEEN_BEGIN, .to = AT(pt_reads) + 1},
			       {.seen = SEEN_LEAVE, .to = pt_body_end(rig)});
	EXPECT_EQ(pt_status_there & enables, there ? on : off);
	EXPECT_EQ(pt_status_back & enables, there ? off : on);
}

TEST(pt_filter_enable_of_events, .group = "PT", .ids = "PT74", .needs = NEED_PT,
     .claim = "an event out of a range that filters clears FilterEn, one into it sets it, and the "
	      "handler's IRET undoes that",
     .source = "SDM Vol 3, 36.2.5")
{
	if (!pt_caps()->ranges)
		test_skip("the processor has no address ranges");
	PT_RIG(rig, 1, false);
	own_idt_copy();
	own_idt_set(VECTOR_BP, pt_reads_handler, false);
	own_idt_load();
	for (unsigned n = 0; n < 2 && n < pt_caps()->ranges; n++) {
		expect_enables(&rig, n, pt_reads, pt_reads_end, false);
		expect_enables(&rig, n, pt_reads_handler, pt_reads_iret + 1, true);
	}
	own_idt_unload();
}

/* In the range, and left at once. */
extern const char pt_visited[], pt_visited_end[];
__asm__(".pushsection .text\n"
	"pt_visited: nop\n\t" PT_JMP_TO("%rbx") "pt_visited_end:\n"
						".popsection");

TEST(pt_overflow_while_off, .group = "PT", .ids = "PT46", .needs = NEED_PT,
     .claim = "an overflow that ends while packets are off has no address after it: the branch "
	      "into the range begins them",
     .source = "SDM Vol 3, 36.3.8")
{
	const uint64_t control =
		PT_PLAIN | RTIT_CTL_CYC_EN | RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_FILTER);
	unsigned overflows = 0, begun = 0;
	struct flow_item item;
	struct pt_rig rig;
	struct flow flow;

	if (!pt_caps()->psb_cyc || !pt_caps()->ranges)
		test_skip("the processor has no CYC packets or no address ranges (CPUID.14H)");
	pt_open(&rig, 4, false);
	wrmsr(IA32_RTIT_ADDR0_A, AT(pt_visited));
	wrmsr(IA32_RTIT_ADDR0_A + 1, AT(pt_visited_end) - 1);
	PT_TRACED(&rig, control,
		  "movl $250, %%esi\n\tleaq 2f(%%rip), %%rbx\n\tleaq pt_visited(%%rip), %%rax\n"
		  "1:\tjmp *%%rax\n2:\tmovl $200, %%ecx\n3:\tloop 3b\n\tdecl %%esi\n\tjnz 1b");
	EXPECT(!pt_state(&rig.trace).stopped);
	pt_flow(&rig, &flow);
	while (flow_next(&flow, &item)) {
		overflows += item.what == FLOW_LOST;
		begun += item.what == FLOW_BEGINS;
		if (item.what == FLOW_BEGINS)
			EXPECT(item.to >= AT(pt_visited) && item.to < AT(pt_visited_end));
	}
	EXPECT(begun > 0);
	pt_expect_end(&flow);
	pt_close(&rig);
	test_observe("overflows", "%u", overflows);
	if (!overflows)
		test_skip("the output did not overflow");
}
