/* SPDX-License-Identifier: MIT */
/*
 * The performance-monitoring interrupt of this CPU, taken for a rig: between pmi_take() and
 * pmi_release(), which stand inside rig_open() and rig_close(). Nothing in between may end the
 * test. The kernel keeps out of it while the debug MSRs are lent, and its own interrupts of this
 * CPU wait, the timer's with them: how long the test takes does not decide what is recorded.
 */
#pragma once

#include "kernel/trap/trap.h"
#include "tests/lib/rig.h"
#include "tests/lib/statistics.h"

#include <stddef.h>
#include <stdint.h>

/* The kernel uses none from 81H to FEH; those that wait have a lower priority: 10.8.3. Each bit but
   the lowest is in this one or in VECTOR_TEST, which counters interrupt by. */
#define PMI_VECTOR	 0xce
#define BELOW_PMI_VECTOR 0xbf

/* As NMI, or as a fixed vector, which waits while IF = 0. */
enum pmi_delivery { PMI_FIXED, PMI_NMI };

struct pmi {
	struct rig *rig;
	enum pmi_delivery delivery;
	unsigned count;	  /* deliveries so far */
	unsigned astray;  /* by PMI_VECTOR though it was to be an NMI */
	uint64_t index;	  /* at the newest one, the first thing that its handler read */
	uint32_t lvtpc;	  /* at the newest one, read next */
	bool keep_masked; /* the handler leaves LVT entry and OvfBuf as delivery left them */
	bool go_on;	  /* it restores IA32_DEBUGCTL at its end; else TR stays clear */
	/* What else the handler does with TR clear, before it unmasks: NULL, or e.g. draining. */
	void (*serve)(struct pmi *pmi);
	uint32_t lvtpc_before;
};

/* Set `rig`, `delivery` and what the handler shall do; the rest is zero. */
void pmi_take(struct pmi *pmi);

/* Fails the test if one went astray. */
void pmi_release(struct pmi *pmi);

/*
 * Traces one record less than `records`, from an empty buffer, and expects no interrupt. Then
 * traces from an empty buffer again until the interrupt arrives, at the latest when the last slot
 * but one is written, and expects it once, with the index between the threshold of `records` and
 * the buffer's end.
 */
void pmi_cross(struct pmi *pmi, size_t records, size_t slots);

/* Waits until an interrupt that was raised has been delivered. IF = 1, TR clear. */
void pmi_settle(void);

/* How far past the threshold its interrupt arrives. */
#define SKID_ROOM 256 /* records between threshold and end while it is measured */
#define SKID_MOST 2048

struct skid {
	size_t runs, missing;	      /* missing: no interrupt came before the buffer was full */
	size_t early;		      /* interrupts with the index below the threshold */
	struct distribution recorded; /* branches between the crossing one and the interrupt */
	struct distribution read;     /* records past the threshold at the handler's first read */
};

/* `runs` (SKID_MOST at most) crossings with the fixed vector and IF = 1. Not while a rig is open.
 */
void skid_measure(struct skid *skid, size_t runs);
