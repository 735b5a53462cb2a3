/* job_change.h: requests for changes of a job's plan, and the job's record of the changes that the
 * coordinator makes by itself. Plain structs; wire form by the records below. */
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
    int64_t generation; /* take the boundaries and devices of that generation's plan; 0: none */
    struct device_id device[STAGES_MAX]; /* in the order of the stages; none: the planner chooses */
    size_t device_count;
    int64_t servers; /* parameter_server: devices that keep units; 0: the planner chooses */
    /* parameter_server: one past the last micro-batch of each device; 0: it computes none. If
     * given, the boundaries assign units to the first devices, and the devices after those keep no
     * units. */
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
    CHECK_SLOWER,    /* than the preceding plan, to which the job cannot return */
    CHECK_RECOVERED, /* from a failure, by a plan of a short search */
};
extern const char *const check_trigger_names[];

enum check_verdict {
    CHECK_REPLANS,
    CHECK_SAME_PLAN,
    CHECK_TOO_LITTLE_GAIN,
    CHECK_TOO_DEAR,
    CHECK_COOLS_DOWN,
    CHECK_REJECTED, /* the new stages were tried before, and were slower */
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

/* A plan change on trial, until steps of the new plan confirm it. */
struct job_trial {
    int64_t generation;
    double step_seconds;     /* of the preceding plan, measured at its end */
    double expected_seconds; /* of the plan on trial; 0: the row is from an earlier version */
    struct replan_request before;
};

/* A rejected plan: its stages were slower than the preceding ones. */
struct job_rejected {
    struct replan_request stages;
    double stage_seconds[STAGES_MAX]; /* as measured then */
    size_t stage_count;
};
extern const struct record job_check_record, job_trial_record, job_rejected_record;

/* Steps between two replication rounds, to neighbors and to the center; 0: never. */
struct replication_periods {
    int64_t neighbor_every, center_every;
};
extern const struct record replication_periods_record;

#endif
