#include "agent/runtime/thread.h"

#include <signal.h>
#include <string.h>

/* Deep enough for the libraries' frames, also with a sanitizer's padding. */
#define STACK_BYTES ((size_t)512 << 10)

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
    return failed == 0 ? 0 : err_set(err, err_from_errno(failed), "start a thread: %s", strerror(failed));
}

void thread_set_name(const char *name)
{
    /* It can fail only by a name that is too long. */
    (void)pthread_setname_np(pthread_self(), name);
}
