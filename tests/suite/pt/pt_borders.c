// SPDX-License-Identifier: MIT
// Output to the byte: single ranges, regions of any size, tables of several pages, and what is
// wrong with them, all in one run of pages, of which nothing else may be written.
#include "drivers/processor.h"
#include "kernel/mm/page.h"
#include "lib/string.h"
#include "tests/lib/pt_rig.h"

#define SUPPORTED_ADDRESSES 0x80000008u
#define NO_PSB		    (300ull << 32) /* PacketByteCnt */

enum { ORDER = PAGE_ORDER_MOST, BYTES = PT_RIG_BYTES << ORDER, NEXT_BYTES = 2 * PT_RIG_BYTES };
enum { TABLE_PAGES = 3, SECOND_TABLE = 1024, LAST_OF_PAGE = 511 }; /* in entries */
enum { BACKS = 40, SURELY = 16 }; /* fewer bytes than BODY makes, however short packets are */

/* Of the run's linear addresses; the tables and the region after it are of their own. */
static struct {
	struct pt_rig rig;
	uint8_t *bytes, *next;
	uint64_t *table;
	uint64_t physical, next_physical, table_physical;
} at;

static void open(void)
{
	enum { TABLE_ORDER = 2 };

	pt_open(&at.rig, 1, false);
	at.physical = page_alloc_run(ORDER);
	at.next_physical = page_alloc_run(1);
	at.table_physical = page_alloc_run(TABLE_ORDER);
	at.bytes = direct(at.physical);
	at.next = direct(at.next_physical);
	at.table = direct(at.table_physical);
	EXPECT(at.physical && at.next_physical && at.table_physical);
	memset(at.bytes, PT_RIG_POISON, BYTES);
	memset(at.next, PT_RIG_POISON, NEXT_BYTES);
}

static void close(void)
{
	pt_close(&at.rig);
	page_free_run(at.physical, ORDER);
	page_free_run(at.next_physical, 1);
	page_free_run(at.table_physical, 2);
}

/* IA32_RTIT_STATUS and IA32_RTIT_CTL at the end of the body. */
uint64_t pt_status_traced, pt_control_traced;

/* A bit of TNT and a TIP: fewer than 128 bytes of packets, whatever a processor adds. AS_THEY_ARE:
   where the output registers lead by themselves. A table, from every other byte on, has PSB too. */
#define AS_THEY_ARE UINT64_MAX
static void run(uint64_t base, uint64_t pointers, uint64_t output)
{
	bool begins_with_psb = output && pointers >> 32 & 1;

	pt_off();
	if (base != AS_THEY_ARE) {
		wrmsr(IA32_RTIT_OUTPUT_BASE, base);
		wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, pointers);
	}
	wrmsr(IA32_RTIT_STATUS, pt_caps()->psb_cyc && !begins_with_psb ? NO_PSB : 0);
	PT_TRACED_AS(
		&at.rig, PT_PLAIN | output | RTIT_CTL_TRACE_EN,
		"leaq 1f(%%rip), %%rbx\n\txorl %%eax, %%eax\n\t" PT_JCC("jz", "2f") "2:\t" PT_JMP_TO(
			"%%rbx") "1:\tmovl $0x571, %%ecx\n\t"
				 "rdmsr\n\tmovl %%eax, "
				 "pt_status_traced(%%rip)\n\tmovl $0x570, %%ecx\n\t"
				 "rdmsr\n\tmovl %%eax, "
				 "pt_control_traced(%%rip)");
}

static void run_table(uint64_t base, uint64_t index, uint64_t offset)
{
	run(base, RTIT_POINTERS(index, offset), RTIT_CTL_TOPA);
}

/* A stretch of the memory that output is to fill, in order. */
struct stretch {
	uint8_t *bytes;
	size_t size;
};

static bool is_poison(const uint8_t *bytes, size_t size)
{
	const uint64_t *words = (const void *)bytes;

	for (size_t n = 0; n < size / sizeof(*words); n++)
		if (words[n] != PT_RIG_POISON * 0x0101010101010101)
			return false;
	return true;
}

/* Moves what was written out of the stretches, and says that nothing else was. */
static size_t take(uint8_t *copy, const struct stretch *stretch, size_t count)
{
	size_t taken = 0;

	for (; taken < count; stretch++) {
		size_t size = stretch->size < count - taken ? stretch->size : count - taken;

		memcpy(copy + taken, stretch->bytes, size);
		memset(stretch->bytes, PT_RIG_POISON, size);
		taken += size;
	}
	EXPECT(is_poison(at.bytes, BYTES) && is_poison(at.next, NEXT_BYTES));
	return taken;
}

enum { COPY_BYTES = 512 };
static uint8_t copy[COPY_BYTES];

/* The body as a whole is in the stretches, from the first byte of the first one on. */
static void expect_body(const struct stretch *stretch, size_t count)
{
	struct pt_rig view = at.rig;

	EXPECT(!(at.rig.trace.status & (RTIT_STATUS_ERROR | RTIT_STATUS_STOPPED)));
	EXPECT(pt_status_traced & RTIT_STATUS_TRIGGER_EN && at.rig.trace.status >> 32 != 300);
	EXPECT(count > SURELY && count < COPY_BYTES);
	if (count >= COPY_BYTES)
		return;
	take(copy, stretch, count);
	view.memory = copy;
	view.trace.status = 0;
	view.trace.output_mask_ptrs = RTIT_POINTERS(0, count);
	PT_EXPECT_BODY(&view, {.seen = SEEN_TAKEN},
		       {.seen = SEEN_TARGET, .to = view.first + 7 + 2 + 2 + 2});
}

static uint64_t end_offset(void)
{
	return RTIT_OUTPUT_OFFSET(at.rig.trace.output_mask_ptrs);
}

static uint64_t end_index(void)
{
	return RTIT_TABLE_INDEX(at.rig.trace.output_mask_ptrs);
}

/* This bit alone, and TraceEn stays. While it traced: TriggerEn ends with the bit, which waits for
   packets that are still within the processor. */
static bool ended_by(uint64_t bit)
{
	return (at.rig.trace.status & (RTIT_STATUS_ERROR | RTIT_STATUS_STOPPED)) == bit &&
	       pt_control_traced & RTIT_CTL_TRACE_EN &&
	       (!(pt_status_traced & bit) || !(pt_status_traced & RTIT_STATUS_TRIGGER_EN));
}

/* Error, no packet, no change of TraceEn. */
static void expect_nothing(void)
{
	EXPECT(ended_by(RTIT_STATUS_ERROR));
	EXPECT(is_poison(at.bytes, BYTES) && is_poison(at.next, NEXT_BYTES));
	if (!is_poison(at.bytes, BYTES) || !is_poison(at.next, NEXT_BYTES)) {
		memset(at.bytes, PT_RIG_POISON, BYTES);
		memset(at.next, PT_RIG_POISON, NEXT_BYTES);
	}
}

TEST(pt_single_range, .group = "PT", .ids = "PT77 PT78 PT79 PT104", .needs = NEED_PT,
     .claim = "output to a single range of any size wraps after its last byte, wherever a packet "
	      "is cut, and changes neither base nor mask",
     .source = "SDM Vol 3, 36.2.6")
{
	if (!pt_caps()->single_range)
		test_skip("the processor has no single-range output (CPUID.14H:ECX[2])");
	open();
	for (size_t size = 128; size <= BYTES / 2; size *= 2)
		for (size_t back = 1; back <= BACKS * (size >= 2 * PT_RIG_BYTES ? 2 : 1); back++) {
			uint64_t base = at.physical + size;
			/* Then at a border of pages amid it. */
			size_t start = back <= BACKS ? size - back : size / 2 + BACKS - back;
			struct stretch ring[] = {{at.bytes + size + start, size - start},
						 {at.bytes + size, start}};

			run(base, (uint64_t)start << 32 | (size - 1), 0);
			EXPECT_EQ(at.rig.trace.output_base, base);
			EXPECT_EQ((uint32_t)at.rig.trace.output_mask_ptrs, size - 1);
			EXPECT(end_offset() < size);
			expect_body(ring, (end_offset() - start) & (size - 1));
		}
	/* All that a mask can say. */
	if (at.physical <= UINT32_MAX) {
		run(0, at.physical << 32 | UINT32_MAX, 0);
		expect_body(&(struct stretch){at.bytes, COPY_BYTES}, end_offset() - at.physical);
	}
	close();
}

TEST(pt_single_range_errors, .group = "PT", .ids = "PT80", .needs = NEED_PT,
     .claim = "a mask with a hole, a base not aligned to it and an offset above it set Error",
     .source = "SDM Vol 3, 36.2.6")
{
	static const struct {
		uint64_t base, mask, offset;
	} bad[] = {{0, 0x17f, 0},     {0, 0x2ff, 0},	   {0, 0x800000ff, 0}, {0x80, 0xff, 0},
		   {0x100, 0x1ff, 0}, {0x1000, 0x1fff, 0}, {0, 0xff, 0x100},   {0, 0xfff, 0x1000},
		   {0, 0xff, 0x1000}, {0, 0x1fff, 0x2000}, {0x800, 0xfff, 0}};

	if (!pt_caps()->single_range)
		test_skip("the processor has no single-range output (CPUID.14H:ECX[2])");
	open();
	for (size_t n = 0; n < sizeof(bad) / sizeof(bad[0]); n++) {
		run(at.physical + bad[n].base, bad[n].offset << 32 | bad[n].mask, 0);
		expect_nothing();
	}
	for (uint64_t offset = 0x80; offset < BYTES; offset *= 2) {
		run(at.physical, offset << 32 | 0x7f, 0);
		expect_nothing();
	}
	close();
}

/* From `back` bytes before the end of entry `index`, which is the run's first 4 KiB << order, into
   what follows it: the next entry's region, or where a table has one only, the same again. The
   number of bytes. */
static size_t cross(uint64_t index, unsigned order, size_t back)
{
	size_t size = (size_t)PT_RIG_BYTES << order, count;
	bool many = pt_caps()->topa_many;
	struct stretch ring[] = {{at.bytes + size - back, back},
				 {many ? at.next : at.bytes, NEXT_BYTES / 2}};

	at.table[index] = at.physical | TOPA_SIZE(order);
	at.table[index + 1] = many ? at.next_physical : at.table_physical | TOPA_END;
	run_table(at.table_physical, index, size - back);
	count = end_offset();
	if (end_index() == index && end_offset() >= size - back)
		count -= size - back;
	else
		count += back;
	EXPECT_EQ(end_index(), count < back ? index : many ? index + 1 : 0);
	EXPECT_EQ(at.rig.trace.output_base, at.table_physical);
	expect_body(ring, count);
	return count;
}

/* A page that is full, or a smaller region, is not the region. */
static void run_over_part(unsigned order, unsigned part)
{
	size_t start = ((size_t)PT_RIG_BYTES << part) - SURELY;

	at.table[0] = at.physical | TOPA_SIZE(order);
	run_table(at.table_physical, 0, start);
	EXPECT_EQ(end_index(), 0);
	expect_body(&(struct stretch){at.bytes + start, COPY_BYTES}, end_offset() - start);
}

/* The run is somewhere in the region, whose other memory has no part in it. */
static void run_amid(unsigned order)
{
	uint64_t base = at.physical & ~(((uint64_t)PT_RIG_BYTES << order) - 1);

	at.table[0] = base | TOPA_SIZE(order);
	run_table(at.table_physical, 0, at.physical - base);
	expect_body(&(struct stretch){at.bytes, COPY_BYTES}, base + end_offset() - at.physical);
}

/* The same in the upper half of the region, if the machine has memory there. Runs of memory that
   are elsewhere are held meanwhile, each with the address of the one before. */
static void run_in_upper_half(unsigned order)
{
	uint64_t lower = at.physical, held = 0, run;

	while ((run = page_alloc_run(ORDER)) && !(run & PT_RIG_BYTES / 2ul << order)) {
		*(uint64_t *)direct(run) = held;
		held = run;
	}
	if (run) {
		at.physical = run;
		at.bytes = direct(run);
		memset(at.bytes, PT_RIG_POISON, BYTES);
		run_amid(order);
		page_free_run(run, ORDER);
		at.physical = lower;
		at.bytes = direct(lower);
	}
	while ((run = held)) {
		held = *(uint64_t *)direct(run);
		page_free_run(run, ORDER);
	}
}

TEST(pt_region_borders, .group = "PT", .ids = "PT81 PT82 PT83", .needs = NEED_PT,
     .claim = "output begins where the pointers say, fills regions of any size, and goes on in the "
	      "next one between any two bytes of a packet",
     .source = "SDM Vol 3, 36.2.6")
{
	static const size_t backs[] = {1, 2, 5, 15, 2000};

	open();
	for (size_t back = 1; back <= BACKS; back++)
		for (uint64_t index = 0; index < (pt_caps()->topa_many ? 3 : 1); index++)
			cross(index, 0, back);
	/* The last byte of all fills the region, with PSB or without. */
	for (size_t back = COPY_BYTES; back <= COPY_BYTES + 1; back++)
		cross(0, 0, cross(0, 0, back));
	for (unsigned order = 0; order <= ORDER; order++)
		for (size_t n = 0; n < sizeof(backs) / sizeof(backs[0]); n++)
			cross(0, order, backs[n]);
	for (uint64_t index = 1; pt_caps()->topa_many && index < 4; index++)
		cross(index, 1 + (unsigned)index % 2, backs[index]);
	for (unsigned order = 1; order <= ORDER; order++)
		for (unsigned part = 0; part < order; part++)
			run_over_part(order, part);
	for (unsigned order = ORDER + 1; order < 16; order++) {
		run_amid(order);
		run_in_upper_half(order);
	}
	close();
}

/* Entry `index` is the run's first page, from its last bytes on; what follows is at `next`. */
static void expect_next(uint64_t base, uint64_t index, uint64_t end_base, uint64_t end)
{
	struct stretch stretch[] = {{at.bytes + PT_RIG_BYTES - SURELY, SURELY},
				    {at.next, NEXT_BYTES / 2}};

	run_table(base, index, PT_RIG_BYTES - SURELY);
	EXPECT_EQ(at.rig.trace.output_base, end_base);
	EXPECT_EQ(end_index(), end);
	expect_body(stretch, end_offset() + SURELY);
}

TEST(pt_tables, .group = "PT", .ids = "PT82 PT87 PT88 PT89", .needs = NEED_PT,
     .claim = "a table goes on over its pages, and END leads to the first entry of any table, "
	      "whatever size it has",
     .source = "SDM Vol 3, 36.2.6")
{
	uint64_t first, second;

	pt_need_tables();
	open();
	first = at.table_physical;
	second = first + SECOND_TABLE * sizeof(at.table[0]);
	for (size_t n = 0; n < SECOND_TABLE; n++)
		at.table[n] = (at.physical + BYTES / 2) | TOPA_STOP;
	/* Over the border of a page, and from beyond it. */
	at.table[LAST_OF_PAGE] = at.physical;
	at.table[LAST_OF_PAGE + 1] = at.next_physical;
	expect_next(first, LAST_OF_PAGE, first, LAST_OF_PAGE + 1);
	at.table[LAST_OF_PAGE + 1] = at.physical;
	at.table[LAST_OF_PAGE + 2] = at.next_physical;
	expect_next(first, LAST_OF_PAGE + 1, first, LAST_OF_PAGE + 2);
	/* An index of more bits: the table begins so far before. */
	for (unsigned bit = 16; bit < 25 && first >> bit >= sizeof(at.table[0]); bit++) {
		uint64_t before = first - (sizeof(at.table[0]) << bit);

		at.table[0] = at.physical;
		at.table[1] = at.next_physical;
		expect_next(before, 1ul << bit, before, (1ul << bit) + 1);
	}
	/* From there back. */
	at.table[LAST_OF_PAGE] = at.physical;
	at.table[LAST_OF_PAGE + 1] = first | TOPA_END;
	at.table[0] = at.next_physical;
	expect_next(first, LAST_OF_PAGE, first, 0);
	/* To another table, and back. */
	at.table[0] = at.physical;
	at.table[1] = second | TOPA_END;
	at.table[SECOND_TABLE] = at.next_physical;
	at.table[SECOND_TABLE + 1] = first | TOPA_END;
	expect_next(first, 0, second, 0);
	at.table[0] = at.next_physical;
	at.table[SECOND_TABLE] = at.physical;
	expect_next(second, 0, first, 0);
	/* To one in each page. One of two pages in a row is not aligned to any greater size, which
	   is ignored with END. */
	for (unsigned n = 0; n < 32; n++) {
		size_t entry = (LAST_OF_PAGE + 1) * (1 + n % 2);
		uint64_t there = first + entry * sizeof(at.table[0]);

		at.table[0] = at.physical;
		at.table[1] = there | TOPA_SIZE(n / 2) | TOPA_END;
		at.table[entry] = at.next_physical;
		expect_next(first, 0, there, 0);
	}
	at.table[SECOND_TABLE] = at.physical;
	at.table[0] = at.next_physical;
	/* END first, in the table itself and in the other one. */
	run_table(second, 1, SURELY);
	expect_body(&(struct stretch){at.next, NEXT_BYTES / 2}, end_offset());
	at.table[0] = second | TOPA_END;
	run_table(first, 0, 0);
	expect_nothing();
	run_table(second, 1, 0);
	expect_nothing();
	close();
}

/* Entry 0 is reached when tracing begins, one of each page when the region before is full. */
static void expect_bad(uint64_t entry)
{
	at.table[0] = entry;
	at.table[1] = at.table_physical | TOPA_END;
	run_table(at.table_physical, 0, 0);
	expect_nothing();
	for (unsigned n = 1; n <= LAST_OF_PAGE + 1 && pt_caps()->topa_many; n += LAST_OF_PAGE) {
		at.table[n - 1] = at.next_physical;
		at.table[n] = entry;
		run_table(at.table_physical, n - 1, PT_RIG_BYTES - SURELY);
		memset(at.next + PT_RIG_BYTES - SURELY, PT_RIG_POISON, SURELY);
		expect_nothing();
	}
}

TEST(pt_entry_errors, .group = "PT", .ids = "PT84 PT85 PT86 PT89 PT94 PT97", .needs = NEED_PT,
     .claim = "a reserved bit, a region not aligned to its size, an offset not below it, and a "
	      "table not aligned to a page set Error, at the first entry and at a later one",
     .source = "SDM Vol 3, 36.2.6")
{
	unsigned most = cpuid(SUPPORTED_ADDRESSES, 0).eax & 0xff;

	open();
	for (unsigned bit = 0; bit < 64; bit++) {
		if (bit != 1 && bit != 3 && bit != 5 && bit != 10 && bit != 11 && bit < most)
			continue;
		expect_bad(at.physical | 1ull << bit);
		expect_bad(at.table_physical | TOPA_END | 1ull << bit);
	}
	for (unsigned order = 1; order <= 15; order++)
		for (unsigned part = 0; part < order && part < ORDER; part++)
			expect_bad((at.physical + (PT_RIG_BYTES << part)) | TOPA_SIZE(order));
	for (unsigned n = 0; n < (pt_caps()->topa_many ? 8 : 4); n++) {
		unsigned order = n % 4, index = n / 4;

		at.table[0] = at.next_physical;
		at.table[index] = at.physical | TOPA_SIZE(order);
		at.table[index + 1] = at.table_physical | TOPA_END;
		for (unsigned beyond = 0; beyond < 3; beyond++) {
			run_table(at.table_physical, index,
				  beyond == 2 ? 8192ull << order : (4096ull << order) + beyond);
			expect_nothing();
		}
	}
	at.table[0] = at.physical;
	at.table[1] = at.table_physical | TOPA_END;
	for (unsigned bit = 7; bit < 12; bit++) {
		at.table[(1u << bit) / 8] = at.physical;
		at.table[(1u << bit) / 8 + 1] = at.table_physical | TOPA_END;
		run_table(at.table_physical | 1u << bit, 0, 0);
		expect_nothing();
	}
	run_table(at.table_physical | 0x80, 0, 0);
	wrmsr(IA32_RTIT_STATUS, 0);
	wrmsr(IA32_RTIT_CTL, pt_on(PT_PLAIN));
	EXPECT_EQ(rdmsr(IA32_RTIT_CTL), pt_on(PT_PLAIN));
	close();
}

TEST(pt_stop_borders, .group = "PT", .ids = "PT39 PT90 PT93", .needs = NEED_PT,
     .claim =
	     "STOP ends the trace at the last byte of its region, wherever that cuts a packet: "
	     "Stopped, no packet more, the pointers at the region's end: no error while it is left",
     .source = "SDM Vol 3, 36.2.6")
{
	struct packet_reader reader;
	struct packet packet;

	open();
	for (uint64_t index = 0; index < (pt_caps()->topa_many ? 2 : 1); index++)
		for (size_t back = 1; back <= SURELY; back++) {
			unsigned order = back % 2 ? (unsigned)back / 2 : 0;
			size_t size = (size_t)PT_RIG_BYTES << order;

			at.table[0] = at.next_physical;
			at.table[index] = at.physical | TOPA_SIZE(order) | TOPA_STOP;
			at.table[index + 1] = index || pt_caps()->topa_many
						      ? at.next_physical
						      : at.table_physical | TOPA_END;
			run_table(at.table_physical, index, size - back);
			EXPECT(ended_by(RTIT_STATUS_STOPPED));
			EXPECT_EQ(rdmsr(IA32_RTIT_STATUS) & RTIT_STATUS_STOPPED,
				  RTIT_STATUS_STOPPED);
			EXPECT_EQ(at.rig.trace.output_base, at.table_physical);
			EXPECT_EQ(at.rig.trace.output_mask_ptrs, RTIT_POINTERS(index, size));
			/* That offset is an error if Stopped is clear. */
			wrmsr(IA32_RTIT_CTL, pt_on(PT_PLAIN));
			pt_off();
			EXPECT(!(rdmsr(IA32_RTIT_STATUS) & RTIT_STATUS_ERROR));
			take(copy, &(struct stretch){at.bytes + size - back, back}, back);
			packet_start(&reader, copy, back);
			while (packet_next(&reader, &packet))
				EXPECT(packet.kind != PACKET_TIP_PGD);
			EXPECT(!reader.error || reader.cut);
		}
	close();
}

TEST(pt_starts_again, .group = "PT", .ids = "PT93 PT95", .needs = NEED_PT,
     .claim = "a trace goes on at the byte where the last one ended, and with a table that was "
	      "mended; Error stays until software clears it",
     .source = "SDM Vol 3, 36.2.6 and 36.2.7")
{
	uint64_t start = 0;

	open();
	at.table[0] = at.physical;
	at.table[1] = at.table_physical | TOPA_END;
	for (unsigned turn = 0; turn < 4; turn++) {
		if (turn)
			run(AS_THEY_ARE, 0, RTIT_CTL_TOPA);
		else
			run_table(at.table_physical, 0, start);
		expect_body(&(struct stretch){at.bytes + start, COPY_BYTES}, end_offset() - start);
		start = end_offset();
	}
	at.table[0] = at.physical | 2;
	run_table(at.table_physical, 0, 0);
	expect_nothing();
	at.table[0] = at.physical;
	wrmsr(IA32_RTIT_CTL, pt_on(PT_PLAIN));
	EXPECT(rdmsr(IA32_RTIT_STATUS) & RTIT_STATUS_ERROR);
	pt_off();
	expect_nothing();
	run_table(at.table_physical, 0, 0);
	expect_body(&(struct stretch){at.bytes, 1000}, end_offset());
	at.table[0] = at.next_physical;
	run_table(at.table_physical, 0, 0);
	expect_body(&(struct stretch){at.next, 1000}, end_offset());
	close();
}
