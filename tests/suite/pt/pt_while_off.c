// SPDX-License-Identifier: MIT
// The processor while packets are off: the last address, the cycle counter, FilterEn, an overflow;
// one at the end of a trace, one and PSB within a CALL. Begins of traces in 16-bit code and in a
// code segment with a base; what such code emits.
#include "drivers/clock/tsc.h"
#include "kernel/mm/vm.h"
#include "kernel/silicon.h"
#include "kernel/trap/trap.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/pt_rig.h"

#define AT(place) ((uint64_t)(place))

/* Two places of code that are not within 64 KiB: a direct JMP to the other one, which is MOV of RCX
   to CR3, MOV of RDX to CR3, JMP to RBX. CR3 of this address space by another PML4 table. */
const uint8_t *pt_near_last;
uint64_t pt_elsewhere_cr3;

TEST(pt_suppressed_address, .group = "PT", .ids = "PT153", .needs = NEED_PT,
     .claim = "where packets end without an address the last one before stays that which the next "
	      "is compressed by",
     .source = "SDM Vol 3, 36.4.2")
{
	static const uint8_t moves[] = {0x0f, 0x22, 0xd9, 0x0f, 0x22, 0xda, 0xff, 0xe3};
	enum { PAGES = 17, MOVE = 3 };
	const uint64_t control = PT_PLAIN | RTIT_CTL_CR3_FILTER;
	uint8_t *code = test_area(PAGES), *far = code + (PAGES - 1) * PT_RIG_BYTES;
	uint8_t jump[5] = {0xe9};

	pt_elsewhere_cr3 = pt_other_cr3();
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
	rig.trace.configuration.cr3_match = pt_own_cr3();
	pt_again(&rig, control);
	PT_TRACED(&rig, control,
		  "leaq 771f(%%rip), %%rbx\n\tmovq pt_elsewhere_cr3(%%rip), %%rcx\n\tmovq %%cr3, "
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
	EACH_PACKET (rig, reader, packet) {
		anew.sum += packet.kind == PACKET_CYC ? packet.value : 0;
		anew.targets += packet.kind == PACKET_TIP;
	}
	EXPECT(!reader.error);
	return anew;
}

/* A cycle of the core is at most 16 ticks of the TSC, and the other way round. A host of virtual
   silicon may take the processor away while the trace goes on: then it takes more than eight times
   the least time. */
TEST(pt_cycles_begin_anew, .group = "PT", .ids = "PT154", .needs = NEED_PT,
     .claim = "the cycles that pass while TraceEn is clear are not among those of CYC",
     .source = "SDM Vol 3, 36.3.6")
{
	enum { RATIO = 16, AWAY = 2 * RATIO * RATIO, TIMES = 8, SHORT = 8, TURNS = 20 };
	uint64_t least = UINT64_MAX;
	struct pt_rig rig;
	struct anew anew = {0};
	unsigned told = 0;

	pt_need_cycles();
	pt_open(&rig, 1, false);
	for (unsigned turn = 0; turn < SHORT + TURNS && !told; turn++) {
		anew = trace_anew(&rig, turn < SHORT ? 0 : TIMES * AWAY * least);
		least = anew.passed < least ? anew.passed : least;
		EXPECT(anew.targets > 0);
		told += anew.away >= AWAY * anew.passed;
	}
	pt_close(&rig);
	if (told)
		EXPECT(anew.sum <= RATIO * anew.passed);
	else
		test_slow("the processor was taken away in each of %u traces", TURNS);
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
	uint64_t status;

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
				.bytes = 1},
			       {.seen = SEEN_BEGIN, .to = AT(pt_reads) + 1},
			       {.seen = SEEN_LEAVE, .to = pt_body_end(rig)});
	status = rdmsr(IA32_RTIT_STATUS);
	wrmsr(IA32_RTIT_STATUS, 0);
	if (!silicon_is_foreign_guest()) /* of a hypervisor pt_status_register tells */
		EXPECT_EQ((rdmsr(IA32_RTIT_STATUS) ^ status) & enables, 0);
	EXPECT_EQ(pt_status_there & enables, there ? on : off);
	EXPECT_EQ(pt_status_back & enables, there ? off : on);
}

TEST(pt_filter_enable_of_events, .group = "PT", .ids = "PT59 PT74", .needs = NEED_PT,
     .claim = "an event out of a range that filters clears FilterEn, one into it sets it, the "
	      "handler's IRET undoes that, and WRMSR leaves it",
     .source = "SDM Vol 3, 36.2.5 and 36.2.7")
{
	pt_need_ranges(1);
	PT_RIG(rig, 1, false);
	own_idt_begin(VECTOR_BP, pt_reads_handler, false);
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

/* Traces 160 visits, with long loops after each, out of range and address space and then out of the
   range alone; returns whether as many cycles as pass are told, or an overflow took their packets.
 */
static bool cycles_pass_while_off(struct pt_rig *rig, unsigned *overflows)
{
	enum { SLOWEST = 16 };
	const uint64_t control = PT_PLAIN | RTIT_CTL_CYC_EN | RTIT_CTL_CR3_FILTER |
				 RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_FILTER);
	uint64_t sum = 0, passed;
	unsigned begun = 0;
	bool timed = false;

	pt_again(rig, (uint32_t)control); /* ranges are in the configuration */
	wrmsr(IA32_RTIT_ADDR0_A, AT(pt_visited));
	wrmsr(IA32_RTIT_ADDR0_A + 1, AT(pt_visited_end) - 1);
	passed = tsc_read();
	PT_TRACED(rig, control,
		  "movl $160, %%esi\n\tleaq 2f(%%rip), %%rbx\n\tleaq pt_visited(%%rip), %%rax\n\t"
		  "movq pt_elsewhere_cr3(%%rip), %%rdi\n\tmovq %%cr3, %%rdx\n"
		  "1:\tjmp *%%rax\n2:\tmovq %%rdi, %%cr3\n\tmovl $100, %%ecx\n3:\tloop 3b\n\t"
		  "movq %%rdx, %%cr3\n\tmovl $100, %%ecx\n3:\tloop 3b\n\tdecl %%esi\n\tjnz 1b");
	passed = tsc_read() - passed;
	EXPECT(!pt_state(&rig->trace).stopped);
	EACH_FLOW (rig, flow, item) {
		sum += item.packet.kind == PACKET_CYC ? item.packet.value : 0;
		*overflows += item.what == FLOW_LOST;
		if (item.packet.kind == PACKET_OVF)
			EXPECT(timed);
		if (item.packet.kind != PACKET_PAD && item.packet.kind != PACKET_MNT)
			timed = item.packet.kind == PACKET_CYC;
		begun += item.what == FLOW_BEGINS;
		if (item.what == FLOW_BEGINS)
			EXPECT(item.to >= AT(pt_visited) && item.to < AT(pt_visited_end));
	}
	pt_expect_end(&flow);
	EXPECT(begun > 0);
	return *overflows || sum > passed / SLOWEST;
}

/* A host of virtual silicon may take the processor away right before the trace or after it. */
TEST(pt_overflow_while_off, .group = "PT", .ids = "PT46 PT109", .needs = NEED_PT,
     .claim = "an overflow that ends while packets are off has no address after it: the branch "
	      "into the range begins them; cycles count on meanwhile, and OVF has a CYC",
     .source = "SDM Vol 3, 36.3.6 and 36.3.8")
{
	unsigned overflows = 0;
	bool pass = false;

	pt_need_cycles();
	pt_need_ranges(1);
	pt_need_tables(); /* more packets than a page has room for */
	pt_elsewhere_cr3 = pt_other_cr3();
	PT_RIG(rig, 4, false);
	rig.trace.configuration.cr3_match = pt_own_cr3();
	for (unsigned turn = 0; turn < 10 && !pass; turn++)
		pass = cycles_pass_while_off(&rig, &overflows);
	EXPECT(pass);
	test_observe("overflows", "%u", overflows);
	if (!overflows)
		test_skip("the output did not overflow");
}

uint32_t pt_jumps_to_end;

/* DECL, JNZ to a place 64 KiB away, JMP to RAX; there two NOPs, JMP to RBX. An overflow of most
   lengths leads to that place, which no packet has told of. */
static const uint8_t away_code[] = {0xff, 0xce, 0x0f, 0x85, 0xf8, 0xff, 0, 0, 0xff, 0xe0};

TEST(pt_overflow_at_end, .group = "PT", .ids = "PT46 PT128", .needs = NEED_PT,
     .claim = "OVF follows an overflow too that the packets of clearing TraceEn begin; the address "
	      "after OVF is the last, by which the next is compressed",
     .source = "SDM Vol 3, 36.3.8 and 36.4.2")
{
	enum { PAGES = 17 };
	const uint64_t control = PT_PLAIN | RTIT_CTL_CYC_EN;
	uint8_t *code = test_area(PAGES), *away = code + (PAGES - 1) * PT_RIG_BYTES;
	unsigned overflows = 0;
	struct pt_rig rig;

	pt_need_cycles();
	memcpy(code, away_code, sizeof(away_code));
	memcpy(away, (uint8_t[]){0x90, 0x90, 0xff, 0xe3}, 4);
	pt_near_last = code;
	code_seal(code, PAGES);
	pt_open(&rig, 4, false);
	pt_add_branch(&rig, FLOW_JCC, code + 2, 6);
	rig.blocks[0].target = (uint64_t)away;
	pt_add_branch(&rig, FLOW_JMP_INDIRECT, code + 8, 2);
	pt_add_branch(&rig, FLOW_JMP_INDIRECT, away + 2, 2);
	for (unsigned turn = 0; turn < 256; turn++) {
		bool stops = turn % 2 && pt_caps()->ranges;
		uint64_t end = rig.last - PT_TRACED_TAIL; /* as it was last time */

		pt_jumps_to_end = turn / 2 + 1;
		pt_again(&rig, control);
		if (stops) {
			wrmsr(IA32_RTIT_ADDR0_A, end);
			wrmsr(IA32_RTIT_ADDR0_A + 1, end);
		}
		PT_TRACED(&rig, control | (stops ? RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_TRACE_STOP) : 0),
			  "movl pt_jumps_to_end(%%rip), %%esi\n\tleaq 2f(%%rip), %%rax\n\t"
			  "movq pt_near_last(%%rip), %%rbx\n\t" PT_JMP_TO("%%rbx") "2:");
		EACH_FLOW (&rig, flow, item)
			overflows += item.what == FLOW_LOST;
		pt_expect_end(&flow);
		EXPECT_EQ(!!(rig.trace.status & RTIT_STATUS_STOPPED), stops);
	}
	pt_close(&rig);
	code_unseal(code, PAGES);
	test_observe("overflows", "%u", overflows);
	if (!overflows)
		test_skip("the output did not overflow");
}

/* A CALL, then turns of a jump to RBX and of a Jcc, and the RET. */
#define CALL_OF_JUMPS(turns)                                                                       \
	PT_CALL("3f")                                                                              \
	PT_JMP("4f")                                                                               \
	"3:\tmovl $" #turns                                                                        \
	", %%esi\n\tleaq 1f(%%rip), %%rbx\n1:\tdecl %%esi\n\t" PT_JCC("jz", "2f")                  \
		PT_JMP_TO("%%rbx") "2:\t" PT_RET "4:"
enum { CALL_BYTES = 5, RET_BYTES = 1 };

/* The RET of CALL_OF_JUMPS(), to after the CALL. */
static bool is_return(const struct pt_rig *rig, const struct flow_item *item)
{
	return item->what == FLOW_BRANCH && item->from == pt_body_end(rig) - RET_BYTES &&
	       item->to == rig->first + CALL_BYTES;
}

TEST(pt_psb_forgets_calls, .group = "PT", .ids = "PT25", .needs = NEED_PT,
     .claim = "after a PSB a RET of an older CALL has its target, and the next address is whole",
     .source = "SDM Vol 3, 36.3.7")
{
	unsigned syncs = 0, branches = 0, returned = 0;
	struct flow_item item;
	struct pt_rig rig;
	struct flow flow;
	bool stopped;

	pt_open(&rig, 4, false); /* 700 addresses of nine bytes, where it may */
	PT_TRACED(&rig, PT_PLAIN, CALL_OF_JUMPS(700));
	stopped = pt_state(&rig.trace).stopped;
	pt_flow(&rig, &flow);
	while (!stopped && flow_next(&flow, &item)) {
		branches += item.what == FLOW_BRANCH;
		syncs += item.what == FLOW_PACKET && item.packet.kind == PACKET_PSB && branches &&
			 !returned;
		returned += is_return(&rig, &item);
	}
	pt_close(&rig);
	if (stopped)
		test_skip("700 addresses do not fit into the chunks");
	pt_expect_end(&flow); /* it forgets the CALL at PSB, and the last address */
	if (!syncs)
		test_skip("no PSB between CALL and RET");
	EXPECT_EQ(returned, 1);
}

/* The FUPs after OVF have all of their address. */
static void expect_whole(const struct pt_rig *rig)
{
	EACH_PACKET (rig, reader, packet)
		if (packet.kind == PACKET_FUP && packet.role == ROLE_RESUME)
			EXPECT(packet.count == 3 || packet.count == 6);
}

/* Whether an instruction of CALL_OF_JUMPS() or of what follows it in PT_TRACED() is at `ip`. */
static bool is_instruction(const struct pt_rig *rig, uint64_t ip)
{
	static const uint8_t bytes[] = {CALL_BYTES, 2, 5, 7, 2, 2, 2, RET_BYTES, 5, 3, 3};
	uint64_t at = rig->first;
	bool found = ip == at;

	for (size_t n = 0; n < sizeof(bytes); n++)
		found |= ip == (at += bytes[n]);
	REQUIRE_EQ(at, rig->last);
	return found;
}

TEST(pt_overflow, .group = "PT", .ids = "PT46", .needs = NEED_PT,
     .claim = "after an overflow the address of the next instruction is whole, and a RET of an "
	      "older CALL has its target",
     .source = "SDM Vol 3, 36.3.8")
{
	const uint64_t control = PT_PLAIN | RTIT_CTL_CYC_EN;
	unsigned overflows = 0;
	struct pt_rig rig;

	pt_need_cycles();
	pt_open(&rig, 4, false);
	pt_again(&rig, control);
	/* Below 2 KiB: a PSB would forget the CALL as well. */
	PT_TRACED(&rig, control, CALL_OF_JUMPS(150));
	EACH_FLOW (&rig, flow, item) {
		overflows += item.what == FLOW_LOST;
		EXPECT(item.what != FLOW_EVENT || item.ends);
		if (item.what == FLOW_BEGINS && overflows)
			EXPECT(is_instruction(&rig, item.to));
	}
	EXPECT(!pt_state(&rig.trace).stopped);
	pt_expect_end(&flow); /* it forgets the CALL at OVF */
	expect_whole(&rig);
	pt_close(&rig);
	test_observe("overflows", "%u", overflows);
	if (!overflows)
		test_skip("the output did not overflow");
}

/* WRMSR, NOP, a far JMP to the instruction after it, which is 64-bit code: JMP to RBX. In 16-bit
   code; in 32-bit code whose segment has a base, bit 31 of addresses being set; there with LOOP of
   itself in the place of NOP. */
#define NARROW_AT 0x9000u
#define BASED_AT  0xc0100000u
enum { LOOPS = 2, BEGINS, CODE_BYTES = 13 };
static const struct begin {
	uint8_t bytes[CODE_BYTES], mode;
	uint16_t selector;
	uint32_t linear, out; /* out: of the 64-bit code */
} begins[BEGINS] = {
	{"\x0f\x30\x90\xea\x08\x90\x08\0\xff\xe3", 0, OWN_CODE_16, NARROW_AT, NARROW_AT + 8},
	{"\x0f\x30\x90\xea\x0a\0\x10\xc0\x08\0\xff\xe3", 2, OWN_CODE_32_BASED, BASED_AT,
	 BASED_AT + 10},
	{"\x0f\x30\xe2\xfe\xea\x0b\0\x10\xc0\x08\0\xff\xe3", 2, OWN_CODE_32_BASED, BASED_AT,
	 BASED_AT + 11}};
uint64_t pt_based_selector, pt_based_offset;

static void begin_based(uint64_t control)
{
	uint32_t low = (uint32_t)control, high = (uint32_t)(control >> 32), msr = IA32_RTIT_CTL;

	own_gdt_load();
	__asm__ volatile("leaq 1f(%%rip), %%rbx\n\tpushq pt_based_selector(%%rip)\n\t"
			 "pushq pt_based_offset(%%rip)\n\tlretq\n1:"
			 : "+a"(low), "+d"(high), "+c"(msr)
			 :
			 : "rbx", "memory", "cc");
	own_gdt_unload();
}

/* The next instruction where a PSB or an OVF may be; in 64-bit code the kernel's own follow. */
static bool is_next_in_base(const struct begin *code, uint64_t begin, uint64_t address)
{
	return address - begin <= 2 || address == code->out || address >> 47;
}

/* Of a trace that begins there after `bytes` of packets; how many PSBs it has. The one before is of
   64-bit code: the last MODE.Exec need not be repeated (36.4.2.8). */
static unsigned expect_begin_in_base(struct pt_rig *rig, const struct begin *code, uint64_t bytes)
{
	uint64_t begin = (cpuid(0x14, 0).ecx >> 31 ? code->linear : pt_based_offset) + 2;
	uint64_t mode = 0, next = 0, control = PT_PLAIN;
	unsigned begun = 0, syncs = 0;

	PT_TRACED(rig, PT_PLAIN, "");
	pt_again(rig, PT_PLAIN);
	if (code == &begins[LOOPS]) {
		control |= RTIT_CTL_CYC_EN;
	} else if (bytes) {
		wrmsr(IA32_RTIT_STATUS, bytes << 32);
	} else if (pt_caps()->ranges) {
		wrmsr(IA32_RTIT_ADDR0_A, begin);
		wrmsr(IA32_RTIT_ADDR0_A + 1, begin);
		control |= RTIT_CTL_ADDR_CFG(0, RTIT_ADDR_FILTER);
	}
	begin_based(pt_on(control));
	pt_stop(&rig->trace);
	EACH_PACKET (rig, reader, packet) {
		if (packet.kind == PACKET_MODE_EXEC)
			mode = packet.value;
		if (packet.kind == PACKET_FUP)
			next = packet.value;
		if (packet.kind == PACKET_TIP_PGE && !begun++)
			EXPECT(packet.value == begin && mode == code->mode);
		if (packet.kind == PACKET_PSBEND && reader.psb_fup)
			EXPECT(is_next_in_base(code, begin, next) &&
			       mode == (next - begin <= 2 ? code->mode : 1));
		if (packet.role == ROLE_RESUME) /* after OVF, perhaps without MODE.Exec */
			EXPECT(is_next_in_base(code, begin, next));
		syncs += packet.kind == PACKET_PSB;
	}
	EXPECT(!reader.error && begun == 1);
	return syncs;
}

TEST(pt_begin_in_base, .group = "PT", .ids = "PT101 PT104 PT136 PT155", .needs = NEED_PT,
     .claim =
	     "of a trace that begins in a code segment with a base addresses, of PSB+, a range and "
	     "an overflow too, are within it, or linear, and MODE.Exec is right, in 16-bit code "
	     "too; PSB ends a period",
     .source = "SDM Vol 3, 36.3.1 and 36.3.7")
{
	uint8_t *page = test_area(1);
	unsigned late = 0;

	for (unsigned n = 0; n < (pt_caps()->psb_cyc ? BEGINS : LOOPS); n++) {
		memcpy(page, begins[n].bytes, CODE_BYTES);
		code_map(begins[n].linear, page, 0);
		pt_based_selector = begins[n].selector;
		pt_based_offset = begins[n].linear - (n ? OWN_BASE : 0);
		PT_RIG(rig, 4, false); /* LOOP has a CYC for each turn */
		EXPECT(expect_begin_in_base(&rig, &begins[n], 0));
		if (pt_caps()->psb_cyc && n < LOOPS) /* after two periods, nearly */
			late += expect_begin_in_base(&rig, &begins[n], 4096 - 8);
		code_unmap(begins[n].linear);
	}
	/* A period is one on average: 36.2.7.2. */
	EXPECT(late || !pt_caps()->psb_cyc);
}

/* --- What code of other sizes emits ------------------------------------------------------------
 */

/* UD2; INT3; LOOP, JCXZ, JMP to AX, each to what follows; far JMP to the instruction after it,
   which is 32-bit code: the same to 64-bit code: JMP to RBX. */
static const uint8_t code_16[] = {0x0f, 0x0b, 0xcc, 0xe2, 0,	0xe3, 0,	   0xb8, 0x0c,
				  0x90, 0xff, 0xe0, 0xea, 0x11, 0x90, OWN_CODE_32, 0,	 0xea,
				  0x18, 0x90, 0,    0,	  0x08, 0,    0xff,	   0xe3};
enum { FAR_16 = 12, FROM_32 = 17 };
/* In 32-bit code whose segment has a base to 64-bit code at once. */
static const uint8_t based_code[] = {0x0f, 0x0b, 0xcc, 0xe2, 0,	   0xe3, 0,    0xb8,
				     0x0e, 0,	 0x10, 0xd0, 0xff, 0xe0, 0xea, 0x15,
				     0,	   0x10, 0xc0, 0x08, 0,	   0xff, 0xe3};
enum { INT3_AT = 2, LOOPS_AT = 3, JCXZ_AT = 5, FAR_BASED = 14, IRETQ_BYTES = 2 };
enum { VECTOR_OVERFLOW = 4, SOFTWARE_VECTOR = 0x60 };

struct other_code {
	const uint8_t *bytes;
	size_t size;
	uint64_t linear, selector;
	unsigned mode;	  /* of MODE.Exec */
	unsigned far;	  /* offset of its far JMP */
	unsigned from_32; /* of the 32-bit code that it goes through, or 0 */
	uint8_t into;	  /* the opcode of INTO in the place of INT3, or 0 */
};
uint64_t pt_code_selector, pt_code_offset;

/* Of UD2: its first instruction, in code without a base, is an event too. */
extern const char pt_interrupted_at_once[];
__asm__(".pushsection .text\n"
	"pt_interrupted_at_once: int $0x60\n\taddq $2, (%rsp)\n\t" PT_FAR("iretq") ".popsection");

/* Runs it by a far return; its addresses in packets begin with `at`. */
static void expect_event_in(const struct other_code *code, uint64_t offset, uint64_t at)
{
	unsigned jump = (unsigned)code->size - 2, next = code->from_32 ? code->from_32 : jump;
	const uint64_t first = AT(pt_interrupted_at_once), handler = AT(own_handler_return);
	struct pt_expected all[19] = {
		{.seen = SEEN_MODE, .to = code->mode},
		{.seen = SEEN_TARGET, .to = at},
		{.seen = SEEN_MODE, .to = 1},
		{.seen = SEEN_EVENT, .from = at, .to = first},
		{.seen = SEEN_EVENT, .from = first, .to = handler, .bytes = 2},
		{.seen = SEEN_TARGET, .to = first + 2},
		{.seen = SEEN_MODE, .to = code->mode},
		{.seen = SEEN_TARGET, .to = at + INT3_AT},
		{.seen = SEEN_MODE, .to = 1},
		{.seen = SEEN_EVENT, .from = at + INT3_AT, .to = handler, .bytes = 1},
		{.seen = SEEN_MODE, .to = code->mode},
		{.seen = SEEN_TARGET, .to = at + LOOPS_AT},
		{.seen = SEEN_TAKEN}, /* RCX: IA32_RTIT_CTL */
		{.seen = SEEN_NOT_TAKEN},
		{.seen = SEEN_TARGET, .to = at + code->far}};
	uint8_t *page = test_area(1);
	struct pt_rig rig;
	size_t n = 15;

	memcpy(page, code->bytes, code->size);
	page[INT3_AT] = code->into ? code->into : page[INT3_AT];
	code_map(code->linear, page, 0);
	pt_code_selector = code->selector;
	pt_code_offset = offset;
	pt_open(&rig, 1, false);
	own_idt_begin(SOFTWARE_VECTOR, own_handler_return, false);
	own_idt_set(VECTOR_UD, pt_interrupted_at_once, false);
	own_idt_set(VECTOR_BP, own_handler_return, false);
	own_idt_set(VECTOR_OVERFLOW, own_handler_return, false);
	pt_add_branch(&rig, FLOW_FAR, own_handler_return, IRETQ_BYTES);
	pt_add_branch(&rig, FLOW_JCC, (const void *)(at + LOOPS_AT), 2);
	rig.blocks[1].target = at + JCXZ_AT;
	pt_add_branch(&rig, FLOW_JCC, (const void *)(at + JCXZ_AT), 2);
	pt_add_branch(&rig, FLOW_JMP_INDIRECT, (const void *)(at + code->far - 2), 2);
	pt_add_branch(&rig, FLOW_FAR, (const void *)(at + code->far), next - code->far);
	if (code->from_32) {
		pt_add_branch(&rig, FLOW_FAR, (const void *)(code->linear + next), jump - next);
		all[n++] = (struct pt_expected){.seen = SEEN_MODE, .to = 2};
		all[n++] = (struct pt_expected){.seen = SEEN_TARGET, .to = code->linear + next};
	}
	all[n++] = (struct pt_expected){.seen = SEEN_MODE, .to = 1};
	all[n++] = (struct pt_expected){.seen = SEEN_TARGET, .to = code->linear + jump};
	pt_add_branch(&rig, FLOW_JMP_INDIRECT, (const void *)(code->linear + jump), 2);
	own_gdt_load();
	own_idt_load();
	PT_TRACED(&rig, PT_PLAIN,
		  "movb $0x7f, %%al\n\tincb %%al\n\t" /* OF */
		  "leaq 1f(%%rip), %%rbx\n\tpushq pt_code_selector(%%rip)\n\t"
		  "pushq pt_code_offset(%%rip)\n\t" PT_FAR("lretq") "1:");
	own_idt_unload();
	own_gdt_unload();
	all[n++] = (struct pt_expected){.seen = SEEN_TARGET, .to = pt_body_end(&rig)};
	pt_expect_body(&rig, all, n);
	pt_close(&rig);
	code_unmap(code->linear);
}

TEST(pt_mode_events, .group = "PT", .ids = "PT112 PT114 PT121 PT136 PT138", .needs = NEED_PT,
     .claim = "MODE.Exec says 16-bit code, and the change by an event out of it and by its IRET",
     .source = "SDM Vol 3, 36.4.2")
{
	struct other_code code = {code_16, sizeof(code_16), NARROW_AT, OWN_CODE_16,
				  0,	   FAR_16,	    FROM_32,   0};

	expect_event_in(&code, NARROW_AT, NARROW_AT);
	code.into = 0xce;
	expect_event_in(&code, NARROW_AT, NARROW_AT);
}

TEST(pt_code_base, .group = "PT", .ids = "PT138 PT155", .needs = NEED_PT,
     .claim = "addresses are within the code segment, or linear, as CPUID.14H:ECX[31] says",
     .source = "SDM Vol 3, 36.3.1 and 36.4.2")
{
	const uint64_t offset = BASED_AT - OWN_BASE;

	expect_event_in(&(struct other_code){based_code, sizeof(based_code), BASED_AT,
					     OWN_CODE_32_BASED, 2, FAR_BASED, 0, 0},
			offset, cpuid(0x14, 0).ecx >> 31 ? BASED_AT : offset);
}
