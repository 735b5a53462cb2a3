#include "libtrain/stage/versions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/optim/mean.h"

static int check(const struct train_stage_config *config, struct err *err)
{
    if (config->aggregate_every < 0) {
        return err_set(err, ERR_INVALID, "an aggregation every %" PRId64 " updates",
                       config->aggregate_every);
    }
    if (config->versions == 1) {
        return 0;
    }
    if (config->in_flight > config->versions) {
        return err_set(
            err, ERR_INVALID,
            "%zu batches in flight need as many versions of the parameters: %zu are kept",
            config->in_flight, config->versions);
    }
    if (config->micro_batches > 1) {
        return err_set(err, ERR_INVALID,
                       "a stage that keeps %zu versions takes whole batches, not %zu micro-batches",
                       config->versions, config->micro_batches);
    }
    if (config->optimizer.clip_norm > 0) {
        return err_set(err, ERR_INVALID,
                       "a stage that keeps %zu versions cannot clip gradients by their norm",
                       config->versions);
    }
    return 0;
}

int versions_init(struct train_stage *stage, struct err *err)
{
    const struct train_stage_config *config = &stage->config;
    int rc = check(config, err);
    if (rc != 0) {
        return rc;
    }
    stage->ring = calloc(config->versions, sizeof(stage->ring[0]));
    stage->averaged = calloc(config->versions, sizeof(stage->averaged[0]));
    if (!stage->ring || !stage->averaged) {
        return err_set(err, ERR_MEMORY, "out of memory for %zu versions", config->versions);
    }
    for (size_t i = 0; i < config->versions; i++) {
        stage->ring[i] = (struct stage_version){
            .trained =
                i == 0 ? stage->parameter : stage->stashed + (i - 1) * stage->arena->trained_floats,
            .contents = 1};
    }
    stage->contents = 1;
    return 0;
}

/* ---- parameters ---- */

struct stage_version *versions_latest(const struct train_stage *stage)
{
    return &stage->ring[stage->latest];
}

struct stage_version *versions_next(const struct train_stage *stage)
{
    return &stage->ring[(stage->latest + 1) % stage->config.versions];
}

static struct stage_version *version_at(const struct train_stage *stage, int64_t version)
{
    const size_t count = stage->config.versions;
    ASSERT(version <= stage->version && stage->version - version < (int64_t)count);
    return &stage->ring[(stage->latest + count - (size_t)(stage->version - version)) % count];
}

const struct stage_version *versions_of_step(const struct train_stage *stage, int64_t step)
{
    const int64_t count = (int64_t)stage->config.versions;
    if (count == 1) {
        return stage->ring;
    }
    return version_at(stage, step - count > stage->restarted ? step - count : stage->restarted);
}

/* Replace the latest version by the mean of the versions kept since the restart. */
static void average(struct train_stage *stage)
{
    const int64_t kept = (int64_t)stage->config.versions;
    const int64_t since = stage->version - stage->restarted + 1;
    const size_t count = (size_t)(since < kept ? since : kept);
    for (size_t i = 0; i < count; i++) {
        stage->averaged[i] = version_at(stage, stage->version - (int64_t)(count - 1 - i))->trained;
    }
    mean_into_last(&stage->compute, (size_t)stage->arena->trained_floats, count, stage->averaged);
}

void versions_advance(struct train_stage *stage, int64_t step)
{
    const struct train_stage_config *config = &stage->config;
    ASSERT(config->versions == 1 || step == stage->version + 1);
    stage->latest = (stage->latest + 1) % config->versions;
    stage->version = step;
    if (config->versions > 1 && config->aggregate_every > 0 &&
        step % config->aggregate_every == 0 && stage->arena->trained_floats > 0) {
        average(stage);
    }
    versions_latest(stage)->contents = ++stage->contents;
}

void train_restart(struct train_stage *stage, int64_t version)
{
    ASSERT(version >= 0);
    train_discard(stage);
    stage->version = stage->restarted = version;
}

/* ---- running statistics ---- */

static size_t running_count(const struct train_stage *stage)
{
    const struct train_stage_config *config = &stage->config;
    return config->versions > 1 && config->in_flight > 1 ? config->in_flight : 1;
}

float *versions_running(const struct train_stage *stage, int64_t step)
{
    return stage->running +
           (size_t)step % running_count(stage) * (size_t)stage->arena->buffer_floats;
}

/* A single array is advanced in place: it holds the statistics after the previous forward. */
float *versions_begin_running(const struct train_stage *stage, int64_t step)
{
    float *running = versions_running(stage, step);
    if (running_count(stage) > 1 && stage->arena->buffer_floats > 0) {
        const float *before =
            step == stage->version + 1 ? stage->buffer : versions_running(stage, step - 1);
        memcpy(running, before, (size_t)stage->arena->buffer_floats * sizeof(float));
    }
    return running;
}
