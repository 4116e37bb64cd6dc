# SPDX-License-Identifier: MIT
# A separate kernel that tests how processors start: tests/guest/README.md

guest_sources := tests/guest/start.asm tests/guest/task.asm tests/guest/startup.c tests/guest/platform.c tests/guest/machine.c lib/format.c lib/string.c drivers/console/uart.c

check-guest: $(BUILD)/startup.elf $(BUILD)/startup.elf32 $(BUILD)/monitor.elf32
	@tests/guest/run $(BUILD)

.PHONY: check-guest

# Hands over to another kernel with interrupts pending: boots.txt
$(BUILD)/leftover.elf32: tests/guest/leftover.asm
	@mkdir -p $(@D)
	@$(NASM) -f elf32 -o $(BUILD)/leftover.o $<
	$(call short,LD)$(LD) -m elf_i386 -nostdlib -static -z noexecstack -Ttext 0x2000000 -e start -o $@ $(BUILD)/leftover.o

# A bzImage that checks what it is given: boots.txt
$(BUILD)/bzimage: tests/guest/bzimage.asm
	@mkdir -p $(@D)
	$(call short,NASM,$<)$(NASM) -f bin -o $@ $<

$(BUILD)/startup.elf: $(call objects,$(guest_sources)) tests/guest/linker.ld
	$(call short,LD)$(LD) -nostdlib -static -z noexecstack -z max-page-size=4096 -T tests/guest/linker.ld -o $@ $(filter %.o,$^)
