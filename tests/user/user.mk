# SPDX-License-Identifier: MIT
# A tests/user/NAME.c becomes a program of ring 3, or several: one for each MAIN(name) in it. Packed, they
# become part of the kernel. NAME_32.c is 32-bit code, without the library.

user_cflags   := -std=c11 -Oz -g $(WARN) -I. -Iinclude -MMD -MP -ffreestanding -fno-pic -fno-pie \
                 -fno-stack-protector -fomit-frame-pointer -fno-asynchronous-unwind-tables \
                 -fcf-protection=none $(if $(findstring clang,$(CC)),,-fno-tree-loop-distribute-patterns) \
                 -ffunction-sections -fdata-sections
user_sources  := $(sort $(wildcard tests/user/*.c))
user_objects  := $(user_sources:%=$(BUILD)/obj/%.o)
# NAME:FILE, and :OPTION of the linker where main() is one of several in its file.
find_programs  = /^int main\(/ { name = FILENAME; gsub(/.*\/|\.c$$/, "", name); print name ":" FILENAME } \
                 /^MAIN\(/ { gsub(/MAIN\(|\)/, ""); print $$0 ":" FILENAME ":--defsym=main=main_" $$0 }
user_programs := $(sort $(shell awk '$(find_programs)' $(user_sources)))
user_field     = $(word $(1),$(subst :, ,$(2)))
user_names    := $(foreach program,$(user_programs),$(call user_field,1,$(program)))
user_library  := $(patsubst %,$(BUILD)/obj/%.o,$(sort $(wildcard tests/user/lib/*.c))) \
                 $(addprefix $(BUILD)/obj/user/,pt_decode.o pt_grammar.o random.o frame.o)
kernel_objects += $(BUILD)/user/programs.o

$(BUILD)/obj/tests/user/%.c.o: CFLAGS := $(user_cflags)
$(BUILD)/obj/tests/user/%_32.c.o: CFLAGS := $(user_cflags) -m32 -mgeneral-regs-only

# The decoder and the random numbers that the tests in the kernel have as well, and the kernel's frames.
$(BUILD)/obj/user/pt_decode.o: tests/lib/pt_decode.c
$(BUILD)/obj/user/pt_grammar.o: tests/lib/pt_grammar.c
$(BUILD)/obj/user/random.o: tests/framework/random.c
$(BUILD)/obj/user/frame.o: lib/frame.c
$(BUILD)/obj/user/%.o:
	@mkdir -p $(@D)
	$(call short,CC,$^)$(CC) $(user_cflags) -c -o $@ $(filter %.c,$^)

# NAME, FILE, OPTION. -n: the file without the padding of its pages.
define user_program
$(BUILD)/user/$(1).elf: $(BUILD)/obj/$(2).o $(if $(filter %_32.c,$(2)),,$(user_library)) tests/user/user.ld
	@mkdir -p $$(@D)
	$$(call short,LD)$(LD) $(if $(filter %_32.c,$(2)),-m elf_i386) -nostdlib -static -O2 --gc-sections -n -z noexecstack $(3) -T tests/user/user.ld -o $$@ $$(filter %.o,$$^)
endef
$(foreach program,$(user_programs),$(eval \
  $(call user_program,$(call user_field,1,$(program)),$(call user_field,2,$(program)),$(call user_field,3,$(program)))))

# Sections are nothing to a loader: without symbols, and without the table of sections at its end.
$(BUILD)/user/%.stripped: $(BUILD)/user/%.elf
	$(call short,OBJCOPY)$(OBJCOPY) --strip-all $< $@
	@truncate -s $$(readelf -hW $@ | sed -n 's/.*Start of section headers: *\([0-9]*\).*/\1/p') $@

# By size, since LZ4 looks back 64 KiB: those that are alike in size are so in content.
$(BUILD)/user/programs.o: $(user_names:%=$(BUILD)/user/%.stripped) tests/user/archive.asm tests/user/programs.asm
	@LC_ALL=C ls -Sr $(filter %.stripped,$^) | sed "s/.*\/\(.*\).stripped/program '\1', '&'/" > $(@:.o=.list)
	@$(NASM) -f bin -dLIST="'$(@:.o=.list)'" -o $(@:.o=.archive) tests/user/archive.asm
	$(call short,LZ4)lz4 -q -f -l -12 $(@:.o=.archive) $(@:.o=.lz4)
	@$(NASM) -f elf64 -dFILE="'$(@:.o=.lz4)'" -dBYTES=$$(stat -c %s $(@:.o=.archive)) -o $@ tests/user/programs.asm

.SECONDARY: $(user_names:%=$(BUILD)/user/%.elf) $(user_names:%=$(BUILD)/user/%.stripped) $(user_library) \
            $(user_objects)
