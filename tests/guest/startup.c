// SPDX-License-Identifier: MIT
/*
 * A separate kernel that starts, resets and interrupts processors in every way of SDM Vol 3, 8.4
 * and 10.6, and prints the results. They are the same on any machine, with a monitor beneath it or
 * without.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/console/uart.h"
#include "lib/format.h"
#include "lib/io.h"
#include "lib/string.h"
#include "tests/guest/machine.h"

enum { PROCESSORS = 16 };
enum { FIRST_PAGE = 8, SECOND_PAGE = 9 };
enum { NMI = 2, GP = 13, FLAG_TF = 0x100, WRMSR = 0x300f };
extern const uint8_t arrival[], arrival_cr0[], arrival_end[], stubs[64][16];
extern uint64_t entry;
extern const uint32_t nmis_by_task, nmi_task_flags; /* task.asm */
void boot_main(void);
void processor_main(uint32_t cs_sp, uint32_t signature);
uint64_t interrupt(uint64_t vector, uint64_t *frame);

/* The work of a processor that has started. */
enum work { SPIN, SLEEP, SLEEP_INTERRUPTIBLE, SPIN_TRACED, RESET_SELF };

struct processor {
	volatile uint32_t arrivals, page, signature, sp, beats, nmis, calls;
	volatile uint32_t spurious, logical, timer; /* of its local APIC, as it came */
	volatile uint64_t at;			    /* RAX at the last interrupt */
};
static struct processor processors[PROCESSORS];
static volatile enum work work;
static volatile uint32_t order; /* ICR that the next processor to come writes; 0: none */
static volatile uint32_t order_to;
static bool has_bts;

static struct uart console;
static unsigned number, failures;

static void put(const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			uart_put(&console, '\r');
		uart_put(&console, *text);
	}
}

void check(bool ok, const char *what)
{
	char line[200];

	format(line, sizeof(line), "%sok %u %s\n", ok ? "" : "not ", ++number, what);
	put(line);
	failures += !ok;
}

uint32_t self(void)
{
	uint32_t a, b, c, d;

	__asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(1), "c"(0));
	return b >> 24;
}

/* Until *value is at least `least`; false after a good while. */
static bool comes_within(const volatile uint32_t *value, uint32_t least, unsigned most_ms)
{
	for (unsigned ms = 0; ms < most_ms && *value < least; ms++)
		wait_ms(1);
	return *value >= least;
}

static bool comes_to(const volatile uint32_t *value, uint32_t least)
{
	return comes_within(value, least, 3000);
}

static void load_idt(void)
{
	static struct {
		uint16_t low, selector, type, middle;
		uint32_t high, reserved;
	} idt[64];
	struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) const pointer = {sizeof(idt) - 1, (uint64_t)idt};

	for (unsigned i = 0; i < 64; i++) {
		uint64_t stub = (uint64_t)stubs[i];

		idt[i].low = (uint16_t)stub;
		idt[i].selector = 8;
		idt[i].type = 0x8e00;
		idt[i].middle = (uint16_t)(stub >> 16);
		idt[i].high = (uint32_t)(stub >> 32);
	}
	__asm__ volatile("lidt %0" : : "m"(pointer));
}

static volatile uint8_t pic_base; /* of the interrupt that is to come */

static volatile bool wrmsr_faults; /* #GP of a WRMSR, which then goes on after it */

bool write_msr_faults(uint32_t index, uint64_t value)
{
	wrmsr_faults = false;
	write_msr(index, value);
	return wrmsr_faults;
}

/* Returns how many bytes are between the frame of the interrupt and what the stub pushed. */
uint64_t interrupt(uint64_t vector, uint64_t *frame)
{
	struct processor *me = &processors[self()];

	if (vector == NMI) {
		me->nmis++;
	} else if (vector == CALL) {
		me->calls++;
		me->at = frame[-2]; /* RAX, as taken: pushed it */
		io_write(PIT_ENTRY, IO_MASKED);
		lapic_write(REGISTER_EOI, 0);
	} else if (vector == pic_base) {
		pic_base = 0;
		pic_close();
	} else if (vector == GP && *(const uint16_t *)frame[1] == WRMSR) {
		wrmsr_faults = true;
		frame[1] += sizeof(uint16_t);
		return 16;
	} else {
		check(false, "an exception came");
		outb(0xf4, 0x14);
	}
	return 8;
}

static uint64_t area[PROCESSORS][16];

void trace(bool on)
{
	static uint64_t buffer[PROCESSORS][3 * 64];
	uint32_t id = self();

	if (on) {
		area[id][0] = area[id][1] = (uint64_t)buffer[id];
		area[id][2] = area[id][3] = (uint64_t)(buffer[id] + 3 * 60);
		area[id][3] += 24 * 10; /* no interrupt: beyond the end */
		write_msr(MSR_DS_AREA, (uint64_t)area[id]);
	}
	if (has_bts)
		write_msr(MSR_DEBUGCTL, on ? DEBUGCTL_TR_BTS : 0);
}

static void beat(struct processor *me)
{
	for (;;) {
		me->beats++;
		__asm__ volatile("pause");
	}
}

void processor_main(uint32_t cs_sp, uint32_t signature)
{
	struct processor *me = &processors[self()];
	uint32_t command = order;

	me->page = cs_sp >> 24;
	me->sp = cs_sp & 0xffff;
	me->signature = signature;
	me->spurious = lapic_read(REGISTER_SPURIOUS);
	me->logical = lapic_read(REGISTER_LDR);
	me->timer = lapic_read(REGISTER_LVT_TIMER);
	load_idt();
	lapic_write(REGISTER_SPURIOUS, 0x13f);
	lapic_write(REGISTER_DFR, ~0u);
	lapic_write(REGISTER_LDR, 1u << (24 + self() % 8));
	me->arrivals++;
	if (command) {
		order = 0;
		send(order_to, command);
	}
	switch (work) {
	case SLEEP:
		for (;;)
			__asm__ volatile("cli; hlt");
	case SLEEP_INTERRUPTIBLE:
		for (;;)
			__asm__ volatile("sti; hlt");
	case SPIN_TRACED:
		trace(true);
		break;
	case RESET_SELF:
		send(self(), ICR_INIT);
		break;
	default:
		break;
	}
	__asm__ volatile("sti");
	beat(me);
}

static void prepare_page(unsigned page)
{
	memcpy((void *)(uintptr_t)(page << 12), arrival, (size_t)(arrival_end - arrival));
}

static uint32_t found_cr0(unsigned page)
{
	return *(uint32_t *)((uintptr_t)(page << 12) + (uintptr_t)(arrival_cr0 - arrival));
}

static bool restarts(uint32_t id, enum work next, unsigned page)
{
	uint32_t before = processors[id].arrivals;
	bool came = false;

	work = next;
	send(id, ICR_INIT);
	wait_ms(10);
	/* Again, since a busy host may take longer than that for INIT. */
	for (unsigned tries = 0; tries < 30 && !came; tries++) {
		send(id, ICR_STARTUP | page);
		came = comes_within(&processors[id].arrivals, before + 1, 100);
	}
	return came && processors[id].page == page;
}

/* Whether it stops within 3 s, at least for a while. */
static bool is_silent(uint32_t id)
{
	uint32_t before;

	for (unsigned tries = 0; tries < 60; tries++) {
		before = processors[id].beats;
		wait_ms(50);
		if (processors[id].beats == before)
			return true;
	}
	return false;
}

static bool beats(uint32_t id)
{
	return comes_to(&processors[id].beats, processors[id].beats + 1);
}

static unsigned start_all(void)
{
	unsigned count = 0;

	send(0, ICR_INIT | ICR_OTHERS);
	wait_ms(10);
	send(0, ICR_STARTUP | ICR_OTHERS | FIRST_PAGE);
	wait_ms(1);
	send(0, ICR_STARTUP | ICR_OTHERS | FIRST_PAGE);
	wait_ms(300);
	for (unsigned id = 0; id < PROCESSORS; id++)
		count += processors[id].arrivals;
	return count;
}

static void check_state(uint32_t id)
{
	const struct processor *one = &processors[id];
	uint32_t signature, b, c, d;

	__asm__ volatile("cpuid" : "=a"(signature), "=b"(b), "=c"(c), "=d"(d) : "a"(1), "c"(0));
	check(one->page == FIRST_PAGE && one->sp == 0, "CS is the vector, SP 0");
	check(one->signature == signature, "EDX holds the signature");
	check(found_cr0(FIRST_PAGE) == 0x60000010, "CR0 is that of INIT");
	check((one->spurious & 0x1ff) == 0xff && !one->logical && one->timer == 0x10000,
	      "the local APIC is that of INIT");
}

static void check_resets(uint32_t id)
{
	check(beats(id), "a started processor runs");
	send(id, ICR_INIT_DEASSERT);
	check(beats(id), "INIT level de-assert does nothing");
	send(id, ICR_STARTUP | SECOND_PAGE);
	check(beats(id) && processors[id].page == FIRST_PAGE, "a start-up IPI alone does nothing");
	send(id, ICR_INIT);
	check(is_silent(id), "INIT stops a processor that runs");
	send(id, ICR_STARTUP | SECOND_PAGE);
	check(comes_to(&processors[id].arrivals, 2) && processors[id].page == SECOND_PAGE,
	      "it starts again where the next start-up IPI says");
	check(processors[id].logical == 0 && processors[id].timer == 0x10000,
	      "and its local APIC is that of INIT");
	check(restarts(id, SLEEP, FIRST_PAGE), "reset while it runs");
	check(restarts(id, SLEEP_INTERRUPTIBLE, FIRST_PAGE), "reset in HLT");
	check(restarts(id, SPIN_TRACED, FIRST_PAGE), "reset in HLT with IF");
	check(beats(id), "traced where there is BTS");
	check(restarts(id, SPIN, SECOND_PAGE), "reset while traced");
	check(read_msr(MSR_DEBUGCTL) == 0, "others are not traced");
	work = SPIN;
	send(1u << (id % 8), ICR_INIT | ICR_LOGICAL);
	check(is_silent(id), "INIT by logical destination");
	check(restarts(id, RESET_SELF, FIRST_PAGE) && is_silent(id), "INIT to itself");
	check(restarts(id, SPIN, FIRST_PAGE) && beats(id), "and again");
}

static void check_interrupts(uint32_t id)
{
	struct processor *one = &processors[id], *me = &processors[self()];
	uint32_t nmis = one->nmis, calls = one->calls;

	for (uint32_t n = 1; n <= 100; n++) {
		send(id, ICR_NMI);
		if (!comes_to(&one->nmis, nmis + n))
			break;
	}
	check(one->nmis == nmis + 100, "a hundred NMIs");
	for (uint32_t n = 1; n <= 100; n++) {
		send(id, ICR_FIXED | CALL);
		if (!comes_to(&one->calls, calls + n))
			break;
	}
	check(one->calls == calls + 100, "a hundred interrupts");
	__asm__ volatile("sti");
	calls = me->calls;
	order_to = self();
	order = ICR_FIXED | CALL;
	check(restarts(id, SPIN, FIRST_PAGE) && comes_to(&me->calls, calls + 1),
	      "an interrupt from the other");
	__asm__ volatile("cli");
}

/* One processor starts or stops another. */
static void check_others(uint32_t one, uint32_t two)
{
	uint32_t arrivals = processors[two].arrivals;

	order_to = two;
	order = ICR_INIT;
	check(restarts(one, SPIN, FIRST_PAGE) && is_silent(two), "another sends INIT");
	order_to = two;
	order = ICR_STARTUP | SECOND_PAGE;
	check(restarts(one, SPIN, FIRST_PAGE) && comes_to(&processors[two].arrivals, arrivals + 1),
	      "another sends the start-up IPI");
}

/* Where branches are traced: the monitor interprets, and must not be late. */
void check_at_once(uint64_t address, uint32_t value, const char *what)
{
	uint64_t after = 0;

	processors[self()].at = ~0ull;
	trace(true);
	/* After STI a monitor looks for interrupts once anyway. */
	__asm__ volatile("sti\n\tnop\n\tnop\n\tnop\n\t"
			 "movl %1, (%2)\n\t"
			 ".rept 50\n\t"
			 "incq %%rax\n\t"
			 ".endr\n\t"
			 "cli"
			 : "+a"(after)
			 : "r"(value), "r"(address)
			 : "memory");
	trace(false);
	check(processors[self()].at == 0, what);
}

/* The PIT's line stays up, level-triggered: it interrupts when the entry's mask is cleared. */
static void check_io_interrupt(void)
{
	io_write(PIT_ENTRY + 1, self() << 24);
	io_write(PIT_ENTRY, IO_MASKED | IO_LEVEL | CALL);
	outb(0x43, 0x30);
	/* ICW1 to ICW4: no request is left in the 8259, which has the line too and shows (OCW3)
	   when QEMU, in its own time, has raised it. */
	for (unsigned i = 0; i < 8; i++)
		outb((const uint8_t[]){0x20, 0x21, 0x21, 0x21, 0x21, 0x20, 0x40, 0x40}[i],
		     (const uint8_t[]){0x11, 0x20, 4, 1, 0xff, 0x0a, 1, 0}[i]);
	for (unsigned ms = 0; ms < 10000 && !(inb(0x20) & 1); ms++)
		wait_ms(1);
	check_at_once(IOAPIC + 0x10, IO_LEVEL | CALL,
		      "an interrupt of the I/O APIC arrives at once");
}

/* Records go to memory: where the buffer is the page of a device the index stays where it is. A
   store to the interrupt command register would be an order to another processor. */
static void check_records_spare_devices(void)
{
	static const uint64_t devices[] = {LAPIC + REGISTER_ICR, IOAPIC, HPET};
	uint64_t *mine = area[self()];

	for (unsigned i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		mine[0] = mine[1] = devices[i];
		mine[2] = mine[0] + 24 * 8;
		mine[3] = mine[0] + 24 * 9;
		write_msr(MSR_DS_AREA, (uint64_t)mine);
		write_msr(MSR_DEBUGCTL, DEBUGCTL_TR_BTS);
		__asm__ volatile("jmp 1f\n1:");
		write_msr(MSR_DEBUGCTL, 0);
		check(mine[1] == mine[0], "a record that would go to a device is lost");
	}
}

/* As the BIOS has it, below 32: where exceptions with and without an error code have theirs. */
static void check_pic(uint8_t base)
{
	pic_base = base;
	pic_open(base);
	trace(true);
	__asm__ volatile("sti");
	for (unsigned i = 0; i < 1000000 && pic_base; i++)
		__asm__ volatile("pause");
	__asm__ volatile("cli");
	trace(false);
	check(!pic_base, "an interrupt of the 8259 below 32");
}

static void put_cycles(const char *name, uint64_t cycles)
{
	char line[100];

	format(line, sizeof(line), "# bench name=%s val=%lu unit=cycles\n", name, cycles);
	put(line);
}

/* The first less the second is the price of a write that a monitor looks at. */
static void measure(void)
{
	enum { TIMES = 10000 };
	uint32_t a, b, c, d;
	uint64_t start = read_tsc(), writes;

	for (unsigned i = 0; i < TIMES; i++)
		lapic_write(REGISTER_TPR, 0);
	writes = read_tsc() - start;
	for (unsigned i = 0; i < TIMES; i++)
		__asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(0), "c"(0));
	put_cycles("lapic_write", writes / TIMES);
	put_cycles("cpuid", (read_tsc() - start - writes) / TIMES);
}

void boot_main(void)
{
	uint32_t a, b, c, d, one, two;
	unsigned count;
	char line[60];

	entry = (uint64_t)processor_main;
	uart_init(&console, uart_com_bases[0], 115200);
	put("KTAP version 1\n");
	__asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(1), "c"(0));
	has_bts = d & 1u << 21 && c & 1u << 2;
	outb(0x21, 0xff); /* nothing from the 8259 */
	outb(0xa1, 0xff);
	load_idt();
	check(nmis_by_task == 2 && !(nmi_task_flags & FLAG_TF), "NMIs by a task gate");
	check_boot();
	lapic_write(REGISTER_SPURIOUS, 0x13f);
	prepare_page(FIRST_PAGE);
	prepare_page(SECOND_PAGE);
	one = (self() + 1) % 4;
	two = (self() + 2) % 4;
	if (has_bts) {
		check(misc_enable_keeps(MISC_ENABLE_KEPT), "IA32_MISC_ENABLE keeps its bits");
		check_at_once(LAPIC + REGISTER_ICR, ICR_FIXED | ICR_SELF | CALL,
			      "an interrupt to oneself arrives at once");
		check_io_interrupt();
		check_platform();
		check_pic(8);
		check_pic(16);
		check_records_spare_devices();
	}
	measure();
	count = start_all();
	if (count) {
		check_state(one);
		check_resets(one);
		check_interrupts(one);
	}
	if (count > 1) {
		check(processors[two].arrivals == 1 && beats(two), "the second runs all the time");
		check_others(one, two);
	}
	format(line, sizeof(line), "1..%u\n# others=%u bts=%d failed=%u\n", number, count, has_bts,
	       failures);
	put(line);
	outb(0xf4, failures ? 0x11 : 0x10);
	for (;;)
		__asm__ volatile("cli; hlt");
}
