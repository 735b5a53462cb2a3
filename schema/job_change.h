/* job_change.h: requests for changes of a job's plan, and what the job keeps about changes that it
 * makes by itself. Plain structs; wire form by the records below. */
#ifndef SCHEMA_JOB_CHANGE_H
#define SCHEMA_JOB_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/limits.h"

/* POST /v1/jobs/{id}/replan */
struct replan_request {
    int64_t cut[STAGES_MAX - 1]; /* stage boundaries; none: the planner chooses */
    size_t cut_count;
    bool has_cuts;
    int64_t generation;                  /* the cuts and devices of that plan; 0: none */
    struct device_id device[STAGES_MAX]; /* order of the stages; none: as the planner chooses */
    size_t device_count;
    int64_t servers; /* parameter_server: devices that keep units; 0: as the planner chooses */
    /* parameter_server: one past the last micro-batch of each device; 0: it computes none. With
     * them the devices after those of the cuts keep no units. */
    int64_t share_end[STAGES_MAX];
    size_t share_end_count; /* 0, or device_count */
};
extern const struct record replan_request_record;

/* Why a plan was checked. */
enum check_trigger {
    CHECK_AT_STEP,
    CHECK_DRIFT,
    CHECK_DEVICE_JOINED,
    CHECK_DEVICE_CORDONED,
    CHECK_DEVICE_DRAINED,
    CHECK_SLOWER,    /* than the plan before, which cannot be taken again */
    CHECK_RECOVERED, /* from a failure, by a plan of a short search */
};
extern const char *const check_trigger_names[];

enum check_verdict {
    CHECK_REPLANS,
    CHECK_SAME_PLAN,
    CHECK_TOO_LITTLE_GAIN,
    CHECK_TOO_DEAR,
    CHECK_COOLS_DOWN,
    CHECK_REJECTED, /* those stages were slower than the ones before them */
    CHECK_NO_PLAN,
    CHECK_ROLLS_BACK,
};
extern const char *const check_verdict_names[];

/* The last check of the plan. */
struct job_check {
    int64_t step;
    int trigger; /* enum check_trigger */
    double gain_seconds, cost_seconds;
    int verdict; /* enum check_verdict */
};

/* A change that the steps of its plan still have to confirm. */
struct job_trial {
    int64_t generation;
    double step_seconds;     /* of the plan before, measured at its end */
    double expected_seconds; /* of the plan on trial; 0: a row of an earlier version */
    struct replan_request before;
};

/* Stages that were slower than those before them. */
struct job_rejected {
    struct replan_request stages;
    double stage_seconds[STAGES_MAX]; /* as measured then */
    size_t stage_count;
};
extern const struct record job_check_record, job_trial_record, job_rejected_record;

/* Steps between two rounds of copies, to neighbors and to the center; 0: never. */
struct replication_periods {
    int64_t neighbor_every, center_every;
};
extern const struct record replication_periods_record;

#endif
