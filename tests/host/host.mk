# SPDX-License-Identifier: MIT
# Unit tests that run on the build machine: make check-host

HOST_CC     := $(CC)
HOST_CFLAGS := -std=gnu11 -g -O1 $(WARN) -mno-red-zone -Wno-unused-parameter -fno-strict-aliasing \
               -fsanitize=address,undefined -fno-sanitize-recover=all -Itests/host/fake -I. -Iinclude

host_tests   := $(patsubst tests/host/%.c,$(BUILD)/host/%,$(wildcard tests/host/test_*.c))
host_sources  = $(shell sed -n 's|^/\* sources: \(.*\) \*/$$|\1|p' tests/host/$(1).c)
host_headers  = $(shell find include lib drivers kernel monitor tests/host tools/view -name '*.h')
host_object   = $(patsubst %,$(BUILD)/host/obj/%.o,$(foreach file,$(1),$(or $(wildcard $(file)),$(file))))

# Each source once, whatever number of tests it is in.
$(BUILD)/host/obj/%.c.o: %.c
	@mkdir -p $(@D)
	$(call short,HOSTCC,$<)$(HOST_CC) $(HOST_CFLAGS) -MMD -MP -c -o $@ $<
$(BUILD)/host/obj/third_party/%.c.o: HOST_CFLAGS += -Wno-conversion
-include $(shell find $(BUILD)/host/obj -name '*.d' 2>/dev/null)

.SECONDEXPANSION:
$(host_tests): $(BUILD)/host/%: $$(call host_object,tests/host/%.c tests/host/main.c) $$(call host_object,$$(call host_sources,$$*))
	$(call short,LD,$@)$(HOST_CC) $(HOST_CFLAGS) -o $@ $(filter %.o,$^) -lcmocka -llz4 -lZydis -lipt

# The heap of a program that is not moved begins up to 1 GiB after it, and RIG_BASE has to stay free.
above_rig := -no-pie -fno-pie -Wl,-Ttext-segment=0x40000000

# The monitor's own objects in a program of the build machine, for `make bench`.
branch_cost_objects = $(filter $(BUILD)/obj/monitor/interp/% $(BUILD)/obj/monitor/ds/% \
  $(BUILD)/obj/monitor/lbr/% $(BUILD)/obj/monitor/pmu/% $(BUILD)/obj/monitor/pebs/% $(BUILD)/obj/monitor/pt/% \
  $(BUILD)/obj/monitor/trace.c.o $(BUILD)/obj/monitor/unit.c.o $(BUILD)/obj/monitor/units.c.o $(BUILD)/obj/monitor/profile.c.o,$(monitor_objects)) \
  $(BUILD)/obj/lib/format.c.o $(BUILD)/obj/lib/string.c.o
$(BUILD)/host/branch_cost: tests/host/branch_cost.c tests/host/interp_rig.c $$(branch_cost_objects) $$(host_headers)
	@mkdir -p $(@D)
	$(call short,HOSTCC,$<)$(HOST_CC) $(filter-out -fsanitize% -fno-sanitize%,$(HOST_CFLAGS)) $(above_rig) \
	  -o $@ $(filter %.c,$^) $(branch_cost_objects) -lcmocka

# The same: BTS and Processor Trace of one run, for tools/view/tests.
$(BUILD)/host/one_run: tests/host/one_run.c tests/host/pt_program.c tests/host/interp_rig.c tests/framework/random.c lib/frame.c $$(branch_cost_objects) $$(host_headers)
	@mkdir -p $(@D)
	$(call short,HOSTCC,$<)$(HOST_CC) $(filter-out -fsanitize% -fno-sanitize%,$(HOST_CFLAGS)) $(above_rig) \
	  -o $@ $(filter %.c,$^) $(branch_cost_objects) -lcmocka

# The kernel's encoder of QR codes, for tests/runner/codes.
$(BUILD)/host/code_picture: $$(call host_object,tests/host/code_picture.c third_party/qrcodegen/qrcodegen.c)
	$(call short,LD,$@)$(HOST_CC) $(HOST_CFLAGS) -o $@ $^

host-tests: $(host_tests)
check-host: $(host_tests)
	@CMOCKA_MESSAGE_OUTPUT=TAP prove $(jobs) --exec '' $^
.PHONY: host-tests check-host
