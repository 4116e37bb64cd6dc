// SPDX-License-Identifier: MIT
/* Tables of Intel PT that lead where no trace belongs. What the driver refuses is written by hand.
 */
#include "drivers/apic/lapic.h"
#include "drivers/processor.h"
#include "kernel/mm/page.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "tests/lib/code.h"
#include "tests/lib/pt_rig.h"

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

/* More than a page of packets, the first of which go to `region`. */
static void trace_into(struct pt_rig *rig, uint64_t region)
{
	uint64_t good;

	pt_again(rig, PT_PLAIN);
	good = rig->table[0];
	rig->table[0] = region;
	PT_TRACED(rig, PT_PLAIN, INDIRECT_JUMPS(2000));
	rig->table[0] = good;
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
	uint32_t id = lapic_id(), lvtpc = lapic_read_lvtpc();

	PT_RIG(rig, 2, true);
	trace_into(&rig, apic_page());
	test_observe("apic", "error:%d,bytes_after:%d,id:%d,lvtpc:%d",
		     pt_state(&rig.trace).table_error, written(&rig) > 0, lapic_id() == id,
		     lapic_read_lvtpc() == lvtpc);
	EXPECT(!pt_state(&rig.trace).table_error);
	EXPECT(apic_works());
	pt_again(&rig, PT_PLAIN);
	PT_TRACED(&rig, PT_PLAIN, "nop");
	EXPECT(!pt_state(&rig.trace).table_error && written(&rig) > 0);
}

/* The highest address bit: without it the address is the test's own memory, which stays clean. */
TEST(pt_malformed_address, .group = "X", .ids = "X6", .needs = NEED_PT | NEED_UNSAFE,
     .claim = "packets to an address without memory go nowhere; a table there is an error",
     .source = "SDM Vol 3, 36.2.6: table 36-5")
{
	uint64_t absent = 1ul << ((cpuid(SUPPORTED_ADDRESSES, 0).eax & 0xff) - 1);

	PT_RIG(rig, 1, false);
	trace_into(&rig, rig.table[0] | absent);
	test_observe("absent", "error:%d", pt_state(&rig.trace).table_error);
	EXPECT_EQ(written(&rig), 0);
	pt_again(&rig, PT_PLAIN);
	wrmsr(IA32_RTIT_OUTPUT_BASE, rig.trace.buffer.table_address | absent);
	PT_TRACED(&rig, PT_PLAIN, INDIRECT_JUMPS(20));
	EXPECT(pt_state(&rig.trace).table_error);
	EXPECT_EQ(written(&rig), 0);
}

#define AT     0x00005a0000001000ul
#define ROUNDS "20"
enum { CODE = 2048 }; /* offset in the page: the packets end before */

/* MOV ECX, 20; DEC ECX; JNZ to the DEC; RET */
static const uint8_t code[] = {0xb9, 20, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};

TEST(pt_malformed_code_page, .group = "X", .ids = "X6", .needs = NEED_PT | NEED_UNSAFE,
     .claim = "packets to the page of the code that runs are written there, and the code is whole",
     .source = "SDM Vol 3, 36.2.6")
{
	struct packet_reader reader;
	struct packet packet;
	unsigned bits = 0, targets = 0;

	PT_RIG(rig, 1, false);
	code_map(AT, rig.memory, VM_READ);
	for (unsigned turn = 0; turn < 2; turn++) {
		pt_again(&rig, PT_PLAIN);
		memcpy(rig.memory + CODE, code, sizeof(code));
		PT_TRACED(&rig, PT_PLAIN, "movq $0x5a0000001800, %%rbx\n\tcall *%%rbx");
	}
	code_unmap(AT);
	pt_reader(&rig, &reader);
	while (packet_next(&reader, &packet)) {
		bits += packet.kind == PACKET_TNT ? packet.count : 0;
		targets += packet.kind == PACKET_TIP && packet.value == pt_body_end(&rig);
	}
	EXPECT(!reader.error);
	EXPECT_EQ(bits + targets, 21); /* 20 of JNZ; of RET a bit or its target: 36.4.2.2 */
	EXPECT(!memcmp(rig.memory + CODE, code, sizeof(code)));
}

TEST(pt_driver_refuses_addresses, .group = "PT", .ids = "PT53", .needs = NEED_PT,
     .claim =
	     "the driver refuses a chunk or a table on the kernel's code, on the local APIC, on the "
	     "table itself and where no memory is; nothing changes",
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
