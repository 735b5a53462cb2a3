/* world.h: the coordinator's core in virtual time, with a store that keeps its rows as the real one
 * would, and simple agents that do what their assignments say. Every event is followed by checks of
 * what must always hold. One thread. */
#ifndef TESTS_UNIT_COORDINATOR_CORE_WORLD_H
#define TESTS_UNIT_COORDINATOR_CORE_WORLD_H

#include "base/buf.h"
#include "coordinator/core/core.h"
#include "coordinator/core/placement/question.h"
#include "coordinator/core/state/planning.h"
#include "libtrain/description/description.h"
#include "tests/support/test.h"
#include "tests/unit/coordinator_core/agent.h"

#define WORLD_MODEL "lenet5"

#define WORLD_AGENTS 6
#define WORLD_ROWS 4096
#define WORLD_EXPORTS 64

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
    struct join_reply join_reply;
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
    uint64_t question;         /* the open one, of ACTION_PLAN; 0: none */
    struct planning *planning; /* its value; shared by all worlds */
    struct planned planned;    /* its answer */
    bool plans_wait;           /* questions are answered by world_planned only */
    char tune_job[ID_SIZE];    /* the last one whose model waits for tuned kernels; "": none */
};

struct world *world_new(void);
/* A model of the zoo. For model_free. */
struct model *world_zoo_model(const char *name, const struct model_fit *fit);
/* The model that all jobs train, with 5 units. For model_free. */
struct model *world_model(void);
/* The same with the kernels that all agents measure. */
struct model *world_tuned_model(void);
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
/* POST /v1/plans: the answer is in world->answer. */
void world_ask(struct world *world, const struct plan_question *question);
/* JOB_REPLAN without a wish. */
void world_verb(struct world *world, const char *job, enum job_verb verb);
void world_replan(struct world *world, const char *job, const struct replan_request *request);
void world_device_verb(struct world *world, const struct agent *agent, enum device_verb verb);
/* The newest row of a job, ended or not. */
const struct job *world_job(const struct world *world, const char *id);
const struct plan *world_plan(const struct world *world, const char *job, int64_t generation);
size_t world_units(const struct world *world, const char *job);
void world_exported(struct world *world, bool failed);
/* Answer ACTION_PLAN, as world_send does at once unless plans wait. */
void world_planned(struct world *world);
/* Answer ACTION_TUNE. */
void world_tuned(struct world *world, bool failed);

#endif
