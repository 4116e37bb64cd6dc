/* SPDX-License-Identifier: MIT */
#include "monitor/svm/guest.h"

#include "monitor/host/wake.h"
#include "monitor/interp/interp.h"
#include "monitor/svm/lapic.h"
#include "monitor/svm/processor.h"
#include "monitor/svm/reset.h"
#include "monitor/svm/startup.h"

uint8_t *platform_guest_page(uint64_t physical)
{
	return nested_page(physical);
}

bool platform_is_memory(uint64_t physical)
{
	return nested_is_memory(physical);
}

void guest_run(const struct boot_info *info, const struct residence *residence,
	       const struct kernel_entry *kernel, uint64_t wake_page,
	       const struct ds_silicon *silicon, bool lockstep)
{
	struct guest *guest;

	if (lockstep)
		lockstep_enable();
	nested_hide(residence->hidden);
	if (wake_page) {
		nested_hide((struct range){wake_page, wake_page + PAGE_SIZE});
		wake_prepare(wake_page, residence->root);
	}
	startup_init(wake_page);
	lapic_watch();
	processors_init(residence->root, nested_init(info), silicon);
	guest = processor_create();
	reset_to_multiboot(&guest->vcpu, kernel);
	processor_run_first(guest);
}
