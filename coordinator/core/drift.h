/* drift.h: when the plan of a running job is checked, and whether a change of it pays. */
#ifndef COORDINATOR_CORE_DRIFT_H
#define COORDINATOR_CORE_DRIFT_H

#include "coordinator/core/core.h"
#include "coordinator/core/scatter.h"

struct device_slot;
struct job_slot;

#define DRIFT_SHARE 0.25       /* of a value: what counts as a change of speed */
#define DRIFT_SHARE_MAX 1.0    /* after setbacks more counts, up to twice the time or half of it */
#define DRIFT_WINDOW_MS 5000   /* a value must be off for so long */
#define DRIFT_RECENT_STEPS 8   /* whose median is the present step time */
#define DRIFT_TRIAL_STEPS 20   /* after which a change is compared with the plan before */
#define DRIFT_SLOWER 1.05      /* ratio of step times at which a change is undone */
#define DRIFT_GAIN_MIN 0.05    /* of the step time: the least that a change must gain */
#define DRIFT_WORTH 1.5        /* least ratio of the gain to the cost */
#define DRIFT_COOL_MS 30000    /* the shortest pause between two changes */
#define DRIFT_SETBACKS_MAX 7   /* doublings of that pause, to about an hour */
#define DRIFT_DOUBT_MAX 0.5    /* a predicted gain of half the step is always tried */
#define DRIFT_SCATTERS 3.0     /* a gain of less than so many scatters of the step shows nothing */
#define DRIFT_STEPS_MEASURED 5 /* before their median is trusted */
#define DRIFT_STAGES_MS 10000  /* the longest wait for the times of all stages */

/* A value that is compared with the one at the last check. */
struct drift_value {
    double reference;
    bool confirmed; /* a measurement has shown the reference; else it is a prediction */
    int64_t off_ms; /* since when it is off; 0: it is not */
};

struct drift {
    bool due;             /* a check is due, or waits for the end of the cool-down */
    int trigger;          /* enum check_trigger of that check */
    bool goes_back;       /* the plan before was faster */
    bool tried;           /* a correction of the plan was weighed */
    bool measured;        /* the stages have reported their times, or have had the time to */
    int64_t began_ms;     /* of the plan, or of the coordinator */
    int64_t cool_ms;      /* end of the cool-down */
    int64_t checked_step; /* of the last check at a step */
    uint64_t looked;      /* last pass of change_run over the job */
    struct drift_value stage[STAGES_MAX], step;
    struct scatter scatter; /* of the step */
};

/* A change of the plan: seconds. */
struct drift_change {
    double present_step, planned_step;
    double steps_left;
    double doubt;                 /* least gain, as a share of the present step */
    double move, prepare, copies; /* to move units, to prepare, of the first round of copies */
};

/* Weigh a change. *gain: seconds per step; *cost: seconds. Pure. */
enum check_verdict drift_weigh(const struct drift_change *change, double *gain, double *cost);
/* Return the first step after `step` at which the job is checked; INT64_MAX: at none. Pure. */
int64_t drift_next_step(const struct job_spec *spec, int64_t step);

/* Return whether the job changes its plan by itself. */
bool drift_is_on(const struct job_slot *job);
/* Return the seconds of a stage per micro-batch, as measured (0: not yet) or predicted, with the
 * stops of a stage that always works: a quota that ends makes it faster at once. */
double drift_stage_seconds(const struct core *core, const struct plan_stage *stage, bool measured);
/* Begin to watch a plan that runs from now on. */
void drift_begin(struct core *core, struct job_slot *job);
/* Take what a report has changed: steps, step times, times of stages. */
void drift_take(struct core *core, struct job_slot *job);
/* Take the probe of an idle device: it may have become faster. */
void drift_take_probe(struct core *core, struct device_slot *device,
                      const struct heartbeat *heartbeat);
/* Let the plan be checked. trigger: enum check_trigger. */
void drift_note(struct core *core, struct job_slot *job, int trigger);
/* Keep the answer to the check whose trigger was noted. gain: seconds per step. */
void drift_checked(struct core *core, struct job_slot *job, int verdict, double gain, double cost);
/* Return whether the last change may be corrected before its cool-down is over: it has made the job
 * no slower, but its step takes 25 % longer than predicted, so that the speeds measured since may
 * show a better plan. A correction is not corrected, and nothing is after a setback. */
bool drift_may_correct(const struct job_slot *job);
/* Return the least gain of the next change, as a share of the present step: what the last ones were
 * predicted too short, and what the step time changes by itself. */
double drift_doubt(const struct job_slot *job);
/* No change before ms milliseconds have passed. */
void drift_cool(struct core *core, struct job_slot *job, int64_t ms);
/* Pause after a change was undone, whose step was `expected_seconds` by its prediction and is
 * `seconds`. The pause doubles with each one in a row, and the next change must gain more than this
 * prediction was wrong: predictions that stay wrong cost less and less. A change that is kept, and
 * a measured change of speed, end both. */
void drift_back_off(struct core *core, struct job_slot *job, double expected_seconds,
                    double seconds);
/* Continue the cool-down of the row. */
void drift_restore(struct core *core, struct job_slot *job);

#endif
