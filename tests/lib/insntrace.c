// SPDX-License-Identifier: MIT
#include "tests/lib/insntrace.h"
#include "drivers/processor.h"
#include "kernel/mm/page.h"
#include "kernel/smp/smp.h"
#include "lib/string.h"
#include "tests/framework/pages.h"
#include "tests/lib/pt_rig.h"

void insntrace_open(struct trace_account *owner, const struct insntrace_config *config)
{
	REQUIRE_EQ(insntrace_initialize(owner, INSNTRACE_CPUS, cpu_count()), 0);
	for (unsigned i = 0; i < cpu_count(); i++) {
		int descriptor = insntrace_allocate_buffer(owner, config, config->address_space);

		if (descriptor != (int)i)
			insntrace_close(owner);
		REQUIRE_EQ(descriptor, (int)i);
	}
}

void insntrace_close(struct trace_account *owner)
{
	insntrace_stop(owner);
	EXPECT_EQ(insntrace_terminate(owner), 0);
}

size_t insntrace_copy(struct trace_account *owner, unsigned n, uint64_t offset, uint8_t *to,
		      size_t bytes)
{
	size_t done = 0, piece;

	do {
		const void *from;

		piece = bytes - done;
		if (insntrace_read_buffer(owner, n, offset + done, &from, &piece))
			return 0;
		if (piece)
			memcpy(to + done, from, piece);
		done += piece;
	} while (piece && done < bytes);
	return done;
}

/* `times` is -1 where an event was, FUP and TIP: it comes back there, which is no jump. */
static void count_target(struct insntrace_targets *targets, uint64_t ip, unsigned times)
{
	const size_t most = sizeof(targets->target) / sizeof(targets->target[0]);
	size_t at = 0;

	while (at < targets->count && targets->target[at].ip != ip)
		at++;
	if (at == most)
		return;
	targets->count += at == targets->count;
	targets->target[at].ip = ip;
	targets->target[at].times += times;
}

/* The address of a packet that has one, after `last`: SDM Vol 3, table 36-18. */
static uint64_t read_ip(const uint8_t *packet, uint64_t last)
{
	static const uint8_t sizes[] = {0, 2, 4, 6, 6, 0, 8, 0};
	unsigned code = packet[0] >> 5, size = sizes[code];
	uint64_t ip = 0;

	memcpy(&ip, packet + 1, size);
	if (code == 3)
		return (uint64_t)((int64_t)(ip << 16) >> 16);
	return size && size < 8 ? last >> 8 * size << 8 * size | ip : size ? ip : last;
}

struct insntrace_targets insntrace_targets_of(const uint8_t *packets, size_t bytes)
{
	struct insntrace_targets targets = {0};
	bool synchronising = false, interrupted = false;
	uint64_t ip = 0, from = 0;

	for (size_t size; targets.bytes < bytes; targets.bytes += size) {
		const uint8_t *packet = packets + targets.bytes;
		uint8_t kind = packet[0] & 0x1f;

		size = pt_packet_bytes(packet);
		if (!size) {
			test_note("%02x at offset %zu of %zu", packet[0], targets.bytes, bytes);
			EXPECT(size > 0);
			return targets;
		}
		if (size == 16)
			ip = 0;
		synchronising = size == 16 || (synchronising && packet[1] != 0x23);
		if (kind == PT_TIP || kind == PT_PGE || kind == PT_PGD || kind == PT_FUP)
			ip = read_ip(packet, ip);
		if (kind == PT_TIP)
			count_target(&targets, ip, 1);
		if (kind == PT_TIP && interrupted)
			count_target(&targets, from, -1u);
		if (kind == PT_TIP || kind == PT_PGD || kind == PT_FUP)
			interrupted = kind == PT_FUP && !synchronising;
		from = ip;
		targets.kernel |= ip >> 63;
	}
	return targets;
}

struct insntrace_targets insntrace_targets(struct trace_account *owner, unsigned n)
{
	static uint8_t packets[8 * PAGE_SIZE];

	return insntrace_targets_of(packets, insntrace_copy(owner, n, 0, packets, sizeof(packets)));
}

unsigned insntrace_times(const struct insntrace_targets *targets, uint64_t ip)
{
	for (size_t i = 0; i < targets->count; i++)
		if (targets->target[i].ip == ip)
			return targets->target[i].times;
	return 0;
}

static void look_here(void *argument)
{
	if (rdmsr(IA32_RTIT_CTL) & RTIT_CTL_TRACE_EN)
		atomic_fetch_add((atomic_uint *)argument, 1);
}

unsigned insntrace_traced_cpus(void)
{
	atomic_uint cpus = 0;

	smp_call_all(look_here, &cpus);
	return atomic_load(&cpus);
}

uint64_t insntrace_jump(unsigned n)
{
	uint64_t target = 0;

	for (unsigned i = 0; i < n; i++)
		__asm__ volatile("leaq 1f(%%rip), %0\n\tjmp *%0\n1:" : "=r"(target));
	return target;
}

bool insntrace_can_have(unsigned buffers, uint64_t chunks, unsigned order)
{
	struct insntrace_config config = insntrace_config((unsigned)chunks, order, 0);
	unsigned had = 0;

	config.control = RTIT_CTL_BRANCH_EN;
	REQUIRE_EQ(insntrace_initialize(NULL, INSNTRACE_THREADS, buffers), 0);
	while (had < buffers && insntrace_allocate_buffer(NULL, &config, 0) == (int)had)
		had++;
	EXPECT_EQ(insntrace_terminate(NULL), 0);
	return had == buffers;
}

uint64_t insntrace_largest(void)
{
	uint64_t runs = pages_largest_runs(),
		 most = INSNTRACE_BYTES_MOST / (PAGE_SIZE << INSNTRACE_ORDER_MOST);

	return runs < most ? runs : most;
}
