/* job.h: a job: its request (spec) and its state. Defaults and meaning: docs/jobs.md. Plain
 * structs; wire form by the records below. */
#ifndef SCHEMA_JOB_H
#define SCHEMA_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "libtrain/model/recipe.h"
#include "libtrain/model/view.h"
#include "libtrain/quant/codec.h"
#include "schema/device.h"
#include "schema/early_stop.h"
#include "schema/gossip.h"
#include "schema/id.h"
#include "schema/job_change.h"
#include "schema/job_dataset.h"
#include "schema/job_progress.h"
#include "schema/limits.h"
#include "schema/parameter_server.h"
#include "schema/plan.h"
#include "schema/strategy.h"
#include "schema/submodel.h"

enum job_state {
    JOB_QUEUED,
    JOB_PLANNING,
    JOB_PREPARING,
    JOB_RUNNING,
    JOB_REPLANNING,
    JOB_RECOVERING,
    JOB_PAUSING,
    JOB_PAUSED,
    JOB_WAITING_FOR_DEVICES,
    JOB_CANCELLING, /* its newest version becomes a checkpoint, then it is cancelled */
    JOB_SUCCEEDED,
    JOB_FAILED,
    JOB_CANCELLED,
};
extern const char *const job_state_names[];
/* succeeded, failed, cancelled */
bool job_state_ended(int state);

/* The order of updates among the batches of a job. */
enum job_pipeline { JOB_SYNC, JOB_ASYNC };
extern const char *const job_pipeline_names[];

struct job_model {
    char name[NAME_SIZE];     /* in the zoo or in /v1/models; with a description, that one's */
    char sha256[SHA256_SIZE]; /* output: hash of the resolved description's text */
    json_t *description;      /* input; owned; resolved in assignments. NULL inside cores */
};

/* The codecs of libtrain/quant by their numbers, and the planner's choice. */
enum { COMPRESSION_AUTO = CODECS };
extern const char *const compression_names[];

struct job_spec {
    char name[NAME_SIZE];
    struct job_model model;
    char dataset_train[NAME_SIZE]; /* uploaded; "": train_local */
    struct local_train train_local;
    char dataset_test[NAME_SIZE]; /* uploaded; "": none */
    struct local_test test_local; /* instead of dataset_test */
    struct view view;             /* of the training data; has_view */
    bool has_view;
    int64_t seed;
    struct checkpoint_id init_checkpoint;    /* source of version 0; "": the seed */
    struct unit_name init_except[UNITS_MAX]; /* units that start from the seed nevertheless */
    size_t init_except_count;
    json_t *kernels; /* input; owned. NULL inside cores and assignments, where the resolved
                        description has the kernels */
    int64_t batch;
    int64_t micro_batches; /* 0: not given, see job_spec_complete */
    int64_t epochs;
    int64_t steps; /* 0: epochs decide */
    struct optimizer optimizer;
    int recompute;   /* enum recompute */
    int compression; /* enum codec, or COMPRESSION_AUTO */
    struct learning_rate learning_rate;
    struct augment augment[AUGMENT_TYPES]; /* at most one of each type, in the order of the types */
    size_t augment_count;
    int strategy;                     /* enum job_strategy */
    struct submodel_options submodel; /* of a job of sub-models; has_submodel: given */
    bool has_submodel;
    struct server_options parameter_server; /* of that strategy; has_parameter_server: given */
    bool has_parameter_server;
    struct gossip_options gossip; /* of that strategy; has_gossip: given */
    bool has_gossip;
    int pipeline;            /* enum job_pipeline */
    int64_t aggregate_every; /* async: updates between two aggregations; 0: never */
    bool vertical_sync;      /* async: all stages use the same version of a batch */
    struct unit_name
        freeze[UNITS_MAX]; /* units that are not trained: "frozen" in the resolved description */
    size_t freeze_count;
    struct label device_label[LABELS_MAX];
    size_t device_label_count;
    int64_t devices_min, devices_max;
    char numeric_class[128]; /* "": any */
    int64_t neighbor_every, center_every;
    int64_t replan_first, replan_every;
    double expected_step_seconds; /* 0: from the plan's prediction */
    int64_t autonomy_seconds;
    int64_t evaluate_every_epochs; /* 0: never */
    struct stop_rule stop;         /* has_stop */
    bool has_stop;
    struct checkpoint_policy checkpoint; /* has_checkpoint */
    bool has_checkpoint;
    int64_t priority;
    int64_t cut[STAGES_MAX - 1]; /* wanted stage boundaries of the first plan; cut_count 0: none */
    size_t cut_count;
};
extern const struct job_spec job_spec_default;
/* Set defaults that depend on other fields: the learning rate by optimizer and model, the
 * micro-batches by the pipeline. Call it once, when the job is submitted, before job_spec_check: a
 * stored job keeps these values. */
void job_spec_complete(struct job_spec *spec);
/* Return how many versions of its parameters a stage keeps (train_stage_config). */
size_t job_versions(const struct job_spec *spec, size_t stage_count, size_t in_flight);

/* A start of the job: versions above `first` from earlier generations are off the lineage. */
struct line_start {
    int64_t generation;
    int64_t first;
};

struct job {
    struct job_id id;
    int64_t revision;
    int state;                      /* enum job_state */
    char state_reason[REASON_SIZE]; /* a code: "waiting_for_devices", "diverged", ... */
    char message[MESSAGE_SIZE];     /* one sentence for people */
    struct job_spec spec;
    struct job_data data;
    struct job_id parent;         /* of a part: its parent; "": none */
    int part;                     /* enum job_part */
    int64_t group;                /* index in the parent's groups */
    struct job_progress progress; /* volatile except step */
    int64_t generation;           /* of the newest plan, 0 before the first */
    int64_t version; /* newest whole version in the center (pause, end), 0: computed from seed and
                        checkpoint */
    int64_t neighbor_version; /* newest version of which two devices hold every unit, 0: none */
    bool stalled;             /* no step for longer than step_ms */
    struct job_deadlines deadlines;
    struct line_start line[LINE_STARTS_MAX]; /* rising in both */
    size_t line_count;
    struct replan_request wish; /* the replan request in progress; has_wish */
    bool has_wish;
    struct replication_periods next_replication; /* for the next plan; has_next_replication */
    bool has_next_replication;
    struct job_check last_check; /* has_last_check */
    bool has_last_check;
    int64_t cooldown_ms, cooldown_until_ms; /* length and end (wall time) of the last cool-down */
    int64_t setbacks;                       /* consecutive plan changes that were undone */
    double doubt; /* least predicted gain of a change, after wrong predictions: share of the step */
    bool corrected;         /* the last change was made within a cool-down */
    struct job_trial trial; /* has_trial */
    bool has_trial;
    struct job_rejected rejected; /* has_rejected */
    bool has_rejected;
    struct early_stop early_stop; /* has_early_stop: its stop rule has judged an evaluation */
    bool has_early_stop;
    struct kept_checkpoint kept[KEPT_LIST_MAX]; /* by version */
    size_t kept_count;
    bool exact;                      /* one numeric class so far */
    char numeric_class[128];         /* of its devices */
    struct submodel_compute compute; /* of a job of sub-models; has_compute */
    bool has_compute;
    struct checkpoint_id
        checkpoint; /* of the end: the trained model, or the version kept by a cancel; "": none */
    int64_t export_version;   /* the version that becomes a checkpoint on request; 0: none */
    int64_t exported_version; /* the last version that did; 0: none */
    int64_t created_ms, started_ms, ended_ms;
};

/* Return whether every evaluation before the version is judged, if evaluations may end the job. A
 * job that resumed from a version with a missing evaluation could train past its end. Therefore no
 * job resumes from such a version, and no round commits it. */
bool job_has_judged(const struct job *job, int64_t version);
/* Return the place of the job in its parent. */
struct part_of job_part_of(const struct job *job);

extern const struct record job_spec_record;
/* Groups of fields of a job_spec. */
extern const struct record job_replication_group, job_replan_group;
extern const struct record job_record;

#endif
