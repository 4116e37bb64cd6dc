// SPDX-License-Identifier: MIT
#include "kernel/mm/vm.h"
#include "lib/string.h"
#include "tests/lib/caught.h"
#include "tests/lib/rig.h"

#define AT 0x00005b0000000000ul

extern const char access_read[], access_write[], access_string[], access_jump[];

__asm__(".pushsection .text\n"
	"access_read: movq (%rdi), %rax\n\tjmp *%rbx\n"
	"access_write: movl %eax, (%rdi)\n\tjmp *%rbx\n"
	"access_string: rep movsb\n\tjmp *%rbx\n"
	"access_jump: jmp *%rdi\n"
	".popsection");

/* Neighbours: what straddles two of them may fault at either. The last one is not there. */
static const unsigned rights[] = {
	VM_WRITE, VM_READ, VM_EXECUTE, VM_USER | VM_WRITE, VM_USER | VM_READ, VM_USER | VM_EXECUTE,
	VM_WRITE};
#define PAGES (sizeof(rights) / sizeof(rights[0]))

static void open_pages(uint8_t *area)
{
	memset(area, 0, PAGES * PAGE_SIZE);
	for (size_t n = 0; n < PAGES; n++) {
		uint8_t *page = area + n * PAGE_SIZE;

		/* JMP *RBX at both ends */
		memcpy(page, "\xff\xe3", 2);
		memcpy(page + PAGE_SIZE - 2, "\xff\xe3", 2);
		if (!vm_map(AT + n * PAGE_SIZE, *vm_entry((uint64_t)page) & PTE_ADDRESS, rights[n]))
			test_error("no memory for page tables");
	}
}

static bool is_code(uint16_t offset)
{
	return offset == 0 || offset == PAGE_SIZE - 2;
}

static void check(const char *code, uint64_t address, bool ac)
{
	uint64_t source = AT + 100;
	struct faulted untraced = caught_run(code, address, source, 16, ac, 0);
	struct faulted traced = caught_run(code, address, source, 16, ac, rig_all());

	if (!caught_same(&untraced, &traced))
		test_note("at %lx, AC = %d", address, ac);
	EXPECT(caught_same(&untraced, &traced));
}

TEST(bts_transparent_page_faults, .group = "transparency", .ids = "", .needs = NEED_BTS,
     .claim = "NX, SMEP, SMAP, read-only and missing pages fault traced as they do untraced",
     .source = "SDM Vol 3, 4.6 and 4.7: access rights, and the error code of #PF")
{
	static const char *const codes[] = {access_read, access_write, access_string, access_jump};
	static const uint16_t offsets[] = {0, 8, PAGE_SIZE - 9, PAGE_SIZE - 2, PAGE_SIZE - 1};
	uint8_t *area = test_area(PAGES);
	struct rig rig;

	open_pages(area);
	rig_open(&rig, 4096);
	caught_open();
	for (size_t page = 0; page < PAGES; page++)
		for (size_t n = 0; n < sizeof(offsets) / sizeof(offsets[0]); n++)
			for (size_t code = 0; code < sizeof(codes) / sizeof(codes[0]); code++)
				if (codes[code] != access_jump || is_code(offsets[n])) {
					uint64_t at = AT + page * PAGE_SIZE + offsets[n];

					check(codes[code], at, false);
					check(codes[code], at, true);
				}
	check(access_read, 1ul << 47, false);
	caught_close();
	for (size_t n = 0; n < PAGES; n++)
		vm_unmap(AT + n * PAGE_SIZE);
	EXPECT(rig_count(&rig) > 0);
	rig_close(&rig);
}
