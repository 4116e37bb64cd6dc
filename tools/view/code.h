/* SPDX-License-Identifier: MIT */
/*
 * The code that a trace ran through: ELF files with their functions, source lines and bytes, and
 * the instructions that branches come from.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct function {
	uint64_t start, end; /* `end`: of its bytes; where unknown, the next function or `limit` */
	uint64_t limit;	     /* the end of its section */
	const char *name;
};

/* Those of a file, sorted, one a place. */
struct functions {
	struct function *function;
	size_t count;
	void *names; /* of them and of source files: names_keep() */
};

/* `name` in printable characters, one copy for all that are the same; NULL: none. */
const char *names_keep(void **names, const char *name);

/*
 * A name as the program's source has it, of C++ and Rust; else `name`. Valid until the next call.
 */
const char *functions_demangle(const char *name);

/* Whether that is its name, the parameters of C++ aside. */
bool function_is(const struct function *function, const char *name);

typedef struct Elf Elf; /* of libelf */

/*
 * Of `elf`, or, where that was stripped, of `debug`, which may be NULL: those that are linked to,
 * else. What has no name is FILE:0xSTART. Names of C++ and Rust are as their sources have them.
 * Those of a core of Linux are in the file kallsyms next to it.
 */
void functions_read(struct functions *functions, Elf *elf, Elf *debug, const char *path);
void functions_free(struct functions *functions);

struct line {
	const char *file; /* as the compiler was given it; NULL: not known */
	int number;
};

struct code; /* of one ELF file */

/* Opens an ELF64 file for x86-64. NULL with a sentence in `error`. */
struct code *code_open(const char *path, char *error, size_t size);
void code_close(struct code *code);

/*
 * The same file, of which the byte at `offset` is at `address`; NULL: no code of it is at `offset`.
 * It is freed with the file.
 */
const struct code *code_mapped(struct code *code, uint64_t address, uint64_t offset);

/* Where a program begins, or the linker of a shared one. */
uint64_t code_entry(const struct code *code);

const char *code_path(const struct code *code);

/* Of all files that were opened each has another; not 0. */
uint64_t code_serial(const struct code *code);

/* The bytes of NT_GNU_BUILD_ID; `*size` 0 if there is none. */
const uint8_t *code_build_id(const struct code *code, size_t *size);

/* CRC32C over the file bytes of its PT_LOAD segments, in their order: the same if stripped. */
uint32_t code_checksum(const struct code *code);

/* The bytes of the file at `address` of a PT_LOAD segment, up to its end; NULL outside of any. */
const uint8_t *code_bytes(const struct code *code, uint64_t address, size_t *left);

/* NULL: no function is there. Symbols without a type count where no typed one is. */
const struct function *code_function(const struct code *code, uint64_t address);

/* The start of the function `name`; 0: there is none. */
uint64_t code_symbol(const struct code *code, const char *name);

bool code_has_symbols(const struct code *code);

struct line code_line(const struct code *code, uint64_t address);

struct inline_frame; /* inlined.h */

/* The innermost function that is inlined at `address`; NULL: none. It is freed with the file. */
const struct inline_frame *code_inlined(const struct code *code, uint64_t address);

/* A segment of the file that is loaded: for perf's maps. False after the last. */
struct segment {
	uint64_t address, offset, file_size, memory_size;
	bool executable;
};
bool code_segment(const struct code *code, unsigned index, struct segment *segment);

/* What one instruction does to the flow of control. */
enum flow {
	FLOW_UNKNOWN, /* no bytes, or no instruction */
	FLOW_NONE,    /* goes on at the next one */
	FLOW_CONDITIONAL,
	FLOW_JUMP,
	FLOW_CALL,
	FLOW_RETURN,
	FLOW_INTERRUPT, /* INT n, INT3, INT1, INTO, SYSCALL, SYSENTER: `next` is returned to */
	FLOW_INTERRUPT_RETURN, /* IRET, SYSRET, SYSEXIT */
	FLOW_REPEAT, /* a string instruction with REP: an interrupt is taken between its turns */
};

struct instruction {
	enum flow flow;
	bool direct; /* `target` is in the instruction */
	unsigned length;
	uint64_t next, target;
};

struct mapped_file;

/* Bytes of a file from `offset` on, at `start` of a task's memory. */
struct map {
	uint64_t start, end, offset;
	const struct mapped_file *file; /* programs.c; NULL: none */
	const struct code *code;	/* NULL: not known */
};

/* Sorted; they do not overlap. */
struct maps {
	struct map *map;
	size_t count, room;
};

/*
 * What lies at which address: the kernel's file in the upper half and, for each program, its own
 * file in the lower half, or the files of `maps`. Any may be NULL.
 */
struct space {
	const struct code *kernel, *program;
	const struct maps *maps;
};

/* Adds one; what was there is not any more. */
void maps_add(struct maps *maps, struct map map);

/* The one at `address`; NULL: none is there. */
const struct map *maps_find(const struct maps *maps, uint64_t address);

/* Whether another file is where one is to be. */
bool maps_has_other(const struct maps *maps, const struct map *map);

const struct code *space_code(const struct space *space, uint64_t address);
const struct function *space_function(const struct space *space, uint64_t address);
struct line space_line(const struct space *space, uint64_t address);
const struct inline_frame *space_inlined(const struct space *space, uint64_t address);
struct instruction space_instruction(const struct space *space, uint64_t address);

/* Whether a program, or the linker of a shared one, begins at `address`. */
bool space_is_entry(const struct space *space, uint64_t address);

enum walk {
	WALK_WHOLE,
	WALK_BROKEN,  /* another branch lies between: records are missing, or the code differs */
	WALK_UNKNOWN, /* the code is not known */
};

/*
 * Walks from `at` to `from`, the source of a branch, through instructions that go on at the next
 * one. WALK_WHOLE: `*count` is how many were executed before the one at `from`.
 */
enum walk space_walk(const struct space *space, uint64_t at, uint64_t from, uint64_t *count);

/* Whether WRMSR is among the instructions from `at` on, up to `from` or to one that does not go on.
 */
bool space_has_wrmsr(const struct space *space, uint64_t at, uint64_t from);

/* "name+0x1f", or "0x..." outside of any function. */
const char *space_describe(const struct space *space, uint64_t address, char *text, size_t size);
