#include "agent/runtime/thread.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* Deep enough for the libraries' frames, also with a sanitizer's padding. */
#define STACK_BYTES ((size_t)512 << 10)
#define NICENESS 10

int thread_start(pthread_t *out, void *(*run)(void *arg), void *arg, struct err *err)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    int failed = pthread_attr_init(&attributes);
    if (failed == 0) {
        (void)sigfillset(&all);
        (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        failed = pthread_create(out, &attributes, run, arg);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void)pthread_attr_destroy(&attributes);
    }
    /* EAGAIN: no memory for its stack, or too many threads. */
    const int rc = failed == EAGAIN ? ERR_MEMORY : err_from_errno(failed);
    return failed == 0 ? 0 : err_set(err, rc, "start a thread: %s", strerror(failed));
}

void thread_set_name(const char *name)
{
    /* It fails only if the name is too long. */
    (void)pthread_setname_np(pthread_self(), name);
}

void thread_be_nice(void)
{
    /* On Linux, 0 means only the calling thread. Lowering the priority cannot fail. */
    (void)setpriority(PRIO_PROCESS, 0, NICENESS);
}

int thread_condition_init(pthread_cond_t *condition, struct err *err)
{
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);
    if (failed == 0) {
        failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        failed = failed ? failed : pthread_cond_init(condition, &attributes);
        (void)pthread_condattr_destroy(&attributes);
    }
    return failed == 0 ? 0
                       : err_set(err, err_from_errno(failed), "condition: %s", strerror(failed));
}

int thread_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t wait_ns)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(wait_ns / 1000000000);
    until.tv_nsec += (long)(wait_ns % 1000000000);
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return pthread_cond_timedwait(condition, lock, &until);
}
