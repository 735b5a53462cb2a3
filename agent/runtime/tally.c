#include "agent/runtime/tally.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HELD_TELLING 10 /* minimum: with fewer samples a class may miss all by chance */

struct tally {
    struct tally_config config;
    size_t numbers;
    double *sum;         /* [numbers] */
    const double *seen;  /* [classes] of sum; NULL: there is no hold-out */
    const double *right; /* [classes] of sum */
};

int tally_new(const struct tally_config *config, struct tally **out, struct err *err)
{
    struct tally *tally AUTO(tally_free) = calloc(1, sizeof(*tally));
    if (!tally) {
        return err_set(err, ERR_MEMORY, "tally");
    }
    tally->config = *config;
    tally->numbers = TALLY_CLASSES + (config->held_samples > 0 ? 2 * config->classes : 0);
    tally->sum = calloc(tally->numbers, sizeof(*tally->sum));
    if (!tally->sum) {
        return err_set(err, ERR_MEMORY, "tally of %zu classes", config->classes);
    }
    if (config->held_samples > 0) {
        tally->seen = tally->sum + TALLY_CLASSES;
        tally->right = tally->seen + config->classes;
    }
    *out = tally;
    tally = NULL;
    return 0;
}

void tally_free(struct tally **tally)
{
    if (*tally) {
        free((*tally)->sum);
    }
    free(*tally);
    *tally = NULL;
}

size_t tally_numbers(const struct tally *tally)
{
    return tally->numbers;
}

void tally_begin(struct tally *tally)
{
    memset(tally->sum, 0, tally->numbers * sizeof(*tally->sum));
}

void tally_add(struct tally *tally, const double *part)
{
    for (size_t i = 0; i < tally->numbers; i++) {
        tally->sum[i] += part[i];
    }
}

/* Return the mean of the recalls of the own classes. */
static double mean_recall(const struct tally *tally)
{
    double sum = 0;
    for (size_t i = 0; i < tally->config.classes; i++) {
        sum += tally->seen[i] > 0 ? tally->right[i] / tally->seen[i] : 0;
    }
    return sum / (double)tally->config.spec->view.class_count;
}

/* Return the smallest recall of the own classes with enough held-out samples; false: there is no
 * such class. */
static bool least_recall(const struct tally *tally, double *out)
{
    bool any = false;
    *out = 1;
    for (size_t i = 0; i < tally->config.classes; i++) {
        if (tally->seen[i] >= HELD_TELLING) {
            const double recall = tally->right[i] / tally->seen[i];
            *out = recall < *out ? recall : *out;
            any = true;
        }
    }
    return any;
}

static double test_loss(const struct tally *tally)
{
    return tally->sum[TALLY_LOSS] / (double)tally->config.test_samples;
}

static double test_accuracy(const struct tally *tally)
{
    const double tests = (double)tally->config.test_samples;
    return tally->sum[TALLY_CORRECT] / tests / (double)tally->config.labels;
}

double tally_metric(const struct tally *tally, int metric)
{
    const bool tests = tally->config.test_samples > 0;
    switch ((enum judged_metric)metric) {
    case JUDGED_TEST_ACCURACY: return tests ? test_accuracy(tally) : NAN;
    case JUDGED_TEST_LOSS: return tests ? test_loss(tally) : NAN;
    case JUDGED_RECALL: return tally->seen ? mean_recall(tally) : NAN;
    }
    return NAN;
}

void tally_sums(const struct tally *tally, double *loss, int64_t *correct)
{
    *loss = tally->sum[TALLY_LOSS];
    *correct = (int64_t)tally->sum[TALLY_CORRECT];
}

void tally_report(const struct tally *tally, const struct work_listener *listener, int64_t version)
{
    if (tally->config.test_samples > 0) {
        work_report(listener, version, METRIC_TEST_LOSS, test_loss(tally));
        work_report(listener, version, METRIC_TEST_ACCURACY, test_accuracy(tally));
    }
    if (tally->seen) {
        double least;
        if (least_recall(tally, &least)) {
            work_report(listener, version, METRIC_LEAST_RECALL, least);
        }
        work_report(listener, version, METRIC_RECALL, mean_recall(tally));
    }
}
