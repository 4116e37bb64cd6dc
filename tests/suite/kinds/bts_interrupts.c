// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "kernel/lock.h"
#include "kernel/time.h"
#include "kernel/trap/trap.h"
#include "tests/lib/code.h"
#include "tests/lib/own_tables.h"
#include "tests/lib/rig.h"

extern const char interrupt_first[], interrupt_last[];

TEST(bts_interrupt_addresses, .group = "K", .ids = "K8 K6", .needs = NEED_BTS,
     .claim =
	     "the record of an interrupt leads from the RIP that it saves to the handler's first instruction",
     .source = "SDM Vol 3, 17.4.4 and 17.11.2")
{
	struct pending pending;
	uint64_t left = 1, from;

	RIG(rig, 1024);
	EXACTLY (&rig) {
		from = rig.base;
		pending_raise(&pending);
		TRACED_WITH(rig_all(),
			    "movl $64, %%ecx\n\tsti\n"
			    "interrupt_first: rep lodsb\n\t.fill 64, 1, 0x90\n"
			    "interrupt_last: cli\n\tmovq %%rcx, %[left]\n\t",
			    OPERANDS([left] "=&r"(left), "+&S"(from)), );
		pending_settle();
	}
	EXPECT(pending.rip >= (uint64_t)interrupt_first && pending.rip <= (uint64_t)interrupt_last);
	EXPECT_EQ(left, 0);
	pending_expect(&rig, 0, &pending);
}

extern const char branch_before[], branch_before_to[];

/* STI lets one more instruction pass: the jump, after which the interrupt is due at once. */
TEST(bts_branch_then_interrupt, .group = "K", .ids = "K8", .needs = NEED_BTS,
     .claim = "an interrupt right after a taken branch leaves its record after the branch's",
     .source =
	     "SDM Vol 3, 17.4.4 and 17.11.2; SDM Vol 2, STI: interrupts after the next instruction")
{
	struct pending pending;

	RIG(rig, 1024);
	EXACTLY (&rig) {
		pending_raise(&pending);
		TRACED(rig_all(), "sti\n"
				  "branch_before: jmp branch_before_to\n\tud2\n"
				  "branch_before_to: .fill 64, 1, 0x90\n\tcli\n\t");
		pending_settle();
	}
	rig_expect(&rig, 0, branch_before, branch_before_to);
	pending_expect(&rig, 1, &pending);
	EXPECT(pending.rip >= (uint64_t)branch_before_to);
	test_observe("interrupted_at", "target+%lu", pending.rip - (uint64_t)branch_before_to);
}

extern const char hlt_next[];

// Erratum AAJ122: after C1E, EIST or a T-state the from address of a record is wrong. The file
// linux-btrace.c of gdb refuses the models that have it, Nehalem to Ivy Bridge. HLT can lead to
// C1E, so the interrupt that ends it is where the erratum would show.
// The manual has an interrupt's from at the address that it returns to (SDM Vol 3, 17.11.2), which
// is that of the instruction after HLT (SDM Vol 2, HLT).
// On the listed models the log has "erratum AAJ122" with "rig_record(&rig, 0).from", and the result
// is XFAIL AAJ122. On any other the same line says "failed".
TEST(bts_hlt_wake, .group = "K", .ids = "K11", .needs = NEED_BTS,
     .claim =
	     "waking from HLT leaves no record but the interrupt's, from the instruction after HLT",
     .source = "SDM Vol 3, 17.4.4; SDM Vol 2, HLT: the saved RIP is that of the next instruction")
{
	struct pending pending;

	RIG(rig, 1024);
	EXACTLY (&rig) {
		pending_raise(&pending);
		TRACED(rig_all(), "sti\n\thlt\nhlt_next: cli\n\t");
		pending_settle();
	}
	EXPECT_EQ(pending.rip, hlt_next);
	pending_expect_way(&rig, 0, &pending);
	EXPECT_OR_ERRATUM(rig_record(&rig, 0).from == pending.rip, "AAJ122");
}

extern const char hlt_before[], hlt_before_to[], hlt_behind[], hlt_after[], hlt_after_to[];

TEST(bts_hlt_between, .group = "K", .ids = "K11", .needs = NEED_BTS,
     .claim =
	     "HLT loses neither the record of the branch before it nor those of the branches after",
     .source = "SDM Vol 3, 17.4.4: each taken branch")
{
	struct pending pending;

	RIG(rig, 64);
	own_idt_begin(VECTOR_TEST, own_handler_return, false);
	EXACTLY (&rig) {
		pending_raise(&pending);
		own_idt_load();
		TRACED(rig_all(), "hlt_before: jmp hlt_before_to\n\tud2\n"
				  "hlt_before_to: sti\n\thlt\n"
				  "hlt_behind: cli\n"
				  "hlt_after: jmp hlt_after_to\n\tud2\n"
				  "hlt_after_to:\n\t");
		own_idt_unload();
		lapic_eoi();
		pending_settle();
	}
	EXPECT_EQ(rig_count(&rig), 4);
	rig_expect(&rig, 0, hlt_before, hlt_before_to);
	EXPECT_EQ(rig_record(&rig, 1).to, own_handler_return);
	rig_expect(&rig, 2, own_handler_return, hlt_behind);
	rig_expect(&rig, 3, hlt_after, hlt_after_to);
}

#define TIMER_INTERRUPT_SLOTS 4096
#define DELAY		      2000 /* microseconds */
#define ENDS		      100000000

extern const char timer_top[], timer_jump[];

static volatile uint32_t expired;

static void expire(struct timer *timer)
{
	(void)timer;
	expired = 1;
}

/* A loop of two instructions, of which only the jump is a branch; it ends without the timer too. */
static void trace_timer_interrupt(void)
{
	TRACED_WITH(rig_all(),
		    "movl %[ends], %%ecx\n\tsti\n"
		    "timer_top: decl %%ecx\n\tjz 1f\n\tcmpl $0, %[expired]\n"
		    "timer_jump: je timer_top\n"
		    "1:\tcli\n\t",
		    , OPERANDS([expired] "m"(expired), [ends] "i"(ENDS)));
}

/* The buffer went round: the next slot, past one at the end that some processors leave out. */
static size_t behind(const struct rig *rig, size_t slot)
{
	size_t next = (slot + 1) % TIMER_INTERRUPT_SLOTS;

	return next == TIMER_INTERRUPT_SLOTS - 1 && !rig_record(rig, next).from ? 0 : next;
}

/* From the interrupt's record on to the IRETQ that leads back to where it came from. */
static bool returns(const struct rig *rig, size_t slot, uint64_t rip)
{
	for (size_t steps = 0; steps < TIMER_INTERRUPT_SLOTS; steps++) {
		struct bts_struct record;

		slot = behind(rig, slot);
		record = rig_record(rig, slot);
		if (record.to == rip)
			return text_is_iretq(record.from);
		if (record.from == (uint64_t)timer_jump)
			return false;
	}
	return false;
}

TEST(bts_timer_interrupt, .group = "K", .ids = "K8 K6", .needs = NEED_BTS,
     .claim = "a timer interrupt in a loop is recorded from the interrupted instruction, and so is "
	      "the way back to it",
     .source = "SDM Vol 3, 17.4.4 and 17.11.2")
{
	struct timer timer = {.expired = expire};
	unsigned interrupts = 0;
	uint64_t flags;
	size_t slot;

	RIG(rig, TIMER_INTERRUPT_SLOTS);
	expired = 0;
	flags = interrupts_save(); /* not taken before the trace_timer_interrupt, however late that
				      begins */
	timer_start(&timer, DELAY);
	trace_timer_interrupt();
	interrupts_restore(flags);
	timer_stop(&timer);
	REQUIRE(expired);
	for (slot = 0; slot < TIMER_INTERRUPT_SLOTS; slot++) {
		struct bts_struct record = rig_record(&rig, slot);

		if (record.to != trap_entry(VECTOR_TIMER))
			continue;
		interrupts++;
		EXPECT(record.from >= (uint64_t)timer_top && record.from <= (uint64_t)timer_jump);
		EXPECT(returns(&rig, slot, record.from));
	}
	EXPECT(interrupts >= 1);
}

#define NMI_ADDRESSES_SLOTS 8192

static volatile uint64_t nmi_rip;

static bool came(struct trap_frame *frame)
{
	if (nmi_rip)
		return false;
	nmi_rip = frame->rip;
	return true;
}

/* Sends it from within, since nothing can hold an NMI back, and waits for at most 1000 rounds. */
static void trace_nmi_addresses(void)
{
	TRACED_WITH(rig_all(),
		    "call lapic_self_nmi\n\t"
		    "movl $1000, %%ecx\n"
		    "1:\tpause\n\tcmpq $0, %[rip]\n\tjne 2f\n\tdecl %%ecx\n\tjnz 1b\n2:\t",
		    , OPERANDS([rip] "m"(nmi_rip)), "rsi", "rdi", "r8", "r9", "r10", "r11");
}

extern const char nmi_hlt_first[], nmi_hlt_next[];

/* Before the HLT or in it. Each record may raise another NMI, which changes nothing. */
static bool woke(struct trap_frame *frame)
{
	wrmsr(IA32_DEBUGCTL, 0);
	if (!nmi_rip && frame->rip >= (uint64_t)nmi_hlt_first &&
	    frame->rip <= (uint64_t)nmi_hlt_next) {
		nmi_rip = frame->rip;
		frame->rip = (uint64_t)nmi_hlt_next;
	}
	return true;
}

#define NMI_HLT_DELAY 200000 /* microseconds */

/*
 * The NMI of the threshold, which may be late: HLT is reached then. The timer ends it where no NMI
 * does. HLT can lead to C1E, as in bts_hlt_wake.
 */
static void check_hlt(struct rig *rig)
{
	struct timer timer = {.expired = expire};
	uint32_t lvtpc = apic_read(APIC_LVT_PC);
	uint64_t flags = interrupts_save();
	size_t slot = 0;

	rig_reset(rig);
	rig_set_threshold(rig, 1);
	nmi_rip = 0;
	test_handle_nmis(woke);
	lapic_set_lvtpc(0, true);
	timer_start(&timer, NMI_HLT_DELAY);
	TRACED(rig_interrupt(), "nmi_hlt_first: .rept 3\n\tjmp 1f\n1:\n\t.endr\n\t"
				"sti\n\thlt\nnmi_hlt_next: cli\n\t");
	timer_stop(&timer);
	interrupts_restore(flags);
	lapic_set_lvtpc((uint8_t)(lvtpc & LVT_VECTOR_MASK), lvtpc & LVT_NMI);
	lapic_mask_lvtpc();
	test_handle_nmis(NULL);
	while (rig_record(rig, slot).to != trap_entry(VECTOR_NMI) && slot < rig_count(rig))
		slot++;
	EXPECT(nmi_rip != 0);
	EXPECT_OR_ERRATUM(rig_record(rig, slot).from == nmi_rip, "AAJ122");
}

TEST(bts_nmi_addresses, .group = "K", .ids = "K8 K6", .needs = NEED_BTS,
     .claim = "the record of an NMI leads from the RIP that it saves to the handler's first "
	      "instruction",
     .source = "SDM Vol 3, 17.4.4 and 17.11.2")
{
	unsigned entries = 0, returns = 0;

	RIG(rig, NMI_ADDRESSES_SLOTS);
	EXACTLY (&rig) {
		nmi_rip = 0;
		test_handle_nmis(came);
		trace_nmi_addresses();
		test_handle_nmis(NULL);
	}
	REQUIRE(nmi_rip != 0);
	for (size_t slot = 0; slot < rig_count(&rig); slot++) {
		struct bts_struct record = rig_record(&rig, slot);

		if (record.to == trap_entry(VECTOR_NMI)) {
			EXPECT_EQ(record.from, nmi_rip);
			entries++;
		} else if (record.to == nmi_rip && entries && !returns) {
			EXPECT(text_is_iretq(record.from));
			returns++;
		}
	}
	EXPECT_EQ(entries, 1);
	EXPECT_EQ(returns, 1);
	check_hlt(&rig);
}

extern const char software_int3[], software_int3_next[], software_int_n[], software_int_n_next[],
	software_icebp[], software_icebp_next[];

static void trace_int3(void)
{
	TRACED(rig_all(), "software_int3: int3\nsoftware_int3_next:\n\t");
}

static void trace_int_n(void)
{
	TRACED(rig_all(), "software_int_n: int $0x30\nsoftware_int_n_next:\n\t");
}

static void trace_icebp(void)
{
	TRACED(rig_all(), "software_icebp: .byte 0xf1\nsoftware_icebp_next:\n\t");
}

static const char *from_word(uint64_t actual, const char *from, const char *next)
{
	if (actual == (uint64_t)from)
		return "from_instruction";
	return actual == (uint64_t)next ? "from_next" : "from_elsewhere";
}

/*
 * Processors are known to differ in `from`. Whether there is a record at all is not written; that
 * it leads to the handler, and the way back, is.
 */
static void observe(const char *key, unsigned vector, void (*trace)(void), const char *from,
		    const char *next)
{
	size_t count;

	RIG(rig, 16);
	own_idt_begin(vector, own_handler_return, false);
	EXACTLY (&rig) {
		own_idt_load();
		trace();
		own_idt_unload();
	}
	count = rig_count(&rig);
	EXPECT(count == 1 || count == 2);
	if (count == 2) {
		struct bts_struct record = rig_record(&rig, 0);

		EXPECT_EQ(record.to, own_handler_return);
		test_observe(key, "%s", from_word(record.from, from, next));
	} else {
		test_observe(key, "not_recorded");
	}
	rig_expect(&rig, count - 1, own_handler_return, next);
}

/* The vector that INT1 (F1H) raises: #DB after it, or on QEMU's translator #UD at it. */
static uint64_t int1_vector(void)
{
	__asm__ volatile("1:\t.byte 0xf1\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b") EXCEPTION_TABLE("2b", "2b")
			 :
			 :
			 : "memory");
	return trap_caught().vector;
}

static const char *int1_outcome(uint64_t vector)
{
	return vector == VECTOR_DB ? "debug_exception" : "undefined_opcode";
}

TEST(int1_raises_db, .group = "K", .ids = "K4", .needs = 0,
     .claim = "INT1 raises #DB; an emulator may not know it and raise #UD",
     .source = "SDM Vol 2, opcode map")
{
	uint64_t vector = int1_vector();

	EXPECT(vector == VECTOR_DB || vector == VECTOR_UD);
	test_observe("int1_raises", "%s", int1_outcome(vector));
}

TEST(bts_software_interrupts, .group = "K", .ids = "K4 K12", .needs = NEED_BTS,
     .claim = "INT3, INT n and INT1, where recorded, lead to the handler, and IRETQ leads back",
     .source = "SDM Vol 3, 17.4.4: taken branch, interrupt, or exception; SDM Vol 3, 17.2")
{
	uint64_t dr6, vector;
	struct rig rig;

	observe("int3", VECTOR_BP, trace_int3, software_int3, software_int3_next);
	observe("int_n", VECTOR_TEST, trace_int_n, software_int_n, software_int_n_next);
	/* An interpreter may know INT1 where the processor does not. */
	rig_open(&rig, 64);
	wrmsr(IA32_DEBUGCTL, rig_all());
	vector = int1_vector();
	wrmsr(IA32_DEBUGCTL, 0);
	rig_close(&rig);
	if (vector != VECTOR_DB) {
		test_observe("int1", "%s", int1_outcome(vector));
		return;
	}
	__asm__ volatile("mov %0, %%dr6" : : "r"(DR6_RESET));
	observe("int1", VECTOR_DB, trace_icebp, software_icebp, software_icebp_next);
	__asm__ volatile("mov %%dr6, %0" : "=r"(dr6));
	EXPECT_EQ(dr6, DR6_RESET);
}
