/* world.h: the coordinator's core in virtual time, with a store that keeps its rows as the real one
 * would, and simple agents that do what their assignments say. Every event is followed by checks of
 * what must always hold. One thread. */
#ifndef TESTS_UNIT_COORDINATOR_CORE_WORLD_H
#define TESTS_UNIT_COORDINATOR_CORE_WORLD_H

#include "base/buf.h"
#include "coordinator/core/core.h"
#include "tests/support/test.h"

#define WORLD_MODEL "lenet5"

#define WORLD_AGENTS 6
#define WORLD_ROWS 4096
#define AGENT_HELD 256
#define WORLD_EXPORTS 64

/* A snapshot in an agent's memory. */
struct held {
    struct job_id job;
    int64_t generation, version, unit;
};

/* A round of replication as an agent sees it: stage 0 opens and closes it, every stage sends its
 * units. */
struct agent_round {
    int64_t open;    /* stage 0: version, 0: none */
    int64_t marked;  /* stage 0: version of the last mark */
    int64_t version; /* of the snapshot that is sent, 0: none */
    bool sent[UNITS_MAX];
    bool paused; /* stage 0: the coordinator said so */
};
enum { AGENT_NEIGHBOR, AGENT_CENTER, AGENT_ROUNDS };

struct agent {
    char name[NAME_SIZE];
    char key[SHA256_SIZE];
    char boot[ID_SIZE];
    int boots;
    bool up; /* its process runs */
    double gflops;
    int64_t memory_bytes;
    const char *numeric_class;
    struct device_id id; /* "" before the first enrolment */
    struct assignment assignment;
    bool assigned;
    struct job_id job; /* of its run, or "" */
    struct plan_id plan;
    int64_t generation, highest;
    int phase; /* enum phase: where it is */
    int64_t step, stopped_version;
    bool has[UNITS_MAX]; /* units of its stage that it has got */
    struct held held[AGENT_HELD];
    size_t held_count;
    bool tell_holdings;
    uint64_t reported_life; /* of the coordinator: in which it last reported them */
    struct agent_round round[AGENT_ROUNDS];
    bool disk;                 /* snapshots outlive its process */
    bool stopped_cpu;          /* its process is stopped (SIGSTOP) */
    bool spoilt;               /* what it holds for others has another hash */
    bool cut;                  /* no other agent reaches it, nor it them */
    const struct agent *apart; /* NULL or the one agent that it does not reach, nor that one it */
    int64_t busy_ms, trouble_since_ms;
    double fetch_seconds;
    char challenge[ID_SIZE]; /* seen, to be repeated */
    bool stuck;              /* does not get ready */
    char error[REASON_SIZE];
    struct heartbeat heartbeat; /* the last one sent */
};

#define WORLD_CHECKPOINTS 1100 /* more than the core keeps of uploaded ones */

/* Rows as the store keeps them. */
struct rows {
    struct device device[64];
    size_t device_count;
    struct job job[256];
    size_t job_count;
    struct plan plan[WORLD_ROWS];
    size_t plan_count;
    struct dataset dataset[8];
    size_t dataset_count;
    struct model_row model[8];
    size_t model_count;
    struct checkpoint checkpoint[WORLD_CHECKPOINTS];
    size_t checkpoint_count;
    struct incident incident[WORLD_ROWS];
    size_t incident_count;
    struct center_unit unit[WORLD_ROWS];
    size_t unit_count;
};

/* A version that was committed to neighbors, and which lives the devices had then. */
struct commit {
    struct job_id job;
    int64_t version;
    int boots[WORLD_AGENTS];
    int failures; /* of generations since */
};

struct world {
    struct core *core;
    struct core_config config;
    struct actions actions;
    struct model *model, *tuned; /* as jobs give it, and with the kernels that all agents measure */
    int64_t now_ms, wall_ms;
    uint64_t lives;
    struct rows rows;
    struct agent agent[WORLD_AGENTS];
    size_t agent_count;
    bool traced;
    struct buf trace; /* a line for each action, with names for ids */
    /* The answer to the last event. */
    int status; /* 0: none; of a problem its HTTP status */
    enum problem_code problem;
    char text[MESSAGE_SIZE];
    struct job job;
    struct heartbeat_reply heartbeat_reply;
    struct enroll_reply enroll_reply;
    const struct job_preview *preview;
    const struct plan_answer *answer;
    struct replicas *replicas; /* scratch of the invariants */
    bool reports;              /* agents tell of peers that they do not reach */
    struct commit commit[256];
    size_t commit_count;
    /* What was asked for. */
    char export_job[ID_SIZE]; /* the last one */
    int64_t export_version;
    char pending[WORLD_EXPORTS][ID_SIZE]; /* not yet answered by anybody: for the walk */
    int64_t pending_version[WORLD_EXPORTS];
    size_t pending_count;
    size_t exports, metrics, deleted;
    char tune_job[ID_SIZE]; /* the last one whose model waits for tuned kernels; "": none */
};

struct world *world_new(void);
/* The model that all jobs train, with 5 units. For model_free. */
struct model *world_model(void);
void world_free(struct world *world);
/* Feed an event: times are filled in, answers taken, rows kept, invariants checked. */
void world_send(struct world *world, struct event *event);
/* What must hold of an action before it is carried out, and of rows and state after every event
 * (world_send asks). */
void world_check_action(struct world *world, const struct action *action);
void world_check(const struct world *world);
/* Virtual time passes; ticks come when the core wants them. */
void world_pass(struct world *world, int64_t ms);
/* The same, while all agents that run beat. */
void world_live(struct world *world, int64_t ms);
/* The coordinator dies and comes back with its rows. */
void world_restart(struct world *world);
/* Forget the trace so far. */
void world_clear(struct world *world);

/* ---- users ---- */
/* A job of `steps` steps. */
struct job_spec world_spec(const char *name, int64_t steps);
/* The answer is in world->job. */
void world_submit(struct world *world, const struct job_spec *spec);
void world_dry_run(struct world *world, const struct job_spec *spec);
/* JOB_REPLAN without a wish. */
void world_verb(struct world *world, const char *job, enum job_verb verb);
void world_replan(struct world *world, const char *job, const struct replan_request *request);
void world_device_verb(struct world *world, const struct agent *agent, enum device_verb verb);
/* The newest row of a job, ended or not. */
const struct job *world_job(const struct world *world, const char *id);
const struct plan *world_plan(const struct world *world, const char *job, int64_t generation);
size_t world_units(const struct world *world, const char *job);
void world_exported(struct world *world, bool failed);
/* Answer ACTION_TUNE. */
void world_tuned(struct world *world, bool failed);

/* ---- agents ---- */
/* An agent that runs and is enrolled. */
struct agent *world_agent(struct world *world, const char *name, double gflops);
/* NULL: no agent has this id. */
const struct agent *world_agent_of(const struct world *world, const char *device_id);
void agent_enroll(struct world *world, struct agent *agent);
/* A new boot: everything in memory is gone. */
void agent_restart(struct world *world, struct agent *agent);
void agent_beat(struct world *world, struct agent *agent);
/* It reports an error of this code from now on. */
void agent_fail(struct agent *agent, const char *code);
/* It dies; what it has on disk stays. */
void agent_kill(struct agent *agent);
/* Whether nothing passes between the two. */
bool agents_apart(const struct agent *a, const struct agent *b);
bool agent_holds(const struct agent *agent, const char *job, int64_t version, int64_t unit);
/* Send the last heartbeat once more. */
void agent_beat_again(struct world *world, struct agent *agent);
/* Fetch the assignment and move towards it as far as possible: take units, be ready, begin to run,
 * stop. */
void agent_follow(struct world *world, struct agent *agent);
/* Train: one step of the pipeline. false: nothing to do. */
bool agent_step(struct world *world, struct agent *agent);
/* Send one more unit of an open round. false: nothing to do. */
bool agent_replicate(struct world *world, struct agent *agent);
/* Store one more unit in the center. false: nothing to do. */
bool agent_upload(struct world *world, struct agent *agent);
/* All agents follow and beat until nothing changes any more. */
void world_settle(struct world *world);
/* All agents do everything there is to do, `steps` steps of training at most. */
void world_train(struct world *world, int64_t steps);
void unit_sha256(char out[SHA256_SIZE], int64_t version, int64_t unit);

#endif
