# SPDX-License-Identifier: MIT
# build/view, a program of the host: sees traces.

VIEW_CFLAGS  := -std=gnu11 -O2 -g $(WARN) -I. -Iinclude -MMD -MP
view_objects := $(patsubst %,$(BUILD)/view-obj/%.o,$(wildcard tools/view/*.c) lib/frame.c)

$(BUILD)/view-obj/%.c.o: %.c
	@mkdir -p $(@D)
	$(call short,HOSTCC,$<)$(HOST_CC) $(VIEW_CFLAGS) -c -o $@ $<

$(BUILD)/view: $(view_objects)
	$(call short,HOSTCC)$(HOST_CC) -o $@ $^ -ldw -lelf -lZydis -llz4

view: ## build/view: shows the branches of a panic, of a trace
	@tools/deps check view
	@$(MAKE) --no-print-directory $(BUILD)/view
.PHONY: view

-include $(shell find $(BUILD)/view-obj -name '*.d' 2>/dev/null)
