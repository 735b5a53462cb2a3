#include "coordinator/content/work.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"

#define WORK_THREADS_MAX 16

struct queue {
    struct work_job *head, *tail;
};

struct work {
    pthread_mutex_t lock; /* guards both queues */
    pthread_cond_t wake;
    struct queue waiting, finished;
    _Atomic bool stopping; /* written under the lock */
    int event_fd;
    pthread_t thread[WORK_THREADS_MAX];
    size_t threads;
};

static void lock(struct work *work)
{
    int rc = pthread_mutex_lock(&work->lock);
    ASSERT(rc == 0);
}

static void unlock(struct work *work)
{
    int rc = pthread_mutex_unlock(&work->lock);
    ASSERT(rc == 0);
}

static void queue_push(struct queue *queue, struct work_job *job)
{
    job->next = NULL;
    if (queue->tail) {
        queue->tail->next = job;
    } else {
        queue->head = job;
    }
    queue->tail = job;
}

static struct work_job *queue_pop(struct queue *queue)
{
    struct work_job *job = queue->head;
    if (job) {
        queue->head = job->next;
        if (!queue->head) {
            queue->tail = NULL;
        }
    }
    return job;
}

void work_post(struct work *work, struct work_job *job)
{
    lock(work);
    queue_push(&work->finished, job);
    unlock(work);
    uint64_t one = 1;
    ssize_t written = write(work->event_fd, &one, sizeof(one));
    /* EAGAIN means the counter is full: the loop is being woken already. */
    ASSERT(written == (ssize_t)sizeof(one) || errno == EAGAIN);
}

void work_submit(struct work *work, struct work_job *job)
{
    lock(work);
    job->cancelled = atomic_load(&work->stopping);
    bool cancelled = job->cancelled;
    if (!cancelled) {
        queue_push(&work->waiting, job);
        (void)pthread_cond_signal(&work->wake);
    }
    unlock(work);
    if (cancelled) {
        work_post(work, job);
    }
}

static void *worker(void *arg)
{
    struct work *work = arg;
    for (;;) {
        lock(work);
        while (!work->waiting.head && !atomic_load(&work->stopping)) {
            (void)pthread_cond_wait(&work->wake, &work->lock);
        }
        struct work_job *job = atomic_load(&work->stopping) ? NULL : queue_pop(&work->waiting);
        unlock(work);
        if (!job) {
            return NULL;
        }
        job->run(job);
        work_post(work, job);
    }
}

int work_new(size_t threads, struct work **out, struct err *err)
{
    ASSERT(threads >= 1 && threads <= WORK_THREADS_MAX);
    struct work *work = calloc(1, sizeof(*work));
    if (!work) {
        return err_set(err, ERR_MEMORY, "worker threads: out of memory");
    }
    work->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (work->event_fd < 0) {
        int rc = err_from_errno(errno);
        rc = err_set(err, rc, "eventfd: %s", strerror(errno));
        free(work);
        return rc;
    }
    (void)pthread_mutex_init(&work->lock, NULL);
    (void)pthread_cond_init(&work->wake, NULL);
    for (; work->threads < threads; work->threads++) {
        int failed = pthread_create(&work->thread[work->threads], NULL, worker, work);
        if (failed) {
            work_free(&work);
            return err_set(err, ERR_MEMORY, "start a worker thread: %s", strerror(failed));
        }
    }
    *out = work;
    return 0;
}

void work_stop(struct work *work)
{
    lock(work);
    atomic_store(&work->stopping, true);
    (void)pthread_cond_broadcast(&work->wake);
    unlock(work);
    for (; work->threads > 0; work->threads--) {
        int rc = pthread_join(work->thread[work->threads - 1], NULL);
        ASSERT(rc == 0);
    }
    struct work_job *job;
    while ((job = queue_pop(&work->waiting))) {
        job->cancelled = true;
        queue_push(&work->finished, job);
    }
    work_collect(work);
}

void work_free(struct work **pointer)
{
    struct work *work = *pointer;
    if (!work) {
        return;
    }
    work_stop(work);
    (void)pthread_cond_destroy(&work->wake);
    (void)pthread_mutex_destroy(&work->lock);
    (void)close(work->event_fd);
    free(work);
    *pointer = NULL;
}

bool work_stopping(const struct work *work)
{
    return atomic_load(&work->stopping);
}

const _Atomic bool *work_stop_flag(const struct work *work)
{
    return &work->stopping;
}

int work_fd(const struct work *work)
{
    return work->event_fd;
}

void work_collect(struct work *work)
{
    uint64_t count;
    ssize_t got = read(work->event_fd, &count, sizeof(count));
    ASSERT(got == (ssize_t)sizeof(count) || errno == EAGAIN);
    for (;;) {
        lock(work);
        struct work_job *job = queue_pop(&work->finished);
        unlock(work);
        if (!job) {
            return;
        }
        job->done(job);
    }
}
