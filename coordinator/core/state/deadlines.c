/* Every timeout is a function of the expected step time. A fixed one is too short for slow devices
 * or too long for fast ones. docs/protocol.md and every job show the values. */
#include "coordinator/core/state/deadlines.h"

#include <math.h>

#include "coordinator/core/state/state.h"
#include "schema/job_check.h"

#define STEP_MS_MIN 2000 /* at least MOVED_MS of agent/runtime/task_clock.c */
#define PEER_MS_MIN 500
#define LINK_MS_MIN 2000
#define CHALLENGE_MS_MIN 250
#define PREPARE_MS 60000
#define STOP_MS 30000
#define STOP_STEPS 20     /* or so many steps, if that is longer: a device may have become slow */
#define MEASURED_FACTOR 2 /* limit of a prediction, as a multiple of this plan's measurement */
#define KNOWN_FACTOR 10   /* the same, of the measurements of earlier plans */
#define EVALUATION_FACTOR                                                                          \
    5 /* timeout of an evaluation, as a multiple of its time; plus STOP_MS                         \
       */
#define FETCH_BYTES_PER_MS 10000 /* 10 MB/s: the slowest that a phase waits for */
#define ROUND_BYTES_PER_MS 1000  /* 1 MB/s: replication yields to training */

static int64_t as_ms(double ms)
{
    return (int64_t)fmin(ms, 1e12);
}

/* Two heartbeats are missed, and half of the interval to the third has passed: a single late
 * heartbeat does not make a device suspect. */
int64_t deadlines_suspect_ms(const struct core *core)
{
    int64_t ms = 2 * core->config.heartbeat_ms + core->config.heartbeat_ms / 2;
    return ms < core->config.lease_ms ? ms : core->config.lease_ms;
}

int64_t deadlines_first_lease_ms(const struct core *core)
{
    int64_t ms = CALL_RETRY_MS_MAX + core->config.heartbeat_ms;
    return ms > core->config.lease_ms ? ms : core->config.lease_ms;
}

/* A device with regularly late heartbeats gets more time to answer. */
int64_t deadlines_challenge_ms(const struct core *core, const struct device_slot *device)
{
    int64_t ms = as_ms(4 * device->challenge.jitter_ms);
    ms = ms > CHALLENGE_MS_MIN ? ms : CHALLENGE_MS_MIN;
    return ms < core->config.lease_ms ? ms : core->config.lease_ms;
}

int64_t deadlines_transfer_ms(int64_t bytes)
{
    return PREPARE_MS + bytes / FETCH_BYTES_PER_MS;
}

int64_t deadlines_prepare_ms(const struct core *core, const struct job_slot *job)
{
    const char *const names[] = {job->job.spec.dataset_train, job->job.spec.dataset_test};
    int64_t bytes = job->sources.moving_bytes;
    for (size_t i = 0; i < 2; i++) {
        const struct dataset *dataset = core_dataset(core, names[i]);
        bytes += dataset ? dataset->bytes : 0;
    }
    return deadlines_transfer_ms(bytes) << job->stall.late_shift;
}

/* Measurements bound predictions: one transfer to a frozen device must not make every device wait
 * for hours. Another plan of the job may be slower, but only by a limited factor. */
static double measured_or_predicted(const struct job_slot *job)
{
    double predicted = job->has_plan ? job->plan.predicted_step_seconds : 0;
    double measured = job->has_plan ? job->plan.measured_step_seconds : 0;
    if (measured > 0) {
        measured = fmax(measured, job->progress.recent_step_seconds); /* slow is not stalled */
        return fmax(measured, fmin(predicted, MEASURED_FACTOR * measured));
    }
    return job->progress.known_step_seconds > 0
               ? fmin(predicted, KNOWN_FACTOR * job->progress.known_step_seconds)
               : predicted;
}

int64_t deadlines_redo_ms(const struct job_slot *job, int64_t steps)
{
    return as_ms(1000 * (double)steps * measured_or_predicted(job));
}

static bool evaluates(const struct job_slot *job)
{
    const struct job_data *data = &job->job.data;
    return job->job.spec.evaluate_every_epochs > 0 &&
           data->test_samples + data->holdout_samples > 0;
}

static int64_t batches_of(const struct job_slot *job, int64_t samples)
{
    return samples > 0 ? samples / job->job.spec.batch + 1 : 0;
}

/* A batch of the test set or the hold-out takes at most as long as a step; a longer measured time
 * counts instead. */
static double evaluation_seconds(const struct job_slot *job)
{
    int64_t batches = batches_of(job, job->job.data.test_samples) +
                      batches_of(job, job->job.data.holdout_samples);
    double predicted = measured_or_predicted(job) * (double)batches;
    return evaluates(job) ? fmax(predicted, job->progress.evaluation_seconds) : 0;
}

static int64_t evaluation_timeout_ms(const struct job_slot *job)
{
    return evaluates(job) ? as_ms(1000 * EVALUATION_FACTOR * evaluation_seconds(job) + STOP_MS) : 0;
}

/* As the agents, evaluate at multiples of every_epochs and after the last step. */
static bool evaluates_now(const struct job_slot *job)
{
    int64_t steps_per_epoch = job_epoch_samples(&job->job.data) / job->job.spec.batch;
    int64_t every = job->job.spec.evaluate_every_epochs * steps_per_epoch,
            step = job->progress.reached_step;
    return evaluates(job) && step > 0 && (step % every == 0 || step == job->total_steps);
}

int64_t deadlines_step_ms(const struct job_slot *job)
{
    int64_t ms = job->job.deadlines.step_ms + (evaluates_now(job) ? evaluation_timeout_ms(job) : 0);
    return as_ms((double)ms * (double)(1 << job->stall.shift));
}

int64_t deadlines_step_end_ms(double step_seconds)
{
    return as_ms(fmax(STOP_MS, 1000 * STOP_STEPS * step_seconds));
}

/* A stop skips evaluations, except the one after the last step. */
int64_t deadlines_stop_ms(const struct job_slot *job)
{
    int64_t ms = deadlines_step_end_ms(measured_or_predicted(job));
    return ms + (job->progress.reached_step == job->total_steps ? evaluation_timeout_ms(job) : 0);
}

/* If steps overlap, a batch takes as many steps as there are batches in flight. */
static double steps_in_flight(const struct job_slot *job)
{
    bool overlap = job->has_plan && job->job.spec.pipeline == JOB_ASYNC;
    return overlap ? (double)job->plan.stage[0].in_flight : 1;
}

void deadlines_fill(const struct core *core, struct job_slot *job)
{
    double expected = job->job.spec.expected_step_seconds;
    expected = (expected > 0 ? expected : measured_or_predicted(job)) * steps_in_flight(job);
    struct job_deadlines *deadlines = &job->job.deadlines;
    deadlines->heartbeat_ms = core->config.heartbeat_ms;
    deadlines->suspect_ms = deadlines_suspect_ms(core);
    deadlines->lease_ms = core->config.lease_ms;
    deadlines->challenge_ms = CHALLENGE_MS_MIN;
    deadlines->step_ms = as_ms(fmax(5000 * expected, STEP_MS_MIN));
    double peer_ms = fmax((double)deadlines->step_ms / 4, PEER_MS_MIN);
    deadlines->peer_ms =
        as_ms(fmin(peer_ms, (double)core->config.lease_ms)); /* after a lease, the lease decides */
    deadlines->link_ms = as_ms(fmax(2 * (double)deadlines->peer_ms, LINK_MS_MIN));
    deadlines->evaluation_ms = evaluation_timeout_ms(job);
    deadlines->prepare_ms = deadlines_prepare_ms(core, job);
    deadlines->stop_ms = deadlines_stop_ms(job);
    /* A round opens when its step begins, and its snapshots are taken when the step has ended. */
    deadlines->round_ms = deadlines->step_ms + job->generation.state_bytes / ROUND_BYTES_PER_MS +
                          2 * core->config.lease_ms;
}
