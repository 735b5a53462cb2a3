/* what_if.h: POST /v1/plans: the question which plan a job would get with assumed devices, links or
 * fields; and its answer. Wire form by the records below. */
#ifndef SCHEMA_WHAT_IF_H
#define SCHEMA_WHAT_IF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/job.h"
#include "schema/job_preview.h"
#include "schema/limits.h"

#define WHAT_IF_DEVICES_MAX 64
#define WHAT_IF_LINKS_MAX 64
#define WHAT_IF_COMBINATIONS_MAX 64
#define WHAT_IF_VALUES_MAX 32 /* of one varied field */

/* A device of the question: an existing one (`id` alone), or a hypothetical one with a name, which
 * is like an existing one or has measurements of its own. plan_question_check has the rules between
 * the fields. */
struct what_if_device {
    struct device_id id; /* "": hypothetical */
    char name[NAME_SIZE];
    struct device_id like; /* "": by the three measurements */
    double speed;          /* relative to `like`; 0: the same */
    double gflops, memory_bytes_per_second;
    int64_t memory_bytes; /* free; 0: as `like` */
};

/* An assumed link, in place of a measured one. */
struct what_if_link {
    char between[2][NAME_SIZE]; /* ids, or names of hypothetical devices */
    size_t between_count;
    double latency_seconds, bytes_per_second;
};

/* Values that the question tries for a field; a count of 0: the job's own value. */
struct plan_vary {
    int64_t micro_batches[WHAT_IF_VALUES_MAX];
    size_t micro_batches_count;
    int compression[WHAT_IF_VALUES_MAX];
    size_t compression_count;
    int pipeline[WHAT_IF_VALUES_MAX];
    size_t pipeline_count;
    int64_t devices[WHAT_IF_VALUES_MAX]; /* how many */
    size_t devices_count;
};

/* Set `spec` to job_spec_default before reading. */
struct plan_question {
    struct job_id job;    /* "": spec */
    struct job_spec spec; /* of a job that is not submitted; has_spec */
    bool has_spec;
    struct device_id without[STAGES_MAX];
    size_t without_count;
    struct what_if_device device[WHAT_IF_DEVICES_MAX]; /* the only ones; has_devices */
    size_t device_count;
    bool has_devices;
    struct what_if_link link[WHAT_IF_LINKS_MAX];
    size_t link_count;
    struct plan_vary vary;
    bool has_vary;
};
extern const struct record plan_question_record;

/* Check the rules between the fields. Adds faults. ERR_INVALID when there is one; err names the
 * first. */
NODISCARD int plan_question_check(const struct plan_question *question,
                                  struct record_faults *faults, struct err *err);
/* Return the number of combinations; 1 without `vary`. */
size_t what_if_combinations(const struct plan_question *question);
/* Return whether the question assumes anything but the loss of devices. */
bool what_if_assumes(const struct plan_question *question);

/* Write the id that stands for device[index] of a question. It sorts after all ids of devices. */
void what_if_id(size_t index, struct device_id *out);
/* Return the hypothetical device of that id; NULL: the id is that of a device. */
const struct what_if_device *what_if_device(const struct plan_question *question, const char *id);

/* One combination of varied fields. */
struct plan_combination {
    int64_t micro_batches;
    int compression, pipeline;
    int64_t devices;            /* how many; 0: as many as the job allows */
    char failure[MESSAGE_SIZE]; /* why it has no plan; "": it has one */
    double predicted_step_seconds;
    bool optimal;
    double gap;
    struct plan_bottleneck bottleneck;
    struct combination_stage {
        struct device_id device; /* "": hypothetical */
        char name[NAME_SIZE];
        int64_t first, end, in_flight;
        int64_t share_first, share_end; /* as of plan_stage; equal: none */
        int codec;
        int64_t memory_bytes;
        double predicted_busy;
    } stage[STAGES_MAX];
    size_t stage_count;
};
/* Set the varied fields of the spec to those of combination `index`. */
void what_if_vary(const struct plan_question *question, size_t index, struct job_spec *spec);

struct plan_answer {
    struct job_preview preview; /* of the fastest combination */
    int64_t resume_version;
    int64_t steps_lost;
    struct plan_combination combination[WHAT_IF_COMBINATIONS_MAX]; /* the fastest first */
    size_t combination_count;
};
extern const struct record plan_answer_record;

#endif
