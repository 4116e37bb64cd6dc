# SPDX-License-Identifier: MIT
# What boots a machine: one ISO for CD and USB, BIOS and UEFI, and a directory for a TFTP server.

grub_modules := normal multiboot2 serial terminal smbios regexp test echo search_fs_file reboot halt
grub_bios    := $(grub_modules) biosdisk iso9660
grub_efi     := $(grub_modules) iso9660 part_msdos part_gpt fat efi_gop
grub_pxe     := $(grub_modules) pxe tftp
grub_efi_net := $(grub_modules) efinet tftp efi_gop

images_elf := $(BUILD)/spoor.elf $(BUILD)/monitor.elf

iso: ## build the image for CD and USB stick, BIOS and UEFI
usb: ## the same: `dd` it to a stick
iso usb: $(BUILD)/spoor.iso
pxe: ## build a directory for a TFTP server, BIOS and UEFI
pxe: $(BUILD)/pxe/spoor.0 $(BUILD)/pxe/spoor.efi
.PHONY: iso usb pxe

# What is built into GRUB's images is read by its rescue parser, which knows no comments.
$(BUILD)/grub/%.cfg: boot/grub/%.cfg
	@mkdir -p $(@D)
	@sed '/^#/d' $< > $@

$(BUILD)/grub/bios.img: $(BUILD)/grub/disk.cfg
	$(call short,GRUB)grub-mkimage -O i386-pc-eltorito -o $@ -p /boot -c $< $(grub_bios)
$(BUILD)/grub/efi.img: $(BUILD)/grub/disk.cfg
	$(call short,GRUB)grub-mkimage -O x86_64-efi -o $(BUILD)/grub/bootx64.efi -p /boot -c $< $(grub_efi)
	@rm -f $@ && truncate -s 1M $@ && mformat -i $@ -N 5900 ::
	@mmd -i $@ ::/EFI ::/EFI/BOOT
	@mcopy -i $@ $(BUILD)/grub/bootx64.efi ::/EFI/BOOT/BOOTX64.EFI

# The EFI image is El Torito's second entry and, as a partition, what a UEFI machine finds on a
# stick; GRUB's hybrid sector makes a BIOS boot the same bytes as a disk.
$(BUILD)/spoor.iso: $(BUILD)/grub/bios.img $(BUILD)/grub/efi.img boot/grub/grub.cfg $(images_elf)
	@rm -rf $(BUILD)/iso && mkdir -p $(BUILD)/iso/boot
	@cp boot/grub/grub.cfg $(BUILD)/grub/bios.img $(BUILD)/iso/boot
	@for image in $(images_elf); do strip -o $(BUILD)/iso/boot/$${image##*/} $$image || exit 1; done
	$(call short,XORRISO)xorriso -as mkisofs -quiet -V SPOOR -o $@ -partition_offset 16 \
	  -b boot/bios.img -no-emul-boot -boot-load-size 4 -boot-info-table --grub2-boot-info \
	  --grub2-mbr /usr/lib/grub/i386-pc/boot_hybrid.img --protective-msdos-label \
	  -append_partition 2 0xef $(BUILD)/grub/efi.img \
	  -eltorito-alt-boot -e --interval:appended_partition_2:all:: -no-emul-boot $(BUILD)/iso

$(BUILD)/pxe/spoor.0: $(BUILD)/grub/pxe.cfg $(BUILD)/pxe/grub.cfg
	$(call short,GRUB)grub-mkimage -O i386-pc-pxe -o $@ -p / -c $< $(grub_pxe)
$(BUILD)/pxe/spoor.efi: $(BUILD)/grub/pxe.cfg $(BUILD)/pxe/grub.cfg
	$(call short,GRUB)grub-mkimage -O x86_64-efi -o $@ -p / -c $< $(grub_efi_net)
$(BUILD)/pxe/grub.cfg: boot/grub/grub.cfg $(images_elf)
	@mkdir -p $(@D)
	@for image in $(images_elf); do strip -o $(@D)/$${image##*/} $$image || exit 1; done
	@cp $< $@
