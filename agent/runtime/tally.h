/* tally.h: the result of an evaluation: sums over its micro-batches, added in order, and the
 * metrics that follow from them. A micro-batch's part is a list of numbers, so that another device
 * may compute it: its loss sum and correct labels on the test set; then, with a hold-out, for each
 * class the number of samples and of correct ones. Nothing allocates after tally_new. One
 * thread. */
#ifndef AGENT_RUNTIME_TALLY_H
#define AGENT_RUNTIME_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "agent/runtime/work.h"
#include "base/err.h"
#include "schema/job.h"

enum tally_number { TALLY_LOSS, TALLY_CORRECT, TALLY_CLASSES };

struct tally_config {
    const struct job_spec *spec; /* borrowed */
    int64_t test_samples;        /* 0: no test set */
    int64_t held_samples;        /* of the view; 0: none */
    size_t labels;               /* of a sample */
    size_t classes;              /* outputs of the model */
};

struct tally;
NODISCARD int tally_new(const struct tally_config *config, struct tally **out, struct err *err);
void tally_free(struct tally **tally);

/* Return the count of numbers in a micro-batch's part. */
size_t tally_numbers(const struct tally *tally);
void tally_begin(struct tally *tally);
/* Add the part of the next micro-batch. */
void tally_add(struct tally *tally, const double *part);

/* Return the metric (enum judged_metric) after the last micro-batch; NaN if the job's data does not
 * provide it. */
double tally_metric(const struct tally *tally, int metric);
/* Return the sums over the test set. */
void tally_sums(const struct tally *tally, double *loss, int64_t *correct);
/* Report the metrics of the evaluation of `version`. */
void tally_report(const struct tally *tally, const struct work_listener *listener, int64_t version);

#endif
