// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/rig.h"

#define AT 0x00005a0000001000ul

static const uint8_t read_msr[] = {0x0f, 0x32, 0x0f, 0x0b};  /* rdmsr; ud2 */
static const uint8_t write_msr[] = {0x0f, 0x30, 0x0f, 0x0b}; /* wrmsr; ud2 */

/* What WRMSR would write is harmless, should it be let through. */
static void attempt(uint32_t msr, uint64_t value, const uint8_t *code, uint8_t *page)
{
	struct trap_frame frame = {
		.rip = AT, .rcx = msr, .rax = (uint32_t)value, .rdx = (uint32_t)(value >> 32)};

	memcpy(page, code, sizeof(read_msr));
	EXPECT(user_run(&frame));
	EXPECT_EQ(frame.vector, VECTOR_GP);
	EXPECT_EQ(frame.error, 0);
	EXPECT_EQ(frame.rip, AT);
	EXPECT_EQ(frame.rax, (uint32_t)value);
	EXPECT_EQ(frame.rdx, (uint32_t)(value >> 32));
}

static void attempt_all(const struct rig *rig, uint8_t *page)
{
	uint64_t area = (uint64_t)rig->area, control = ds_configuration->btint;

	attempt(IA32_DEBUGCTL, control, read_msr, page);
	attempt(IA32_DEBUGCTL, control, write_msr, page);
	attempt(IA32_DS_AREA, area, read_msr, page);
	attempt(IA32_DS_AREA, area, write_msr, page);
}

TEST(ds_msrs_are_privileged, .group = "M", .ids = "M7", .needs = NEED_BTS,
     .claim = "ring 3 cannot read or write IA32_DEBUGCTL and IA32_DS_AREA, traced or not",
     .source = "SDM Vol 2, RDMSR and WRMSR: #GP(0) if CPL is not 0")
{
	uint8_t *page = test_area(1);
	struct rig rig;

	code_map(AT, page, VM_USER);
	rig_open(&rig, 64);
	attempt_all(&rig, page);
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL), 0);
	EXPECT_EQ(rdmsr(IA32_DS_AREA), rig.area);

	wrmsr(IA32_DEBUGCTL, rig_all());
	attempt_all(&rig, page);
	EXPECT_EQ(rdmsr(IA32_DEBUGCTL), rig_all());
	wrmsr(IA32_DEBUGCTL, 0);
	EXPECT_EQ(rdmsr(IA32_DS_AREA), rig.area);
	rig_close(&rig);
	code_unmap(AT);
}
