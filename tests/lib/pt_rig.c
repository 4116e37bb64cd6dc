// SPDX-License-Identifier: MIT
#include "tests/lib/pt_rig.h"

#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/sched.h"
#include "lib/string.h"

uint64_t pt_physical(const void *page)
{
	const uint64_t *entry = vm_entry((uint64_t)page);

	if (!entry)
		test_error("%p is not mapped", page);
	return *entry & PTE_ADDRESS;
}

void pt_open(struct pt_rig *rig, size_t chunks, bool circular)
{
	if (!pt_caps()->topa_many)
		chunks = 1;
	*rig = (struct pt_rig){.table = test_area(1), .memory = test_area(chunks + 1)};
	for (size_t n = 0; n < chunks; n++)
		rig->chunks[n] = pt_physical(rig->memory + n * PT_RIG_BYTES);
	rig->trace.buffer = (struct pt_buffer){.table = rig->table,
					       .table_address = pt_physical(rig->table),
					       .chunks = rig->chunks,
					       .count = chunks,
					       .last_end = rig->memory + chunks * PT_RIG_BYTES,
					       .circular = circular};
	test_pin();
	if (rdmsr(IA32_RTIT_CTL) & RTIT_CTL_TRACE_EN)
		test_error("IA32_RTIT_CTL.TraceEn is set already");
	memset(rig->memory, PT_RIG_POISON, (chunks + 1) * PT_RIG_BYTES);
	rig->flags = interrupts_save();
	preemption_disable();
	pt_again(rig, PT_PLAIN);
}

void pt_again(struct pt_rig *rig, uint64_t control)
{
	wrmsr(IA32_RTIT_CTL, 0);
	memset(rig->memory, PT_RIG_POISON, rig->trace.buffer.count * PT_RIG_BYTES);
	rig->trace.configuration.control = control;
	REQUIRE_EQ(pt_prepare(&rig->trace), 0);
	REQUIRE_EQ(pt_load(&rig->trace), 0);
	wrmsr(IA32_RTIT_STATUS, 0);
}

void pt_close(struct pt_rig *rig)
{
	const uint8_t *guard = rig->trace.buffer.last_end;

	wrmsr(IA32_RTIT_CTL, 0);
	wrmsr(IA32_RTIT_STATUS, 0);
	preemption_enable();
	interrupts_restore(rig->flags);
	for (size_t n = 0; n < PT_RIG_BYTES; n++) {
		if (guard[n] == PT_RIG_POISON)
			continue;
		test_note("after the last chunk: %02x at offset %zu", guard[n], n);
		EXPECT(false && "memory outside the buffer was written");
		return;
	}
}

void pt_put(struct pt_bytes *bytes, uint8_t byte)
{
	if (bytes->count == sizeof(bytes->byte))
		test_error("more than %zu bytes", bytes->count);
	bytes->byte[bytes->count++] = byte;
}

void pt_put_ip(struct pt_bytes *bytes, uint8_t packet, uint64_t ip)
{
	unsigned code = 3, size = 6;

	if (ip >> 16 == bytes->last_ip >> 16)
		code = 1, size = 2;
	else if (ip >> 32 == bytes->last_ip >> 32)
		code = 2, size = 4;
	pt_put(bytes, (uint8_t)(packet | code << 5));
	for (unsigned n = 0; n < size; n++)
		pt_put(bytes, (uint8_t)(ip >> 8 * n));
	bytes->last_ip = ip;
}

/* After 02H: table 36-16. */
static size_t extended_bytes(uint8_t second)
{
	static const struct {
		uint8_t second, bytes;
	} packets[] = {{0x82, 16}, {0x23, 2}, {0x43, 8}, {0x03, 4}, {0xf3, 2},
		       {0x83, 2},  {0xa3, 8}, {0x73, 7}, {0xc8, 7}, {0xc3, 11}};

	for (size_t n = 0; n < sizeof(packets) / sizeof(packets[0]); n++)
		if (packets[n].second == second)
			return packets[n].bytes;
	return 0;
}

/* CYC: table 36-27. */
static size_t cycle_bytes(const uint8_t *at)
{
	size_t bytes = 1;

	if (at[0] & 4)
		while (bytes < 10 && at[bytes++] & 1)
			;
	return bytes;
}

size_t pt_packet_bytes(const uint8_t *at)
{
	static const uint8_t ip_bytes[] = {0, 2, 4, 6, 6, 0, 8, 0};
	uint8_t low = at[0] & 0x1f;

	if (at[0] == 0x02)
		return extended_bytes(at[1]);
	if (!(at[0] & 1))
		return 1; /* TNT, PAD */
	if ((at[0] & 3) == 3)
		return cycle_bytes(at);
	if (at[0] == 0x19)
		return 8;
	if (at[0] == 0x99 || at[0] == 0x59)
		return 2;
	if (low == PT_TIP || low == PT_PGE || low == PT_PGD || low == PT_FUP)
		return 1 + ip_bytes[at[0] >> 5];
	return 0;
}

size_t pt_packet(const struct pt_rig *rig, size_t at)
{
	size_t end = pt_state(&rig->trace).end, bytes;

	if (at >= end)
		return 0;
	bytes = pt_packet_bytes(rig->memory + at);
	if (!bytes || bytes > end - at) {
		test_note("%02x at offset %zu of %zu", rig->memory[at], at, end);
		EXPECT(false && "a packet begins here");
		return 0;
	}
	return bytes;
}

/* Table 36-18; of a kernel's address with six bytes bit 47 is the sign. */
static uint64_t packet_ip(const uint8_t *at, uint64_t last)
{
	uint64_t ip = 0;
	unsigned count = (unsigned)pt_packet_bytes(at) - 1;

	for (unsigned n = 0; n < count; n++)
		ip |= (uint64_t)at[1 + n] << 8 * n;
	if (count == 6 && at[0] >> 5 == 3)
		return (uint64_t)((int64_t)(ip << 16) >> 16);
	return count == 8 ? ip : (last & ~0ull << 8 * count) | ip;
}

bool pt_next(const struct pt_rig *rig, struct pt_walk *walk)
{
	const uint8_t *at = rig->memory + walk->next;
	size_t bytes = pt_packet(rig, walk->next);
	uint8_t low = at[0] & 0x1f;

	if (!bytes)
		return false;
	*walk = (struct pt_walk){.next = walk->next + bytes, .last_ip = walk->last_ip, .byte = at};
	if (at[0] == 0x02) {
		walk->last_ip = at[1] == 0x82 ? 0 : walk->last_ip;
	} else if (!(at[0] & 1) && at[0]) {
		walk->bits = 30 - (unsigned)__builtin_clz(at[0]);
	} else if (low == PT_TIP || low == PT_PGE || low == PT_PGD || low == PT_FUP) {
		walk->packet = low;
		walk->with_ip = at[0] >> 5;
		if (walk->with_ip)
			walk->last_ip = walk->ip = packet_ip(at, walk->last_ip);
	}
	return true;
}

/* May be between the packets that begin a trace. */
static bool is_status(const uint8_t *at)
{
	return at[0] == 0x19 || at[0] == 0x99 ||
	       (at[0] == 0x02 && (at[1] == 0x03 || at[1] == 0x43));
}

size_t pt_header(const struct pt_rig *rig)
{
	bool synchronising = false, enabled = false;
	size_t at = 0, bytes;

	for (; (bytes = pt_packet(rig, at)); at += bytes) {
		const uint8_t *byte = rig->memory + at;
		uint8_t second = byte[0] == 0x02 ? byte[1] : 0, low = byte[0] & 0x1f;

		if (second == 0x82)
			synchronising = true;
		else if (second == 0x23)
			synchronising = false;
		else if (low == PT_PGE && !enabled)
			enabled = true;
		else if (synchronising ? low != PT_FUP && !is_status(byte)
				       : enabled || !is_status(byte))
			break;
	}
	EXPECT(!synchronising);
	return at;
}

void pt_expect(const struct pt_rig *rig, const struct pt_bytes *bytes)
{
	size_t header = pt_header(rig), end = pt_state(&rig->trace).end;
	size_t most = end - header < bytes->count ? end - header : bytes->count;

	EXPECT(header > 0);
	EXPECT_EQ(end - header, bytes->count);
	for (size_t n = 0; n < most; n++) {
		if (rig->memory[header + n] == bytes->byte[n])
			continue;
		test_note("byte %zu of %zu", n, bytes->count);
		EXPECT_EQ(rig->memory[header + n], bytes->byte[n]);
		return;
	}
}

/* 36.2.7 and table 36-50: FUP of the WRMSR, and TIP.PGD without an address. */
void pt_expect_traced(const struct pt_rig *rig, struct pt_bytes *bytes)
{
	pt_put_ip(bytes, PT_FUP, rig->last);
	pt_put(bytes, PT_PGD);
	pt_expect(rig, bytes);
}
