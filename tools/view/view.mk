# SPDX-License-Identifier: MIT
# build/view, a program of the host: sees traces.

VIEW_CFLAGS  := -std=gnu11 -O2 -g $(WARN) -I. -Iinclude -MMD -MP
view_libraries := -ldw -lelf -lZydis -llz4 -lipt -lz -liberty
view_objects := $(patsubst %,$(BUILD)/view-obj/%.o,$(wildcard tools/view/*.c) lib/frame.c)

$(BUILD)/view-obj/%.c.o: %.c
	@mkdir -p $(@D)
	$(call short,HOSTCC,$<)$(HOST_CC) $(VIEW_CFLAGS) -c -o $@ $<

# What the page of `view html` has inside.
view_page := $(addprefix tools/view/,page.html page.js calls.js lanes.js) $(addprefix third_party/speedscope/,speedscope.js speedscope.css LICENSE)
$(BUILD)/view-obj/page.o: $(view_page)
	@mkdir -p $(@D)
	$(call short,LD)$(LD) -r -b binary -z noexecstack -o $@ $^

view_objects += $(BUILD)/view-obj/page.o
$(BUILD)/view: $(view_objects)
	$(call short,HOSTCC)$(HOST_CC) -o $@ $^ $(view_libraries)

# A program of the build machine, and what steps through it.
$(BUILD)/view-test/stepped: tools/view/tests/stepped.c tools/view/tests/corpus/calls.h
	@mkdir -p $(@D)
	$(call short,HOSTCC,$<)$(HOST_CC) -std=gnu11 -g -O2 $(WARN) -I. -static -no-pie -fcf-protection=none -o $@ $<

# Programs for Spoor's ring 3; all but `events` run on the build machine as well.
$(BUILD)/obj/tools/view/tests/%.c.o: CFLAGS := $(user_cflags)
$(BUILD)/view-test/%.elf: $(BUILD)/obj/tools/view/tests/%.c.o $(user_library) tests/user/user.ld
	@mkdir -p $(@D)
	$(call short,LD)$(LD) -nostdlib -static -O2 --gc-sections -z noexecstack -T tests/user/user.ld -o $@ $(filter %.o,$^)

view_library := $(filter-out %/main.c.o,$(view_objects))
$(BUILD)/view-test/test_%: tools/view/tests/test_%.c $(view_library)
	@mkdir -p $(@D)
	$(call short,HOSTCC,$<)$(HOST_CC) $(filter-out -MMD -MP,$(VIEW_CFLAGS)) -o $@ $^ $(view_libraries)

$(BUILD)/view-test/fuzz_%: tools/view/tests/fuzz_%.c $(filter-out tools/view/main.c,$(wildcard tools/view/*.c)) lib/frame.c $(BUILD)/view-obj/page.o $(wildcard tools/view/*.h)
	@mkdir -p $(@D)
	$(call short,CLANG,$<)clang $(filter-out -O2 -MMD -MP,$(VIEW_CFLAGS)) -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Wl,$(if $(findstring file,$@),--wrap=fail,--gc-sections) \
	  -o $@ $(filter %.c %.o,$^) $(view_libraries)

view_tests := $(BUILD)/view-test/corpus/jumps.elf $(BUILD)/view-test/fuzz_stream $(BUILD)/view-test/fuzz_file $(BUILD)/view-test/fuzz_pt $(BUILD)/view-test/stepped $(BUILD)/view-test/example.elf $(BUILD)/view-test/events.elf $(BUILD)/view-test/programs.elf $(patsubst tools/view/tests/%.c,$(BUILD)/view-test/%,$(wildcard tools/view/tests/test_*.c))
view-tests: $(view_tests)
view_judges := $(addprefix $(BUILD)/view-test/,test_stack test_shadow stepped example.elf) # without clang
.PHONY: view-tests

view: ## build/view: shows the branches of a panic, of a trace
	@$(MAKE) --no-print-directory $(BUILD)/view $(BUILD)/view-test/example.elf
.PHONY: view

corpus_programs := $(patsubst tools/view/tests/%.c,$(BUILD)/view-test/%.elf,$(wildcard tools/view/tests/corpus/*.c))
corpus: ## build/corpus: traces with their programs, listings and figures, for tests of decoders
	@$(MAKE) --no-print-directory images $(BUILD)/view $(view_judges) $(corpus_programs)
	@prove --verbose --exec '' tools/view/tests/corpus.sh :: $(BUILD)/corpus
.PHONY: corpus

fuzz-view: view-tests ## the readers of `view` on random input, SECONDS= of CPU each
	@$(MAKE) --no-print-directory $(BUILD)/host/one_run
	@prove --verbose --exec '' tools/view/tests/fuzz.sh :: $(SECONDS)
.PHONY: fuzz-view

round-trip: $(BUILD)/view $(corpus_programs) ## 10,000,000 random records out of the machine (THOUSANDS=, SEED=)
	@prove --verbose --exec '' tools/view/tests/round_trip.sh :: $(THOUSANDS) $(SEED)
.PHONY: round-trip

check-view: corpus ## check what `view` writes by what reads it: perf, protoc, a browser
	@$(MAKE) --no-print-directory $(BUILD)/view $(view_judges)
	@prove --verbose --exec '' tools/view/tests/perf.sh tools/view/tests/perfetto.sh tools/view/tests/browser.pl tools/view/tests/bench.sh
	@prove --verbose --exec '' tools/view/tests/shadow.sh :: --all
.PHONY: check-view

check-pt: images ## compare Processor Trace with BTS: programs on the machine, random ones of 12 million instructions: two minutes
	@$(MAKE) --no-print-directory $(BUILD)/view view-tests $(BUILD)/host/one_run
	@prove --verbose --exec '' tools/view/tests/both.sh :: --all
	@prove --verbose --exec '' tools/view/tests/pt.sh :: 64 200000
.PHONY: check-pt

-include $(shell find $(BUILD)/view-obj -name '*.d' 2>/dev/null)
