// SPDX-License-Identifier: MIT
/* sources: tests/host/monitor_ds_rig.c */
/* sources: monitor/lbr/?*.c monitor/pebs/?*.c monitor/pmu/?*.c monitor/pt/?*.c monitor/ds/?*.c */
/* sources: monitor/ds/defects/?*.c monitor/trace.c monitor/unit.c monitor/units.c */
/* sources: monitor/options.c monitor/present.c monitor/profile.c */
/* sources: lib/cmdline.c lib/format.c drivers/console/uart.c */
#include <string.h>

#include "lib/io.h"
#include "monitor/defect.h"
#include "monitor/options.h"
#include "tests/host/monitor_ds_rig.h"

/* No serial port: only the arithmetic of drivers/console/uart.c is used. */
uint8_t inb(uint16_t port)
{
	return 0xff;
}

static struct options options;
static char error[300];

static bool parse(const char *line)
{
	error[0] = '\0';
	return options_parse(&options, line, error, sizeof(error));
}

UNIT(has_defaults)
{
	assert_true(parse(""));
	assert_int_equal(options.vbts, VBTS_AUTO);
	assert_false(options.end_exit);
	assert_string_equal(options.console, "");
	assert_false(options.baud_said);
	assert_int_equal(options.baud, 115200);
}

UNIT(reads_every_word)
{
	assert_true(parse("vbts=on console=com2 baud=9600 end=exit"));
	assert_int_equal(options.vbts, VBTS_ON);
	assert_string_equal(options.console, "com2");
	assert_int_equal(options.baud, 9600);
	assert_true(options.end_exit);
	assert_int_equal(options.interpret, INTERPRET_WANTED);
	assert_true(parse("interpret=traced"));
	assert_int_equal(options.interpret, INTERPRET_TRACED);
	assert_true(parse("vbts=off console=none end=halt interpret=always"));
	assert_int_equal(options.interpret, INTERPRET_ALWAYS);
	assert_int_equal(options.vbts, VBTS_OFF);
	assert_string_equal(options.console, "none");
	assert_false(options.end_exit);
}

/* Options of the console that the monitor does not get are as in the words of its kernel. */
UNIT(speaks_where_the_kernel_does)
{
	assert_true(parse(""));
	options_follow_kernel(&options, "test=a console=com2,mmio,0x9000 tset=b baud=9600");
	assert_string_equal(options.console, "com2,mmio,0x9000");
	assert_int_equal(options.baud, 9600);
	assert_true(parse("console=com1 baud=115200"));
	options_follow_kernel(&options, "console=com2 baud=9600");
	assert_string_equal(options.console, "com1");
	assert_int_equal(options.baud, 115200);
	assert_true(parse(""));
	options_follow_kernel(&options, "baud=7");
	assert_string_equal(options.console, "auto");
	assert_int_equal(options.baud, 115200);
}

UNIT(processors_may_be_of_two_kinds)
{
	assert_true(parse("profile=icelake pt=on"));
	assert_null(options.other);
	assert_true(parse("profile=icelake pt=on kinds=haswell"));
	assert_string_equal(options.profile->name, "icelake");
	assert_string_equal(options.other->name, "haswell");
	assert_false(options.other_added);
	assert_true(parse("kinds=icelake+pt"));
	assert_string_equal(options.other->name, "icelake");
	assert_ptr_equal(units[__builtin_ctz(options.other_added)], unit_find("pt"));
	assert_false(options.added);
	assert_false(parse("kinds=lakefield"));
	assert_non_null(strstr(error, "kinds=lakefield is unknown"));
	assert_false(parse("kinds=haswell+pt"));
	assert_non_null(strstr(error, "kinds=haswell+pt is unknown"));
	assert_false(parse("kinds=icelake+bts"));
	assert_null(options.other);
}

UNIT(unknown_words_are_named_and_the_others_applied)
{
	assert_false(parse("vbst=on end=exit"));
	assert_non_null(strstr(error, "vbst"));
	assert_non_null(strstr(error, "vbts"));
	assert_true(options.end_exit);
	assert_false(parse("vbst=on console=com3"));
	assert_string_equal(options.console, "com3");
	assert_false(parse("baud=7"));
	assert_false(parse("vbts=maybe"));
	assert_false(options.end_exit);
	assert_false(parse("vbts=maybe the-end=exit"));
	assert_false(options.end_exit);
}

UNIT(variants_stand_beside_the_choice)
{
	assert_true(parse("vbts=on,wrap=before-write,skid=100,room=below"));
	assert_int_equal(options.vbts, VBTS_ON);
	assert_string_equal(options.variants, "wrap=before-write,skid=100,room=below");
	assert_int_equal(options.behaviour.ds.wrap, DS_WRAP_BEFORE_WRITE);
	assert_int_equal(options.behaviour.ds.skid, DS_SKID_LONG);
	assert_int_equal(options.behaviour.ds.room, DS_ROOM_BELOW);
	assert_int_equal(options.behaviour.ds.full, DS_FULL_DROP);
	assert_true(parse("vbts=transition=either"));
	assert_int_equal(options.vbts, VBTS_AUTO);
	assert_int_equal(options.behaviour.ds.filter, DS_FILTER_BY_EITHER);
	assert_true(parse("vbts=inert=pebs"));
	assert_string_equal(options.inert->name, "pebs");
	assert_false(parse("vbts=inert=tlb"));
	assert_true(parse("vbts=list"));
	assert_true(options.list_variants);
}

UNIT(unknown_variants_are_named)
{
	assert_false(parse("vbts=on,wrap=sideways end=exit"));
	assert_non_null(strstr(error, "wrap=sideways"));
	assert_non_null(strstr(error, "vbts=list"));
	assert_true(options.end_exit);
	assert_false(parse("vbts=wrap"));
	assert_false(parse("vbts="));
	assert_non_null(strstr(error, "vbts= is unknown"));
	assert_false(parse("vbts=on,"));
	assert_false(parse("vbts=wra=before-write"));
	assert_false(parse("vbts=on,,off"));
}

UNIT(defects_go_by_name)
{
	assert_true(parse(""));
	assert_null(options.defect);
	assert_true(parse("defect=wrap_never"));
	assert_ptr_equal(options.defect, defect_find("wrap_never"));
	assert_true(parse("defect=list"));
	assert_true(options.list_defects);
	assert_false(parse("defect=none_such end=exit"));
	assert_non_null(strstr(error, "none_such"));
	assert_non_null(strstr(error, "defect=list"));
}

UNIT(an_erratum_brings_its_processor)
{
	assert_true(parse(""));
	assert_string_equal(options.profile->name, "nehalem");
	assert_true(parse("erratum=AR62"));
	assert_ptr_equal(options.defect, erratum_find("AR62"));
	assert_string_equal(options.profile->name, "merom");
	assert_int_equal(options.behaviour.ds.lbr, DS_LBR_DROPPED);
	assert_true(parse("erratum=AR62 profile=skylake vbts=lbr=fault"));
	assert_string_equal(options.profile->name, "skylake");
	assert_int_equal(options.behaviour.ds.lbr, DS_LBR_FAULTS);
	assert_false(parse("erratum=AR62 defect=wrap_never"));
	assert_false(parse("erratum=AR63"));
	assert_false(parse("profile=i486"));
}

/* Its rules are the processor's, until a variant says otherwise. */
UNIT(processor_trace_of_the_profile)
{
	assert_true(parse("profile=skylake"));
	assert_false(options.added);
	assert_true(parse("profile=skylake pt=on"));
	assert_true(options.added);
	assert_false(parse("profile=nehalem pt=on"));
	assert_string_equal(error, "pt=on: profile=nehalem cannot have this unit");
	assert_false(options.stack);
	assert_true(parse("stack=on"));
	assert_true(options.stack);
}

UNIT(a_rehearsal_goes_by_its_hypervisor)
{
	assert_true(parse(""));
	assert_null(options.hypervisor);
	assert_true(parse("present=xen"));
	assert_string_equal(options.hypervisor->signature, "XenVMMXenVMM");
	assert_int_equal(options.behaviour.ds.circular, DS_CIRCULAR_INTERRUPTS);
	assert_true(parse("present=kvm profile=skylake"));
	assert_string_equal(options.hypervisor->signature, "KVMKVMKVM");
	assert_int_equal(options.behaviour.ds.circular, DS_CIRCULAR_IS_SILENT);
	assert_true(parse("vbts=circular=interrupts present=kvm"));
	assert_int_equal(options.behaviour.ds.circular, DS_CIRCULAR_INTERRUPTS);
	assert_false(parse("present=vmware end=exit"));
	assert_non_null(strstr(error, "present=vmware is unknown; vbts=list"));
	assert_true(options.end_exit);
}

static const char *words_from(enum boot_protocol protocol, const char *loader, const char *string)
{
	static struct boot_info info;

	info.protocol = protocol;
	strcpy(info.loader_name, loader);
	return loader_words(&info, string);
}

UNIT(file_names_are_not_words)
{
	assert_string_equal(words_from(BOOT_MULTIBOOT1, "qemu", "build/spoor.elf a b"), "a b");
	assert_string_equal(words_from(BOOT_MULTIBOOT1, "qemu", "build/spoor.elf"), "");
	assert_string_equal(words_from(BOOT_MULTIBOOT1, "qemu", ""), "");
	assert_string_equal(words_from(BOOT_MULTIBOOT1, "GRUB 2.06", "a b"), "a b");
	assert_string_equal(words_from(BOOT_MULTIBOOT2, "GRUB 2.06", "a b"), "a b");
	assert_string_equal(words_from(BOOT_MULTIBOOT2, "", "a b"), "a b");
}
