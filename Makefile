# SPDX-License-Identifier: MIT
# `make help` says what there is.

# What make would try besides for each of some thousand files takes longer than to see that all are up to date.
MAKEFLAGS += --no-builtin-rules

VERSION := 0.2
BUILD   := build

CC      := gcc
LD      := ld
NASM    := nasm
OBJCOPY := objcopy

WARN   := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wundef \
          -Wvla -Wpointer-arith -Wwrite-strings -Wno-sign-conversion
WARN   += $(if $(CI),-Werror)
# Nothing that is built says in which directory it was. The shell's word, since the directory may have a blank.
same_paths := -ffile-prefix-map="$$PWD"=.
# One set of flags serves kernel, monitor and lib: both images live in the top 2 GiB.
CFLAGS := -std=c11 -O2 -g $(WARN) -I. -Iinclude -MMD -MP -ffreestanding -mcmodel=kernel \
          -mno-red-zone -mgeneral-regs-only -fno-pic -fno-pie -fno-stack-protector \
          -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fcf-protection=none \
          -fno-strict-aliasing $(same_paths)
# Nothing here gains from code that begins at round addresses, and the images have to stay small.
CFLAGS += -falign-functions=1 -falign-loops=1
# No header of a C library, wherever one is installed: the compiler's own alone.
CFLAGS += -nostdinc -isystem $(shell $(CC) -print-file-name=include)
# GCC would make the loop of memset() a call of memset(); clang does not where it is -ffreestanding.
CFLAGS += $(if $(findstring clang,$(CC)),,-falign-jumps=1 -fno-tree-loop-distribute-patterns)
# No register of SSE is saved, so that the stack may be aligned to 8 bytes.
CFLAGS += $(if $(findstring clang,$(CC)),,-mpreferred-stack-boundary=3)

# -O2: strings that end alike are one.
LDFLAGS := -nostdlib -static -O2 -z noexecstack -z max-page-size=4096


kernel_dirs    := boot kernel drivers lib tests/framework tests/lib tests/suite
monitor_dirs   := monitor drivers/console lib
sources         = $(sort $(shell find $(1) -name '*.c' -o -name '*.asm'))
objects         = $(patsubst %,$(BUILD)/obj/%.o,$(1))
kernel_sources := $(filter-out tests/suite/bench/minimal.asm,$(call sources,$(kernel_dirs)))
kernel_sources := $(filter-out $(if $(SANITIZE),,kernel/ubsan/%),$(kernel_sources))
kernel_sources += third_party/qrcodegen/qrcodegen.c
monitor_sources:= $(filter-out lib/frame.c,$(call sources,$(monitor_dirs)))
kernel_objects := $(call objects,$(kernel_sources)) $(BUILD)/obj/version.o $(BUILD)/obj/font.o $(BUILD)/obj/tests/suite/rules.o
monitor_objects:= $(call objects,$(monitor_sources)) $(BUILD)/obj/version.o $(BUILD)/obj/font.o

.DEFAULT_GOAL := help

# All processors build one goal; several goals, as in `make deps run`, are one after the other.
jobs := -j$(shell nproc)
ifeq ($(MAKELEVEL)$(words $(MAKECMDGOALS))$(filter run,$(MAKECMDGOALS)),01)
MAKEFLAGS += $(jobs)
endif

# A line for each file that is built; V=1: whole commands; make -s: nothing.
silent := $(findstring s,$(firstword -$(MAKEFLAGS)))
short   = $(if $(V)$(silent),,@echo ' $(1)' $(or $(2),$@);)

# Words for this make alone, which the tests of `make check` are not to find around them.
unexport FOR V

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  %-14s %s\n", $$1, $$2 }'

deps: ## install the Debian packages that `make run` needs (root), or the other goals beside it; FOR=all: all that any goal needs
	@tools/deps install $(or $(sort $(FOR) $(purposes)),run)

# The goals that need each purpose of tools/packages. What is missing is named before anything is built.
for_build       := images ubsan iso usb pxe lint check-host view fuzz-view linux-disk
for_run         := run demo junit debug soak debugger-runs mutants mutate faults variants bench corpus round-trip linux linux-shell linux-soak disk-shell \
                   $(addprefix check-,lockstep lava stops bochs load guest kut pt view linux programs)
for_image       := iso usb pxe container bench linux linux-soak check-lava check-bochs check-load
for_check       := lint format bench mutants fuzz-view check-host check-bochs check-load check-pt
for_view        := view corpus faults fuzz-view round-trip mutants check-view check-pt
for_linux       := linux linux-soak check-programs
for_record      := linux check-programs
for_debug       := debug
for_bench       := bench check-all
for_all         := check check-boot check-all release
for_check-boot  := check-boot check-all release
for_check-view  := check-view check-all
for_check-kunit := check-kunit check-all
for_check-linux := check-linux linux-disk disk-shell check-all
for_check-programs := check-programs check-all
for_check-lava  := check-lava
for_check-fresh := check-fresh
for_check-container := container release
purposes := $(foreach list,$(filter for_%,$(.VARIABLES)),$(if $(filter $($(list)),$(MAKECMDGOALS)),$(list:for_%=%)))
purposes := $(sort $(purposes))
ifneq ($(filter deps,$(MAKECMDGOALS)),)
.NOTPARALLEL:
$(filter-out deps,$(MAKECMDGOALS)): deps
else ifneq ($(purposes),)
$(if $(filter 0,$(shell tools/deps check $(purposes) >&2; echo $$?)),,$(error nothing was done for $(MAKECMDGOALS)))
endif

# Virtual silicon with all three units.
run junit debug: RUN ?= --monitor 'profile=icelake pt=on'
run: ## build and run the suite in QEMU: BTS, PEBS and Intel PT; RUN="other options of run-qemu.sh"
	@$(MAKE) --no-print-directory $(jobs) images
	./run-qemu.sh $(RUN)

demo: images ## show the last branches of a program that jumped to nowhere; RUN="options of run-qemu.sh": seconds
	@tools/demo $(RUN)

check: ## run every test of the project, host and boots: some 25 minutes on two idle cores
	@tools/check

# Everything but what takes hours (check-load), has no end (soak, linux-soak) or makes systems (check-lava, check-fresh).
check-all: ## make check, then all that is too heavy for it: Linux guests, browsers, Bochs, every defect and variant: hours
	@$(MAKE) --no-print-directory check
	@for goal in check-boot check-kunit check-view check-pt round-trip linux check-programs check-linux check-bochs check-stops variants mutants faults mutate debugger-runs bench; do \
		echo "# make $$goal"; $(MAKE) --no-print-directory $$goal || exit; done

check-lockstep: images ## check the monitor's interpreter against the processor: a minute and a half
	@prove --verbose --exec '' tools/lockstep

check-stops: images ## stop virtual machines for a minute at ten moments of a run, and let them go on: six minutes
	@prove --verbose --exec '' tests/runner/stops

check-lava: images iso pxe ## run the jobs of tools/fleet with lava-run (root; make deps FOR=check-lava): two minutes
	@prove --verbose --exec '' tools/check-lava

check-bochs: images iso ## run the suite in Bochs, on one and on two processors, and lockstep: a quarter of an hour
	@prove --verbose --exec '' tools/boots tools/lockstep :: --bochs

check-boot: images iso pxe ## boot in every way of docs/boot.md, and build the images twice: five minutes
	@prove --verbose --exec '' tools/boots :: --ways
	@prove --verbose --exec '' tools/reproducible

check-fresh: ## README's two commands as they are written, and other ways to begin, in new roots of Debian 12 and 13 (root): an hour; FRESH="options of tools/fresh"
	@prove --verbose --exec '' tools/fresh :: $(FRESH)

check-kunit: ## read the recorded logs with Linux' kunit.py, which is fetched from Debian (139 MB): seconds
	@prove --verbose --exec '' tests/runner/kunit.sh :: --fetch

release: ## build/release: images, their contents, licences and checksums; after make check, makes check-boot
	@tools/release

container: images iso pxe ## build a container image that runs the suite in QEMU: `podman run spoor` (root)
	@tools/container

bench: images iso pxe $(BUILD)/minimal.elf32 $(BUILD)/no-tests.elf $(BUILD)/host/branch_cost $(BUILD)/linux/initrd ## measure, and compare with the budgets
	@tools/bench

mutants: images $(BUILD)/view $(BUILD)/host/one_run ## boot the suite on silicon that is wrong on purpose; MUTANTS="options of tools/mutants"
	@tools/mutants $(MUTANTS)

mutate: images ## make faults mechanically in the rules of the virtual silicon, 60 of each unit: an hour; MUTATE="options of tools/mutate"
	@tools/mutate $(MUTATE)

faults: images ## put each fault of tests/faults, written from the manual, into virtual silicon or kernel: an hour; FAULTS="names of faults or units"
	@tools/faults $(FAULTS)

variants: images ## boot the suite on every variant that the manual allows, on pairs and mixes of them, and with defects: hours
	@tools/mutants --variants
	@tools/mutants --variants --mixes 200
	@tools/mutants --variants --defects 20

soak: images ## storms of traced tasks with many seeds, on 1, 2 and 4 processors; TIME=seconds
	@tools/soak $(TIME)

debugger-runs: images ## 1000 sessions of small programs under random tracers, and 1000 runs with small buffers, on every profile; RUNS="options of tools/debugger-runs"
	@tools/debugger-runs $(RUNS)

check-load: images iso pxe ubsan ## what could hang on the host's speed, beside a load: hours; LOAD="options of tools/load"
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/clang CC=clang images
	@tools/load $(LOAD)

lint: images ## formatting, shellcheck, headers, sizes, spelling, what directories may know
	@CC='$(CC)' CFLAGS='$(filter-out -MMD -MP -nostdinc,$(CFLAGS))' tools/lint

format: ## rewrite the C files as .clang-format says
	git ls-files '*.[ch]' | xargs clang-format -i

junit: images ## run the suite; results as JUnit XML in build/junit.xml; RUN= as for `run`
	-./run-qemu.sh --log $(BUILD)/junit.log $(RUN)
	tools/judge --junit $(BUILD)/junit.xml $(BUILD)/junit.log

docs: ## rewrite docs/tests.md: every assertion, its source and its tests
	@tools/assertions

new-test: ## write a new test: NAME=bts_foo GROUP=W
	@tools/new-test '$(NAME)' '$(GROUP)'

new-defect: ## write a new defect of the virtual silicon: NAME=wrap_foo FILE=buffer
	@tools/new-defect '$(NAME)' '$(FILE)'

debug: images ## run the suite with QEMU waiting for gdb; RUN= as for `run`
	./run-qemu.sh --gdb $(RUN)

.PHONY: help deps run demo check check-all check-lockstep check-lava check-fresh check-kunit check-boot release container check-bochs check-load debugger-runs bench mutants mutate faults variants soak lint format junit docs new-test new-defect debug
.DELETE_ON_ERROR:

images: ## build kernel and monitor
images: $(BUILD)/leftover.elf32 $(BUILD)/bzimage $(BUILD)/startup.elf $(BUILD)/spoor.elf $(BUILD)/spoor.elf32 $(BUILD)/monitor.elf $(BUILD)/monitor.elf32
.PHONY: images

ubsan: ## build/ubsan: the kernel with checks for undefined behaviour; run-qemu.sh --ubsan
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/ubsan SANITIZE=-fsanitize=undefined \
	  $(BUILD)/ubsan/spoor.elf $(BUILD)/ubsan/spoor.elf32
.PHONY: ubsan

# Objects of other flags do not fit: of another alignment of the stack.
$(BUILD)/obj/%.c.o: %.c Makefile
	@mkdir -p $(@D)
	$(call short,CC,$<)$(CC) $(CFLAGS) -c -o $@ $<

# The smallest code: what GCC moves out of loops takes more registers than it saves, and so do its dearer passes.
smallest := $(if $(findstring clang,$(CC)),,-fno-move-loop-invariants -fno-expensive-optimizations \
            -fno-tree-loop-im -fno-caller-saves -fno-jump-tables -fno-ipa-sra -fno-shrink-wrap -fno-tree-dse)
# What a traced branch does not pass through is to be small.
small := $(filter-out monitor/trace.c,$(wildcard monitor/*.c)) monitor/boot/% monitor/ds/defects/% monitor/host/% \
         $(patsubst %,monitor/ds/%.c,interrupt msr silicon variants) $(patsubst %,monitor/pmu/%.c,defects events netburst registers variants) monitor/lbr/% $(patsubst %,monitor/pt/%.c,defects variants) monitor/pebs/% monitor/svm/% \
         $(patsubst %,monitor/interp/%.c,control debug decode event_outside_ia32e far linear lockstep) \
         $(patsubst %,monitor/interp/%.c,lockstep_rules multiply segment system) \
         $(patsubst %,monitor/interp/%.c,thunk_forms)
$(patsubst %,$(BUILD)/obj/%.o,$(small)): CFLAGS += -Os $(smallest)
# Handlers begin at multiples of 128 bytes, so that none straddles a page: QEMU's translator looks up
# a block that does whenever it runs.
$(patsubst %,$(BUILD)/obj/monitor/interp/%.c.o,alu alu_one move stack): CFLAGS += -falign-functions=128
# Nothing in the monitor follows frame pointers.
$(BUILD)/obj/monitor/%.c.o: CFLAGS += -fomit-frame-pointer

$(BUILD)/obj/%.asm.o: %.asm
	@mkdir -p $(@D)
	$(call short,NASM,$<)$(NASM) -f elf64 -g -F dwarf -i . -MD $(@:.o=.d) -o $@ $<

# Rewritten only when the version or the commit changes. RELEASE=1 is for tools/release.
$(BUILD)/version.c: FORCE
	@mkdir -p $(@D)
	@printf '/* Generated. */\n#include "lib/version.h"\nconst char spoor_version[] = "%s";\nconst char spoor_git[] = "%s";\n' \
	  '$(VERSION)$(if $(RELEASE),,-dev)' "$$(git describe --always --dirty --abbrev=12 2>/dev/null || echo none)" > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(BUILD)/obj/version.o: $(BUILD)/version.c
	@mkdir -p $(@D)
	$(call short,CC,$<)$(CC) $(CFLAGS) -c -o $@ $<

# The subset of a console font that the screen needs.
FONT := /usr/share/consolefonts/Unifont-APL8x16.psf.gz
$(BUILD)/font.c: tools/font $(FONT)
	@mkdir -p $(@D)
	$(call short,FONT)tools/font $(FONT) > $@
$(BUILD)/obj/font.o: $(BUILD)/font.c
	@mkdir -p $(@D)
	$(call short,CC,$<)$(CC) $(CFLAGS) -c -o $@ $<
# Which tests and which rules are of which unit.
$(BUILD)/rules.c: tools/assertions tools/Spoor/Units.pm tests/assertions.txt
	@mkdir -p $(@D)
	$(call short,RULES)tools/assertions --units > $@
$(BUILD)/obj/tests/suite/rules.o: $(BUILD)/rules.c
	@mkdir -p $(@D)
	$(call short,CC,$<)$(CC) $(CFLAGS) -c -o $@ $<
FORCE:
.PHONY: FORCE

# Only the size matters, but where a switch of tasks goes through, and where one is measured: of two
# patterns make takes the closer one.
small := tests lib kernel drivers
$(BUILD)/obj/third_party/%.c.o: CFLAGS := $(CFLAGS) -Oz -Ithird_party/qrcodegen -Wno-conversion
fast  := kernel/sched kernel/trace kernel/trap drivers/ds tests/suite/bench
rare  := $(wildcard kernel/trace/*/attach.c) kernel/sched/task.c kernel/trap/user.c drivers/ds/probe.c \
         $(patsubst %,kernel/trace/%.c,attach claim freeze init kinds last_branches pmi bts/missing bts/read bts/tracer) \
         $(patsubst %,kernel/trace/%.c,lbr/switch lbr/tracer pebs/admit pebs/events pebs/tracer pt/buffer pt/session) \
         $(patsubst %,kernel/trace/%.c,pt/sessions pt/stream pt/unit)
$(small:%=$(BUILD)/obj/%/%.c.o): CFLAGS := $(CFLAGS) -Oz $(smallest) $(SANITIZE)
$(fast:%=$(BUILD)/obj/%/%.c.o): CFLAGS := $(CFLAGS) $(SANITIZE)
$(rare:%=$(BUILD)/obj/%.o): CFLAGS := $(CFLAGS) -Oz $(smallest) $(SANITIZE)

include tests/user/user.mk

# The kernel is linked twice: its own symbol table and the texts of checks, packed, go into the second link, after all
# code, so that no function moves; the recipe checks that none did. Its build-id is that of what is loaded, and of these
# texts: ld's own is of the debug information too, in which nasm names the directory.
no_build_id := 0x$(shell printf %040d 0)
$(BUILD)/spoor.elf: $(kernel_objects) linker.ld tools/symbols tools/checksum tools/tests-of
	@tools/symbols /dev/null /dev/null > $(BUILD)/symbols-empty.c
	@$(CC) $(CFLAGS) -c -o $(BUILD)/symbols-empty.o $(BUILD)/symbols-empty.c
	@$(LD) $(LDFLAGS) --build-id=$(no_build_id) -T linker.ld -o $@.1 $(kernel_objects) $(BUILD)/symbols-empty.o
	@$(OBJCOPY) -O binary --dump-section .check_texts=$(BUILD)/check.texts $@.1 $@.loaded
	@nm -nS $@.1 | grep -i ' t ' > $(BUILD)/symbols.nm
	@tools/symbols $(BUILD)/symbols.nm $(BUILD)/check.texts > $(BUILD)/symbols.c
	@$(CC) $(CFLAGS) -c -o $(BUILD)/symbols.o $(BUILD)/symbols.c
	$(call short,LD)$(LD) $(LDFLAGS) --build-id=0x$$(cat $@.loaded $(BUILD)/check.texts | sha1sum | cut -c 1-40) -T linker.ld -o $@ \
	  $(kernel_objects) $(BUILD)/symbols.o
	@$(OBJCOPY) -R .check_texts $@
	@tools/checksum $@
	@tools/tests-of $@ $(BUILD)/lists
	@nm -nS $@ | grep -i ' t ' | cmp -s - $(BUILD)/symbols.nm || { echo 'the symbol table moved the code' >&2; rm $@; exit 1; }

$(BUILD)/monitor.elf: $(monitor_objects) monitor/linker.ld tools/checksum
	$(call short,LD)$(LD) $(LDFLAGS) -T monitor/linker.ld -o $@ $(monitor_objects)
	@tools/checksum $@

# What `qemu -kernel` and iPXE load: the same bytes in an ELF32 container.
$(BUILD)/%.elf32: $(BUILD)/%.elf
	$(call short,OBJCOPY)$(OBJCOPY) --strip-all -O elf32-i386 $< $@

include tests/host/host.mk
include tests/guest/guest.mk
include tools/view/view.mk
include tools/guests/guests.mk

# What every boot is measured against.
$(BUILD)/minimal.elf32: tests/suite/bench/minimal.asm
	@mkdir -p $(@D)
	$(call short,NASM,$<)$(NASM) -f elf32 -o $(BUILD)/minimal.o $<
	$(call short,LD)$(LD) -m elf_i386 -nostdlib -static -z noexecstack -Ttext 0x100000 -e start -o $@ $(BUILD)/minimal.o

# The kernel and the framework without any test, to tell what each of them takes.
without_tests := $(filter-out $(BUILD)/obj/tests/% $(BUILD)/user/%,$(kernel_objects)) \
                 $(filter $(BUILD)/obj/tests/framework/%,$(kernel_objects))
$(BUILD)/no-tests.elf: $(without_tests) $(BUILD)/spoor.elf linker.ld
	$(call short,LD)$(LD) $(LDFLAGS) -T linker.ld -o $@ $(without_tests) $(BUILD)/symbols-empty.o
	@tools/checksum $@

include boot/images.mk

clean: ## remove what was built
	rm -rf $(BUILD)
.PHONY: clean

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
