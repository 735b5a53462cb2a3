/* pool.h: the compute threads. A kernel cuts its work into tasks whose borders depend on the shape
 * alone and gives them to pool_run; threads only pick which task they do next, so results do not
 * depend on how many there are. Used by libtrain/ops, optim and stage, by one calling thread at a
 * time. */
#ifndef LIBTRAIN_BACKEND_POOL_H
#define LIBTRAIN_BACKEND_POOL_H

#include <stddef.h>

struct train_pool;

/* One task. `worker` < pool_threads() says which thread runs it, to find that thread's scratch. */
typedef void (*pool_task_fn)(const void *arg, size_t task, size_t worker);

/* Run tasks [0, task_count) and wait for all of them. The caller is worker 0 and works too. Nothing
 * is allocated. */
void pool_run(struct train_pool *pool, size_t task_count, pool_task_fn task_fn, const void *arg);

size_t pool_threads(const struct train_pool *pool);

/* What a kernel computes with: the threads and the scratch memory that workspace.h counts. */
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
