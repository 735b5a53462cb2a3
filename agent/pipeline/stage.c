#include "agent/pipeline/stage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/evaluations.h"
#include "agent/pipeline/pipeline_work.h"
#include "agent/pipeline/stage_parts.h"
#include "agent/runtime/thread.h"
#include "base/clock.h"
#include "base/size.h"
#include "schema/job_check.h"

#define ALIGNMENT 64

/* ---- memory ---- */

static int check_range(const struct stage_config *config, const struct model *model,
                       struct err *err)
{
    if (config->first >= config->end || config->end > model->unit_count) {
        return err_set(err, ERR_INVALID, "units %zu to %zu of %zu", config->first, config->end,
                       model->unit_count);
    }
    if ((config->index == 0) != (config->first == 0) ||
        (config->index + 1 == config->count) != (config->end == model->unit_count)) {
        return err_set(err, ERR_INVALID, "stage %zu of %zu cannot have units %zu to %zu of %zu",
                       config->index, config->count, config->first, config->end, model->unit_count);
    }
    const struct job_spec *spec = config->spec;
    if (spec->micro_batches < 1 || spec->batch < 1 || spec->batch % spec->micro_batches != 0) {
        return err_set(err, ERR_INVALID, "a batch of %" PRId64 " in %" PRId64 " micro-batches",
                       spec->batch, spec->micro_batches);
    }
    const int64_t epoch = job_epoch_samples(&config->samples);
    if (epoch < spec->batch) {
        return err_set(err, ERR_INVALID, "%" PRId64 " samples are less than a batch of %" PRId64,
                       epoch, spec->batch);
    }
    return 0;
}

static int check_data(const struct stage *stage, struct err *err)
{
    const struct work_data *data = &stage->config.data;
    const bool held = stage->spec->test_local.holdout > 0;
    const bool test =
        !held && stage->evaluation_batches > 0 && stage->config.samples.test_samples > 0;
    if (stage_is_first(stage) && (!data->train_inputs || (test && !data->test_inputs))) {
        return err_set(err, ERR_INVALID, "the first stage needs the inputs");
    }
    if (stage_is_first(stage) && (stage->spec->has_view || held) && !data->train_labels) {
        return err_set(err, ERR_INVALID,
                       "the first stage needs the labels of a view, or of data that are held out");
    }
    if (stage_is_last(stage) && (!data->train_labels || (test && !data->test_labels))) {
        return err_set(err, ERR_INVALID, "the last stage needs the labels");
    }
    return 0;
}

static int make_pipeline(struct stage *stage, struct err *err)
{
    const struct stage_config *config = &stage->config;
    const struct pipeline_config pipeline = {
        .index = config->index,
        .count = config->count,
        .async = stage->spec->pipeline == JOB_ASYNC,
        .strict = config->strict,
        .micro_batches = (size_t)stage->spec->micro_batches,
        .in_flight = config->in_flight,
        .previous_in_flight = config->previous_in_flight,
        .resume_version = config->resume_version,
        .total_steps = config->total_steps,
        .evaluate_every = job_evaluate_steps(stage->spec, &config->samples),
        .evaluation_batches = stage->evaluation_batches,
        .clips_norm = stage->spec->optimizer.clip_norm > 0,
        .judges = stage->spec->has_stop,
        .stop = stage->spec->stop,
        .judged = config->early_stop,
        .round_every = {[REPLICA_NEIGHBOR] = config->has_neighbor ? stage->spec->neighbor_every : 0,
                        [REPLICA_CENTER] = stage->spec->center_every},
        .checkpoint_every = job_checkpoint_steps(stage->spec, &config->samples),
    };
    return pipeline_new(&pipeline, &stage->pipeline, err);
}

/* Place `count` buffers of `size` bytes each at *offset of the arena; without an arena, only
 * advance *offset. */
static void place(unsigned char *arena, size_t *offset, unsigned char **buffer, size_t count,
                  size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (arena) {
            buffer[i] = arena + *offset;
        }
        *offset += size_align(size, ALIGNMENT);
    }
}

static size_t place_all(struct stage *stage, unsigned char *arena)
{
    const struct stage_config *config = &stage->config;
    const size_t input = stage->micro_batch * shape_elements(stage->input) * sizeof(float);
    const size_t output = stage->micro_batch * shape_elements(stage->output) * sizeof(float);
    size_t offset = 0;
    if (stage_is_first(stage)) {
        place(arena, &offset, stage->slot[LANE_ACTIVATION], config->in_flight,
              stage->micro_batch * stage->sample_bytes);
    } else {
        place(arena, &offset, stage->slot[LANE_ACTIVATION], config->previous_in_flight, input);
        place(arena, &offset, stage->buffer[LANE_GRADIENT], config->previous_in_flight, input);
    }
    if (!stage_is_last(stage)) {
        place(arena, &offset, stage->buffer[LANE_ACTIVATION], config->in_flight, output);
        place(arena, &offset, stage->slot[LANE_GRADIENT], config->in_flight, output);
    }
    for (enum transfer_lane lane = LANE_NORM; lane <= LANE_JUDGED; lane++) {
        place(arena, &offset, stage->slot[lane], 1, sizeof(double));
        place(arena, &offset, stage->buffer[lane], 1, sizeof(double));
    }
    return offset;
}

static int make_buffers(struct stage *stage, struct err *err)
{
    const size_t most = stage->config.in_flight + stage->config.previous_in_flight;
    for (int lane = 0; lane < TRANSFER_LANES; lane++) {
        stage->slot[lane] = calloc(most, sizeof(unsigned char *));
        stage->buffer[lane] = calloc(most, sizeof(unsigned char *));
        if (!stage->slot[lane] || !stage->buffer[lane]) {
            return err_set(err, ERR_MEMORY, "tables of %zu buffers", most);
        }
    }
    stage->labels = calloc(stage->micro_batch * stage->label_count, sizeof(*stage->labels));
    if (!stage->labels) {
        return err_set(err, ERR_MEMORY, "labels of %zu samples", stage->micro_batch);
    }
    for (int direction = 0; direction < 2; direction++) {
        struct outgoing_queue *queue = &stage->queue[direction];
        queue->capacity = most + 3;
        queue->item = calloc(queue->capacity, sizeof(*queue->item));
        if (!queue->item) {
            return err_set(err, ERR_MEMORY, "a queue of %zu tensors", queue->capacity);
        }
    }
    const size_t bytes = place_all(stage, NULL);
    stage->arena = aligned_alloc(ALIGNMENT, bytes);
    if (!stage->arena) {
        return err_set(err, ERR_MEMORY, "%zu bytes of buffers at the stage boundaries", bytes);
    }
    (void)place_all(stage, stage->arena);
    return 0;
}

int stage_new_coder(const struct stage *stage, enum stage_direction direction, struct coder **out,
                    struct err *err)
{
    const enum codec codec = stage->config.codec[direction];
    const struct shape shape = direction == STAGE_TO_NEXT ? stage->output : stage->input;
    *out = NULL;
    return codec == CODEC_NONE
               ? 0
               : coder_new(codec, stage->micro_batch * shape_elements(shape), out, err);
}

static int make_decoders(struct stage *stage, struct err *err)
{
    int rc = stage_is_last(stage)
                 ? 0
                 : stage_new_coder(stage, STAGE_TO_NEXT, &stage->decoder[STAGE_TO_NEXT], err);
    return rc || stage_is_first(stage)
               ? rc
               : stage_new_coder(stage, STAGE_TO_PREVIOUS, &stage->decoder[STAGE_TO_PREVIOUS], err);
}

static int make_keeper(struct stage *stage, struct model **model, struct err *err)
{
    const struct stage_config *config = &stage->config;
    const struct keeper_config keeper = {
        .job = config->job,
        .generation = config->generation,
        .first = config->first,
        .end = config->end,
        .resume_version = config->resume_version,
        .spec = config->spec,
        .in_flight = config->in_flight,
        .versions = stage->versions,
        .share = {0, (size_t)config->spec->micro_batches},
        .threads = config->threads,
        .slowdown = config->slowdown,
    };
    int rc = keeper_new(&keeper, model, &stage->work.keeper, err);
    if (rc != 0) {
        return rc;
    }
    stage->spec = keeper_config(stage->work.keeper)->spec;
    stage->config.spec = stage->spec;
    stage->cancel = keeper_cancelled(stage->work.keeper);
    stage->train = keeper_train(stage->work.keeper);
    timing_begin(&stage->timing, config->end - config->first);
    task_clock_init(&stage->clock, stage->work.keeper);
    return 0;
}

static int make_samples(struct stage *stage, struct err *err)
{
    const struct samples_config samples = {.model = keeper_model(stage->work.keeper),
                                           .spec = stage->spec,
                                           .counts = stage->config.samples,
                                           .data = stage->config.data,
                                           .micro_batch = stage->micro_batch,
                                           .last = stage_is_last(stage)};
    return stage_is_first(stage) || stage_is_last(stage)
               ? samples_new(&samples, &stage->samples, err)
               : 0;
}

static int make_locks(struct stage *stage, struct err *err)
{
    if (pthread_mutex_init(&stage->lock, NULL) != 0) {
        return err_set(err, ERR_MEMORY, "mutex of a stage");
    }
    pthread_cond_t *const conditions[] = {&stage->changed, &stage->queue[STAGE_TO_NEXT].filled,
                                          &stage->queue[STAGE_TO_PREVIOUS].filled};
    int rc = 0;
    size_t made = 0;
    while (rc == 0 && made < sizeof(conditions) / sizeof(conditions[0])) {
        rc = thread_condition_init(conditions[made], err);
        made += rc == 0;
    }
    if (rc != 0) {
        while (made > 0) {
            (void)pthread_cond_destroy(conditions[--made]);
        }
        (void)pthread_mutex_destroy(&stage->lock);
    }
    return rc;
}

void stage_free(struct work *work)
{
    struct stage *stage = stage_of(work);
    pipeline_free(&stage->pipeline);
    mixer_free(&work->mixer);
    samples_free(&stage->samples);
    keeper_free(&work->keeper);
    free(stage->queue[STAGE_TO_NEXT].item);
    free(stage->queue[STAGE_TO_PREVIOUS].item);
    free(stage->arena);
    coder_free(&stage->decoder[STAGE_TO_NEXT]);
    coder_free(&stage->decoder[STAGE_TO_PREVIOUS]);
    for (int lane = 0; lane < TRANSFER_LANES; lane++) {
        free(stage->slot[lane]);
        free(stage->buffer[lane]);
    }
    free(stage->labels);
    (void)pthread_cond_destroy(&stage->changed);
    (void)pthread_cond_destroy(&stage->queue[STAGE_TO_NEXT].filled);
    (void)pthread_cond_destroy(&stage->queue[STAGE_TO_PREVIOUS].filled);
    (void)pthread_mutex_destroy(&stage->lock);
    free(stage);
}

static int fill_stage(struct stage *stage, struct model **model_, struct err *err)
{
    const struct stage_config *config = &stage->config;
    const struct model *model = *model_;
    stage->micro_batch = (size_t)(config->spec->batch / config->spec->micro_batches);
    stage->label_count = model->positions;
    stage->sample_bytes = shape_elements(model->input) * dtype_size(model->input_dtype);
    stage->input = model->unit[config->first].in;
    stage->output = model->unit[config->end - 1].out;
    stage->versions = job_versions(config->spec, config->count, config->in_flight);
    stage->evaluation_batches =
        evaluations_batches(config->spec, &config->samples, stage->micro_batch);
    int rc = check_data(stage, err);
    rc = rc ? rc : make_pipeline(stage, err);
    /* Make the keeper before sizes are multiplied here: it rejects sizes that cannot be
     * addressed. */
    rc = rc ? rc : make_keeper(stage, model_, err);
    rc = rc ? rc : make_samples(stage, err);
    rc = rc ? rc : make_buffers(stage, err);
    return rc ? rc : make_decoders(stage, err);
}

int stage_new(const struct stage_config *config, struct model **model, struct stage **out,
              struct err *err)
{
    int rc = check_range(config, *model, err);
    struct stage *stage = rc == 0 ? calloc(1, sizeof(*stage)) : NULL;
    if (rc == 0 && !stage) {
        rc = err_set(err, ERR_MEMORY, "stage");
    }
    rc = rc ? rc : make_locks(stage, err);
    if (rc != 0) {
        free(stage);
        model_free(model);
        return rc;
    }
    stage->work.row = &pipeline_work;
    stage->work.park_ms = config->park_ms;
    stage->config = *config;
    stage->spec = config->spec; /* until the keeper has its own copy */
    atomic_init(&stage->work.references, 1);
    atomic_init(&stage->step, config->resume_version);
    rc = fill_stage(stage, model, err);
    model_free(model);
    if (rc != 0) {
        stage_free(&stage->work);
        return rc;
    }
    *out = stage;
    return 0;
}

struct work *stage_work(struct stage *stage)
{
    return &stage->work;
}

void stage_release(struct stage **stage)
{
    struct work *work = *stage ? &(*stage)->work : NULL;
    work_release(&work);
    *stage = NULL;
}

struct keeper *stage_keeper(const struct stage *stage)
{
    return stage->work.keeper;
}

const struct stage_config *stage_config(const struct stage *stage)
{
    return &stage->config;
}

/* ---- the control side ---- */

void stage_follow(struct stage *stage, const struct orders *orders)
{
    (void)pthread_mutex_lock(&stage->lock);
    pipeline_follow(stage->pipeline, orders);
    (void)pthread_cond_signal(&stage->changed);
    (void)pthread_mutex_unlock(&stage->lock);
}

void stage_take_rounds(struct stage *stage, const struct round round[REPLICA_KINDS])
{
    (void)pthread_mutex_lock(&stage->lock);
    pipeline_take_rounds(stage->pipeline, round);
    (void)pthread_mutex_unlock(&stage->lock);
}

void stage_cancel(struct stage *stage)
{
    keeper_cancel(stage->work.keeper);
    (void)pthread_mutex_lock(&stage->lock);
    (void)pthread_cond_broadcast(&stage->changed);
    (void)pthread_cond_broadcast(&stage->queue[STAGE_TO_NEXT].filled);
    (void)pthread_cond_broadcast(&stage->queue[STAGE_TO_PREVIOUS].filled);
    (void)pthread_mutex_unlock(&stage->lock);
    if (stage->work.mixer) {
        mixer_cancel(stage->work.mixer);
    }
}

/* ---- inspection ---- */

int64_t stage_step(const struct stage *stage)
{
    return atomic_load(&stage->step);
}

void stage_measure(struct stage *stage, struct heartbeat *out)
{
    (void)pthread_mutex_lock(&stage->lock);
    timing_report(&stage->timing, stage->config.first, out);
    pipeline_report(stage->pipeline, out);
    (void)pthread_mutex_unlock(&stage->lock);
    out->busy_ms = task_clock_busy_ms(&stage->clock);
    out->step = stage_step(stage);
}
