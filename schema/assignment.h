/* assignment.h: the desired state of a device in one document (GET /v1/agent/assignment), see
 * docs/protocol.md. */
#ifndef SCHEMA_ASSIGNMENT_H
#define SCHEMA_ASSIGNMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "schema/id.h"
#include "schema/job.h"
#include "schema/limits.h"
#include "schema/mix_duty.h"
#include "schema/peer.h"
#include "schema/stage_role.h"

/* Agents report every phase. An assignment names PREPARE, RUN, STOPPING or FINISHED; a `run` of
 * null stands for IDLE. */
enum phase {
    PHASE_IDLE,
    PHASE_PREPARE,
    PHASE_READY,
    PHASE_RUN,
    PHASE_STOPPING,
    PHASE_STOPPED,
    PHASE_FINISHED
};
extern const char *const phase_names[];

/* A relay, at which devices park if others cannot reach them (net/relay.h). */
struct relay_place {
    char url[URL_SIZE]; /* "http://HOST:PORT"; "": the coordinator's host */
    int64_t port;
};

/* The source of units [first, end) at resume_version. */
enum source_from {
    SOURCE_SEED,       /* version 0: computed from the seed */
    SOURCE_CHECKPOINT, /* version 0: the unit's tensors of the job's checkpoint: ranges of GET
                          /v1/agent/blobs/{sha256} */
    SOURCE_SELF,       /* this device's own snapshot */
    SOURCE_DEVICE,     /* another device's snapshot: GET
                          url/peer/v1/{job}/{generation}/snapshots/{version}/{unit} */
    SOURCE_CENTER,     /* GET /v1/agent/blobs/{sha256} */
};
extern const char *const source_from_names[];

struct source {
    int64_t unit;
    int from; /* enum source_from */
    struct device_id device;
    char url[URL_SIZE];
    char ticket[TICKET_SIZE];
    char public_key[SHA256_SIZE]; /* as a peer's */
    char relay_ticket[TICKET_SIZE];
    char sha256[SHA256_SIZE]; /* of the blob; CHECKPOINT: of the whole file; SEED: "" */
    int64_t bytes;            /* of the blob or file */
};

/* Drop every snapshot of the job that is older than `below_version` (INT64_MAX: all snapshots). */
struct drop {
    struct job_id job;
    int64_t below_version;
};

/* Allowed callers of this device's peer side for a generation: neighbours with tensors and pings,
 * and devices that fetch its snapshots. Idle devices that still hold needed snapshots get the list
 * too. */
struct caller {
    struct job_id job;
    int64_t generation;
    struct device_id device;
    char ticket[TICKET_SIZE];
    char public_key[SHA256_SIZE]; /* of the caller, which proves its identity if this device speaks
                                     TLS */
    struct plan_id plan;          /* plan of the generation; with relay_ticket */
    char relay_ticket[TICKET_SIZE]; /* to park at a relay, for all callers of the plan */
};

/* A stage of a plan of parameter_server. */
struct assigned_stage {
    struct peer peer;               /* url "": this device does not call it */
    int64_t first, end;             /* the units that it keeps; equal: none */
    int64_t share_first, share_end; /* the micro-batches of a step that it computes; equal: none */
};

struct assignment_run {
    struct job_id job;
    int64_t generation;
    struct plan_id plan; /* plan of the generation. After a restored backup two generations may have
                            the same number */
    int phase;           /* enum phase: prepare, run, stopping, finished */
    int64_t resume_version; /* prepare, run: the state to start from; finished: the version to put
                               into the center */
    int64_t stage_index, stage_count;
    int64_t first, end;
    int64_t in_flight;
    bool strict; /* the order of work (libtrain/schedule); asynchronous: always */
    bool tune; /* prepare: measure the kernels of the stage's convolutions and report them; no stage
                  is built */
    struct source source[UNITS_MAX]; /* one for each unit that the device loads, in order */
    size_t source_count;
    struct assigned_stage stage[STAGES_MAX]; /* parameter_server: all in order, this one included */
    size_t stages_listed;                    /* 0 or stage_count */
    bool has_previous, has_next;
    struct peer previous, next;
    bool has_neighbor; /* receives copies of this stage's snapshots: the device of the next stage;
                          for the last stage that of the first */
    struct peer neighbor;
    int64_t replica_bytes;      /* the most to hold for the stage whose neighbor is this device */
    int64_t previous_in_flight; /* activation slots needed (0 for stage 0) */
    int64_t step_ms, peer_ms, lease_ms; /* deadlines */
    int64_t total_steps;                /* by the job's own fields */
    struct early_stop early_stop;       /* at the beginning of the generation; has_early_stop */
    bool has_early_stop;
    struct mix_duty mix; /* of a group of a gossip job; has_mix */
    bool has_mix;
    struct job_spec job_spec; /* model.description: resolved */
    struct job_data data;
};

struct assignment {
    int64_t revision;
    int64_t interval_ms;
    struct drop drop[DROPS_MAX];
    size_t drop_count;
    struct caller caller[STAGES_MAX];
    size_t caller_count;
    struct relay_place relay[RELAYS_MAX];
    size_t relay_count;
    char challenge[ID_SIZE];
    bool has_run;
    struct assignment_run run;
};
extern const struct record assignment_record;

/* Fill in the defaults of the members that an assignment may leave out (its job's fields). All
 * other bytes must be zero. */
void assignment_start(struct assignment *assignment);

/* Set [*first, *end) to the units whose state the device loads: the units that it keeps or, if it
 * computes a share of the micro-batches, all units of the model. */
void assignment_loads(const struct assignment_run *run, size_t *first, size_t *end);

/* Return the role of a listed stage. */
struct stage_role assignment_role(const struct assignment_run *run, size_t stage);

/* Check the rules between fields. An assignment may name the phase. The stage has work. The
 * sources, if any, cover the loaded units in order, and each states its origin. The assignment
 * lists the other stages that this stage needs, with the means to call them. Batch and learning
 * rate are usable. ERR_INVALID names the place as a JSON pointer. */
NODISCARD int assignment_check(const struct assignment *assignment, struct err *err);
/* Check the rule of a pipeline (strategy_rules.h): a stage exchanges tensors with the preceding and
 * the following stage. */
NODISCARD int assignment_check_neighbours(const struct assignment_run *run, struct err *err);

#endif
