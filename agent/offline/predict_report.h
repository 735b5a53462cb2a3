/* predict_report.h: the output of `paceline-agent predict`: the most probable classes of each
 * sample, then accuracy, loss and the confusion of classes; as text or as one JSON object per line.
 * For predict.c; one thread. */
#ifndef AGENT_OFFLINE_PREDICT_REPORT_H
#define AGENT_OFFLINE_PREDICT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "libtrain/formats/names.h"

#define REPORT_TOP_MAX 100

struct report_config {
    FILE *out; /* borrowed */
    bool json;
    bool bytes;     /* classes are bytes of text: shown as characters */
    size_t classes; /* scores per row */
    size_t top;     /* classes shown per sample, up to REPORT_TOP_MAX; 0: no samples shown */
    const struct dataset_names *names;   /* of the samples; borrowed; NULL: none */
    const struct name_list *class_names; /* borrowed; NULL: none */
    bool named; /* they are the model's names; else the data's, which apply to the model only if it
                 * has as many classes */
    bool labelled;
};

struct report;
/* ERR_MEMORY. */
NODISCARD int report_new(const struct report_config *config, struct report **out, struct err *err);
void report_free(struct report **report);

/* Check the scores [classes] of sample `index`. ERR_DIVERGED if one is not finite. */
NODISCARD int report_check(const float *scores, size_t classes, uint64_t index, struct err *err);
/* Print sample `index` with its scores [classes]; label: -1: unknown. ERR_DIVERGED if a score is
 * not finite. */
NODISCARD int report_sample(struct report *report, uint64_t index, const float *scores,
                            int32_t label, struct err *err);
/* Count `rows` labels and the predictions of their scores [rows][classes]. */
void report_count(struct report *report, size_t rows, const float *scores, const int32_t *labels);
/* Print the summary; without labels only the number of samples. */
void report_end(struct report *report, uint64_t samples, uint64_t labels, uint64_t correct,
                double loss);
/* Print a text that the model generated. */
void report_bytes(struct report *report, const unsigned char *bytes, size_t count);

#endif
