// SPDX-License-Identifier: MIT
#include "tests/user/lib/contents.h"

#include "tests/user/lib/ptrace.h"

/* Each block is counted by an instruction, and so is what ends it. */
#define MOST_BLOCKS (2 * EXPECTED_MOST)

static struct {
	uint64_t from, to;
} stepped[EXPECTED_MOST];
static uint32_t branch_count;

/* How many branches a process had taken when each of its blocks began. */
static uint16_t before_block[MOST_BLOCKS];
static uint32_t blocks;

/* The program and its descendants: the children of each are next to each other. */
static struct lineage {
	long pid; /* as it is stepped */
	unsigned first_child, children;
	uint32_t first, count;		     /* of its branches */
	uint32_t first_block, blocks, block; /* block: what R15 is at its first instruction */
} lineage[EXPECTED_PROCESSES];
static unsigned processes;

static void arrive(const struct lineage *own, uint64_t rip)
{
	if (!(generated_part(rip) & PART_BLOCK))
		return;
	CHECK(blocks < MOST_BLOCKS);
	before_block[blocks++] = (uint16_t)(branch_count - own->first);
}

/* One step led from `from` to `to`. */
static void step(const struct lineage *own, uint64_t from, uint64_t to)
{
	if (to == from)
		return; /* a string instruction that goes on, or one that faulted */
	if (to != generated_next(from)) {
		CHECK(branch_count < EXPECTED_MOST);
		stepped[branch_count].from = from;
		stepped[branch_count++].to = to;
	}
	arrive(own, to);
}

static bool is_fault(int status)
{
	return status == WAIT_STOPPED(SIGSEGV) || status == WAIT_STOPPED(SIGILL) ||
	       status == WAIT_STOPPED(SIGFPE);
}

/* It has stopped after fork(): the child waits until it is its turn. */
static void add_child(struct lineage *parent)
{
	uint64_t pid = 0;

	CHECK(processes < EXPECTED_PROCESSES);
	CHECK(ptrace(PTRACE_GETEVENTMSG, parent->pid, 0, (uint64_t)&pid) == 0);
	CHECK(next_stop((long)pid) == WAIT_STOPPED(SIGSTOP));
	parent->first_child = parent->children++ ? parent->first_child : processes;
	lineage[processes++] = (struct lineage){.pid = (long)pid};
}

static void step_to_end(struct lineage *own)
{
	struct ptrace_registers registers;
	uint64_t at;
	int status;

	CHECK(ptrace(PTRACE_GETREGS, own->pid, 0, (uint64_t)&registers) == 0);
	own->first = branch_count;
	own->first_block = blocks;
	own->block = (uint32_t)registers.r15;
	CHECK(blocks < MOST_BLOCKS);
	before_block[blocks++] = 0;
	for (arrive(own, at = registers.rip); !generated_is_end(at); at = registers.rip) {
		CHECK(ptrace(PTRACE_SINGLESTEP, own->pid, 0, 0) == 0);
		status = next_stop(own->pid);
		if (status == WAIT_EXITED(GENERATED_EXIT))
			break;
		CHECK((status & 0xff) == 0x7f);
		if (status >> 16 == PTRACE_EVENT_FORK)
			add_child(own);
		CHECK(ptrace(PTRACE_GETREGS, own->pid, 0, (uint64_t)&registers) == 0);
		step(own, at, registers.rip);
		if (is_fault(status)) {
			generated_skip_fault(&registers);
			CHECK(ptrace(PTRACE_SETREGS, own->pid, 0, (uint64_t)&registers) == 0);
			arrive(own, registers.rip);
		}
	}
	if (generated_is_end(at))
		end_child(own->pid);
	own->count = branch_count - own->first;
	own->blocks = blocks - own->first_block;
}

long expected_child(void)
{
	long pid = traced_child((void (*)(uint64_t))generated_area, 0);
	struct ptrace_registers registers;

	for (uint32_t i = 0; i < generated.length; i += 8) {
		uint64_t word;

		__builtin_memcpy(&word, generated.code + i, 8);
		CHECK(ptrace(PTRACE_POKETEXT, pid, (uint64_t)generated_area + i, word) == 0);
	}
	CHECK(go_on(pid, 0) == 0 && next_stop(pid) == WAIT_STOPPED(SIGTRAP));
	CHECK(ptrace(PTRACE_GETREGS, pid, 0, (uint64_t)&registers) == 0);
	CHECK(registers.rip == (uint64_t)generated_area + 1);
	CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEFORK) == 0);
	registers.r14 = generated.number;
	registers.r15 = 0;
	CHECK(ptrace(PTRACE_SETREGS, pid, 0, (uint64_t)&registers) == 0);
	return pid;
}

/* On one CPU: on two of them, each step would wait for both. */
void expected_find(void)
{
	CHECK(run_on(0, cpu_now()) == 0);
	branch_count = blocks = 0;
	processes = 1;
	lineage[0] = (struct lineage){.pid = expected_child()};
	for (unsigned i = 0; i < processes; i++)
		step_to_end(&lineage[i]);
	CHECK(set_affinity(0, UINT64_MAX) == 0);
}

unsigned expected_processes(void)
{
	return processes;
}

unsigned expected_descendant(unsigned process, unsigned number)
{
	CHECK(number < lineage[process].children);
	return lineage[process].first_child + number;
}

uint32_t expected_count(void)
{
	return lineage[run.process].count;
}

struct ptrace_bts_record expected_branch(uint32_t number)
{
	const struct lineage *own = &lineage[run.process];

	CHECK(number < own->count);
	return (struct ptrace_bts_record){.qualifier = PTRACE_BTS_BRANCH,
					  .from = stepped[own->first + number].from,
					  .to = stepped[own->first + number].to};
}

uint32_t expected_taken(const struct ptrace_registers *registers)
{
	const struct lineage *own = &lineage[run.process];
	uint64_t block = registers->r15 + (generated_part(registers->rip) & PART_BLOCK ? 1 : 0);

	CHECK(block >= own->block && block - own->block < own->blocks);
	return before_block[own->first_block + block - own->block] +
	       (registers->rip >> 63 ? 1u : 0u);
}

struct run run;
struct ptrace_bts_record contents[MOST];
uint32_t contents_count;
uint64_t compared;
struct figures figures;

/* Of each process, the branches that the buffer has to hold: numbers from `oldest` to before
   `newest`. */
static struct {
	uint16_t numbers[EXPECTED_MOST];
	uint32_t oldest, newest, missing;
	bool lost, full;
	bool dropped; /* records were removed: it can have lost others and not be full */
} models[EXPECTED_PROCESSES];
#define model (models[run.process])

/* --- What went wrong --- */

void say_value(const char *name, uint64_t value)
{
	say(" ");
	say(name);
	say("=");
	say_number(value, 10);
}

static void say_record(const char *name, const struct ptrace_bts_record *record)
{
	say(" ");
	say(name);
	say("=");
	say_number(record->qualifier, 10);
	say(":");
	say_number(record->from, 16);
	say("->");
	say_number(record->to, 16);
}

/* A line that says which run it is, to which others add. */
static void say_run(const char *what)
{
	say(what);
	say(": seed=0x");
	say_number(run.seed, 16);
	say_value("size", run.size);
	say_value("mode", run.mode);
	say_value("flags", run.flags);
	say_value("cpus", run.cpus);
	say_value("second", run.second);
	say_value("process", run.process);
	say_value("large", run.large);
	say("\n");
	say_value("taken", run.taken);
	say_value("oldest", model.oldest);
	say_value("newest", model.newest);
}

void wrong(const char *what, uint64_t is, uint64_t should_be)
{
	say_run(what);
	say_value("is", is);
	say_value("should_be", should_be);
	say("\n");
	exit(EXIT_FAILED);
}

void mark(const char *cause, uint64_t lost)
{
	if (run.large)
		wrong(cause, lost, 0);
	say("mark: seed=0x");
	say_number(run.seed, 16);
	say_value("lost", lost);
	say(" cause=");
	say(cause);
	say("\n");
	figures.marks++;
}

void expect(const char *what, uint64_t is, uint64_t should_be)
{
	if (is != should_be)
		wrong(what, is, should_be);
}

static bool same(const struct ptrace_bts_record *a, const struct ptrace_bts_record *b)
{
	return a->qualifier == b->qualifier && a->from == b->from && a->to == b->to;
}

void expect_same(const char *what, const struct ptrace_bts_record *is,
		 const struct ptrace_bts_record *should_be, uint64_t place)
{
	compared++;
	if (same(is, should_be))
		return;
	say_run(what);
	say_value("place", place);
	say_record("is", is);
	say_record("should_be", should_be);
	say("\n");
	exit(EXIT_FAILED);
}

/* --- The model --- */

static uint32_t model_count(void)
{
	return model.newest - model.oldest;
}

static void model_add(uint32_t number)
{
	bool at_size = run.exact && model_count() >= run.size;

	if (model.full) {
		model.lost = true;
		run.lost++;
		return;
	}
	if (at_size && run.mode == WRAP) {
		model.oldest++;
		model.lost = true;
		run.lost++;
	}
	model.numbers[model.newest++] = (uint16_t)number;
	model.full = run.exact && run.mode == STOP && model_count() == run.size;
}

void contents_go(uint32_t taken)
{
	if (taken < run.taken)
		wrong("it went back", taken, run.taken);
	for (; run.taken < taken; run.taken++)
		if (run.flags & PTRACE_BTS_TRACE && run.flags & PTRACE_BTS_USER)
			model_add(run.taken);
}

static void model_drop(uint32_t count)
{
	model.oldest += count;
	model.full = false;
}

void contents_clear(void)
{
	run.lost += model.missing;
	model.oldest = model.newest = model.missing = 0;
	model.lost = model.full = model.dropped = false;
	contents_count = 0;
}

/* --- What the buffer holds --- */

static bool is_of_ring_3(const struct ptrace_bts_record *record)
{
	return record->qualifier == PTRACE_BTS_BRANCH && !(record->from >> 63) &&
	       (!(record->to >> 63) || generated_leaves(record->to));
}

static bool has_gap(void)
{
	return contents_count && contents[0].qualifier == PTRACE_BTS_GAP;
}

/* One that stops when full: the record before a departure is the gap that follows what it holds. */
static const struct ptrace_bts_record *last_gap(void)
{
	for (uint32_t i = contents_count; run.mode == STOP && i && i + 2 > contents_count; i--)
		if (contents[i - 1].qualifier == PTRACE_BTS_GAP)
			return &contents[i - 1];
	return NULL;
}

/* Whether there was no room for another record. One that stops keeps slots for these two. */
static bool is_at_size(void)
{
	uint32_t kept = run.mode == STOP && run.flags & PTRACE_BTS_SCHED ? 2 : 0;

	return contents_count - has_gap() + kept >= run.size;
}

/* There are `found` branches in the buffer: whether the others can be missing. */
static void check_missing(uint32_t found)
{
	uint32_t missing = model_count() - found;

	if (missing && (run.mode == SIGNAL || !is_at_size()))
		wrong("branches are missing", found, model_count());
	if (missing && run.mode == STOP && run.flags & PTRACE_BTS_SCHED &&
	    (!last_gap() || (last_gap()->missing && last_gap()->missing < missing)))
		wrong("a gap at the end", last_gap() ? last_gap()->missing : 0, missing);
	model.missing = run.mode == WRAP ? 0 : missing;
	if (!missing || run.mode != WRAP)
		return;
	run.lost += missing;
	if (model.dropped && run.flags & PTRACE_BTS_SCHED &&
	    (!has_gap() || (contents[0].missing && contents[0].missing < missing)))
		wrong("a gap", has_gap() ? contents[0].missing : 0, missing);
	model.oldest += missing;
	model.lost = true;
}

/* READ of everything: ring 3's branches in it are the newest that are expected, or the oldest. */
static void check_branches(void)
{
	uint32_t found = 0, at;

	for (uint32_t i = 0; i < contents_count; i++)
		found += is_of_ring_3(&contents[i]);
	if (found > model_count())
		wrong("branches that were not", found, model_count());
	check_missing(found);
	at = model.oldest;
	for (uint32_t i = 0; i < contents_count; i++) {
		struct ptrace_bts_record branch;

		if (!is_of_ring_3(&contents[i]))
			continue;
		branch = expected_branch(model.numbers[at++]);
		expect_same("READ", &contents[i], &branch, i);
	}
}

/*
 * Stamps alternate, those of a CPU in the order of its time; branches are between an arrival and a
 * departure. A busy host switches tasks that have not got on: how many stamps there are is not
 * known before.
 */
static void check_stamps(void)
{
	uint64_t inside = 1, tsc = 0, cpu = 0;
	uint32_t stamps = 0;

	for (uint32_t i = has_gap(); i < contents_count; i++) {
		const struct ptrace_bts_record *record = &contents[i];
		bool arrives = record->qualifier == PTRACE_BTS_TASK_ARRIVES;

		if (record->qualifier == PTRACE_BTS_BRANCH) {
			expect("a branch after a departure", inside, 1);
			if (!(run.flags & PTRACE_BTS_KERNEL))
				expect("a branch of ring 3", is_of_ring_3(record), 1);
			continue;
		}
		if (record == last_gap())
			continue;
		if (!arrives)
			expect("a stamp", record->qualifier, PTRACE_BTS_TASK_DEPARTS);
		expect("a stamp without SCHED", run.flags & PTRACE_BTS_SCHED, PTRACE_BTS_SCHED);
		expect("stamp of a task", (uint32_t)record->pid_cpu, (uint64_t)run.pid);
		if (i > has_gap())
			expect("stamps that do not alternate", arrives, !inside);
		if (record->tsc <= tsc && record->pid_cpu >> 32 == cpu)
			wrong("stamps that are not in order", record->tsc, tsc);
		inside = arrives;
		tsc = record->tsc;
		cpu = record->pid_cpu >> 32;
		stamps++;
	}
	run.large &= stamps <= MOST_STAMPS;
}

long copy_records(long request, struct ptrace_bts_record *to, uint64_t most)
{
	return ptrace(request, run.pid, (uint64_t)to, most * RECORD);
}

void contents_find(void)
{
	if (!run.exact) {
		long count = copy_records(PTRACE_BTS_READ, contents, MOST);

		if (count < 0 || count > MOST)
			wrong("READ", (uint64_t)count, 0);
		contents_count = (uint32_t)count;
		if (run.mode != SIGNAL && contents_count - has_gap() > run.size)
			wrong("READ", contents_count, run.size);
		check_branches();
		check_stamps();
		return;
	}
	contents_count = model_count();
	for (uint32_t i = 0; i < contents_count; i++)
		contents[i] = expected_branch(model.numbers[model.oldest + i]);
}

void contents_drop(uint32_t count)
{
	uint32_t branches = 0;

	for (uint32_t i = 0; i < count; i++)
		branches += is_of_ring_3(&contents[i]);
	model_drop(branches);
	model.dropped |= count > 0;
	contents_count -= count;
	for (uint32_t i = 0; i < contents_count; i++)
		contents[i] = contents[i + count];
}

uint32_t contents_states(uint32_t *known)
{
	*known = PTRACE_BTS_TRUNCATED;
	if (run.exact)
		*known |=
			PTRACE_BTS_FULL | (run.mode == STOP && !model.lost ? 0u : PTRACE_BTS_LOST);
	else if (!model.dropped && !is_at_size())
		*known |= PTRACE_BTS_FULL | PTRACE_BTS_LOST;
	return (model.lost ? PTRACE_BTS_LOST : 0u) | (model.full ? PTRACE_BTS_FULL : 0u);
}

void contents_end(void)
{
	static const char *const causes[] = {"overwritten", "not-drained", "full"};
	struct ptrace_bts_config status;

	CHECK(ptrace(PTRACE_BTS_STATUS, run.pid, (uint64_t)&status, sizeof(status)) > 0);
	contents_clear();
	if (status.flags & PTRACE_BTS_TRUNCATED)
		mark("truncated", run.lost);
	else if (run.lost || status.flags & PTRACE_BTS_LOST)
		mark(causes[run.mode], run.lost);
}
