/* work.h: runs blocking work as typed jobs on a few threads, so that the loop never waits for a
 * disk. The loop's thread submits and collects; run() is called on a worker, done() in work_collect
 * on the loop's thread. A job is a member of its owner's struct, so nothing is allocated here. */
#ifndef COORDINATOR_CONTENT_WORK_H
#define COORDINATOR_CONTENT_WORK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct work;

struct work_job {
    void (*run)(struct work_job *job);  /* on a worker thread; NULL for jobs that are only posted */
    void (*done)(struct work_job *job); /* on the loop's thread; may free the owner */
    struct work_job *next;              /* of the queues */
    bool cancelled; /* for done(): the workers were stopped before run() was called */
};

NODISCARD int work_new(size_t threads, struct work **out, struct err *err);
/* End the threads. Wait for running jobs (long ones check work_stopping), cancel queued ones, call
 * done() of all. From then on work_submit cancels and work_post works as before. The loop's
 * thread. */
void work_stop(struct work *work);
/* Stop the threads, collect and free. */
void work_free(struct work **work);
/* Queue a job; done() is called later. Any thread. */
void work_submit(struct work *work, struct work_job *job);
/* Queue a job for done() without run(), for threads of other rooms that have finished work. Any
 * thread. */
void work_post(struct work *work, struct work_job *job);
/* Return whether a long job should stop. Any thread. */
bool work_stopping(const struct work *work);
/* Return the same as a flag, for pure code that must not call this module. It lives as long as
 * `work`. */
const _Atomic bool *work_stop_flag(const struct work *work);
/* Return a descriptor. When it is readable, call work_collect. */
int work_fd(const struct work *work);
void work_collect(struct work *work);

#endif
