#include "agent/runtime/keeper.h"

#include <pthread.h>
#include <stdlib.h>

#include "agent/runtime/thread.h"
#include "base/clock.h"
#include "libtrain/state/state.h"

/* Shorter rests are accumulated, because a timed wait costs about as much. */
#define REST_SECONDS_MIN 0.002

struct keeper {
    struct keeper_config config;
    struct job_spec spec;
    struct cancel cancel;

    /* the compute thread's */
    struct model *model;
    struct train_pool *pool;
    struct train_stage *train;  /* of the kept units; NULL: there are none */
    struct train_stage *worker; /* of all units; NULL: there is none */
    /* times of the worker's last passes or, without a worker, of the kept units */
    double *forward_seconds, *backward_seconds;             /* by unit */
    double *layer_forward_seconds, *layer_backward_seconds; /* by layer; of a worker only */
    double owed_seconds;                                    /* rest still due for --slowdown */

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

/* Return the time for which the compute thread had its processor, or waited for the other
 * threads. */
static double running_seconds(void *arg)
{
    return clock_thread_seconds() + train_pool_waited_seconds(arg);
}

static bool works(const struct keeper *keeper)
{
    return keeper->config.worker_share.first < keeper->config.worker_share.end;
}

/* No model has more layers than ops. */
static size_t layers_most(const struct model *model)
{
    size_t ops = 0;
    for (size_t u = 0; u < model->unit_count; u++) {
        ops += model->unit[u].op_count;
    }
    return ops;
}

/* The clock of libtrain takes the times. */
static int make_times(struct keeper *keeper, struct err *err)
{
    const struct model *model = keeper->model;
    const size_t units =
        works(keeper) ? model->unit_count : keeper->config.end - keeper->config.first;
    const size_t layers = works(keeper) ? layers_most(model) : 0;
    double **const arrays[] = {&keeper->forward_seconds, &keeper->backward_seconds,
                               &keeper->layer_forward_seconds, &keeper->layer_backward_seconds};
    for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
        const size_t count = i < 2 ? units : layers;
        *arrays[i] = calloc(count + 1, sizeof(double));
        if (!*arrays[i]) {
            return err_set(err, ERR_MEMORY, "times of %zu units", units);
        }
    }
    return 0;
}

/* Return the configuration that both stages of a device have in common. */
static struct train_stage_config describe(const struct keeper *keeper)
{
    const struct job_spec *spec = &keeper->spec;
    return (struct train_stage_config){
        .model = keeper->model,
        .micro_batch = (size_t)(spec->batch / spec->micro_batches),
        .micro_batches = (size_t)spec->micro_batches,
        .recompute = spec->recompute,
        .reduction = strategy_reduction(spec->strategy),
        .optimizer = spec->optimizer,
        .seed = (uint64_t)spec->seed,
        .pool = keeper->pool,
    };
}

static int make_kept(struct keeper *keeper, const struct train_clock *clock, struct err *err)
{
    const struct keeper_config *config = &keeper->config;
    struct train_stage_config train = describe(keeper);
    train.first = config->first;
    train.end = config->end;
    train.in_flight = config->in_flight;
    train.versions = config->versions;
    train.aggregate_every = config->versions > 1 ? keeper->spec.aggregate_every : 0;
    train.share = config->share;
    if (!works(keeper)) {
        train.clock = *clock;
    }
    return train_stage_new(&train, &keeper->train, err);
}

static int make_worker(struct keeper *keeper, const struct train_clock *clock, struct err *err)
{
    const struct keeper_config *config = &keeper->config;
    struct train_stage_config train = describe(keeper);
    train.end = keeper->model->unit_count;
    train.in_flight = 1;
    train.versions = 1;
    train.share = config->worker_share;
    train.worker = true;
    train.summed = config->summed;
    train.summed_arg = config->summed_arg;
    train.clock = *clock;
    return train_stage_new(&train, &keeper->worker, err);
}

static int make_train(struct keeper *keeper, struct err *err)
{
    int rc = train_pool_new(keeper->config.threads, &keeper->pool, err);
    rc = rc ? rc : make_times(keeper, err);
    if (rc != 0) {
        return rc;
    }
    train_pool_time_waits(keeper->pool, clock_now_seconds);
    const struct train_clock clock = {
        .seconds = running_seconds,
        .arg = keeper->pool,
        .forward_seconds = keeper->forward_seconds,
        .backward_seconds = keeper->backward_seconds,
        .layer_forward_seconds = works(keeper) ? keeper->layer_forward_seconds : NULL,
        .layer_backward_seconds = works(keeper) ? keeper->layer_backward_seconds : NULL};
    if (keeper->config.first < keeper->config.end) {
        rc = make_kept(keeper, &clock, err);
    }
    return rc == 0 && works(keeper) ? make_worker(keeper, &clock, err) : rc;
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
    train_stage_free(&keeper->worker);
    train_pool_free(&keeper->pool);
    free(keeper->forward_seconds);
    free(keeper->backward_seconds);
    free(keeper->layer_forward_seconds);
    free(keeper->layer_backward_seconds);
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

static bool keeps(const struct keeper *keeper, size_t unit)
{
    return unit >= keeper->config.first && unit < keeper->config.end;
}

static int load(struct train_stage *stage, size_t unit, const void *blob, size_t size,
                struct err *err)
{
    if (!blob) {
        train_unit_initialise(stage, unit);
        return 0;
    }
    return train_unit_load(stage, unit, blob, size, err);
}

int keeper_load_unit(struct keeper *keeper, size_t unit, const void *blob, size_t size,
                     struct err *err)
{
    const int rc = keeps(keeper, unit) ? load(keeper->train, unit, blob, size, err) : 0;
    return rc == 0 && keeper->worker ? load(keeper->worker, unit, blob, size, err) : rc;
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
    rc = rc ? rc : keeper_load_unit(keeper, unit, blob, (size_t)layout->blob_bytes, err);
    free(blob);
    return rc;
}

size_t keeper_unit_bytes(const struct keeper *keeper, size_t unit)
{
    return train_unit_bytes(keeps(keeper, unit) ? keeper->train : keeper->worker, unit);
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

struct train_stage *keeper_worker(const struct keeper *keeper)
{
    return keeper->worker;
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

const double *keeper_layer_forward_seconds(const struct keeper *keeper)
{
    return keeper->layer_forward_seconds;
}

const double *keeper_layer_backward_seconds(const struct keeper *keeper)
{
    return keeper->layer_backward_seconds;
}

/* The rest comes after the work. During it, the processor is free for other programs. */
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
    /* Wait only once, even after an early wakeup. */
    if (keeper->waiting > 0 && !cancel_is_set(&keeper->cancel)) {
        (void)thread_condition_wait(&keeper->quiet, &keeper->lock, wait_ns);
    }
    (void)pthread_mutex_unlock(&keeper->lock);
}
