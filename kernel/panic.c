// SPDX-License-Identifier: MIT

#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/end.h"
#include "kernel/mm/page.h"
#include "kernel/symbols.h"
#include "kernel/trace/freeze.h"
#include "kernel/trap/trap.h"
#include "lib/format.h"

#define FRAMES 24

static const char *const exception_names[32] = {
	"#DE", "#DB", "NMI", "#BP", "#OF", "#BR", "#UD", "#NM", "#DF", NULL,  "#TS",
	"#NP", "#SS", "#GP", "#PF", NULL,  "#MF", "#AC", "#MC", "#XM", "#VE", "#CP"};

static void print_address(uint64_t address)
{
	char place[64];

	symbol_describe(address, place, sizeof(place));
	printk("#   %016lx %s\n", address, place);
}

/* Reads memory that a broken chain of frames may not have. */
static bool peek(uint64_t address, uint64_t *value)
{
	bool done = false;

	__asm__ volatile("1:\tmovq (%2), %1\n\t"
			 "movb $1, %0\n"
			 "2:\n\t" EXCEPTION_TABLE("1b", "2b")
			 : "+q"(done), "=r"(*value)
			 : "r"(address));
	return done;
}

/*
 * Frames lie in the upper half, upwards on one stack; anything else ends the chain. A call that
 * does not return may be its function's last instruction: the byte before where it would return.
 */
void print_backtrace(unsigned long rip, unsigned long rbp)
{
	print_address(rip);
	for (unsigned i = 0; i < FRAMES; i++) {
		uint64_t next, address;

		if (rbp < DIRECT_MAP || rbp % 8 || !peek(rbp, &next) || !peek(rbp + 8, &address))
			return;
		if (!address)
			return;
		print_address(address - 1);
		if (next <= rbp)
			return;
		rbp = next;
	}
}

static void print_registers(const struct trap_frame *f)
{
	uint64_t cr2, cr3;

	__asm__ volatile("mov %%cr2, %0; mov %%cr3, %1" : "=r"(cr2), "=r"(cr3));
	printk("# rip=%016lx rsp=%016lx rflags=%08lx cs=%02lx ss=%02lx error=%lx\n", f->rip, f->rsp,
	       f->rflags, f->cs, f->ss, f->error);
	printk("# rax=%016lx rbx=%016lx rcx=%016lx rdx=%016lx\n", f->rax, f->rbx, f->rcx, f->rdx);
	printk("# rsi=%016lx rdi=%016lx rbp=%016lx cr2=%016lx\n", f->rsi, f->rdi, f->rbp, cr2);
	printk("# r8 =%016lx r9 =%016lx r10=%016lx r11=%016lx\n", f->r8, f->r9, f->r10, f->r11);
	printk("# r12=%016lx r13=%016lx r14=%016lx r15=%016lx cr3=%lx\n", f->r12, f->r13, f->r14,
	       f->r15, cr3);
}

const char *exception_name(uint64_t vector)
{
	const char *name = vector < 32 ? exception_names[vector] : NULL;

	return name ? name : "exception";
}

void print_trap(const struct trap_frame *frame)
{
	print_registers(frame);
	print_backtrace(frame->rip, frame->rbp);
	print_last_branches(frame);
}

/* Why the first panic came. */
static char reason[256];

/* A panic within a panic says so and ends at once. */
static void begin(const struct trap_frame *frame)
{
	static bool panicking;

	__asm__ volatile("cli");
	debugctl_hold(&this_cpu()->debugctl);
	freeze_on(PTRACE_FREEZE_PANIC, frame);
	end_stop_others();
	if (panicking) {
		printk("\n# panic within a panic\n");
		end_run(VERDICT_PANIC, reason);
	}
	panicking = true;
}

void panic(const char *template, ...)
{
	va_list arguments;

	begin(NULL);
	va_start(arguments, template);
	vformat(reason, sizeof(reason), template, arguments);
	va_end(arguments);
	printk("\n# panic: %s\n", reason);
	print_backtrace((unsigned long)__builtin_return_address(0) - 1,
			*(unsigned long *)__builtin_frame_address(0));
	print_last_branches(NULL);
	end_run(VERDICT_PANIC, reason);
}

void panic_trap(const struct trap_frame *frame, const char *what)
{
	begin(frame);
	format(reason, sizeof(reason), "%s (vector %lu) on CPU %u",
	       what ? what : exception_name(frame->vector), frame->vector, this_cpu()->index);
	printk("\n# panic: %s\n", reason);
	print_trap(frame);
	end_run(VERDICT_PANIC, reason);
}
