// SPDX-License-Identifier: MIT
/* A rig whose DS area a test spoils, and all that two branches then change around it. */
#include "drivers/apic/lapic.h"
#include "drivers/processor.h"
#include "kernel/mm/page.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "lib/format.h"
#include "lib/string.h"
#include "tests/framework/pages.h"
#include "tests/lib/code.h"
#include "tests/lib/pt_rig.h"
#include "tests/lib/rig.h"

#define MALFORMED_SLOTS 16

struct malformed {
	struct rig rig;
	uint8_t *pages, *area; /* as they are to be found again */
};

#define OFFSET 1024 /* of the base in its page */

static void keep(struct malformed *m)
{
	memcpy(m->pages, m->rig.pages, m->rig.page_count * PAGE_SIZE);
	memcpy(m->area, m->rig.area_page, PAGE_SIZE);
}

static void put_back(const struct malformed *m)
{
	memcpy(m->rig.pages, m->pages, m->rig.page_count * PAGE_SIZE);
	memcpy(m->rig.area_page, m->area, PAGE_SIZE);
}

/* A sound rig of MALFORMED_SLOTS slots with room before and after; not while another is open. */
static void malformed_open(struct malformed *m)
{
	rig_open_at(&m->rig, MALFORMED_SLOTS, OFFSET);
	m->pages = test_area(m->rig.page_count);
	m->area = test_area(1);
	keep(m);
}

static void malformed_close(struct malformed *m)
{
	put_back(m);
	rig_close(&m->rig);
}

/* Bytes of the buffer's pages that are not as they were, as offsets from the base. */
static bool find_changes(const struct malformed *m, int64_t *first, int64_t *last)
{
	int64_t base = (int64_t)(m->rig.base - (uint64_t)m->rig.pages);
	bool found = false;

	for (size_t i = 0; i < m->rig.page_count * PAGE_SIZE; i++) {
		if (m->rig.pages[i] == m->pages[i])
			continue;
		if (!found)
			*first = (int64_t)i - base;
		*last = (int64_t)i - base;
		found = true;
	}
	return found;
}

static bool area_is_sound(const struct malformed *m, const uint8_t *before)
{
	bool sound = true;

	for (size_t i = 0; i < PAGE_SIZE; i++)
		sound &= (i >= 8 && i < 16) || m->rig.area_page[i] == before[i];
	return sound;
}

/*
 * Traces two jumps with the DS area as the test has left it, and observes under `key` what came of
 * it. Fails the test if anything changed but the index and, in the buffer's pages, the bytes `from`
 * to `to` - 1 (offsets from the base). Makes everything sound again.
 */
static void malformed_trace(struct malformed *m, const char *key, int64_t from, int64_t to)
{
	static uint8_t before[PAGE_SIZE];
	uint64_t index = rig_index(&m->rig);
	int64_t first = 0, last = 0;
	char changes[40] = "none";
	bool faulted;

	memcpy(before, m->rig.area_page, PAGE_SIZE);
	faulted = two_jumps_fault(rig_all());
	if (find_changes(m, &first, &last))
		format(changes, sizeof(changes), "%ld..%ld", first, last);
	test_observe(key, "fault:%d,index:%ld,changed:%s", faulted,
		     (int64_t)(rig_index(&m->rig) - index), changes);
	EXPECT(!strcmp(changes, "none") || (first >= from && last < to));
	EXPECT(area_is_sound(m, before));
	put_back(m);
}

/* Page 0 has no other use: it is mapped only here, with fields that are all zero. */
static void check_area_zero(const char *key, bool mapped)
{
	uint8_t *page = test_area(1);
	size_t changed = 0;
	bool faulted;

	RIG(rig, MALFORMED_SLOTS);
	if (mapped && !vm_map(0, *vm_entry((uint64_t)page) & PTE_ADDRESS, VM_WRITE))
		test_error("no memory for page tables");
	wrmsr(IA32_DS_AREA, 0);
	faulted = two_jumps_fault(rig_all());
	wrmsr(IA32_DS_AREA, (uint64_t)rig.area);
	if (mapped)
		page_unmap(0);
	for (size_t i = 0; i < PAGE_SIZE; i++)
		changed += page[i] != 0;
	test_observe(key, "fault:%d,bytes:%zu", faulted, changed);
	EXPECT_EQ(rig_count(&rig), 0);
	EXPECT_EQ(rig_record(&rig, 0).from, 0);
}

TEST(bts_malformed_area_zero, .group = "X", .ids = "X1", .needs = NEED_BTS | NEED_UNSAFE,
     .claim = "IA32_DS_AREA = 0 with TR and BTS set hangs nothing",
     .source = "Linux 2.6.32, ds.c: \"the hardware would crash\"")
{
	check_area_zero("page_0_absent", false);
	check_area_zero("page_0_zero", true);
}

#define AT     0x00005a0000001000ul
#define SLOTS  32
#define ROUNDS 20
#define BUFFER 64 /* offset in the page: right after the code */

extern const char code_page_call[], code_page_back[];

/* MOV ECX, 20; DEC ECX; JNZ to the DEC; RET */
static const uint8_t code[] = {0xb9, ROUNDS, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};

TEST(bts_malformed_code_page, .group = "X", .ids = "X5", .needs = NEED_BTS | NEED_UNSAFE,
     .claim = "a buffer on the page of the code that runs slows it down, and records it right",
     .source = "SDM Vol 3, 17.4.9.2: \"must not be on the same page as code\"")
{
	uint8_t *page = test_area(1);
	struct rig rig, own;

	memcpy(page, code, sizeof(code));
	rig_open(&rig, SLOTS);
	own = rig;
	rig.base = (uint64_t)page + BUFFER;
	ds_set(rig.area, DS_BTS_BUFFER_BASE, rig.base);
	ds_set(rig.area, DS_BTS_ABSOLUTE_MAXIMUM, rig.base + SLOTS * rig.record);
	ds_set(rig.area, DS_BTS_INTERRUPT_THRESHOLD, rig.base + (SLOTS + 1) * rig.record);
	code_map(AT, page, VM_READ);
	EXACTLY (&rig)
		TRACED_WITH(rig_all(), "code_page_call: call *%[at]\ncode_page_back:\n\t", ,
			    OPERANDS([at] "r"(AT)));
	code_unmap(AT);
	EXPECT_EQ(rig_count(&rig), ROUNDS + 1);
	rig_expect(&rig, 0, code_page_call, (void *)AT);
	for (size_t slot = 1; slot < ROUNDS; slot++)
		rig_expect(&rig, slot, (void *)(AT + 7), (void *)(AT + 5));
	rig_expect(&rig, ROUNDS, (void *)(AT + 9), code_page_back);
	EXPECT(!memcmp(page, code, sizeof(code)));
	rig_close(&own);
}

#define NOT_CANONICAL 0x0000800000000000ul

/* The records stand where the index says, or in the buffer, or nowhere. */
static void check_index(const char *key, int64_t index)
{
	int64_t two = 2 * (int64_t)ds_configuration->record_size;
	int64_t end = MALFORMED_SLOTS * (int64_t)ds_configuration->record_size;
	struct malformed m CLOSED_BY(malformed_close);

	malformed_open(&m);
	ds_set(m.rig.area, DS_BTS_INDEX, m.rig.base + (uint64_t)index);
	malformed_trace(&m, key, index < 0 ? index : 0, index + two > end ? index + two : end);
}

static void check_not_canonical(const char *key, unsigned field)
{
	int64_t end = MALFORMED_SLOTS * (int64_t)ds_configuration->record_size;
	struct malformed m CLOSED_BY(malformed_close);

	malformed_open(&m);
	ds_set(m.rig.area, field, NOT_CANONICAL);
	malformed_trace(&m, key, 0, end);
}

TEST(bts_malformed_index, .group = "X", .ids = "X3", .needs = NEED_BTS | NEED_UNSAFE,
     .claim = "an index out of place, or a base that is not canonical, hangs nothing",
     .source = "SDM Vol 3, 17.4.9: nothing is said of it")
{
	int64_t record = (int64_t)ds_configuration->record_size;

	check_index("index_below_base", -3 * record);
	check_index("index_above_maximum", (MALFORMED_SLOTS + 4) * record);
	check_index("index_misaligned", record + 5);
	check_index("index_last_bytes", MALFORMED_SLOTS * record - 8);
	check_not_canonical("index_not_canonical", DS_BTS_INDEX);
	check_not_canonical("base_not_canonical", DS_BTS_BUFFER_BASE);
	check_not_canonical("maximum_not_canonical", DS_BTS_ABSOLUTE_MAXIMUM);
}

static void check_maximum(const char *key, int64_t maximum)
{
	struct malformed m CLOSED_BY(malformed_close);
	int64_t record;

	malformed_open(&m);
	record = (int64_t)m.rig.record;
	ds_set(m.rig.area, DS_BTS_ABSOLUTE_MAXIMUM, m.rig.base + (uint64_t)maximum);
	malformed_trace(&m, key, -record, 3 * record);
}

TEST(bts_malformed_maximum, .group = "X", .ids = "X2", .needs = NEED_BTS | NEED_UNSAFE,
     .claim = "an absolute maximum below the least size hangs nothing and writes within a record",
     .source = "SDM Vol 3, 17.4.9.3: \"the results of BTS is undefined\"")
{
	check_maximum("maximum_one_record", (int64_t)ds_configuration->record_size);
	check_maximum("maximum_one_byte_short", (int64_t)ds_configuration->record_size - 1);
	check_maximum("maximum_at_base", 0);
	check_maximum("maximum_below_base", -8);
}

/* The entry of one page loses `bits` while two jumps are traced. */
static void check_pages(const char *key, bool area, uint64_t bits)
{
	uint64_t *entry, before;
	bool faulted;

	RIG(rig, MALFORMED_SLOTS);
	entry = vm_entry((uint64_t)(area ? rig.area_page : rig.pages));
	before = *entry;
	*entry = before & ~bits;
	vm_flush((uint64_t)(area ? rig.area_page : rig.pages));
	faulted = two_jumps_fault(rig_all());
	*entry = before;
	vm_flush((uint64_t)(area ? rig.area_page : rig.pages));
	test_observe(key, "fault:%d,index:%zu,first:%d", faulted, rig_count(&rig),
		     rig_record(&rig, 0).from != 0);
	EXPECT(rig_count(&rig) <= 2);
	for (size_t slot = 2; slot < MALFORMED_SLOTS; slot++)
		EXPECT_EQ(rig_record(&rig, slot).from | rig_record(&rig, slot).to, 0);
}

TEST(bts_malformed_pages, .group = "X", .ids = "X4", .needs = NEED_BTS | NEED_UNSAFE,
     .claim =
	     "a DS area or buffer that is not present or read-only costs records or faults, no more",
     .source = "SDM Vol 3, 17.4.9.2: non-paged, present")
{
	check_pages("buffer_not_present", false, PTE_PRESENT);
	check_pages("buffer_read_only", false, PTE_WRITABLE);
	check_pages("area_not_present", true, PTE_PRESENT);
	check_pages("area_read_only", true, PTE_WRITABLE);
}

/* Tables of Intel PT that lead where no trace belongs. What the driver refuses is written by hand.
 */

#define SUPPORTED_ADDRESSES 0x80000008u
#define IA32_APIC_BASE	    0x1bu
#define APIC_ADDRESS	    0xffffff000ul

#define INDIRECT_JUMPS(n)                                                                          \
	"movl $" #n ", %%esi\n\tleaq 1f(%%rip), %%rbx\n1:\tdecl %%esi\n\tjz 2f\n\tjmp *%%rbx\n2:"

static size_t written(const struct pt_rig *rig)
{
	size_t bytes = 0;

	for (size_t n = 0; n < rig->trace.buffer.count * PT_RIG_BYTES; n++)
		bytes += rig->memory[n] != PT_RIG_POISON;
	return bytes;
}

static void run_jumps(struct pt_rig *rig, uint64_t control)
{
	PT_TRACED_AS(rig, control, INDIRECT_JUMPS(2000));
}

/* More than a page of packets, entry `n` being `entry`. */
static void trace_into(struct pt_rig *rig, unsigned n, uint64_t entry)
{
	uint64_t good;

	pt_again(rig, PT_PLAIN);
	good = rig->table[n];
	rig->table[n] = entry;
	run_jumps(rig, pt_on(PT_PLAIN));
	rig->table[n] = good;
}

static uint64_t apic_page(void)
{
	return rdmsr(IA32_APIC_BASE) & APIC_ADDRESS;
}

static volatile unsigned interrupts;

static void count_interrupt(struct trap_frame *frame)
{
	(void)frame;
	interrupts++;
	lapic_eoi();
}

/* The local APIC does its work. */
static bool apic_works(void)
{
	unsigned before = interrupts;

	interrupt_set_handler(VECTOR_TEST, count_interrupt);
	lapic_self_ipi(VECTOR_TEST);
	__asm__ volatile("sti" : : : "memory");
	for (unsigned n = 0; n < 100000 && interrupts == before; n++)
		__asm__ volatile("pause");
	__asm__ volatile("cli" : : : "memory");
	interrupt_set_handler(VECTOR_TEST, NULL);
	return interrupts == before + 1;
}

TEST(pt_malformed_apic, .group = "X", .ids = "X6", .needs = NEED_PT | NEED_UNSAFE,
     .claim = "packets to the local APIC's page signal no error, and it goes on to work",
     .source = "SDM Vol 3, 36.2.6: 36.2.6.4")
{
	uint32_t id, lvtpc;

	PT_RIG(rig, 2, true);
	id = lapic_id();
	lvtpc = apic_read(APIC_LVT_PC);
	trace_into(&rig, 0, apic_page());
	test_observe("apic", "error:%d,bytes_after:%d,id:%d,lvtpc:%d",
		     pt_state(&rig.trace).table_error, written(&rig) > 0, lapic_id() == id,
		     apic_read(APIC_LVT_PC) == lvtpc);
	EXPECT(!pt_state(&rig.trace).table_error);
	EXPECT(apic_works());
	pt_again(&rig, PT_PLAIN);
	pt_trace_nop(&rig, PT_PLAIN);
	EXPECT(!pt_state(&rig.trace).table_error && written(&rig) > 0);
}

/* The highest address bit: without it the address is the test's own memory, which stays clean. */
TEST(pt_malformed_address, .group = "X", .ids = "X6", .needs = NEED_PT | NEED_UNSAFE,
     .claim = "packets to an address without memory go nowhere; a table there, by END too, is an "
	      "error",
     .source = "SDM Vol 3, 36.2.6: table 36-5")
{
	uint64_t absent = 1ul << ((cpuid(SUPPORTED_ADDRESSES, 0).eax & 0xff) - 1);

	PT_RIG(rig, 1, true);
	trace_into(&rig, 0, rig.table[0] | absent);
	test_observe("absent", "error:%d", pt_state(&rig.trace).table_error);
	EXPECT_EQ(written(&rig), 0);
	trace_into(&rig, 1, rig.table[1] | absent);
	EXPECT(pt_state(&rig.trace).table_error);
	for (unsigned single = 0; single <= pt_caps()->single_range; single++) {
		pt_again(&rig, PT_PLAIN);
		wrmsr(IA32_RTIT_OUTPUT_BASE,
		      (single ? rig.chunks[0] : rig.trace.buffer.table_address) | absent);
		wrmsr(IA32_RTIT_OUTPUT_MASK_PTRS, single ? PT_RIG_BYTES - 1 : 0);
		run_jumps(&rig, PT_PLAIN | RTIT_CTL_TRACE_EN | (single ? 0 : RTIT_CTL_TOPA));
		EXPECT(single || pt_state(&rig.trace).table_error);
		EXPECT_EQ(written(&rig), 0);
	}
}

enum { CODE = 2048 }; /* offset in the page: the packets end before */

TEST(pt_malformed_code_page, .group = "X", .ids = "X6", .needs = NEED_PT | NEED_UNSAFE,
     .claim = "packets to the page of the code that runs are written there, and the code is whole",
     .source = "SDM Vol 3, 36.2.6")
{
	unsigned bits = 0, targets = 0;

	PT_RIG(rig, 1, false);
	code_map(AT, rig.memory, VM_READ);
	for (unsigned turn = 0; turn < 2; turn++) {
		pt_again(&rig, PT_PLAIN);
		memcpy(rig.memory + CODE, code, sizeof(code));
		PT_TRACED(&rig, PT_PLAIN, "movq $0x5a0000001800, %%rbx\n\tcall *%%rbx");
	}
	code_unmap(AT);
	EACH_PACKET (&rig, reader, packet) {
		bits += packet.kind == PACKET_TNT ? packet.count : 0;
		targets += packet.kind == PACKET_TIP && packet.value == pt_body_end(&rig);
	}
	EXPECT(!reader.error);
	EXPECT_EQ(bits + targets, 21); /* 20 of JNZ; of RET a bit or its target: 36.4.2.2 */
	EXPECT(!memcmp(rig.memory + CODE, code, sizeof(code)));
}

TEST(pt_driver_refuses_addresses, .group = "PT", .ids = "PT53", .needs = NEED_PT,
     .claim = "the driver refuses a chunk or a table on the kernel's code, on the local APIC, on "
	      "the table itself and where no memory is; nothing changes",
     .source = "drivers/pt/pt.h; SDM Vol 3, 36.2.6: 36.2.6.4")
{
	uint64_t others[] = {(uint64_t)text_start - KERNEL_BASE, apic_page(), 0, 1ul << 45};

	PT_RIG(rig, 1, false);
	others[2] = rig.trace.buffer.table_address;
	for (size_t n = 0; n < sizeof(others) / sizeof(others[0]); n++) {
		struct pt_trace trace = rig.trace;
		uint64_t chunk = others[n] & ~(PT_RIG_BYTES - 1ul), entry = rig.table[0];

		trace.buffer.chunks = &chunk;
		EXPECT_EQ(pt_prepare(&trace), -EINVAL);
		EXPECT_EQ(rig.table[0], entry);
		trace = rig.trace;
		trace.buffer.table_address = n == 2 ? rig.chunks[0] : chunk;
		EXPECT_EQ(pt_prepare(&trace), -EINVAL);
		EXPECT_EQ(rig.table[0], entry);
	}
	EXPECT_EQ(pt_prepare(&rig.trace), 0);
}
