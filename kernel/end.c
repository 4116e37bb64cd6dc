// SPDX-License-Identifier: MIT
#include "kernel/end.h"

#include "drivers/console/console.h"
#include "drivers/debugexit/debugexit.h"
#include "kernel/console.h"
#include "kernel/options.h"
#include "kernel/silicon.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/cpu.h"
#include "lib/format.h"
#include "lib/string.h"

void (*end_report)(enum verdict verdict, const char *why);

int end_rc(enum verdict verdict)
{
	return (int)verdict - VERDICT_PASS;
}

/* The last line without the words before its keys. */
enum { MOST_RESTARTS = 24 };
static char done[200 + MOST_RESTARTS];

void end_print_done(enum verdict verdict, const struct end_counts *counts)
{
	bool chosen = counts->units && *counts->units;

	format(done, sizeof(done) - MOST_RESTARTS,
	       "silicon=%s%s pass=%u fail=%u skip=%u error=%u xfail=%u obs=%u rc=%d slow=%u%s%s",
	       silicon_name(), silicon_mark(), counts->pass, counts->fail, counts->skip,
	       counts->error, counts->xfail, counts->obs, end_rc(verdict), counts->slow,
	       chosen ? " units=" : "", chosen ? counts->units : "");
	if (counts->restarts)
		format(done + strlen(done), MOST_RESTARTS, " restarts=%u", counts->restarts);
	printk("# SPOOR DONE %s\n", done);
}

void end_stop_others(void)
{
	__asm__ volatile("cli");
	console_claim();
	smp_stop_others();
	trace_stop_cpu();
	console_unlock_for_good();
}

void end_run(enum verdict verdict, const char *why)
{
	static bool ending;

	end_stop_others();
	if (!ending && end_report) {
		ending = true;
		end_report(verdict, why);
	} else {
		end_print_done(verdict, &(struct end_counts){.error = verdict == VERDICT_ERROR});
	}
	console_verdict(verdict, why, done);
	console_flush();
	switch ((enum end_action)options.end) {
	case END_EXIT:
		debug_exit((uint8_t)verdict);
	case END_REBOOT:
		machine_reboot();
	case END_POWEROFF:
		machine_poweroff();
	case END_HALT:
		break;
	}
	machine_halt();
}

void refuse(const char *template, ...)
{
	char text[640];
	va_list arguments;

	va_start(arguments, template);
	vformat(text, sizeof(text), template, arguments);
	va_end(arguments);
	printk("# error: %s\n", text);
	end_run(VERDICT_ERROR, text);
}
