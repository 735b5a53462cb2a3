#include "libtrain/backend/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "libtrain/backend/denormal.h"
#include "libtrain/backend/gemm.h"
#include "libtrain/train.h"

/* Kernels follow each other within microseconds. So a thread polls this many times for the next one
 * before it sleeps. */
#define SPINS 256

struct train_pool {
    pthread_mutex_t lock; /* protects the following members that are not atomic */
    pthread_cond_t start; /* a new round, or stop */
    pthread_cond_t done;  /* busy is 0 */
    atomic_ulong round;
    atomic_size_t busy; /* workers still in the round */
    atomic_size_t next; /* next task to pick */
    bool stop;
    pool_task_fn task_fn; /* constant during a round, as are arg and task_count */
    const void *arg;
    size_t task_count;
    double (*seconds)(void); /* NULL: waits are not timed */
    double waited_seconds;
    size_t threads; /* the caller included */
    size_t started; /* workers; train_pool_free of a half-built pool needs it */
    pthread_t worker[];
};

struct worker_start {
    struct train_pool *pool;
    size_t index;
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
}

static void pick_tasks(struct train_pool *pool, size_t worker)
{
    for (;;) {
        size_t task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (task >= pool->task_count) {
            return;
        }
        pool->task_fn(pool->arg, task, worker);
    }
}

/* Wait for a round after `seen`. Return false if the pool stops instead. */
static bool await_round(struct train_pool *pool, unsigned long seen)
{
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load(&pool->round) != seen) {
            return true;
        }
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->round) == seen && !pool->stop) {
        pthread_cond_wait(&pool->start, &pool->lock);
    }
    bool go = atomic_load(&pool->round) != seen;
    pthread_mutex_unlock(&pool->lock);
    return go;
}

static void *worker_main(void *arg)
{
    struct worker_start start = *(struct worker_start *)arg;
    free(arg);
    struct train_pool *pool = start.pool;
    denormal_flush();
    for (unsigned long seen = 0; await_round(pool, seen); seen++) {
        pick_tasks(pool, start.index);
        if (atomic_fetch_sub(&pool->busy, 1) == 1) {
            pthread_mutex_lock(&pool->lock);
            pthread_cond_signal(&pool->done);
            pthread_mutex_unlock(&pool->lock);
        }
    }
    return NULL;
}

static int start_worker(struct train_pool *pool, size_t index)
{
    struct worker_start *start = malloc(sizeof(*start));
    if (!start) {
        return -1;
    }
    *start = (struct worker_start){.pool = pool, .index = index};
    /* Workers block signals: those are for the threads of the program. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&pool->worker[pool->started], NULL, worker_main, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        free(start);
        return -1;
    }
    (void)pthread_setname_np(pool->worker[pool->started], "compute");
    pool->started++;
    return 0;
}

int train_pool_new(size_t threads, struct train_pool **out, struct err *err)
{
    if (threads < 1 || threads > MEMORY_THREADS_MAX) {
        return err_set(err, ERR_INVALID, "%zu compute threads: expected 1 to %u", threads,
                       MEMORY_THREADS_MAX);
    }
    int rc = gemm_reserve(threads, err);
    if (rc != 0) {
        return rc;
    }
    struct train_pool *pool = calloc(1, sizeof(*pool) + (threads - 1) * sizeof(pool->worker[0]));
    if (!pool) {
        gemm_release(threads);
        return err_set(err, ERR_MEMORY, "out of memory for a thread pool");
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->start, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->threads = threads;
    for (size_t index = 1; index < threads; index++) {
        if (start_worker(pool, index) != 0) {
            train_pool_free(&pool);
            return err_set(err, ERR_MEMORY, "cannot start compute thread %zu of %zu", index + 1,
                           threads);
        }
    }
    *out = pool;
    return 0;
}

void train_pool_free(struct train_pool **pool_pointer)
{
    struct train_pool *pool = *pool_pointer;
    if (!pool) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->started; i++) {
        pthread_join(pool->worker[i], NULL);
    }
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->start);
    pthread_mutex_destroy(&pool->lock);
    gemm_release(pool->threads);
    free(pool);
    *pool_pointer = NULL;
}

void train_pool_time_waits(struct train_pool *pool, double (*seconds)(void))
{
    pool->seconds = seconds;
}

double train_pool_waited_seconds(const struct train_pool *pool)
{
    return pool->waited_seconds;
}

size_t pool_threads(const struct train_pool *pool)
{
    return pool->threads;
}

static void sleep_until_done(struct train_pool *pool)
{
    const double began = pool->seconds ? pool->seconds() : 0;
    pthread_mutex_lock(&pool->lock);
    while (atomic_load(&pool->busy) > 0) {
        pthread_cond_wait(&pool->done, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    pool->waited_seconds += pool->seconds ? pool->seconds() - began : 0;
}

void pool_run(struct train_pool *pool, size_t task_count, pool_task_fn task_fn, const void *arg)
{
    if (pool->threads == 1 || task_count == 1) {
        for (size_t task = 0; task < task_count; task++) {
            task_fn(arg, task, 0);
        }
        return;
    }
    pool->task_fn = task_fn;
    pool->arg = arg;
    pool->task_count = task_count;
    atomic_store(&pool->next, 0);
    atomic_store(&pool->busy, pool->threads - 1);
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->round, 1);
    pthread_cond_broadcast(&pool->start);
    pthread_mutex_unlock(&pool->lock);
    pick_tasks(pool, 0);
    for (int spin = 0; spin < SPINS && atomic_load(&pool->busy) > 0; spin++) {
        relax();
    }
    if (atomic_load(&pool->busy) > 0) {
        sleep_until_done(pool);
    }
}
