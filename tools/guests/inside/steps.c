// SPDX-License-Identifier: MIT
/*
 * steps LOG PROGRAM [ARGUMENT...]: runs a program in single steps, and writes each branch that it
 * takes to LOG, a line `FROM TO` each; leaves with its exit code. With - for LOG the program takes
 * this one's place, and runs as it would there: without random addresses, and with PATH alone.
 *
 * Branches are those of ring 3 within the program: a system call goes to the next instruction, and
 * a repeated string instruction to itself (Intel SDM volume 3, 18.4.5 has what BTS records). What a
 * conditional branch to the next instruction does cannot be seen: it is taken for one not taken.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <Zydis/Zydis.h>

#define KNOWN (1u << 16) /* instructions that are remembered */

enum kind { STRAIGHT, CONDITIONAL, ALWAYS };

struct known {
	uint64_t address, next;
	enum kind kind;
};

static ZydisDecoder decoder;

/* The instruction at `address`, which no program here changes. */
static const struct known *instruction_at(pid_t pid, uint64_t address)
{
	static struct known known[KNOWN];
	struct known *its = &known[address * 0x9e3779b97f4a7c15 >> 48];
	uint8_t code[ZYDIS_MAX_INSTRUCTION_LENGTH];
	struct iovec to = {code, sizeof(code)}, from = {(void *)address, sizeof(code)};
	ZydisDecodedInstruction decoded;
	ssize_t count;

	if (its->address == address)
		return its;
	count = process_vm_readv(pid, &to, 1, &from, 1, 0);
	if (count <= 0) { /* the next page is none */
		from.iov_len = 4096 - address % 4096;
		count = process_vm_readv(pid, &to, 1, &from, 1, 0);
	}
	if (count <= 0 || !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code,
								      (ZyanUSize)count, &decoded)))
		return NULL;
	its->address = address;
	its->next = address + decoded.length;
	switch (decoded.meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		its->kind = CONDITIONAL;
		break;
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_RET:
		its->kind = ALWAYS;
		break;
	default:
		its->kind = STRAIGHT;
	}
	return its;
}

static uint64_t rip_of(pid_t pid)
{
	return (uint64_t)ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.rip), 0);
}

/* Returns the status that the program ends with. */
static int step(pid_t pid, FILE *log)
{
	uint64_t from = rip_of(pid);
	int status, signal = 0;

	for (;;) {
		const struct known *its = instruction_at(pid, from);
		uint64_t to;

		if (!its) {
			fprintf(stderr, "steps: no instruction is at %llx\n",
				(unsigned long long)from);
			return -1;
		}
		if (ptrace(PTRACE_SINGLESTEP, pid, 0, signal) || waitpid(pid, &status, 0) != pid ||
		    !WIFSTOPPED(status))
			return status;
		signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
		to = rip_of(pid);
		if (its->kind == ALWAYS || (its->kind == CONDITIONAL && to != its->next))
			fprintf(log, "%016llx %016llx\n", (unsigned long long)from,
				(unsigned long long)to);
		from = to;
	}
}

int main(int argc, char **argv)
{
	char path[] = "PATH=/usr/bin:/bin", *environment[] = {path, NULL};
	int status;
	FILE *log;
	pid_t pid;

	if (argc < 3 || personality(ADDR_NO_RANDOMIZE) < 0)
		return 125;
	pid = strcmp(argv[1], "-") ? fork() : 0;
	if (!pid) {
		if (strcmp(argv[1], "-"))
			ptrace(PTRACE_TRACEME, 0, 0, 0);
		execve(argv[2], argv + 2, environment);
		_exit(127);
	}
	log = fopen(argv[1], "w");
	if (!log || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return 125;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	status = step(pid, log);
	return fclose(log) || !WIFEXITED(status) ? 125 : WEXITSTATUS(status);
}
