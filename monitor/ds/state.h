/* SPDX-License-Identifier: MIT */
/* The Debug Store's state of one virtual processor. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct ds_page {
	uint64_t linear; /* page-aligned */
	uint8_t *host;
};

/*
 * Guest memory that the DS was seen to use, so that a branch need not walk the page tables: the
 * last page with an even and the last one with an odd number.
 */
struct ds_window {
	struct ds_page page[2];
};

/* The memory that the DS was seen to use since the translations were so many. */
struct ds_seen {
	uint64_t translations; /* of struct vcpu */
	/* By CPL: the fields of the area, all in one page, as the last record found them. NULL: not
	   so, or the rules have something to say about records of that CPL. */
	uint8_t *fields[4];
	struct ds_window area, buffer; /* buffer: of PEBS too */
};

/* The knowledge of a branch predictor: see DS_PREDICTED_BY_HISTORY. */
#define DS_HISTORY 251
struct ds_history {
	uint64_t last, followed_by[DS_HISTORY];
};

/* Quadwords in which silicon that is wrong on purpose remembers: monitor/defect.h. */
#define DS_REMEMBERED 6

struct ds_state {
	uint64_t ds_area; /* IA32_DS_AREA, 600H */
	unsigned skid;	  /* branches that an interrupt still waits for; 0: none waits */
	bool interrupts;  /* the interrupt that is delivered is of BTS */
	uint64_t mapped;  /* of DS_FAULT_RESTARTS: the page where the last record ended */
	struct ds_seen seen;
	struct ds_history history;
	uint64_t remembered[DS_REMEMBERED];
};
