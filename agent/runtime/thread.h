/* thread.h: starts the agent's threads: with small stacks (an idle agent should be small), without
 * signals (the loop reads them from a descriptor) and with names (for top -H and for tests that
 * count allocations per thread); and conditions with a time limit. */
#ifndef AGENT_RUNTIME_THREAD_H
#define AGENT_RUNTIME_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "base/err.h"

NODISCARD int thread_start(pthread_t *out, void *(*run)(void *arg), void *arg, struct err *err);

/* Name the calling thread after its current work: "prepare", "compute", "send-next", "send-prev",
 * "replicate", "peer", "disk". At most 15 characters. */
void thread_set_name(const char *name);
/* Lower the priority of the calling thread below that of the training threads. */
void thread_be_nice(void);

/* Initialise a condition whose timed waits follow CLOCK_MONOTONIC. */
NODISCARD int thread_condition_init(pthread_cond_t *condition, struct err *err);
/* Wait for at most wait_ns. Returns 0, or ETIMEDOUT. */
int thread_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t wait_ns);

#endif
