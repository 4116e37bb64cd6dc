# SPDX-License-Identifier: MIT
# Foreign guests on virtual silicon: README.md

linux: $(BUILD)/monitor.elf32 $(BUILD)/spoor.iso $(BUILD)/linux/initrd $(BUILD)/linux/check_branches $(BUILD)/view ## record branches with perf and gdb in a Linux on virtual silicon, check each: minutes
	@prove --verbose --exec '' tools/guests/linux :: check
	@prove --verbose --exec '' tools/guests/tests/record.sh :: --boots
linux-shell: $(BUILD)/monitor.elf32 $(BUILD)/linux/initrd ## a shell in that Linux, with perf and gdb; RUN="options of run-qemu.sh"
	@tools/guests/linux shell $(RUN)
linux-disk: $(BUILD)/linux/root.img ## a root disk for that Linux: compiler, Python, perf, gdb, dejagnu and PACKAGES="..." (1 GB)
check-linux: $(BUILD)/monitor.elf32 $(BUILD)/linux/initrd $(BUILD)/linux/root.img ## run perf's own tests and gdb's gdb.btrace on that disk, on virtual silicon: an hour
	@prove --verbose --exec '' tests/runner/recipes.sh :: --linux
	@prove --verbose --exec '' tools/guests/linux :: suites
check-programs: $(BUILD)/monitor.elf32 $(BUILD)/linux/initrd $(BUILD)/linux/steps $(BUILD)/view ## record twenty programs of Debian by `view record`; NAMES="some of them": a quarter of an hour
	@prove --verbose --exec '' tools/guests/tests/programs.sh :: $(NAMES)
disk-shell: $(BUILD)/monitor.elf32 $(BUILD)/linux/initrd $(BUILD)/linux/root.img ## a shell on that disk, which keeps what it writes; RUN="options of run-qemu.sh"
	@tools/guests/linux disk-shell $(RUN)
linux-soak: $(BUILD)/monitor.elf32 $(BUILD)/linux/initrd $(BUILD)/linux/check_branches ## perf in a loop on four processors there that go and come, with kill and exec; TIME=seconds (an hour)
	@tools/guests/linux-soak $(TIME)
check-kut: images ## run kvm-unit-tests' x86 tests plain, as a guest, and interpreted: KUT=directory of its sources: an hour
	@prove --verbose --exec '' tools/guests/check-kut :: $(KUT)
.PHONY: linux linux-shell linux-soak linux-disk check-linux disk-shell check-kut check-programs anew

$(BUILD)/linux/root.img: tools/guests/inside/disk-init $(BUILD)/linux/verdict $(if $(PACKAGES),anew)
	@tools/guests/linux-disk $(PACKAGES)

$(BUILD)/linux/initrd: $(addprefix tools/guests/inside/,init record program.gdb) $(addprefix $(BUILD)/linux/,program long many spin lockup verdict init32 brake) tools/guests/linux
	@tools/guests/linux build

$(BUILD)/linux/long: private NASM_ROUNDS := -DROUNDS=12064 -DCALLS=16
$(BUILD)/linux/many: private NASM_ROUNDS := -DROUNDS=120640 -DCALLS=16 -DUNLISTED
$(addprefix $(BUILD)/linux/,program long many): tools/guests/inside/program.asm
	@mkdir -p $(@D)
	$(call short,NASM,$<)$(NASM) $(NASM_ROUNDS) -f elf64 -o $@.o $<
	@$(LD) -static -z noexecstack --build-id -o $@ $@.o

$(BUILD)/linux/spin: tools/guests/inside/lockup.asm
$(BUILD)/linux/verdict: tools/guests/inside/verdict.asm
$(BUILD)/linux/spin $(BUILD)/linux/verdict:
	@mkdir -p $(@D)
	$(call short,NASM,$<)$(NASM) -f elf64 -o $@.o $<
	@$(LD) -static -z noexecstack -o $@ $@.o

$(BUILD)/linux/lockup: tools/guests/inside/lockup.asm
	@mkdir -p $(@D)
	$(call short,NASM,$<)$(NASM) -f bin -o $@ $<

$(BUILD)/linux/init32: tools/guests/inside/init32.c
	@mkdir -p $(@D)
	$(call short,CC,$<)$(CC) -m32 -std=c11 -O1 $(WARN) -ffreestanding -fno-pic -fno-stack-protector -c -o $@.o $<
	@$(LD) -m elf_i386 -static -z noexecstack -o $@ $@.o

$(BUILD)/linux/brake: tools/guests/inside/brake.c
	@mkdir -p $(@D)
	$(call short,HOSTCC,$<)$(HOST_CC) -std=gnu11 -O2 $(WARN) -static -o $@ $<

# With the host's libraries: `view record` runs it.
$(BUILD)/linux/steps: tools/guests/inside/steps.c
	@mkdir -p $(@D)
	$(call short,HOSTCC,$<)$(HOST_CC) -std=gnu11 -O2 $(WARN) -o $@ $< -lZydis

$(BUILD)/linux/check_branches: tools/guests/inside/check_branches.c
	@mkdir -p $(@D)
	$(call short,HOSTCC,$<)$(HOST_CC) $(HOST_CFLAGS) -o $@ $< -lZydis
