// SPDX-License-Identifier: MIT
#include "kernel/end.h"

#include "drivers/console/console.h"
#include "drivers/debugexit/debugexit.h"
#include "kernel/console.h"
#include "kernel/cpu.h"
#include "kernel/options.h"
#include "kernel/silicon.h"
#include "kernel/smp/smp.h"
#include "kernel/trace/cpu.h"
#include "lib/format.h"

void (*end_report)(enum verdict verdict, const char *why);

int end_rc(enum verdict verdict)
{
	return (int)verdict - VERDICT_PASS;
}

void end_run(enum verdict verdict, const char *why)
{
	static bool ending;

	__asm__ volatile("cli");
	smp_stop_others();
	trace_stop_cpu();
	console_unlock_for_good();
	if (!ending && end_report) {
		ending = true;
		end_report(verdict, why);
	} else {
		printk("# SPOOR DONE silicon=%s%s pass=0 fail=0 skip=0 error=%d xfail=0 obs=0 "
		       "rc=%d slow=0\n",
		       silicon_name(), silicon_mark(), verdict == VERDICT_ERROR, end_rc(verdict));
	}
	console_verdict(verdict, why);
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
