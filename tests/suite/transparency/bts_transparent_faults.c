// SPDX-License-Identifier: MIT
#include "tests/lib/caught.h"
#include "tests/lib/own_idt.h"
#include "tests/lib/rig.h"

/* A vector that nothing here uses, with a gate to a data segment; #UD gets another one. QEMU 7.2
   has error codes of its own for gates that are not present. */
enum { NO_CODE = 0x72 };

extern const char nested_code[], nested_divide[], nested_segment[], nested_null[];

__asm__(".pushsection .text\n"
	"nested_code: int $0x72\n\tjmp *%rbx\n"
	"nested_divide: xorl %edx, %edx\n\txorl %ecx, %ecx\n\tdivl %ecx\n\tjmp *%rbx\n"
	"nested_segment: movl $0x7ff8, %eax\n\tmovl %eax, %es\n\tjmp *%rbx\n"
	"nested_null: xorl %eax, %eax\n\tpushq %rax\n\tpushq %rax\n\tlretq\n"
	".popsection");

static void check(const char *code)
{
	struct faulted untraced = caught_run(code, 0, 0, 0, false, 0);
	struct faulted traced = caught_run(code, 0, 0, 0, false, rig_all());

	EXPECT(untraced.vector != CAUGHT_NONE);
	EXPECT(caught_same(&untraced, &traced));
}

TEST(bts_transparent_faults, .group = "transparency", .ids = "", .needs = NEED_BTS,
     .claim = "#DE, bad gates and bad selectors raise the same exceptions traced and untraced",
     .source = "SDM Vol 3, 6.12, 6.13 and 6.15: gates, error codes with IDT and EXT")
{
	static const char *const codes[] = {nested_code, nested_divide, nested_segment,
					    nested_null};
	struct rig rig;

	rig_open(&rig, 256);
	caught_open();
	own_idt_break(NO_CODE);
	for (size_t n = 0; n < sizeof(codes) / sizeof(codes[0]); n++)
		check(codes[n]);
	caught_close();
	EXPECT(rig_count(&rig) > 0);
	rig_close(&rig);
}
