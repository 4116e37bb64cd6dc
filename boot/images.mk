# SPDX-License-Identifier: MIT
# What boots a machine: one ISO for CD and USB, BIOS and UEFI; spoor.efi, which has
# everything inside; and a directory for a TFTP or HTTP server.

grub_modules := normal multiboot2 serial terminal smbios eval test echo configfile sleep reboot halt \
                memdisk tar search_fs_file minicmd regexp
grub_disk    := part_msdos part_gpt fat iso9660
grub_bios    := $(grub_modules) biosdisk iso9660
grub_efi     := $(grub_modules) $(grub_disk) efi_gop
grub_pxe     := $(grub_modules) pxe tftp http

images_elf := $(BUILD)/spoor.elf $(BUILD)/monitor.elf

# The same bytes from every build of a commit: its date is that of all files in the images.
commit_date := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
reproducible_tar = tar --format=ustar --sort=name --mtime=@$(commit_date) --owner=0 --group=0 \
                   --numeric-owner --mode=u=rwX,go=rX

iso: ## build the image for CD and USB stick, BIOS and UEFI
usb: ## the same: `dd` it to a stick
iso usb: $(BUILD)/spoor.iso
pxe: ## build a directory for a TFTP or HTTP server, BIOS and UEFI
pxe: $(addprefix $(BUILD)/pxe/,spoor.0 spoor.efi spoor.cfg spoor.ipxe monitor.elf32 monitor.elf spoor.elf)
.PHONY: iso usb pxe

# What GRUB runs first. It has no other place to look for the menu: where firmware got the image by HTTP, GRUB 2.12
# of Debian 13 asks that server alone for it.
$(BUILD)/grub/first.cfg: boot/images.mk
	@mkdir -p $(@D) && echo 'normal (memdisk)/boot/grub/grub.cfg' >$@

# GRUB's memory disks: the menu alone, and with all that it boots.
$(BUILD)/grub/menu.tar: boot/grub/grub.cfg boot/images.mk
	@mkdir -p $(BUILD)/grub/menu/boot/grub && cp $< $(BUILD)/grub/menu/boot/grub
	@$(reproducible_tar) -C $(BUILD)/grub/menu -cf $@ boot
$(BUILD)/grub/whole.tar: boot/grub/grub.cfg boot/images.mk $(images_elf)
	@mkdir -p $(BUILD)/grub/whole/boot/grub && cp $< $(BUILD)/grub/whole/boot/grub
	@for image in $(images_elf); do strip -o $(BUILD)/grub/whole/boot/$${image##*/} $$image || exit 1; done
	@$(reproducible_tar) -C $(BUILD)/grub/whole -cf $@ boot

$(BUILD)/grub/bios.img: $(BUILD)/grub/menu.tar $(BUILD)/grub/first.cfg
	$(call short,GRUB)grub-mkimage -O i386-pc-eltorito -o $@ -c $(BUILD)/grub/first.cfg -m $< $(grub_bios)
$(BUILD)/grub/bootx64.efi: $(BUILD)/grub/menu.tar $(BUILD)/grub/first.cfg
	$(call short,GRUB)grub-mkimage -O x86_64-efi -o $@ -c $(BUILD)/grub/first.cfg -m $< $(grub_efi)
$(BUILD)/grub/efi.img: $(BUILD)/grub/bootx64.efi
	@rm -f $@ && truncate -s 1M $@ && mformat -i $@ -N 5900 ::
	@export TZ=UTC SOURCE_DATE_EPOCH=$(commit_date) && mmd -i $@ ::/EFI ::/EFI/BOOT && \
	  mcopy -i $@ $< ::/EFI/BOOT/BOOTX64.EFI

# The EFI image is El Torito's second entry and, as a partition, what a UEFI machine finds on a
# stick; GRUB's hybrid sector makes a BIOS boot the same bytes as a disk.
$(BUILD)/spoor.iso: $(BUILD)/grub/bios.img $(BUILD)/grub/efi.img $(BUILD)/grub/whole.tar
	@rm -rf $(BUILD)/iso && mkdir -p $(BUILD)/iso/boot
	@cp $(BUILD)/grub/bios.img $(BUILD)/grub/whole/boot/*.elf $(BUILD)/iso/boot
	$(call short,XORRISO)TZ=UTC xorriso -as mkisofs -quiet -r -V SPOOR -o $@ -partition_offset 16 \
	  --modification-date=$$(date -u -d @$(commit_date) +%Y%m%d%H%M%S00) --set_all_file_dates =$(commit_date) \
	  -b boot/bios.img -no-emul-boot -boot-load-size 4 -boot-info-table --grub2-boot-info \
	  --grub2-mbr /usr/lib/grub/i386-pc/boot_hybrid.img --protective-msdos-label \
	  -append_partition 2 0xef $(BUILD)/grub/efi.img \
	  -eltorito-alt-boot -e --interval:appended_partition_2:all:: -no-emul-boot $(BUILD)/iso

# BIOS loads a network's first stage below 640 KiB, of which GRUB 2.06 lets it have 445: the kernel outgrows that,
# so the menu fetches kernel and monitor.
$(BUILD)/pxe/spoor.0: $(BUILD)/grub/menu.tar $(BUILD)/grub/first.cfg
	@mkdir -p $(@D)
	$(call short,GRUB)grub-mkimage -O i386-pc-pxe -o $@ -c $(BUILD)/grub/first.cfg -m $< $(grub_pxe)
$(BUILD)/pxe/spoor.efi: $(BUILD)/grub/whole.tar $(BUILD)/grub/first.cfg
	@mkdir -p $(@D)
	$(call short,GRUB)grub-mkimage -O x86_64-efi -o $@ -c $(BUILD)/grub/first.cfg -m $< $(grub_efi) efinet tftp http
$(BUILD)/pxe/spoor.cfg: boot/grub/spoor.cfg
$(BUILD)/pxe/spoor.ipxe: boot/spoor.ipxe
$(BUILD)/pxe/monitor.elf32: $(BUILD)/monitor.elf32
$(addprefix $(BUILD)/pxe/,spoor.cfg spoor.ipxe monitor.elf32):
	@mkdir -p $(@D)
	@cp $< $@
$(BUILD)/pxe/%.elf: $(BUILD)/grub/whole.tar
	@mkdir -p $(@D)
	@cp $(BUILD)/grub/whole/boot/$*.elf $@
