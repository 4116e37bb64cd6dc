/* SPDX-License-Identifier: MIT */
/* The processor's local APIC, which belongs to the guest. xAPIC only: x2APIC is not enumerated. */
#ifndef SPOOR_MONITOR_SVM_LAPIC_H
#define SPOOR_MONITOR_SVM_LAPIC_H

/* An NMI to this processor itself. */
void lapic_send_nmi_to_self(void);

#endif
