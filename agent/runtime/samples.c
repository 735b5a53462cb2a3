#include "agent/runtime/samples.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/evaluations.h"
#include "base/rng.h"

struct samples {
    struct samples_config config;
    struct train_sampler *sampler;
    struct train_loader loader;
    size_t sample_bytes; /* as stored */
    size_t label_count;  /* of a sample */
    struct view_labels view;
    const uint32_t *held; /* [held_count] the hold-out; the sampler's */
    size_t held_count;
    bool tests_held; /* the hold-out is the test set, not that of a view */
    /* for evaluations, on the last stage */
    struct tally *tally;
    double *part;  /* [tally_numbers] of a micro-batch */
    float *scores; /* [micro_batch][classes] of the hold-out; NULL: none */
};

/* ---- life ---- */

/* Compare the numbers of samples with those that the job expects. */
static int check_sizes(struct samples *samples, struct err *err)
{
    const struct job_data *counts = &samples->config.counts;
    const uint64_t epoch = train_sampler_epoch(samples->sampler);
    const int64_t held = samples->tests_held ? counts->test_samples : counts->holdout_samples;
    samples->held = train_sampler_held(samples->sampler, &samples->held_count);
    return epoch == (uint64_t)counts->epoch_samples && samples->held_count == (size_t)held
               ? 0
               : err_set(err, ERR_FORMAT,
                         "an epoch has %" PRIu64 " samples and %zu are held out, the job expects "
                         "%" PRId64 " and %" PRId64,
                         epoch, samples->held_count, counts->epoch_samples, held);
}

static int make_sampler(struct samples *samples, struct err *err)
{
    const struct samples_config *config = &samples->config;
    const struct job_spec *spec = config->spec;
    const struct job_data *counts = &config->counts;
    const uint64_t count = (uint64_t)counts->train_samples;
    int rc = 0;
    samples->tests_held = spec->test_local.holdout > 0;
    if (spec->has_view) {
        rc = train_sampler_new_view(&spec->view, config->data.train_labels, count,
                                    (size_t)spec->batch, (uint64_t)spec->seed, &samples->sampler,
                                    err);
    } else if (samples->tests_held) {
        const struct holdout holdout = job_holdout(spec);
        rc = train_sampler_new_without(&holdout, config->data.train_labels, count,
                                       (size_t)spec->batch, (uint64_t)spec->seed, &samples->sampler,
                                       err);
    } else {
        return train_sampler_new(count, (size_t)spec->batch, (uint64_t)spec->seed,
                                 &samples->sampler, err);
    }
    if (rc == 0 && spec->has_view) {
        view_labels(&spec->view, &samples->view);
    }
    return rc ? rc : check_sizes(samples, err);
}

static int make_results(struct samples *samples, struct err *err)
{
    const struct samples_config *config = &samples->config;
    const size_t outputs = config->model->classes;
    const struct tally_config tally = {.spec = config->spec,
                                       .test_samples = config->counts.test_samples,
                                       .held_samples = config->counts.holdout_samples,
                                       .labels = samples->label_count,
                                       .classes = outputs};
    if (!config->last) {
        return 0;
    }
    if (config->counts.holdout_samples > 0) {
        samples->scores = calloc(config->micro_batch, outputs * sizeof(*samples->scores));
        if (!samples->scores) {
            return err_set(err, ERR_MEMORY, "scores of %zu samples", config->micro_batch);
        }
    }
    const int rc = tally_new(&tally, &samples->tally, err);
    if (rc == 0) {
        samples->part = calloc(tally_numbers(samples->tally), sizeof(*samples->part));
        return samples->part ? 0 : err_set(err, ERR_MEMORY, "part of a tally");
    }
    return rc;
}

int samples_new(const struct samples_config *config, struct samples **out, struct err *err)
{
    struct samples *samples AUTO(samples_free) = calloc(1, sizeof(*samples));
    if (!samples) {
        return err_set(err, ERR_MEMORY, "samples");
    }
    const struct job_spec *spec = config->spec;
    const struct model *model = config->model;
    samples->config = *config;
    samples->label_count = model->positions;
    samples->sample_bytes = shape_elements(model->input) * dtype_size(model->input_dtype);
    samples->loader = train_loader_of(model, spec->augment, spec->augment_count,
                                      (uint64_t)spec->seed, config->data.train_inputs);
    int rc = make_sampler(samples, err);
    rc = rc ? rc : make_results(samples, err);
    if (rc == 0) {
        *out = samples;
        samples = NULL;
    }
    return rc;
}

void samples_free(struct samples **samples)
{
    if (*samples) {
        train_sampler_free(&(*samples)->sampler);
        tally_free(&(*samples)->tally);
        free((*samples)->part);
        free((*samples)->scores);
    }
    free(*samples);
    *samples = NULL;
}

/* ---- training ---- */

/* Copy the labels of a sample, in the numbers of the view if the job has one. */
static void copy_labels(const struct samples *samples, const unsigned char *stored, size_t sample,
                        int32_t *out)
{
    const size_t bytes = samples->label_count * sizeof(*out);
    memcpy(out, stored + sample * bytes, bytes);
    if (samples->config.spec->has_view) {
        *out = view_label(&samples->view, *out);
    }
}

void samples_inputs(struct samples *samples, int64_t step, size_t first, size_t count, void *out)
{
    const uint32_t *sample = train_sampler_batch(samples->sampler, step) + first;
    train_load(&samples->loader, step, first, count, sample, out);
}

void samples_labels(struct samples *samples, int64_t step, size_t first, size_t count, int32_t *out)
{
    const uint32_t *sample = train_sampler_batch(samples->sampler, step) + first;
    for (size_t i = 0; i < count; i++) {
        copy_labels(samples, samples->config.data.train_labels, sample[i],
                    out + i * samples->label_count);
    }
}

void samples_note(struct samples *samples, int64_t step, size_t first, size_t count,
                  const double *loss)
{
    train_sampler_note(samples->sampler, step, first, count, loss);
}

/* ---- evaluation ---- */

static struct evaluations_part evaluated(const struct samples *samples, size_t index)
{
    return evaluations_part(&samples->config.counts, samples->config.micro_batch, index);
}

void samples_test_inputs(const struct samples *samples, size_t index, void *out)
{
    const struct work_data *data = &samples->config.data;
    const struct evaluations_part part = evaluated(samples, index);
    const size_t bytes = samples->sample_bytes;
    if (!part.held && !samples->tests_held) {
        memcpy(out, data->test_inputs + part.first * bytes, part.count * bytes);
        return;
    }
    for (size_t i = 0; i < part.count; i++) {
        memcpy((unsigned char *)out + i * bytes,
               data->train_inputs + samples->held[part.first + i] * bytes, bytes);
    }
}

static int evaluate_held(struct samples *samples, struct train_stage *stage,
                         struct evaluations_part part, const void *input, double *numbers,
                         struct err *err)
{
    const size_t outputs = samples->config.model->classes;
    double *seen = numbers + TALLY_CLASSES;
    double *right = seen + outputs;
    int rc = train_evaluate(stage, part.count, input, samples->scores, NULL, NULL, NULL, err);
    for (size_t i = 0; rc == 0 && i < part.count; i++) {
        int32_t label;
        copy_labels(samples, samples->config.data.train_labels, samples->held[part.first + i],
                    &label);
        seen[label]++;
        right[label] += train_best(samples->scores + i * outputs, outputs) == (size_t)label;
    }
    return rc;
}

int samples_evaluate(struct samples *samples, struct train_stage *stage, size_t index,
                     const void *input, int32_t *labels, double *part, struct err *err)
{
    const struct evaluations_part range = evaluated(samples, index);
    memset(part, 0, tally_numbers(samples->tally) * sizeof(*part));
    if (range.held) {
        return evaluate_held(samples, stage, range, input, part, err);
    }
    const struct work_data *data = &samples->config.data;
    for (size_t i = 0; i < range.count; i++) {
        const size_t place = range.first + i;
        const bool held = samples->tests_held;
        copy_labels(samples, held ? data->train_labels : data->test_labels,
                    held ? samples->held[place] : place, labels + i * samples->label_count);
    }
    uint64_t correct = 0;
    const int rc =
        train_evaluate(stage, range.count, input, NULL, labels, &part[TALLY_LOSS], &correct, err);
    part[TALLY_CORRECT] = (double)correct;
    return rc;
}

int samples_evaluate_next(struct samples *samples, struct train_stage *stage, size_t index,
                          const void *input, int32_t *labels, struct err *err)
{
    if (index == 0) {
        tally_begin(samples->tally);
    }
    const int rc = samples_evaluate(samples, stage, index, input, labels, samples->part, err);
    if (rc == 0) {
        tally_add(samples->tally, samples->part);
    }
    return rc;
}

void samples_drawn(const struct samples *samples, size_t first, size_t count, void *inputs,
                   int32_t *labels)
{
    const struct samples_config *config = &samples->config;
    const struct rng_stream stream = rng_stream((uint64_t)config->spec->seed, RNG_DRAWN, 0, 0);
    const size_t bytes = samples->sample_bytes;
    for (size_t i = 0; i < count; i++) {
        const size_t sample =
            (size_t)rng_below(&stream, first + i, (uint64_t)config->counts.train_samples);
        memcpy((unsigned char *)inputs + i * bytes, config->data.train_inputs + sample * bytes,
               bytes);
        copy_labels(samples, config->data.train_labels, sample, labels + i * samples->label_count);
    }
}

struct tally *samples_tally(const struct samples *samples)
{
    return samples->tally;
}
