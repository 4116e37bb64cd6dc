// SPDX-License-Identifier: MIT
#include "tests/lib/chain.h"

#include "kernel/cpu.h"
#include "kernel/mm/vm.h"
#include "kernel/sched/task.h"
#include "kernel/trap/user.h"
#include "lib/string.h"
#include "tests/framework/test.h"
#include "tests/lib/code.h"
#include "tests/lib/rig.h"

/*
 * Site s jumps to site 5 s + 3 modulo 256, a sequence that visits all of them before it repeats.
 * Each is a jump of 5 bytes. The last site counts ECX down and lets go on with the exit; RDX is
 * where the walk goes on.
 */
#define CHAIN(name)                                                                                \
	__asm__(".pushsection .text\n\t.balign 8\n" #name "_start:\n\t"                            \
		".set site, 0\n\t"                                                                 \
		".rept 255\n\t.byte 0xe9\n\t"                                                      \
		".long " #name "_start + 5 * ((5 * site + 3) & 255) - . - 4\n\t"                   \
		".set site, site + 1\n\t.endr\n" #name "_last:\n\t"                                \
		"decl %ecx\n" #name "_last_jump:\n\t"                                              \
		"jnz " #name "_start + 5 * ((5 * 255 + 3) & 255)\n" #name "_exit:\n\t"             \
		"jmp *%rdx\n" #name "_end:\n\t.popsection");                                       \
	extern const char name##_start[], name##_last[], name##_last_jump[], name##_exit[],        \
		name##_end[];                                                                      \
	const struct chain name = {name##_start, name##_last, name##_last_jump, name##_exit,       \
				   name##_end}

CHAIN(chain_a);
CHAIN(chain_b);

extern const char chain_trace_enter[], chain_trace_back[];

static unsigned next_site(unsigned site)
{
	return (5 * site + 3) % CHAIN_SITES;
}

/* Sites in the order of the walk, the last site last. */
static const uint8_t *order(void)
{
	static uint8_t sites[CHAIN_SITES];
	unsigned site = CHAIN_SITES - 1;

	if (!sites[CHAIN_SITES - 1])
		for (unsigned i = 0; i < CHAIN_SITES; i++)
			sites[i] = (uint8_t)(site = next_site(site));
	return sites;
}

/* The position in the order at which a walk of `n` branches enters the ring. */
static unsigned entry(uint64_t n)
{
	return CHAIN_SITES - 1 - (unsigned)((n - 2) % CHAIN_SITES);
}

static const char *site_address(const struct chain *chain, uint64_t position)
{
	return chain->start + order()[position % CHAIN_SITES] * CHAIN_SLOT;
}

/* Times that the last site is passed. */
static uint32_t rounds(uint64_t n)
{
	return (uint32_t)((n - 2) / CHAIN_SITES) + 1;
}

uint64_t chain_entry(const struct chain *chain, uint64_t n, uint32_t *ecx)
{
	*ecx = rounds(n);
	return (uint64_t)site_address(chain, entry(n));
}

/* Returns the lower half of IA32_DEBUGCTL at the end. */
static __attribute__((noinline)) uint32_t trace(uint64_t debugctl, const char *site, uint32_t times)
{
	uint32_t low = (uint32_t)debugctl, high = (uint32_t)(debugctl >> 32), msr = IA32_DEBUGCTL;

	__asm__ volatile("pushfq\n\tcli\n\twrmsr\n\t"
			 "movl %[times], %%ecx\n\tleaq chain_trace_back(%%rip), %%rdx\n"
			 "chain_trace_enter:\n\tjmp *%[site]\nchain_trace_back:\n\t"
			 "movl $0x1d9, %%ecx\n\trdmsr\n\tmovl %%eax, %[times]\n\t"
			 "xorl %%eax, %%eax\n\txorl %%edx, %%edx\n\twrmsr\n\tpopfq"
			 : "+&a"(low), "+&d"(high), "+&c"(msr), [times] "+&r"(times)
			 : [site] "r"(site)
			 : "memory", "cc");
	return times;
}

void chain_trace(struct rig *rig, uint64_t debugctl, const struct chain *chain, uint64_t n)
{
	uint64_t index = rig_index(rig), before = 0, left = debugctl;

	for (unsigned tries = 0; tries < 20 && (!tries || smi_count() != before); tries++) {
		before = smi_count();
		ds_set(rig->area, DS_BTS_INDEX, index);
		left = trace(debugctl, site_address(chain, entry(n)), rounds(n));
	}
	/* An NMI's handler may have cleared TR. */
	EXPECT(!((left ^ debugctl) & (ds_configuration->bts | ds_configuration->btint)));
}

void chain_walk(const struct chain *chain, uint64_t n)
{
	uint32_t times;
	uint64_t site = chain_entry(chain, n, &times);

	__asm__ volatile("leaq 1f(%%rip), %%rdx\n\tjmp *%[site]\n1:"
			 : "+c"(times)
			 : [site] "r"(site)
			 : "rdx", "cc", "memory");
}

struct branch chain_branch(const struct chain *chain, uint64_t n, uint64_t i)
{
	unsigned start = entry(n);
	const char *from, *to;

	if (i == 0)
		from = chain_trace_enter;
	else if (i == n - 1)
		from = chain->exit_jump;
	else
		from = site_address(chain, start + i - 1);
	if (from == chain->last)
		from = chain->last_jump;
	to = i == n - 1 ? chain_trace_back : site_address(chain, start + i);
	return (struct branch){(uint64_t)from, (uint64_t)to};
}

void chain_expect(const struct rig *rig, size_t slot, size_t count, const struct chain *chain,
		  uint64_t n, uint64_t i)
{
	struct bts_struct record = {0};
	struct branch branch = {0};
	size_t right;

	for (right = 0; right < count; right++) {
		record = rig_record(rig, slot + right);
		branch = chain_branch(chain, n, i + right);
		if (record.from != branch.from || record.to != branch.to)
			break;
	}
	if (right < count)
		test_note("slot %zu: %016lx -> %016lx, but branch %lu is %016lx -> %016lx",
			  slot + right, record.from, record.to, i + right, branch.from, branch.to);
	EXPECT_EQ(right, count);
}

void circular_expect(struct rig *rig, size_t capacity, const struct chain *chain, uint64_t n)
{
	size_t newest = n % capacity; /* slots written in the round under way */
	uint64_t index = rig_index(rig), behind = rig->base + newest * rig->record;
	bool at_end = !newest && index == rig->base + capacity * rig->record;

	EXPECT_EQ(at_end ? rig->base : index, behind);
	rig_lengthen(rig);
	chain_expect(rig, 0, newest, chain, n, n - newest);
	if (n >= capacity)
		chain_expect(rig, newest, capacity - newest, chain, n, n - capacity);
	EXPECT_EQ(rig_used(rig), n < capacity ? n : capacity);
}

uint64_t chain_length(uint64_t walk)
{
	return 3 + walk * 37 % 64;
}

static bool within(const struct chain *chain, uint64_t address)
{
	return address >= (uint64_t)chain->start && address < (uint64_t)chain->end;
}

void chain_feed(struct chain_reader *reader, const struct bts_struct *record)
{
	const struct chain *chain = reader->chain;
	uint64_t length = chain_length(reader->walk);
	struct branch expected = chain_branch(chain, length, reader->i + 1);

	if (!within(chain, record->from) || !within(chain, record->to))
		return;
	reader->seen++;
	if ((record->from != expected.from || record->to != expected.to) && !reader->wrong++) {
		reader->first_wrong = (struct branch){record->from, record->to};
		reader->first_expected = expected;
	}
	if (++reader->i == length - 2) {
		reader->walk++;
		reader->i = 0;
	}
}

void chain_expect_walks(const struct chain_reader *reader, uint64_t walks, const char *whose)
{
	if (reader->wrong)
		test_note("%s: %lu of %lu branches out of sequence; the first is %016lx -> %016lx "
			  "where %016lx -> %016lx was due",
			  whose, reader->wrong, reader->seen, reader->first_wrong.from,
			  reader->first_wrong.to, reader->first_expected.from,
			  reader->first_expected.to);
	EXPECT_EQ(reader->wrong, 0);
	EXPECT_EQ(reader->walk, walks);
	EXPECT_EQ(reader->i, 0);
}

#define START 0x20000000ul

void user_chain_open(struct user_chain *user, unsigned number)
{
	static const uint8_t system_call[] = {0x0f, 0x05};
	const struct chain *from = &chain_a;
	size_t size = (size_t)(from->end - from->start);
	uint8_t *page = test_area(1);
	const char *to = (const char *)(START + number * PAGE_SIZE);

	memcpy(page, from->start, size);
	memcpy(page + size, system_call, sizeof(system_call));
	code_map((uint64_t)to, page, VM_USER);
	*user = (struct user_chain){
		.chain = {.start = to,
			  .last = to + (from->last - from->start),
			  .last_jump = to + (from->last_jump - from->start),
			  .exit_jump = to + (from->exit_jump - from->start),
			  .end = to + size},
		.exit = (uint64_t)to + size,
	};
}

void user_chain_close(const struct user_chain *user)
{
	code_unmap((uint64_t)user->chain.start);
}

struct branch user_chain_branch(const struct user_chain *user, uint64_t n, uint64_t i)
{
	struct branch branch = chain_branch(&user->chain, n, i + 1);

	if (i == n - 2)
		branch.to = user->exit;
	return branch;
}

void user_chain_walk(const struct user_chain *user, uint64_t n)
{
	struct trap_frame frame = {.rdx = user->exit};
	uint32_t times;

	frame.rip = chain_entry(&user->chain, n, &times);
	frame.rcx = times;
	do {
		user_run(&frame);
		if (frame.vector != VECTOR_SYSCALL && user->broken) {
			atomic_store(&current_task()->user_break, false);
			user->broken();
		}
	} while (frame.vector != VECTOR_SYSCALL);
}

/* All walks end at the same site: a place in a walk is known by its distance from there. */

#define DIGITS	 4 /* of base 64, after a mark; the lowest first */
#define GROUP	 (DIGITS + 1)
#define SHORTEST 3
#define LONGEST	 (SHORTEST + 64) /* the mark */
#define LAST	 (LONGEST - 2)	 /* place of the branch that ends a walk */

uint64_t numbered_length(uint64_t walk)
{
	uint64_t digit = walk % GROUP;

	return digit ? SHORTEST + (walk / GROUP >> 6 * (digit - 1)) % 64 : LONGEST;
}

void numbered_begin(struct numbered *reader, const struct user_chain *user, bool gaps)
{
	*reader = (struct numbered){.chain = &user->chain, .gaps = gaps};
}

/* The branch at `place` of the longest walk; shorter ones begin later. */
static bool is_at(const struct numbered *reader, const struct ptrace_bts_record *record,
		  uint64_t place)
{
	struct branch branch = chain_branch(reader->chain, LONGEST, place + 1);

	return record->from == branch.from &&
	       record->to == (place == LAST ? (uint64_t)reader->chain->end : branch.to);
}

static bool find(struct numbered *reader, const struct ptrace_bts_record *record)
{
	for (reader->at = 0; reader->at <= LAST; reader->at++)
		if (is_at(reader, record, reader->at))
			return true;
	return false;
}

static void begin_walk(struct numbered *reader, bool *right)
{
	uint64_t length = LONGEST - reader->at;

	if (reader->known)
		*right &= length == numbered_length(reader->walk);
	else if (length == LONGEST) {
		reader->digits = 1;
		reader->number = 0;
	} else if (reader->digits)
		reader->number |= (length - SHORTEST) << 6 * (reader->digits++ - 1);
	if (!reader->known && reader->digits == GROUP) {
		reader->known = true;
		reader->walk = reader->number * GROUP + DIGITS;
	}
}

static void count_wrong(struct numbered *reader, const struct ptrace_bts_record *record)
{
	if (!reader->gaps && !reader->wrong++)
		reader->first_wrong = *record;
	reader->next = NUMBERED_ANYWHERE;
	reader->known = false;
	reader->digits = 0;
}

void numbered_feed(struct numbered *reader, const struct ptrace_bts_record *record)
{
	const struct chain *chain = reader->chain;
	bool right;

	if (record->qualifier != PTRACE_BTS_BRANCH || record->from >> 63 || record->to >> 63)
		return;
	if (record->from < (uint64_t)chain->start || record->from >= (uint64_t)chain->end) {
		reader->foreign++;
		return;
	}
	reader->seen++;
	right = reader->next == NUMBERED_INSIDE ? is_at(reader, record, reader->at)
						: find(reader, record);
	if (right && reader->next == NUMBERED_BETWEEN)
		begin_walk(reader, &right);
	if (!right) {
		count_wrong(reader, record);
		return;
	}
	reader->next = NUMBERED_INSIDE;
	if (reader->at++ == LAST) {
		reader->next = NUMBERED_BETWEEN;
		reader->walk++;
	}
}
