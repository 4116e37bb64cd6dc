// SPDX-License-Identifier: MIT
#include "monitor/ds/variants.h"

#include <stddef.h>

#include "lib/string.h"

enum { MOST_CHOICES = 4 };

struct point {
	const char *name;
	size_t offset;
	struct choice {
		const char *name, *meaning;
	} choices[MOST_CHOICES]; /* in the order of the enumeration */
};

#define POINT(text, field) .name = text, .offset = offsetof(struct ds_behaviour, field)

static const struct point points[] = {
	{POINT("room", room),
	 .choices = {{"whole", "a record fits if it ends at or below the absolute maximum"},
		     {"below", "a record fits if it ends below the absolute maximum"},
		     {"any-byte", "a record fits if it begins below the absolute maximum"}}},
	{POINT("wrap", wrap),
	 .choices = {{"after-increment", "the index returns to the base after the last record"},
		     {"before-write", "the index returns to the base when a record is due"}}},
	{POINT("full", full),
	 .choices = {{"stop", "with BTINT = 1 records stop at the absolute maximum"},
		     {"wrap", "with BTINT = 1 the index returns to the base as with BTINT = 0"},
		     {"write-on", "with BTINT = 1 records go on past the absolute maximum"}}},
	{POINT("btint", btint),
	 .choices = {{"stored", "with BTINT = 1 only records that are stored can interrupt"},
		     {"threshold", "each record at or past the threshold can, stored or not"},
		     {"full", "each record that finds the buffer full interrupts"}}},
	{POINT("trigger", threshold),
	 .choices = {{"reached", "every record at or past the threshold asks for the interrupt"},
		     {"crossed", "only the record that crosses the threshold asks for it"},
		     {"equal", "only the record that meets the threshold exactly asks for it"}}},
	{POINT("compare", compare),
	 .choices = {{"after", "the threshold is compared with the index after the record"},
		     {"before", "the threshold is compared with the index of the record itself"}}},
	{POINT("circular", circular),
	 .choices = {{"interrupts", "with BTINT = 0 a threshold that is reached interrupts too"},
		     {"silent", "with BTINT = 0 nothing interrupts"}}},
	{POINT("skid", skid), .choices = {{"0", "the interrupt follows its record at once"},
					  {"3", "the interrupt is three branches late"},
					  {"100", "the interrupt is a hundred branches late"}}},
	{POINT("transition", filter),
	 .choices = {{"target", "a change of privilege is filtered by the CPL it leads to"},
		     {"source", "a change of privilege is filtered by the CPL it starts from"},
		     {"both", "a change of privilege is recorded if both CPLs are wanted"},
		     {"either", "a change of privilege is recorded if either CPL is wanted"}}},
	{POINT("debug", debug),
	 .choices = {{"recorded", "entry into a #DB handler is recorded"},
		     {"not-recorded", "entry into a #DB handler is not recorded"}}},
	{POINT("int-n", software),
	 .choices = {{"instruction", "INT n and INT3 are recorded from the instruction"},
		     {"next", "INT n and INT3 are recorded from the next instruction"},
		     {"not-recorded", "INT n and INT3 are not recorded"}}},
	{POINT("predicted", predicted),
	 .choices = {{"clear", "the predicted flag is never set"},
		     {"set", "the predicted flag is always set"},
		     {"mixed", "the predicted flag is set now and then"},
		     {"history", "the predicted flag is set if the branch came as it came last"}}},
	{POINT("reserved", reserved),
	 .choices = {{"fault", "setting a reserved bit of IA32_DEBUGCTL raises #GP"},
		     {"ignored", "setting a reserved bit of IA32_DEBUGCTL does nothing"},
		     {"kept", "a reserved bit of IA32_DEBUGCTL keeps what is written"}}},
	{POINT("lbr", lbr), .choices = {{"kept", "LBR can be set together with TR"},
					{"dropped", "LBR set together with TR reads back 0"},
					{"fault", "setting LBR together with TR raises #GP"}}},
	{POINT("nmi-mask", nmi_mask),
	 .choices = {{"set", "delivery as NMI masks the LVT entry"},
		     {"left", "delivery as NMI leaves the LVT entry unmasked"}}},
	{POINT("masked", masked),
	 .choices = {{"lost", "an interrupt while the LVT entry is masked is lost"},
		     {"waits", "an interrupt while the LVT entry is masked waits, by its status"},
		     {"status",
		      "an unmasked LVT entry interrupts while the status shows a cause"}}},
	{POINT("ovfbuf", status),
	 .choices = {{"clear", "the threshold does not show in IA32_PERF_GLOBAL_STATUS"},
		     {"set", "the threshold sets IA32_PERF_GLOBAL_STATUS.OvfBuf"}}},
	{POINT("dirty", dirty),
	 .choices = {{"set", "a store sets Accessed and Dirty of its page"},
		     {"left-clear", "a store leaves Accessed and Dirty of its page clear"},
		     {"drops", "a store to a page that is not Dirty is dropped"}}},
	{POINT("counted", counted),
	 .choices = {{"source", "an instruction counts at the CPL where it began"},
		     {"target", "an instruction counts at the CPL that it leads to"}}},
	{POINT("pebs", pebs),
	 .choices = {{"1", "PEBS is available"}, {"0", "IA32_MISC_ENABLE: it is not"}}},
	{POINT("pebs-ip", pebs_ip),
	 .choices = {{"next", "a PEBS record shows the RIP after its instruction"},
		     {"instruction", "a PEBS record shows the RIP of its instruction"}}},
	{POINT("pebs-trigger", pebs_trigger),
	 .choices = {{"reached", "every PEBS record at or past the threshold interrupts"},
		     {"equal", "only the PEBS record that meets the threshold interrupts"}}},
	{POINT("pebs-full", pebs_full),
	 .choices = {{"silent", "a PEBS record without room changes nothing"},
		     {"status", "a PEBS record without room sets OvfBuf"},
		     {"interrupts", "each PEBS record without room sets OvfBuf and interrupts"}}},
	{POINT("pebs-skid", pebs_skid),
	 .choices = {{"0", "PEBS samples the event after the one that overflows a counter"},
		     {"3", "without PDIR it samples the third one after that event"}}},
	{POINT("lbr-event", lbr_event),
	 .choices = {{"predicted", "the LBR entry of an event has MISPRED clear"},
		     {"mispredicted", "the LBR entry of an event has MISPRED set"}}},
	{POINT("pt-return", pt_return),
	 .choices = {{"empties", "a RET that is not compressed empties PT's stack of returns"},
		     {"pops", "a RET that is not compressed pops PT's stack of returns"},
		     {"never", "no RET is compressed"}}},
	{POINT("pt-leave", pt_leave),
	 .choices = {{"target", "TIP.PGD of a Jcc out of a range has its target"},
		     {"suppressed", "TIP.PGD of a Jcc out of a range has no address"}}},
	{POINT("pt-int-n", pt_int_n),
	 .choices = {{"once", "INT n emits FUP of the instruction"},
		     {"twice", "INT n emits FUP of the instruction and of the next one"}}},
	{POINT("pt-psb", pt_psb), .choices = {{"first", "a trace begins with PSB, then TIP.PGE"},
					      {"last", "a trace begins with TIP.PGE, then PSB"}}},
	{POINT("pt-overflow", pt_overflow),
	 .choices = {{"never", "PT's output never overflows"},
		     {"cycles", "PT's output overflows now and then while CYCEn is set"},
		     {"long", "PT's output overflows so, for a hundred instructions each time"}}},
	{POINT("pt-interrupt", pt_interrupt),
	 .choices = {{"once", "INT of a ToPA entry interrupts when its region is full"},
		     {"repeats", "it interrupts at each packet until Trace_ToPA_PMI is clear"}}},
	{POINT("pt-tnt", pt_tnt), .choices = {{"6", "a TNT packet has up to six bits"},
					      {"4", "a TNT packet has up to four bits"},
					      {"1", "a TNT packet has one bit"}}},
	{POINT("pt-address", pt_address),
	 .choices = {{"shortest", "of an address PT leaves out all that it can"},
		     {"coarse", "an address of PT has four bytes or six"},
		     {"six", "an address of PT has six bytes"},
		     {"merged", "of an address PT leaves out the upper two bytes at most"}}},
	{POINT("pt-tip", pt_tip),
	 .choices = {{"at-once", "TIP follows the TNT packet of the branches before it"},
		     {"deferred", "TNT and TIP wait until TNT is full"}}},
	{POINT("pt-period", pt_period),
	 .choices = {{"exact", "PSB follows the bytes that PSBFreq says"},
		     {"varies", "PSB follows a quarter of the period early or late"},
		     {"extra", "there are four times as many PSB as PSBFreq says"}}},
	{POINT("pt-order", pt_order),
	 .choices = {{"state-first", "PSB+ has times, PIP, MODE.Exec, then FUP"},
		     {"reversed", "PSB+ has them in the reverse order; MODE.Exec is before PIP"}}},
	{POINT("pt-cycles", pt_cycles),
	 .choices = {{"before", "CYC is before the packets that may have one"},
		     {"alone", "there are CYC packets that stand alone as well"},
		     {"rare", "most packets are in the same core clock as the last CYC"}}},
	{POINT("pt-filler", pt_filler),
	 .choices = {{"none", "PT adds no packets of its implementation"},
		     {"pad", "PT adds PAD packets"},
		     {"mnt", "PT adds MNT packets"}}},
	{POINT("ds-cpl", ds_cpl),
	 .choices = {{"1", "DS-CPL is enumerated: BTS_OFF_OS and BTS_OFF_USR are there"},
		     {"0", "DS-CPL is not enumerated: these bits are reserved"}}},
	{POINT("dtes64", dtes64),
	 .choices = {{"1", "DTES64 is enumerated"}, {"0", "DTES64 is not enumerated"}}},
};
#define POINTS (sizeof(points) / sizeof(points[0]))

static const struct choice *choice_of(const struct point *point, unsigned n)
{
	return n < MOST_CHOICES && point->choices[n].name ? &point->choices[n] : NULL;
}

bool variant_get(unsigned n, struct variant *variant)
{
	for (const struct point *point = points; point < points + POINTS; point++)
		for (unsigned i = 0; choice_of(point, i); i++)
			if (!n--) {
				*variant = (struct variant){point->name, point->choices[i].name,
							    point->choices[i].meaning, i == 0};
				return true;
			}
	return false;
}

bool variant_apply(struct ds_behaviour *behaviour, const char *word)
{
	for (const struct point *point = points; point < points + POINTS; point++) {
		size_t length = strlen(point->name);

		if (strncmp(word, point->name, length) != 0 || word[length] != '=')
			continue;
		for (unsigned i = 0; choice_of(point, i); i++)
			if (strcmp(word + length + 1, point->choices[i].name) == 0) {
				memcpy((char *)behaviour + point->offset, &i, sizeof(i));
				return true;
			}
	}
	return false;
}
