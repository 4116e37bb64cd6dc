// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "lib/string.h"
#include "tests/lib/code.h"
#include "tests/lib/exact.h"

#define AT     0x00005a0000001000ul
#define SLOTS  32
#define ROUNDS 20
#define BUFFER 64 /* offset in the page: right behind the code */

extern const char code_page_call[], code_page_back[];

/* MOV ECX, 20; DEC ECX; JNZ to the DEC; RET */
static const uint8_t code[] = {0xb9, ROUNDS, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0xc3};

TEST(bts_malformed_code_page, .group = "X", .ids = "X5", .needs = NEED_BTS | NEED_UNSAFE,
     .claim = "a buffer on the page of the code that runs slows it down, and records it right",
     .source = "SDM Vol 3, 17.4.9.2: \"must not be on the same page as code\"")
{
	uint8_t *page = test_area(1);
	struct rig rig, own;

	memcpy(page, code, sizeof(code));
	rig_open(&rig, SLOTS);
	own = rig;
	rig.base = (uint64_t)page + BUFFER;
	ds_set(rig.area, DS_BTS_BUFFER_BASE, rig.base);
	ds_set(rig.area, DS_BTS_ABSOLUTE_MAXIMUM, rig.base + SLOTS * rig.record);
	ds_set(rig.area, DS_BTS_INTERRUPT_THRESHOLD, rig.base + (SLOTS + 1) * rig.record);
	code_map(AT, page, VM_READ);
	EXACTLY (&rig)
		TRACED_WITH(rig_all(), "code_page_call: call *%[at]\ncode_page_back:\n\t", ,
			    AND([at] "r"(AT)));
	code_unmap(AT);
	EXPECT_EQ(rig_count(&rig), ROUNDS + 1);
	rig_expect(&rig, 0, code_page_call, (void *)AT, "call");
	for (size_t slot = 1; slot < ROUNDS; slot++)
		rig_expect(&rig, slot, (void *)(AT + 7), (void *)(AT + 5), "jnz");
	rig_expect(&rig, ROUNDS, (void *)(AT + 9), code_page_back, "ret");
	EXPECT(!memcmp(page, code, sizeof(code)));
	rig_close(&own);
}
