/* drift.h: when the plan of a running job is checked, and whether a change of it pays. */
#ifndef COORDINATOR_CORE_GENERATION_DRIFT_H
#define COORDINATOR_CORE_GENERATION_DRIFT_H

#include "coordinator/core/core.h"
#include "coordinator/core/generation/scatter.h"

struct device_slot;
struct job_slot;

#define DRIFT_SHARE 0.25       /* relative difference that counts as a change of speed */
#define DRIFT_SHARE_MAX 1.0    /* its bound; it rises after setbacks, to twice the time or half */
#define DRIFT_WINDOW_MS 5000   /* shortest time for which a value must differ */
#define DRIFT_RECENT_STEPS 8   /* the present step time is the median of these */
#define DRIFT_TRIAL_STEPS 20   /* after these a change is compared with the previous plan */
#define DRIFT_SLOWER 1.05      /* ratio of step times at which a change is undone */
#define DRIFT_GAIN_MIN 0.05    /* least gain of a change, as a share of the step time */
#define DRIFT_WORTH 1.5        /* least ratio of the gain to the cost */
#define DRIFT_COOL_MS 30000    /* the shortest pause between two changes */
#define DRIFT_SETBACKS_MAX 7   /* doublings of that pause, to about an hour */
#define DRIFT_DOUBT_MAX 0.5    /* a predicted gain of half the step is always tried */
#define DRIFT_SCATTERS 3.0     /* least gain, in scatters of the step; less is not significant */
#define DRIFT_STEPS_MEASURED 5 /* least steps for a valid median */
#define DRIFT_STAGES_MS 10000  /* the longest wait for the times of all stages */

/* A value that is compared with its value at the last check. */
struct drift_value {
    double reference;
    bool confirmed; /* the reference was measured; else it is a prediction */
    int64_t off_ms; /* when the value left its reference; 0: it has not */
};

struct drift {
    bool due;             /* a check is due, or waits for the end of the cool-down */
    int trigger;          /* enum check_trigger of that check */
    bool goes_back;       /* the previous plan was faster */
    bool tried;           /* a correction of the plan was weighed */
    bool measured;        /* the stages have reported their times, or had enough time to */
    int64_t began_ms;     /* start of the plan, or of the coordinator */
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
    double move, prepare, copies; /* costs: moving units, preparing, the first round of copies */
};

/* Weigh a change. *gain: seconds per step; *cost: seconds. Pure. */
enum check_verdict drift_weigh(const struct drift_change *change, double *gain, double *cost);
/* Return the first step after `step` at which the job is checked; INT64_MAX: at none. Pure. */
int64_t drift_next_step(const struct job_spec *spec, int64_t step);

/* Return whether the job changes its plan by itself. */
bool drift_is_on(const struct job_slot *job);
/* Return the seconds of a stage per micro-batch, measured (0: not yet) or predicted. They include
 * the stops of a stage that always works, so that they fall at once when a quota ends. */
double drift_stage_seconds(const struct core *core, const struct plan_stage *stage, bool measured);
/* Begin to watch a plan that has just started to run. */
void drift_begin(struct core *core, struct job_slot *job);
/* Take the changes by a report: steps, step times, times of stages. */
void drift_take(struct core *core, struct job_slot *job);
/* Take the probe of an idle device: it may have become faster. */
void drift_take_probe(struct core *core, struct device_slot *device,
                      const struct heartbeat *heartbeat);
/* Request a check of the plan. trigger: enum check_trigger. */
void drift_note(struct core *core, struct job_slot *job, int trigger);
/* Keep the answer to the check whose trigger was noted. gain: seconds per step. */
void drift_checked(struct core *core, struct job_slot *job, int verdict, double gain, double cost);
/* Return whether the last change may be corrected before its cool-down is over. The job must not be
 * slower than before the change, and its step must take 25 % longer than predicted: then the speeds
 * measured since may show a better plan. A correction, or a plan after a setback, is never
 * corrected. */
bool drift_may_correct(const struct job_slot *job);
/* Return the least gain of the next change, as a share of the present step. It covers the error of
 * the last predictions and the scatter of the step time. */
double drift_doubt(const struct job_slot *job);
/* Allow no change for the next ms milliseconds. */
void drift_cool(struct core *core, struct job_slot *job, int64_t ms);
/* Pause after a change was undone. Its step was predicted as `expected_seconds` and took `seconds`.
 * The pause doubles with each consecutive undone change, and the next change must gain more than
 * the error of this prediction: predictions that stay wrong cost less and less. A change that is
 * kept, or a measured change of speed, ends both. */
void drift_back_off(struct core *core, struct job_slot *job, double expected_seconds,
                    double seconds);
/* Continue the cool-down of the row. */
void drift_restore(struct core *core, struct job_slot *job);

#endif
