#include "agent/runtime/cancel.h"

#include <string.h>
#include <time.h>

#include "agent/runtime/thread.h"

int cancel_init(struct cancel *cancel, struct err *err)
{
    atomic_init(&cancel->flag, false);
    int failed = pthread_mutex_init(&cancel->lock, NULL);
    if (failed != 0) {
        return err_set(err, err_from_errno(failed), "mutex: %s", strerror(failed));
    }
    int rc = thread_condition_init(&cancel->changed, err);
    if (rc != 0) {
        (void)pthread_mutex_destroy(&cancel->lock);
    }
    return rc;
}

void cancel_done(struct cancel *cancel)
{
    (void)pthread_cond_destroy(&cancel->changed);
    (void)pthread_mutex_destroy(&cancel->lock);
}

void cancel_set(struct cancel *cancel)
{
    (void)pthread_mutex_lock(&cancel->lock);
    atomic_store(&cancel->flag, true);
    (void)pthread_cond_broadcast(&cancel->changed);
    (void)pthread_mutex_unlock(&cancel->lock);
}

bool cancel_is_set(const struct cancel *cancel)
{
    return atomic_load(&cancel->flag);
}

bool cancel_wait(struct cancel *cancel, int64_t wait_ns)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t until_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + wait_ns;
    (void)pthread_mutex_lock(&cancel->lock);
    while (!atomic_load(&cancel->flag)) {
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        const int64_t left_ns = until_ns - ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
        if (left_ns <= 0 || thread_condition_wait(&cancel->changed, &cancel->lock, left_ns) != 0) {
            break;
        }
    }
    (void)pthread_mutex_unlock(&cancel->lock);
    return atomic_load(&cancel->flag);
}
