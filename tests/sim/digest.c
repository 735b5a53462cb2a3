#include "tests/sim/digest.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "schema/job.h"

#define LABEL UINT64_C(0x9ae16a3b2f90404f)
#define TEST UINT64_C(0xc2b2ae3d27d4eb4f)

uint64_t digest_mix(uint64_t a, uint64_t b)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) + (b ^ UINT64_C(0x2545f4914f6cdd1d));
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void digest_text(uint64_t digest, char out[SHA256_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_SIZE - 1; i++) {
        out[i] = digits[digest >> (60 - 4 * (i % 16)) & 15];
    }
    out[SHA256_SIZE - 1] = '\0';
}

uint64_t digest_of_text(const char *sha256)
{
    char half[17] = "";
    memcpy(half, sha256, 16);
    return strtoull(half, NULL, 16);
}

double digest_number(uint64_t digest)
{
    return (double)(digest >> 12);
}

uint64_t digest_initial(int64_t seed, size_t unit)
{
    return digest_mix((uint64_t)seed, unit);
}

uint64_t digest_start(uint64_t checkpoint, size_t unit)
{
    return digest_mix(checkpoint, (uint64_t)unit);
}

int64_t digest_local_seed(int64_t seed, const char *sha256)
{
    return (int64_t)(digest_mix((uint64_t)seed, digest_of_text(sha256)) >> 16);
}

int64_t digest_samples_seed(const struct job_spec *spec)
{
    uint64_t all = (uint64_t)spec->seed;
    for (size_t c = 0; spec->has_view && c < spec->view.class_count; c++) {
        all = digest_mix(all, (uint64_t)spec->view.class[c]);
    }
    for (size_t i = 0; spec->has_view && i < spec->view.range_count; i++) {
        const struct view_range *range = &spec->view.range[i];
        all =
            digest_mix(digest_mix(all, range->class), (uint64_t)range->first << 32 | range->count);
    }
    if (spec->train_local.sha256[0] != '\0') {
        return digest_local_seed((int64_t)all, spec->train_local.sha256);
    }
    if (spec->has_view && spec->view.window > 0) {
        all = digest_mix(all, (uint64_t)spec->view.window);
    }
    return spec->has_view ? (int64_t)(all >> 16) : spec->seed;
}

uint64_t digest_samples(int64_t seed, int64_t step, size_t micro_batch)
{
    return digest_mix(digest_mix((uint64_t)seed, (uint64_t)step), micro_batch);
}

uint64_t digest_test_samples(int64_t seed, size_t micro_batch)
{
    return digest_mix(digest_mix((uint64_t)seed, TEST), micro_batch);
}

/* ---- a stage ---- */

static uint64_t *version_at(struct digest_stage *stage, int64_t version)
{
    const int64_t count = (int64_t)stage->versions;
    ASSERT(version >= stage->restarted && version <= stage->version);
    ASSERT(stage->version - version < count && count <= DIGEST_SLOTS_MAX);
    return stage->ring[version % count];
}

/* The parameters of a step: those of the version of so many steps before, or of the restart. */
static const uint64_t *used_by(struct digest_stage *stage, int64_t step)
{
    const int64_t version = step - (int64_t)stage->versions;
    return stage->async ? version_at(stage, version > stage->restarted ? version : stage->restarted)
                        : stage->state;
}

void digest_restart(struct digest_stage *stage, int64_t version)
{
    stage->version = stage->restarted = version;
    memcpy(version_at(stage, version), stage->state, sizeof(stage->state));
}

uint64_t digest_mean(const uint64_t *state, size_t count)
{
    uint64_t mean = count;
    for (size_t i = 0; i < count; i++) {
        mean = digest_mix(mean, state[i]);
    }
    return mean;
}

/* Replace the newest version by the mean of those kept since the restart. */
static void aggregate(struct digest_stage *stage)
{
    const int64_t since = stage->version - stage->restarted + 1;
    const size_t count = since < (int64_t)stage->versions ? (size_t)since : stage->versions;
    for (size_t u = stage->first; u < stage->end; u++) {
        uint64_t kept[DIGEST_SLOTS_MAX];
        for (size_t i = 0; i < count; i++) {
            kept[i] = version_at(stage, stage->version - (int64_t)(count - 1 - i))[u];
        }
        stage->state[u] = digest_mean(kept, count);
    }
}

static void keep_version(struct digest_stage *stage, int64_t step)
{
    ASSERT(step == stage->version + 1);
    stage->version = step;
    memcpy(version_at(stage, step), stage->state, sizeof(stage->state));
    if (stage->versions > 1 && stage->aggregate_every > 0 && step % stage->aggregate_every == 0) {
        aggregate(stage);
        memcpy(version_at(stage, step), stage->state, sizeof(stage->state));
    }
}

uint64_t digest_forward(struct digest_stage *stage, size_t slot, int64_t step, uint64_t input)
{
    uint64_t x = input;
    const uint64_t *state = used_by(stage, step);
    ASSERT(slot < DIGEST_SLOTS_MAX);
    for (size_t u = stage->first; u < stage->end; u++) {
        stage->saved[slot][u] = x;
        stage->running[u] = digest_mix(stage->async ? 0 : stage->running[u], x);
        stage->seen[slot][u] = stage->running[u];
        stage->used[slot][u] = state[u];
        x = digest_mix(state[u], x);
    }
    if (stage->end == stage->units) {
        stage->saved[slot][stage->units] = x;
        stage->loss = digest_mix(stage->loss, x);
    }
    return x;
}

uint64_t digest_backward(struct digest_stage *stage, size_t slot, uint64_t gradient)
{
    const bool last = stage->end == stage->units;
    uint64_t g = last ? digest_mix(stage->saved[slot][stage->units], LABEL) : gradient;
    for (size_t u = stage->end; u-- > stage->first;) {
        const uint64_t with = digest_mix(g, stage->saved[slot][u]);
        stage->gradient[u] = digest_mix(stage->gradient[u], with);
        g = digest_mix(with, stage->used[slot][u]);
        stage->running[u] = stage->async ? stage->seen[slot][u] : stage->running[u];
    }
    return g;
}

uint64_t digest_sum(const struct digest_stage *stage, uint64_t later_stages)
{
    uint64_t sum = later_stages;
    for (size_t u = stage->end; u-- > stage->first;) {
        sum = digest_mix(sum, stage->gradient[u]);
    }
    return sum;
}

void digest_update(struct digest_stage *stage, int64_t step, uint64_t total)
{
    for (size_t u = stage->first; u < stage->end; u++) {
        const uint64_t gradient =
            stage->clips ? digest_mix(stage->gradient[u], total) : stage->gradient[u];
        const uint64_t change = digest_mix(gradient, stage->running[u]);
        const uint64_t changed = digest_mix(digest_mix(stage->state[u], change), (uint64_t)step);
        stage->state[u] = stage->still[u] ? stage->state[u] : changed;
        stage->gradient[u] = stage->running[u] = 0;
    }
    stage->loss = 0;
    if (stage->async) {
        keep_version(stage, step);
    }
}

uint64_t digest_evaluate(const struct digest_stage *stage, uint64_t input)
{
    uint64_t x = input;
    for (size_t u = stage->first; u < stage->end; u++) {
        x = digest_mix(stage->state[u], x);
    }
    return x;
}

/* ---- the reference ---- */

static double evaluate(const struct digest_stage *stage, const struct reference_job *job)
{
    uint64_t sum = 0;
    for (size_t m = 0; m < job->test_batches; m++) {
        const uint64_t input = digest_test_samples(job->samples_seed, m);
        sum = digest_mix(sum, job->test(stage, job, input));
    }
    return digest_number(sum);
}

static void fill(struct reference *reference, const struct reference_job *job)
{
    struct digest_stage stage = {.end = job->units, .units = job->units, .clips = job->clips};
    for (size_t u = 0; u < stage.units; u++) {
        bool taken = job->checkpoint != 0 && u < job->taken;
        stage.state[u] = taken ? digest_start(job->checkpoint, u) : digest_initial(job->seed, u);
    }
    for (int64_t step = 0; step <= reference->steps; step++) {
        if (step > 0) {
            job->train_step(&stage, job, step);
            reference->loss[step] = digest_number(stage.loss);
            digest_update(&stage, step, digest_sum(&stage, 0));
        }
        memcpy(&reference->state[(size_t)step * stage.units], stage.state,
               stage.units * sizeof(stage.state[0]));
        reference->evaluation[step] = evaluate(&stage, job);
    }
}

int reference_new(const struct reference_job *job, struct reference **out, struct err *err)
{
    ASSERT(job->units <= DIGEST_UNITS_MAX);
    const size_t versions = (size_t)job->steps + 1;
    struct reference *reference = calloc(1, sizeof(*reference));
    if (reference) {
        reference->steps = job->steps;
        reference->units = job->units;
        reference->state = calloc(versions * job->units, sizeof(uint64_t));
        reference->loss = calloc(versions, sizeof(double));
        reference->evaluation = calloc(versions, sizeof(double));
    }
    if (!reference || !reference->state || !reference->loss || !reference->evaluation) {
        reference_free(&reference);
        return err_set(err, ERR_MEMORY, "reference");
    }
    fill(reference, job);
    *out = reference;
    return 0;
}

void reference_free(struct reference **pointer)
{
    if (*pointer) {
        free((*pointer)->state);
        free((*pointer)->loss);
        free((*pointer)->evaluation);
        free(*pointer);
        *pointer = NULL;
    }
}

uint64_t reference_unit(const struct reference *reference, int64_t version, size_t unit)
{
    ASSERT(version >= 0 && version <= reference->steps && unit < reference->units);
    return reference->state[(size_t)version * reference->units + unit];
}

uint64_t digest_model(const uint64_t *state, size_t units)
{
    uint64_t all = 0;
    for (size_t u = 0; u < units; u++) {
        all = digest_mix(all, state[u]);
    }
    return all;
}

uint64_t reference_model(const struct reference *reference, int64_t version)
{
    ASSERT(version >= 0 && version <= reference->steps);
    return digest_model(&reference->state[(size_t)version * reference->units], reference->units);
}
