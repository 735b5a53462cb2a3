#include "agent/runtime/keeper.h"

#include <pthread.h>
#include <stdlib.h>

#include "agent/runtime/thread.h"
#include "base/clock.h"
#include "libtrain/state/state.h"

/* Shorter debts are added up: a timed wait costs about as much. */
#define REST_SECONDS_MIN 0.002

struct keeper {
    struct keeper_config config;
    struct job_spec spec;
    struct cancel cancel;

    /* the compute thread's */
    struct model *model;
    struct train_pool *pool;
    struct train_stage *train;
    double *forward_seconds, *backward_seconds; /* [end - first], of the last passes */
    double owed_seconds;                        /* slowdown not waited for yet */

    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t quiet; /* no tensor waits to be sent */
    int waiting;
};

/* ---- life ---- */

static int make_locks(struct keeper *keeper, struct err *err)
{
    int rc = cancel_init(&keeper->cancel, err);
    if (rc != 0) {
        return rc;
    }
    rc = thread_condition_init(&keeper->quiet, err);
    if (rc == 0 && pthread_mutex_init(&keeper->lock, NULL) != 0) {
        (void)pthread_cond_destroy(&keeper->quiet);
        rc = err_set(err, ERR_MEMORY, "mutex of a stage");
    }
    if (rc != 0) {
        cancel_done(&keeper->cancel);
    }
    return rc;
}

/* In which the compute thread had its processor, or slept until the other threads were done. */
static double running_seconds(void *arg)
{
    return clock_thread_seconds() + train_pool_waited_seconds(arg);
}

/* The clock of libtrain takes the times of the units. */
static int make_times(struct keeper *keeper, struct err *err)
{
    const size_t units = keeper->config.end - keeper->config.first;
    keeper->forward_seconds = calloc(units, sizeof(double));
    keeper->backward_seconds = calloc(units, sizeof(double));
    return keeper->forward_seconds && keeper->backward_seconds
               ? 0
               : err_set(err, ERR_MEMORY, "times of %zu units", units);
}

static int make_train(struct keeper *keeper, struct err *err)
{
    const struct keeper_config *config = &keeper->config;
    const struct job_spec *spec = &keeper->spec;
    int rc = train_pool_new(config->threads, &keeper->pool, err);
    rc = rc ? rc : make_times(keeper, err);
    if (rc != 0) {
        return rc;
    }
    train_pool_time_waits(keeper->pool, clock_now_seconds);
    const struct train_stage_config train = {
        .model = keeper->model,
        .first = config->first,
        .end = config->end,
        .micro_batch = (size_t)(spec->batch / spec->micro_batches),
        .micro_batches = (size_t)spec->micro_batches,
        .in_flight = config->in_flight,
        .versions = config->versions,
        .aggregate_every = config->versions > 1 ? spec->aggregate_every : 0,
        .recompute = spec->recompute,
        .reduction = strategy_reduction(spec->strategy),
        .share = config->share,
        .optimizer = spec->optimizer,
        .seed = (uint64_t)spec->seed,
        .pool = keeper->pool,
        .clock = {.seconds = running_seconds,
                  .arg = keeper->pool,
                  .forward_seconds = keeper->forward_seconds,
                  .backward_seconds = keeper->backward_seconds},
    };
    return train_stage_new(&train, &keeper->train, err);
}

int keeper_new(const struct keeper_config *config, struct model **model, struct keeper **out,
               struct err *err)
{
    struct keeper *keeper = calloc(1, sizeof(*keeper));
    int rc = keeper ? make_locks(keeper, err) : err_set(err, ERR_MEMORY, "stage");
    if (rc != 0) {
        free(keeper);
        model_free(model);
        return rc;
    }
    keeper->spec = *config->spec;
    keeper->spec.model.description = NULL;
    keeper->config = *config;
    keeper->config.spec = &keeper->spec;
    keeper->model = *model;
    *model = NULL;
    rc = make_train(keeper, err);
    if (rc != 0) {
        keeper_free(&keeper);
        return rc;
    }
    *out = keeper;
    return 0;
}

void keeper_free(struct keeper **pointer)
{
    struct keeper *keeper = *pointer;
    if (!keeper) {
        return;
    }
    train_stage_free(&keeper->train);
    train_pool_free(&keeper->pool);
    free(keeper->forward_seconds);
    free(keeper->backward_seconds);
    model_free(&keeper->model);
    (void)pthread_cond_destroy(&keeper->quiet);
    (void)pthread_mutex_destroy(&keeper->lock);
    cancel_done(&keeper->cancel);
    free(keeper);
    *pointer = NULL;
}

const struct keeper_config *keeper_config(const struct keeper *keeper)
{
    return &keeper->config;
}

/* ---- units ---- */

int keeper_load_unit(struct keeper *keeper, size_t unit, const void *blob, size_t size,
                     struct err *err)
{
    if (!blob) {
        train_unit_initialise(keeper->train, unit);
        return 0;
    }
    return train_unit_load(keeper->train, unit, blob, size, err);
}

int keeper_start_unit(struct keeper *keeper, size_t unit, struct checkpoint_file *file,
                      struct err *err)
{
    struct state_layout *layout AUTO(state_layout_free) = NULL;
    int rc = state_layout_new(keeper->model, unit, &keeper->spec.optimizer, &layout, err);
    void *blob = rc == 0 ? malloc((size_t)layout->blob_bytes) : NULL;
    if (rc == 0 && !blob) {
        rc = err_set(err, ERR_MEMORY, "unit %zu of %zu bytes", unit, (size_t)layout->blob_bytes);
    }
    rc = rc ? rc : checkpoint_read_unit(file, keeper->model, unit, layout, blob, err);
    rc = rc ? rc : train_unit_load(keeper->train, unit, blob, (size_t)layout->blob_bytes, err);
    free(blob);
    return rc;
}

size_t keeper_unit_bytes(const struct keeper *keeper, size_t unit)
{
    return train_unit_bytes(keeper->train, unit);
}

void keeper_save_unit(const struct keeper *keeper, size_t unit, void *out)
{
    train_unit_save(keeper->train, unit, out);
}

int keeper_export_unit(struct keeper *keeper, size_t unit, train_write_fn write, void *arg,
                       struct err *err)
{
    return train_unit_export(keeper->train, unit, write, arg, err);
}

/* ---- computing ---- */

const struct model *keeper_model(const struct keeper *keeper)
{
    return keeper->model;
}

struct train_stage *keeper_train(const struct keeper *keeper)
{
    return keeper->train;
}

struct train_pool *keeper_pool(const struct keeper *keeper)
{
    return keeper->pool;
}

const double *keeper_forward_seconds(const struct keeper *keeper)
{
    return keeper->forward_seconds;
}

const double *keeper_backward_seconds(const struct keeper *keeper)
{
    return keeper->backward_seconds;
}

/* It waits after it has worked: its processor is free for others meanwhile. */
double keeper_rest(struct keeper *keeper, double thread_seconds)
{
    const double seconds = (keeper->config.slowdown - 1) * thread_seconds;
    keeper->owed_seconds += seconds;
    if (keeper->owed_seconds >= REST_SECONDS_MIN) {
        const double began = clock_now_seconds();
        (void)cancel_wait(&keeper->cancel, (int64_t)(keeper->owed_seconds * 1e9));
        keeper->owed_seconds -= clock_now_seconds() - began;
    }
    return seconds;
}

/* ---- the end of the generation ---- */

void keeper_cancel(struct keeper *keeper)
{
    cancel_set(&keeper->cancel);
    (void)pthread_mutex_lock(&keeper->lock);
    (void)pthread_cond_broadcast(&keeper->quiet);
    (void)pthread_mutex_unlock(&keeper->lock);
}

struct cancel *keeper_cancelled(struct keeper *keeper)
{
    return &keeper->cancel;
}

/* ---- copies yield to training ---- */

void keeper_add_waiting(struct keeper *keeper, int count)
{
    (void)pthread_mutex_lock(&keeper->lock);
    keeper->waiting += count;
    if (keeper->waiting == 0) {
        (void)pthread_cond_signal(&keeper->quiet);
    }
    (void)pthread_mutex_unlock(&keeper->lock);
}

void keeper_wait_quiet(struct keeper *keeper, int64_t wait_ns)
{
    (void)pthread_mutex_lock(&keeper->lock);
    /* Woken early or not, it has waited once. */
    if (keeper->waiting > 0 && !cancel_is_set(&keeper->cancel)) {
        (void)thread_condition_wait(&keeper->quiet, &keeper->lock, wait_ns);
    }
    (void)pthread_mutex_unlock(&keeper->lock);
}
