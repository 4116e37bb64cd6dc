// SPDX-License-Identifier: MIT
#include "tests/lib/insntrace.h"
#include "drivers/processor.h"
#include "kernel/mm/page.h"
#include "kernel/smp/smp.h"
#include "lib/string.h"
#include "tests/framework/needs.h"
#include "tests/framework/pages.h"
#include "tests/lib/pt_decode.h"

struct insntrace_config insntrace_config(unsigned chunks, unsigned order, unsigned flags)
{
	return (struct insntrace_config){
		.chunks = pt_caps()->topa_many ? chunks : 1,
		.chunk_order = order,
		.flags = flags,
		.control = INSNTRACE_ALL,
	};
}

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

/* `times` is -1 where an event was, FUP and TIP: the return to there is no jump. */
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

struct insntrace_targets insntrace_targets_of(const uint8_t *packets, size_t bytes)
{
	struct insntrace_targets targets = {0};
	struct packet_reader reader;
	struct packet packet;
	bool interrupted = false;
	uint64_t from = 0;

	packet_start(&reader, packets, bytes);
	reader.enabled = PACKETS_UNKNOWN; /* the first may be a PSB of a trace that goes on */
	while (packet_next(&reader, &packet)) {
		targets.kernel |= packet.has_ip && packet.value >> 63;
		if (packet.kind == PACKET_OVF) {
			targets.lost = true;
			test_disturbed(); /* it may in any trace: 36.3.8 */
		}
		if (packet.kind == PACKET_TIP)
			count_target(&targets, packet.value, 1);
		if (packet.kind == PACKET_TIP && interrupted)
			count_target(&targets, from, -1u);
		if (packet.kind == PACKET_TIP || packet.kind == PACKET_TIP_PGD)
			interrupted = false;
		if (packet.kind == PACKET_FUP && packet.role == ROLE_SOURCE) {
			interrupted = true;
			from = packet.value;
		}
	}
	targets.bytes = reader.at;
	if (reader.error && !reader.cut) {
		test_note("%s: %02x at offset %zu of %zu", reader.error, packets[reader.at],
			  reader.at, bytes);
		EXPECT(false && "a packet begins here");
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

unsigned insntrace_most(const struct insntrace_targets *targets, uint64_t *ip)
{
	unsigned most = 0;

	EXPECT(!targets->kernel);
	for (size_t i = 0; i < targets->count; i++)
		if (targets->target[i].times > most) {
			most = targets->target[i].times;
			*ip = targets->target[i].ip;
		}
	return most;
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

	runs = runs < most ? runs : most;
	while (runs && !needs_missing(NEED_PT) &&
	       !insntrace_can_have(1, runs, INSNTRACE_ORDER_MOST))
		runs--;
	return runs;
}
