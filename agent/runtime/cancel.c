#include "agent/runtime/cancel.h"

#include <string.h>
#include <time.h>

/* A condition whose timed waits follow CLOCK_MONOTONIC. */
static int init_condition(pthread_cond_t *condition, struct err *err)
{
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);
    if (failed == 0) {
        failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        failed = failed ? failed : pthread_cond_init(condition, &attributes);
        (void)pthread_condattr_destroy(&attributes);
    }
    return failed == 0 ? 0 : err_set(err, err_from_errno(failed), "condition: %s", strerror(failed));
}

int cancel_init(struct cancel *cancel, struct err *err)
{
    atomic_init(&cancel->flag, false);
    int failed = pthread_mutex_init(&cancel->lock, NULL);
    if (failed != 0) {
        return err_set(err, err_from_errno(failed), "mutex: %s", strerror(failed));
    }
    int rc = init_condition(&cancel->changed, err);
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
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(wait_ns / 1000000000);
    until.tv_nsec += (long)(wait_ns % 1000000000);
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_mutex_lock(&cancel->lock);
    int failed = 0;
    while (!atomic_load(&cancel->flag) && failed == 0) {
        failed = pthread_cond_timedwait(&cancel->changed, &cancel->lock, &until);
    }
    (void)pthread_mutex_unlock(&cancel->lock);
    return atomic_load(&cancel->flag);
}
