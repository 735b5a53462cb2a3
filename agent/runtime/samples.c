#include "agent/runtime/samples.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/evaluations.h"

#define HELD_TELLING 10 /* of fewer samples a class may miss all by chance */

struct samples {
    struct samples_config config;
    struct train_sampler *sampler;
    struct train_loader loader;
    size_t sample_bytes; /* as stored */
    size_t label_count;  /* of a sample */
    struct view_labels view;
    const uint32_t *held; /* [held_count] the hold-out; the sampler's */
    size_t held_count;
    /* of an evaluation, on the last stage */
    double loss_sum;
    uint64_t correct;
    float *scores;          /* [micro_batch][classes] of the hold-out; NULL: none */
    uint64_t *seen, *right; /* [outputs] held-out samples of each label, and those that it was
                               chosen for */
};

/* ---- life ---- */

static int make_sampler(struct samples *samples, struct err *err)
{
    const struct samples_config *config = &samples->config;
    const struct job_spec *spec = config->spec;
    const struct job_data *counts = &config->counts;
    const uint64_t count = (uint64_t)counts->train_samples;
    if (!spec->has_view) {
        return train_sampler_new(count, (size_t)spec->batch, (uint64_t)spec->seed,
                                 &samples->sampler, err);
    }
    int rc =
        train_sampler_new_view(&spec->view, config->data.train_labels, count, (size_t)spec->batch,
                               (uint64_t)spec->seed, &samples->sampler, err);
    if (rc != 0) {
        return rc;
    }
    const uint64_t epoch = train_sampler_epoch(samples->sampler);
    samples->held = train_sampler_held(samples->sampler, &samples->held_count);
    if (epoch != (uint64_t)counts->epoch_samples ||
        samples->held_count != (size_t)counts->holdout_samples) {
        return err_set(err, ERR_FORMAT,
                       "the view has %" PRIu64 " samples an epoch and %zu held out, the job "
                       "expects %" PRId64 " and %" PRId64,
                       epoch, samples->held_count, counts->epoch_samples, counts->holdout_samples);
    }
    view_labels(&spec->view, &samples->view);
    return 0;
}

static int make_recall(struct samples *samples, struct err *err)
{
    const size_t outputs = samples->config.model->classes;
    if (samples->held_count == 0 || !samples->config.last) {
        return 0;
    }
    samples->scores = calloc(samples->config.micro_batch, outputs * sizeof(*samples->scores));
    samples->seen = calloc(outputs, sizeof(*samples->seen));
    samples->right = calloc(outputs, sizeof(*samples->right));
    return samples->scores && samples->seen && samples->right
               ? 0
               : err_set(err, ERR_MEMORY, "scores of %zu samples", samples->config.micro_batch);
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
    rc = rc ? rc : make_recall(samples, err);
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
        free((*samples)->scores);
        free((*samples)->seen);
        free((*samples)->right);
    }
    free(*samples);
    *samples = NULL;
}

/* ---- training ---- */

/* The labels of a sample, in a view's numbers where the job has one. */
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
    if (!part.held) {
        memcpy(out, data->test_inputs + part.first * bytes, part.count * bytes);
        return;
    }
    for (size_t i = 0; i < part.count; i++) {
        memcpy((unsigned char *)out + i * bytes,
               data->train_inputs + samples->held[part.first + i] * bytes, bytes);
    }
}

static void begin(struct samples *samples)
{
    const size_t outputs = samples->config.model->classes;
    samples->loss_sum = 0;
    samples->correct = 0;
    if (samples->scores) {
        memset(samples->seen, 0, outputs * sizeof(*samples->seen));
        memset(samples->right, 0, outputs * sizeof(*samples->right));
    }
}

static int evaluate_held(struct samples *samples, struct train_stage *stage,
                         struct evaluations_part part, const void *input, struct err *err)
{
    const size_t outputs = samples->config.model->classes;
    int rc = train_evaluate(stage, part.count, input, samples->scores, NULL, NULL, NULL, err);
    for (size_t i = 0; rc == 0 && i < part.count; i++) {
        int32_t label;
        copy_labels(samples, samples->config.data.train_labels, samples->held[part.first + i],
                    &label);
        samples->seen[label]++;
        samples->right[label] +=
            train_best(samples->scores + i * outputs, outputs) == (size_t)label;
    }
    return rc;
}

int samples_evaluate(struct samples *samples, struct train_stage *stage, size_t index,
                     const void *input, int32_t *labels, struct err *err)
{
    const struct evaluations_part part = evaluated(samples, index);
    if (index == 0) {
        begin(samples);
    }
    if (part.held) {
        return evaluate_held(samples, stage, part, input, err);
    }
    for (size_t i = 0; i < part.count; i++) {
        copy_labels(samples, samples->config.data.test_labels, part.first + i,
                    labels + i * samples->label_count);
    }
    return train_evaluate(stage, part.count, input, NULL, labels, &samples->loss_sum,
                          &samples->correct, err);
}

/* The mean of the recall of each own class. */
static double mean_recall(const struct samples *samples)
{
    double sum = 0;
    for (size_t i = 0; i < samples->config.model->classes; i++) {
        sum += samples->seen[i] > 0 ? (double)samples->right[i] / (double)samples->seen[i] : 0;
    }
    return sum / (double)samples->config.spec->view.class_count;
}

/* The least recall of the own classes of which enough samples are held out; false: of none. */
static bool least_recall(const struct samples *samples, double *out)
{
    bool any = false;
    *out = 1;
    for (size_t i = 0; i < samples->config.model->classes; i++) {
        if (samples->seen[i] >= HELD_TELLING) {
            const double recall = (double)samples->right[i] / (double)samples->seen[i];
            *out = recall < *out ? recall : *out;
            any = true;
        }
    }
    return any;
}

static void report(const struct work_listener *listener, int64_t version, enum metric_name name,
                   double value)
{
    const struct metric metric = {.step = version, .name = name, .value = value};
    listener->metric(listener->arg, &metric);
}

static double test_loss(const struct samples *samples)
{
    return samples->loss_sum / (double)samples->config.counts.test_samples;
}

static double test_accuracy(const struct samples *samples)
{
    const double tests = (double)samples->config.counts.test_samples;
    return (double)samples->correct / tests / (double)samples->label_count;
}

double samples_metric(const struct samples *samples, int metric)
{
    const bool tests = samples->config.counts.test_samples > 0;
    switch ((enum judged_metric)metric) {
    case JUDGED_TEST_ACCURACY: return tests ? test_accuracy(samples) : NAN;
    case JUDGED_TEST_LOSS: return tests ? test_loss(samples) : NAN;
    case JUDGED_RECALL: return samples->scores ? mean_recall(samples) : NAN;
    }
    return NAN;
}

void samples_report(const struct samples *samples, const struct work_listener *listener,
                    int64_t version)
{
    if (samples->config.counts.test_samples > 0) {
        report(listener, version, METRIC_TEST_LOSS, test_loss(samples));
        report(listener, version, METRIC_TEST_ACCURACY, test_accuracy(samples));
    }
    if (samples->scores) {
        double least;
        if (least_recall(samples, &least)) {
            report(listener, version, METRIC_LEAST_RECALL, least);
        }
        report(listener, version, METRIC_RECALL, mean_recall(samples));
    }
}
