/* tiny.h: a job that is small enough to be trained many times in a test: a model of six units with
 * batch-norm, dropout and momentum, 64 samples of 8 x 8, and what it must come to. */
#ifndef TESTS_UNIT_AGENT_TINY_H
#define TESTS_UNIT_AGENT_TINY_H

#include "agent/pipeline/stage.h"
#include "libtrain/model/model.h"
#include "net/hash.h"
#include "schema/job.h"

#define TINY_UNITS 6
#define TINY_SAMPLES 64
#define TINY_TESTS 21 /* the last micro-batch of the test set is short */
#define TINY_STEPS 24
#define TINY_SAMPLE_BYTES 64

/* The data set in the one form, and what it holds. */
struct tiny_data {
    unsigned char file[8192];
    size_t file_size;
    char sha256[HASH_TEXT_SIZE];
    const unsigned char *inputs, *labels;
};
void tiny_make_data(struct tiny_data *out, size_t samples, uint32_t seed);
/* batch 16 in 4 micro-batches, TINY_STEPS steps, an evaluation every second epoch of 4 steps.
 * Without description. */
struct job_spec tiny_spec(void);
json_t *tiny_description(void); /* owned by the caller */
struct model *tiny_model(void);

/* The one stage of a pipeline that is not cut, with the data sets of tiny_job. spec is borrowed. */
struct stage_config tiny_whole(const struct job_spec *spec);
/* A stage of the tiny model at version 0. */
struct stage *tiny_stage(const struct stage_config *config);

/* What one device comes to. */
struct tiny_result {
    char unit_sha256[TINY_UNITS][HASH_TEXT_SIZE];
    double loss[TINY_STEPS + 1];      /* by step */
    double test_loss[TINY_STEPS + 1]; /* by version; NAN where there is no evaluation */
    double test_accuracy[TINY_STEPS + 1];
};
void tiny_result_init(struct tiny_result *out);
/* A metric goes where it belongs. */
void tiny_result_add(struct tiny_result *out, const struct metric *metric);

/* The job, made by the first call: its data sets, what one device comes to, and the least that one
 * step took there. One thread. */
struct tiny_job {
    struct tiny_data train, test;
    struct tiny_result expected;
    double step_seconds;
};
const struct tiny_job *tiny_job(void);

#endif
