#include "schema/job_progress.h"

#include "schema/limits.h"

static const struct field progress_fields[] = {
    MEMBER_DOUBLE(struct job_progress, fraction, "fraction", 0, 0, 0,
                  .about = "`step` divided by `steps`."),
    MEMBER_INT(struct job_progress, step, "step", 0, 0, INTEGER_MAX,
               .about = "The furthest step that a device has reported. No version is newer."),
    MEMBER_INT(struct job_progress, steps, "steps", 0, 0, INTEGER_MAX,
               .about = "Steps of the whole job."),
    MEMBER_INT(struct job_progress, epoch, "epoch", 0, 0, INTEGER_MAX,
               .about = "The present epoch, from 1."),
    MEMBER_DOUBLE_OPTIONAL(struct job_progress, loss, has_loss, "loss", 0, 0, 0,
                           .about = "Training loss of the last step."),
    MEMBER_DOUBLE_OPTIONAL(struct job_progress, accuracy, has_accuracy, "accuracy", 0, 0, 0,
                           .about = "Test accuracy of the last evaluation; of a job of sub-models, "
                                    "of its joint phase."),
    MEMBER_DOUBLE_OPTIONAL(struct job_progress, recall, has_recall, "recall", FIELD_ADDED, 0, 0,
                           .about = "Mean recall of the own classes of the view on the hold-out, "
                                    "in the last evaluation. null: no hold-out."),
    MEMBER_DOUBLE_OPTIONAL(struct job_progress, least_recall, has_least_recall, "least_recall",
                           FIELD_ADDED, 0, 0,
                           .about = "The recall of the own class with the least recall. null: no "
                                    "class has 10 samples in the hold-out."),
    MEMBER_DOUBLE(
        struct job_progress, samples_per_second, "samples_per_second", FIELD_NULLABLE, 0, 0,
        .about = "Training samples per second. An ended job has the mean: the samples of all its "
                 "steps by the seconds from started_at to ended_at, pauses included. null: nothing "
                 "trains, or the first step of a generation is not complete."),
    MEMBER_DOUBLE(struct job_progress, eta_seconds, "eta_seconds", FIELD_NULLABLE, 0, 0,
                  .about =
                      "Expected seconds to the end of the job; null: unknown, or nothing trains."),
};
const struct record job_progress_record =
    RECORD_WITH(struct job_progress, "job_progress", progress_fields, .answer = true);

static const struct field deadlines_fields[] = {
    MEMBER_INT(struct job_deadlines, heartbeat_ms, "heartbeat_ms", 0, 0, INTEGER_MAX,
               .about = "Interval of heartbeats."),
    MEMBER_INT(struct job_deadlines, suspect_ms, "suspect_ms", 0, 0, INTEGER_MAX,
               .about = "Silence after which a device is suspect."),
    MEMBER_INT(struct job_deadlines, lease_ms, "lease_ms", 0, 0, INTEGER_MAX,
               .about = "Silence after which a device is lost."),
    MEMBER_INT(struct job_deadlines, challenge_ms, "challenge_ms", 0, 0, INTEGER_MAX,
               .about = "Timeout of the answer to a challenge."),
    MEMBER_INT(struct job_deadlines, peer_ms, "peer_ms", 0, 0, INTEGER_MAX,
               .about = "Timeout of one attempt to reach a peer."),
    MEMBER_INT(struct job_deadlines, link_ms, "link_ms", 0, 0, INTEGER_MAX,
               .about = "Timeout of a report about a device that answers."),
    MEMBER_INT(struct job_deadlines, step_ms, "step_ms", 0, 0, INTEGER_MAX,
               .about = "Timeout of one step."),
    MEMBER_INT(struct job_deadlines, evaluation_ms, "evaluation_ms", 0, 0, INTEGER_MAX,
               .about =
                   "Added to `step_ms` while an evaluation is due; 0: the job has no evaluations."),
    MEMBER_INT(struct job_deadlines, prepare_ms, "prepare_ms", 0, 0, INTEGER_MAX,
               .about = "Timeout of the phase `prepare`."),
    MEMBER_INT(struct job_deadlines, stop_ms, "stop_ms", 0, 0, INTEGER_MAX,
               .about = "Timeout of a stop, from the last completed step."),
    MEMBER_INT(struct job_deadlines, round_ms, "round_ms", 0, 0, INTEGER_MAX,
               .about = "Timeout of a round of replication."),
};
const struct record job_deadlines_record =
    RECORD_WITH(struct job_deadlines, "job_deadlines", deadlines_fields, .answer = true,
                .about = "Timeouts for the job's devices in milliseconds. Formulas: "
                         "[protocol.md](protocol.md#deadlines).");
