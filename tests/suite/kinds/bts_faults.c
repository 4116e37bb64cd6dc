// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "kernel/trap/trap.h"
#include "tests/lib/exact.h"
#include "tests/lib/own_idt.h"

extern const char fault_de[], fault_ud[], fault_gp[], fault_pf[];
extern const char fault_de_out[], fault_ud_out[], fault_gp_out[], fault_pf_out[];

/* RBX: where the handler goes on. RDI: an address that raises #GP, or #PF. */
#define TRACED_FAULT(name, instruction, address)                                                   \
	TRACED_WITH(rig_all(),                                                                     \
		    "leaq fault_" name "_out(%%rip), %%rbx\n\txorl %%eax, %%eax\n\t"               \
		    "xorl %%ecx, %%ecx\n"                                                          \
		    "fault_" name ": " instruction "\nfault_" name "_out:\n\t",                    \
		    , AND("D"(address)), "rbx")

static void trace_de(uint64_t unused)
{
	TRACED_FAULT("de", "divl %%ecx", unused);
}

static void trace_ud(uint64_t unused)
{
	TRACED_FAULT("ud", "ud2", unused);
}

static void trace_gp(uint64_t address)
{
	TRACED_FAULT("gp", "movq (%%rdi), %%rax", address);
}

static void trace_pf(uint64_t address)
{
	TRACED_FAULT("pf", "movq (%%rdi), %%rax", address);
}

static void check(unsigned vector, bool error, void (*trace)(uint64_t), uint64_t address,
		  const char *from, const char *out)
{
	const char *handler = error ? own_handler_resume_error : own_handler_resume;
	const char *iret = error ? own_handler_resume_error_iret : own_handler_resume_iret;
	struct rig rig;

	rig_open(&rig, 16);
	own_idt_copy();
	own_idt_set(vector, handler, false);
	EXACTLY (&rig) {
		own_idt_load();
		trace(address);
		own_idt_unload();
	}
	test_note("vector %u", vector);
	EXPECT_EQ(rig_count(&rig), 2);
	rig_expect(&rig, 0, from, handler, "fault");
	rig_expect(&rig, 1, iret, out, "iretq");
	rig_close(&rig);
}

TEST(bts_faults, .group = "K", .ids = "K5 K6", .needs = NEED_BTS,
     .claim = "the record of a fault holds the faulting instruction and the handler's first",
     .source = "SDM Vol 3, 17.4.4, 17.4.9 and 17.11.2")
{
	uint64_t not_present = (uint64_t)test_area(1) - PAGE_SIZE;

	check(VECTOR_DE, false, trace_de, 0, fault_de, fault_de_out);
	check(VECTOR_UD, false, trace_ud, 0, fault_ud, fault_ud_out);
	check(VECTOR_GP, true, trace_gp, 1ul << 63, fault_gp, fault_gp_out);
	check(VECTOR_PF, true, trace_pf, not_present, fault_pf, fault_pf_out);
}
