/* job_progress.h: the members of a job that follow from its training: progress and deadlines. Plain
 * structs; wire form by the records below. */
#ifndef SCHEMA_JOB_PROGRESS_H
#define SCHEMA_JOB_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"

struct job_progress {
    double fraction;
    int64_t step, steps;
    int64_t epoch;       /* from 1 */
    double loss;         /* of the last step; has_loss */
    double accuracy;     /* of the last evaluation; has_accuracy */
    double recall;       /* the same, on the hold-out of a view; has_recall */
    double least_recall; /* the lowest recall of an own class; has_least_recall */
    bool has_loss, has_accuracy, has_recall, has_least_recall;
    double samples_per_second; /* 0: unknown, as before the first step of a generation */
    double eta_seconds;        /* the same */
};

/* Timeouts for a job's devices, milliseconds: formulas of the expected step (docs/protocol.md). */
struct job_deadlines {
    int64_t heartbeat_ms, suspect_ms, lease_ms; /* the same for all jobs */
    int64_t challenge_ms;                       /* at least, for the answer to a challenge */
    int64_t peer_ms, link_ms, step_ms;
    int64_t evaluation_ms; /* in addition to step_ms while an evaluation is due; 0: none */
    int64_t prepare_ms, stop_ms, round_ms;
};

extern const struct record job_progress_record, job_deadlines_record;

#endif
