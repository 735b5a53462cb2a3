/* cancel.h: lets one thread cancel the work of another, which can wait without missing the
 * cancellation. The flag also serves as http_call.cancel. Any thread. */
#ifndef AGENT_RUNTIME_CANCEL_H
#define AGENT_RUNTIME_CANCEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct cancel {
    atomic_bool flag;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

NODISCARD int cancel_init(struct cancel *cancel, struct err *err);
void cancel_done(struct cancel *cancel);
/* Cancel permanently. */
void cancel_set(struct cancel *cancel);
bool cancel_is_set(const struct cancel *cancel);
/* Wait for at most wait_ns. true: cancelled. */
bool cancel_wait(struct cancel *cancel, int64_t wait_ns);

#endif
