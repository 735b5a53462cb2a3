/* pool.h: the compute threads. A kernel splits its work into tasks whose boundaries depend on the
 * shape alone and passes them to pool_run. Threads only pick tasks, so results do not depend on
 * their number. Used by libtrain/ops, optim and stage, by one calling thread at a time. */
#ifndef LIBTRAIN_BACKEND_POOL_H
#define LIBTRAIN_BACKEND_POOL_H

#include <stddef.h>

struct train_pool;

/* One task. worker < pool_threads() is the thread that runs it, for access to its scratch. */
typedef void (*pool_task_fn)(const void *arg, size_t task, size_t worker);

/* Run tasks [0, task_count) and wait for all of them. The caller works too, as worker 0. Allocates
 * nothing. */
void pool_run(struct train_pool *pool, size_t task_count, pool_task_fn task_fn, const void *arg);

size_t pool_threads(const struct train_pool *pool);

/* The means of a kernel: the threads and the scratch that workspace.h counts. */
struct compute {
    struct train_pool *pool;
    void *shared;          /* workspace_bytes.shared bytes, aligned to WORKSPACE_ALIGNMENT */
    unsigned char *worker; /* worker_bytes for each thread */
    size_t worker_bytes;
};

static inline void *compute_worker(const struct compute *compute, size_t worker)
{
    return compute->worker + worker * compute->worker_bytes;
}

#endif
