// SPDX-License-Identifier: MIT
#include "abi/errno.h"
#include "abi/syscall.h"
#include "kernel/mm/copy.h"
#include "kernel/process/internal.h"
#include "kernel/time.h"

#define MICROSECONDS 1000000
#define MOST_SECONDS (1l << 40) /* sleeping longer makes no difference, and does not overflow */

long call_nanosleep(struct process *self, const uint64_t *argument)
{
	struct timespec time;
	uint64_t microseconds, end, flags;

	if (copy_from_user(&time, argument[0], sizeof(time)))
		return -EFAULT;
	if (argument[1] || time.seconds < 0 || time.nanoseconds < 0 ||
	    time.nanoseconds >= 1000 * MICROSECONDS)
		return -EINVAL;
	if (time.seconds > MOST_SECONDS)
		time.seconds = MOST_SECONDS;
	microseconds =
		(uint64_t)time.seconds * MICROSECONDS + (uint64_t)(time.nanoseconds + 999) / 1000;
	end = time_now() + microseconds;
	flags = spin_lock(&processes_lock);
	timer_start(&self->alarm, microseconds);
	while (time_now() < end)
		process_sleep(self, flags);
	spin_unlock(&processes_lock, flags);
	timer_stop(&self->alarm);
	return 0;
}

long call_clock_gettime(struct process *self, const uint64_t *argument)
{
	uint64_t now = time_now();
	struct timespec time = {(int64_t)(now / MICROSECONDS),
				(int64_t)(now % MICROSECONDS * 1000)};

	(void)self;
	if (argument[0] != CLOCK_MONOTONIC)
		return -EINVAL;
	return copy_to_user(argument[1], &time, sizeof(time));
}
