# SPDX-License-Identifier: MIT
# Each tests/user/NAME.c becomes a program of ring 3; packed, they become part of the kernel.

user_cflags   := -std=c11 -Oz -g $(WARN) -I. -Iinclude -MMD -MP -ffreestanding -fno-pic -fno-pie \
                 -fno-stack-protector -fomit-frame-pointer -fno-asynchronous-unwind-tables \
                 -fcf-protection=none $(if $(findstring clang,$(CC)),,-fno-tree-loop-distribute-patterns) \
                 -ffunction-sections -fdata-sections
user_names    := $(patsubst tests/user/%.c,%,$(sort $(wildcard tests/user/*.c)))
user_library  := $(patsubst %,$(BUILD)/obj/%.o,$(sort $(wildcard tests/user/lib/*.c)))
kernel_objects += $(BUILD)/user/programs.o

$(BUILD)/obj/tests/user/%.c.o: CFLAGS := $(user_cflags)

# -n: the file without the padding of its pages.
$(BUILD)/user/%.elf: $(BUILD)/obj/tests/user/%.c.o $(user_library) tests/user/user.ld
	@mkdir -p $(@D)
	$(call short,LD)$(LD) -nostdlib -static -O2 --gc-sections -n -z noexecstack -T tests/user/user.ld -o $@ $(filter %.o,$^)

# Sections are nothing to a loader: without symbols, and without the table of sections at its end.
$(BUILD)/user/%.stripped: $(BUILD)/user/%.elf
	$(call short,OBJCOPY)$(OBJCOPY) --strip-all $< $@
	@truncate -s $$(readelf -hW $@ | sed -n 's/.*Start of section headers: *\([0-9]*\).*/\1/p') $@

$(BUILD)/user/programs.o: $(user_names:%=$(BUILD)/user/%.stripped) tests/user/archive.asm tests/user/programs.asm
	@for name in $(user_names); do echo "program '$$name', '$(BUILD)/user/$$name.stripped'"; done > $(@:.o=.list)
	@$(NASM) -f bin -dLIST="'$(@:.o=.list)'" -o $(@:.o=.archive) tests/user/archive.asm
	$(call short,LZ4)lz4 -q -f -l -12 $(@:.o=.archive) $(@:.o=.lz4)
	@$(NASM) -f elf64 -dFILE="'$(@:.o=.lz4)'" -dBYTES=$$(stat -c %s $(@:.o=.archive)) -o $@ tests/user/programs.asm

.SECONDARY: $(user_names:%=$(BUILD)/user/%.elf) $(user_names:%=$(BUILD)/user/%.stripped) $(user_library) \
            $(user_names:%=$(BUILD)/obj/tests/user/%.c.o)
