// SPDX-License-Identifier: MIT
// The sessions of all owners, and which may be at a time.
#include "kernel/trace/pt/private.h"

struct session *sessions;

struct session *session_of(const struct trace_account *owner)
{
	struct session *session;
	SPIN_GUARD(&buffers_lock);

	for (session = sessions; session && session->owner != owner;)
		session = session->next;
	return session;
}

struct session *stopped_of(const struct trace_account *owner)
{
	struct session *session = session_of(owner);

	return session && !session->started ? session : NULL;
}

/* A CPU's trace is of everything that runs there: there is one of them. Threads claim each. */
int session_enter(struct session *session)
{
	int error = 0;
	SPIN_GUARD(&buffers_lock);

	for (const struct session *at = sessions; at; at = at->next)
		if (at->mode == INSNTRACE_CPUS && session->mode == INSNTRACE_CPUS)
			return -EBUSY;
	session->claim.unit = TRACE_PT;
	if (session->mode == INSNTRACE_CPUS)
		error = trace_claim(&session->claim);
	if (!error) {
		session->next = sessions;
		sessions = session;
	}
	return error;
}

void session_leave(const struct session *session)
{
	SPIN_GUARD(&buffers_lock);

	LIST_REMOVE(sessions, session, next);
	trace_unclaim(&session->claim);
}
