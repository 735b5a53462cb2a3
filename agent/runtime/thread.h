/* thread.h: how the agent starts its threads: small stacks (an idle agent is to be small), no signals (the loop takes
 * them by a descriptor), names for those who look (top -H, tests that count allocations by thread). */
#ifndef AGENT_RUNTIME_THREAD_H
#define AGENT_RUNTIME_THREAD_H

#include <pthread.h>

#include "base/err.h"

NODISCARD int thread_start(pthread_t *out, void *(*run)(void *arg), void *arg, struct err *err);

/* Name the calling thread by what it does from now on: "prepare", "compute", "upload", "send-next", "send-prev",
 * "peer". At most 15 characters. */
void thread_set_name(const char *name);

#endif
