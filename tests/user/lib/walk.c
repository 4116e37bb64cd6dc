// SPDX-License-Identifier: MIT
#include "tests/user/lib/walk.h"

#define HASH 0x9e3779b97f4a7c15

extern const char walk_call[], walk_back[], walk_maybe[], walk_over[], walk_again[], walk_return[],
	walk_leaf[], walk_end[];

__asm__(".pushsection .text.walk, \"ax\"\n"
	".globl walk\n"
	"walk:\n\t"
	"xor %eax, %eax\n\t"
	"movabs $0x9e3779b97f4a7c15, %rdx\n\t"
	"xor %ecx, %ecx\n"
	"walk_call:\n\t"
	"call walk_leaf\n"
	"walk_back:\n\t"
	"add %rdx, %rcx\n"
	"walk_maybe:\n\t"
	"jns walk_over\n\t" /* in the rounds in which the sum has its highest bit clear */
	"nop\n"
	"walk_over:\n\t"
	"inc %rax\n\t"
	"cmp %rax, %rdi\n"
	"walk_again:\n\t"
	"jne walk_call\n"
	"walk_return:\n\t"
	"ret\n"
	"walk_leaf:\n\t"
	"ret\n"
	"walk_end:\n\t"
	".popsection");

static bool inside(uint64_t address)
{
	return address >= (uint64_t)walk && address < (uint64_t)walk_end;
}

static bool is(const struct ptrace_bts_record *record, const char *from, const char *to)
{
	return record->from == (uint64_t)from && record->to == (uint64_t)to;
}

static bool from_call(struct walk_reader *reader, const struct ptrace_bts_record *record)
{
	reader->place = 1;
	return is(record, walk_call, walk_leaf);
}

static bool from_leaf(struct walk_reader *reader, const struct ptrace_bts_record *record)
{
	reader->place = (reader->round + 1) * HASH >> 63 ? 3 : 2;
	return is(record, walk_leaf, walk_back);
}

static bool from_maybe(struct walk_reader *reader, const struct ptrace_bts_record *record)
{
	reader->place = 3;
	return is(record, walk_maybe, walk_over);
}

static bool from_end(struct walk_reader *reader, const struct ptrace_bts_record *record)
{
	reader->place = 0;
	if (++reader->round < reader->rounds)
		return is(record, walk_again, walk_call);
	reader->round = 0;
	reader->walks++;
	return record->from == (uint64_t)walk_return && !inside(record->to);
}

bool walk_feed(struct walk_reader *reader, const struct ptrace_bts_record *record)
{
	static bool (*const places[])(struct walk_reader *, const struct ptrace_bts_record *) = {
		from_call, from_leaf, from_maybe, from_end};

	if (!inside(record->from)) {
		reader->others++;
		return record->to == (uint64_t)walk || !inside(record->to);
	}
	return places[reader->place](reader, record);
}
