// SPDX-License-Identifier: MIT
/*
 * one_run [-w|-s] [-d DEFECT] [-v POINT=CHOICE]... SEED INSTRUCTIONS TRACE.spt CODE.elf: runs a
 * random program on the virtual silicon, the monitor's own objects, with BTS and Intel PT on at
 * once, and writes what each left in memory as a trace stream, and the program. By the seed it is
 * code of ring 0 or of ring 3 that calls the system, with or without INT n, #UD and NMIs, with
 * other bits of IA32_RTIT_CTL. -w, -s: the packets go to 64 KiB that wrap, or that end with STOP.
 * Of INSTRUCTIONS a thousand are executed at a time.
 */
#include <elf.h>
#include <stdlib.h>
#include <unistd.h>

#include "abi/ptrace_bts.h"
#include "lib/frame.h"
#include "monitor/defect.h"
#include "monitor/unit.h"
#include "tests/host/pt_program.h"

enum { AREA = RIG_DATA, BUFFER = RIG_DATA + 0x1000, SLOTS = 4000, AT_ONCE = 1000 };
enum { TOPA = 0x80000, REGIONS = 0x200000, REGION_COUNT = 4, SMALL = 2, LARGE = 5 };
enum { ELF_BYTES = 0x30000, MSR_DEBUGCTL_ON = 0xc0, TOPA_STOP = 1 << 4, PAGE_ORDER = 12 };

static enum { WHOLE, WRAPS, STOPS } mode;
static struct silicon silicon;
static struct behaviour behaviour;
static struct frame_line line;
static struct frame_block block;
static struct trace_total packets = {.stream = TRACE_STREAM_CPU | TRACE_STREAM_PT};
static uint64_t seen; /* offset in the regions up to which packets were sent */
static bool wrapped;
static FILE *out;

void platform_performance_interrupt(struct vcpu *vcpu)
{
}

static _Noreturn void die(const char *why)
{
	fprintf(stderr, "one_run: %s\n", why);
	exit(2);
}

static void put_bytes(void *argument, const uint8_t *bytes, size_t count)
{
	if (fwrite(bytes, 1, count, out) != count)
		die("the trace cannot be written");
}

/* --- The machine --- */

static unsigned region_order(void)
{
	return mode == WHOLE ? LARGE : SMALL;
}

static void make_silicon(const char *defect)
{
	silicon_make(&silicon, profile_find("icelake"), &behaviour);
	unit_find("pt")->add(&silicon);
	silicon.physical_bits = 36;
	if (defect && !defect_find(defect))
		die("there is no such defect");
	if (defect)
		defect_find(defect)->break_rules(&silicon);
}

static void make_machine(uint64_t with_seed)
{
	rig_reset();
	memset(rig.memory + REGIONS, 0, RIG_MEMORY - REGIONS);
	trace_power_on(&rig.vcpu, &silicon);
	if (with_seed & 2)
		make_user_program(with_seed, 0, with_seed & 1);
	else
		make_program(with_seed, with_seed & 1);
}

static void start_bts(void)
{
	uint64_t *area = (void *)(rig.memory + AREA);

	area[BTS_BASE] = area[BTS_INDEX] = RIG_BASE + BUFFER;
	area[BTS_MAXIMUM] = area[BTS_BASE] + SLOTS * RECORD_BYTES;
	area[BTS_THRESHOLD] = area[BTS_MAXIMUM] + RECORD_BYTES;
	ds_write_msr(&rig.vcpu, MSR_DS_AREA, RIG_BASE + AREA);
	ds_write_msr(&rig.vcpu, MSR_DEBUGCTL, MSR_DEBUGCTL_ON);
}

/* As WRMSR in the guest does, at the place of the next instruction. */
static void write_ctl(uint64_t value)
{
	struct retired wrmsr = {.from = rig.vcpu.rip, .rip = rig.vcpu.rip, .kind = RETIRED};

	if (!pt_write_msr(&rig.vcpu, MSR_RTIT_CTL, value))
		die("IA32_RTIT_CTL cannot be written");
	pt_retired(&rig.vcpu, &wrmsr);
}

static void start_pt(uint64_t with_seed)
{
	uint64_t *table = (void *)(rig.memory + TOPA), order = region_order();
	uint64_t ctl = CTL_TRACE_EN | CTL_OS | CTL_USER | CTL_TOPA | CTL_BRANCH_EN;

	for (unsigned n = 0; n < REGION_COUNT; n++)
		table[n] = (REGIONS + ((uint64_t)n << (PAGE_ORDER + order))) | order << 6;
	table[REGION_COUNT - 1] |= mode == STOPS ? TOPA_STOP : 0;
	table[REGION_COUNT] = TOPA | 1;
	ctl |= with_seed & 4 ? CTL_DIS_RETC : 0;
	ctl |= with_seed & 8 ? CTL_TSC_EN | CTL_CYC_EN : 0;
	ctl |= (with_seed >> 4 & 3) << 24; /* PSBFreq */
	pt_write_msr(&rig.vcpu, MSR_RTIT_OUTPUT_BASE, TOPA);
	write_ctl(ctl);
}

/* --- What it leaves --- */

static void send_items(uint8_t type, uint32_t stream, const uint8_t *payload, size_t size)
{
	frame_send(&line, (struct trace_frame){.type = type, .stream = stream}, payload, size);
}

static void send_stream(uint32_t stream, const char *name)
{
	static uint8_t payload[TRACE_PAYLOAD_BYTES];
	uint32_t view = PTRACE_BTS_USER | PTRACE_BTS_KERNEL;
	size_t used = 0;

	frame_item(payload, &used, TRACE_ITEM_NAME, name, strlen(name));
	frame_item(payload, &used, TRACE_ITEM_PROGRAM, "one", 3);
	frame_item(payload, &used, TRACE_ITEM_VIEW, &view, sizeof(view));
	send_items(TRACE_FRAME_STREAM, stream, payload, used);
}

static void send_head(void)
{
	static uint8_t payload[TRACE_PAYLOAD_BYTES];
	const uint64_t entries[] = {
		RIG_BASE + RIG_HANDLERS + 2 * 16, RIG_BASE + RIG_HANDLERS + 6 * 16,
		RIG_BASE + RIG_HANDLERS + VECTOR * 16, RIG_BASE + SYSCALL_ENTRY};
	const struct trace_record arrives = {TRACE_STAMP | PTRACE_BTS_TASK_ARRIVES, 1,
					     TRACE_STAMP_FLAG | 1};
	size_t used = 0;
	uint32_t cpus = 1;

	frame_item(payload, &used, TRACE_ITEM_SILICON, "virtual", 7);
	frame_item(payload, &used, TRACE_ITEM_CPUS, &cpus, sizeof(cpus));
	frame_item(payload, &used, TRACE_ITEM_ENTRIES, entries, sizeof(entries));
	send_items(TRACE_FRAME_HELLO, 0, payload, used);
	send_stream(1, "random");
	send_stream(packets.stream, "cpu");
	frame_block_init(&block, 1);
	frame_add(&line, &block, &arrives);
}

static void send_records(void)
{
	uint64_t *area = (void *)(rig.memory + AREA);

	for (uint64_t at = area[BTS_BASE]; at < area[BTS_INDEX]; at += RECORD_BYTES) {
		struct trace_record record;

		memcpy(&record, (const void *)(uintptr_t)at, sizeof(record));
		if (frame_add(&line, &block, &record))
			continue;
		frame_flush(&line, &block, 0, 0);
		frame_add(&line, &block, &record);
	}
	area[BTS_INDEX] = area[BTS_BASE];
}

static void send_bytes(uint64_t from, uint64_t to, bool lost)
{
	while (from < to || lost) {
		uint64_t size = to - from < TRACE_PAYLOAD_BYTES ? to - from : TRACE_PAYLOAD_BYTES;
		struct trace_frame header = {.type = TRACE_FRAME_PACKETS,
					     .stream = packets.stream,
					     .index = packets.records,
					     .lost = lost};

		frame_send(&line, header, rig.memory + REGIONS + from, size);
		packets.frames++;
		packets.records += size;
		packets.lost += lost;
		from += size;
		lost = false;
	}
}

/* Where the next packet goes: 36.2.6.2. */
static uint64_t output_offset(void)
{
	uint64_t pointers;

	pt_read_msr(&rig.vcpu, MSR_RTIT_OUTPUT_MASK_PTRS, &pointers);
	return ((pointers >> 7 & 0x1ffffff) << (PAGE_ORDER + region_order())) + (pointers >> 32);
}

static uint64_t output_size(void)
{
	return (uint64_t)REGION_COUNT << (PAGE_ORDER + region_order());
}

/* Since the last call fewer bytes were written than there is room for. */
static void take_packets(void)
{
	uint64_t now = output_offset();

	wrapped |= now < seen;
	if (mode == WHOLE && now < seen) {
		send_bytes(seen, output_size(), false);
		seen = 0;
	}
	if (mode == WHOLE)
		send_bytes(seen, now, false);
	seen = now;
}

static void send_rest(void)
{
	uint64_t status;

	pt_read_msr(&rig.vcpu, MSR_RTIT_STATUS, &status);
	if (mode == WRAPS && !wrapped)
		die("the packets did not wrap: more instructions");
	if (mode == STOPS && !(status & STATUS_STOPPED))
		die("the packets did not stop: more instructions");
	if (mode == WRAPS)
		send_bytes(seen, output_size(), true);
	if (mode != WHOLE)
		send_bytes(0, seen, false);
	if (mode == STOPS)
		send_bytes(0, 0, true);
}

static void send_end(void)
{
	struct trace_total totals[2];

	frame_flush(&line, &block, 0, 0);
	totals[0] = block.total;
	totals[1] = packets;
	frame_send(&line, (struct trace_frame){.type = TRACE_FRAME_END, .count = 2}, totals,
		   sizeof(totals));
}

static void write_elf(const char *path)
{
	const Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64,
					       ELFDATA2LSB, EV_CURRENT},
				   .e_type = ET_EXEC,
				   .e_machine = EM_X86_64,
				   .e_version = EV_CURRENT,
				   .e_phoff = sizeof(header),
				   .e_ehsize = sizeof(header),
				   .e_phentsize = sizeof(Elf64_Phdr),
				   .e_phnum = 1};
	const Elf64_Phdr segment = {.p_type = PT_LOAD,
				    .p_flags = PF_R | PF_X,
				    .p_offset = PAGE,
				    .p_vaddr = RIG_BASE + RIG_CODE,
				    .p_filesz = ELF_BYTES,
				    .p_memsz = ELF_BYTES};
	FILE *elf = fopen(path, "wb");

	if (!elf || fwrite(&header, sizeof(header), 1, elf) != 1 ||
	    fwrite(&segment, sizeof(segment), 1, elf) != 1 || fseek(elf, PAGE, SEEK_SET) ||
	    fwrite(rig.memory + RIG_CODE, ELF_BYTES, 1, elf) != 1 || fclose(elf))
		die("the program cannot be written");
}

static void run_both(uint64_t with_seed, unsigned long instructions)
{
	start_bts();
	start_pt(with_seed);
	for (; instructions >= AT_ONCE; instructions -= AT_ONCE) {
		for (unsigned left = AT_ONCE; left; left -= AT_ONCE / 10) {
			if (with_seed & 1 && !rig.vcpu.nmi_blocked && !below(3))
				rig.vcpu.nmi_pending = true;
			if (interp_run(&rig.vcpu, AT_ONCE / 10) != INTERP_BUDGET)
				die("the program stopped");
		}
		send_records();
		take_packets();
	}
	write_ctl(0);
	ds_write_msr(&rig.vcpu, MSR_DEBUGCTL, 0);
	send_records();
	take_packets();
}

int main(int argc, char **argv)
{
	const char *defect = NULL;
	int option;

	while ((option = getopt(argc, argv, "wsd:v:")) != -1) {
		if (option == 'w')
			mode = WRAPS;
		else if (option == 's')
			mode = STOPS;
		else if (option == 'd')
			defect = optarg;
		else if (option == 'v' && !variant_apply(&behaviour, optarg))
			die("there is no such variant");
		else if (option != 'v')
			return 2;
	}
	if (argc - optind != 4)
		die("[-w|-s] [-d DEFECT] [-v POINT=CHOICE]... SEED INSTRUCTIONS TRACE.spt CODE.elf");
	out = fopen(argv[optind + 2], "wb");
	if (!out)
		die("the trace cannot be written");
	line.put = put_bytes;
	make_silicon(defect);
	make_machine(strtoull(argv[optind], NULL, 0));
	write_elf(argv[optind + 3]);
	send_head();
	run_both(strtoull(argv[optind], NULL, 0), strtoul(argv[optind + 1], NULL, 0));
	send_rest();
	send_end();
	return fclose(out) ? 2 : 0;
}
