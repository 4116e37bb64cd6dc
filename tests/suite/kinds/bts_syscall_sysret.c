// SPDX-License-Identifier: MIT
#include "drivers/apic/lapic.h"
#include "kernel/mm/vm.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/rig.h"
#include "tests/lib/text.h"

#define AT	0x00005a0000001000ul
#define CALL	(AT + 4) /* SYSCALL */
#define BACK	(AT + 6) /* where SYSRET leads; a jump */
#define BACK_TO (AT + 10)
#define SLOTS	4096

#define HIGHEST_PRIORITY 0xf0 /* of tasks: all fixed interrupts wait */

static const uint8_t code[] = {0xeb, 0x02, 0x0f, 0x0b, 0x0f, 0x05,  /* jmp; ud2; syscall */
			       0xeb, 0x02, 0x0f, 0x0b, 0x0f, 0x05}; /* the same again */

struct seen {
	unsigned syscall, sysret, jumps;
};

/* Two visits to ring 3, IRETQ to SYSCALL and SYSRET to SYSCALL, which no interrupt disturbs. */
static void visit(struct rig *rig, uint64_t debugctl)
{
	struct trap_frame frame = {.rip = AT};

	rig_reset(rig);
	lapic_set_task_priority(HIGHEST_PRIORITY);
	wrmsr(IA32_DEBUGCTL, debugctl);
	user_run(&frame);
	user_run(&frame);
	wrmsr(IA32_DEBUGCTL, 0);
	lapic_set_task_priority(0);
	EXPECT_EQ(frame.vector, VECTOR_SYSCALL);
	EXPECT_EQ(frame.rip, AT + sizeof(code));
}

/* Records of the two transitions have to be right wherever there are any. */
static struct seen look(const struct rig *rig, bool filtered)
{
	struct seen seen = {0};

	for (size_t slot = 0; slot < SLOTS; slot++) {
		struct bts_struct r = rig_record(rig, slot);

		seen.jumps += r.from == AT && r.to == CALL;
		seen.jumps += r.from == BACK && r.to == BACK_TO;
		if (r.from == CALL) {
			seen.syscall++;
			EXPECT_EQ(r.to, syscall_entry);
		}
		if (r.to == BACK) {
			seen.sysret++;
			if (filtered)
				EXPECT_OR_ERRATUM(text_is_sysretq(r.from), "AR62");
			else
				EXPECT(text_is_sysretq(r.from));
		}
	}
	EXPECT(seen.syscall <= 1 && seen.sysret <= 1);
	return seen;
}

static void observe(struct rig *rig, const char *key, uint64_t debugctl, unsigned jumps)
{
	struct seen seen;

	visit(rig, debugctl);
	seen = look(rig, debugctl != rig_all());
	EXPECT_EQ(seen.jumps, jumps);
	test_observe(key, "syscall:%u,sysret:%u", seen.syscall, seen.sysret);
}

TEST(bts_syscall_sysret, .group = "K", .ids = "K7", .needs = NEED_BTS,
     .claim = "SYSCALL and SYSRET, where recorded, lead to LSTAR and back behind the SYSCALL",
     .source = "SDM Vol 3, 17.4.4 and table 17-6; SDM Vol 2, SYSCALL and SYSRET")
{
	uint8_t *page = test_area(1);
	struct rig rig;

	memcpy(page, code, sizeof(code));
	rig_open(&rig, SLOTS);
	code_map(AT, page, VM_USER);
	observe(&rig, "unfiltered", rig_all(), 2);
	if (ds_caps()->dscpl && ds_configuration->off_os) {
		observe(&rig, "off_os", rig_all() | ds_configuration->off_os, 2);
		observe(&rig, "off_usr", rig_all() | ds_configuration->off_usr, 0);
	}
	code_unmap(AT);
	rig_close(&rig);
}
