/* agent.h: agents for the stories of the core. Each one is the real core of an agent: its session,
 * the pipeline of its stage and the queue of its outgoing snapshots. This file and its sources are
 * the edge: calls that arrive when the story lets them, tensors and snapshots without bytes. A
 * story chooses the order of events; the agent decides what happens. One thread. */
#ifndef TESTS_UNIT_COORDINATOR_CORE_AGENT_H
#define TESTS_UNIT_COORDINATOR_CORE_AGENT_H

#include "agent/copies/outbox_queue.h"
#include "agent/core/exchange.h"
#include "agent/core/orders.h"
#include "agent/core/pipeline.h"
#include "agent/core/session.h"
#include "agent/core/trouble_list.h"

#define AGENT_HELD 256

struct world;

/* A tensor on its way to a neighbouring stage. */
struct outgoing {
    bool waits;
    bool last; /* the stop mark */
    struct transfer transfer;
    size_t output;
    struct round_mark mark;
};
enum direction { TO_NEXT, TO_PREVIOUS, DIRECTIONS };

/* A message to another stage of servers and workers. */
struct outgoing_message {
    bool waits;
    bool parked; /* the receiver answers later */
    struct exchange_message message;
};
#define AGENT_MESSAGES 64

struct agent {
    char name[NAME_SIZE];
    char key[SHA256_SIZE];
    double gflops;
    int64_t versions_behind; /* of its protocol to the newest */
    int64_t memory_bytes;
    const char *numeric_class;
    bool disk; /* snapshots outlive its process */

    /* Of its process. */
    bool up;
    int boots;
    char boot[ID_SIZE];
    struct device_id id; /* "" before the first enrolment */
    struct session *session;
    bool beat_sent, poll_sent;  /* under way */
    struct heartbeat heartbeat; /* the last one sent */
    int64_t after;              /* of the poll */
    struct assignment assignment;
    const struct assignment *desired; /* while it is handled */
    uint64_t reported_life; /* of the coordinator: in which it last reported its holdings */
    struct holding held[AGENT_HELD];
    size_t held_count;
    bool held_changed;

    /* Of its run; its generation is 0 if it has none. */
    struct job_id job;
    int64_t generation, serial, step;
    bool ready;
    struct orders orders;
    bool has[UNITS_MAX];       /* units that it has fetched */
    struct pipeline *pipeline; /* of a pipeline, else NULL */
    struct exchange *exchange; /* of servers and workers, else NULL */
    int64_t goal;              /* its lead: the version that the story wants; 0: none */
    struct outbox_queue *outbox;
    int64_t taken;      /* the version of the last snapshot */
    int64_t collecting; /* the version that the center collects; 0: none */
    struct outgoing outgoing[DIRECTIONS];
    struct outgoing_message message[AGENT_MESSAGES];
    int64_t try_ms; /* the clock of the outbox */
    struct trouble_list troubles;

    /* Faults. */
    bool stopped_cpu;          /* its process is stopped (SIGSTOP) */
    bool spoilt;               /* what it holds for others has another hash */
    bool cut;                  /* no other agent reaches it, nor it them */
    const struct agent *apart; /* NULL or the one agent that it does not reach, nor that one it */
    int64_t busy_ms;           /* at one task; 0: at none */
    bool stuck;                /* does not get ready */
    bool leaving;              /* announces that it goes away */
    int64_t free_bytes;        /* as it reports beside its stage; 0: it does not */
    unsigned slow;             /* REPLICA_MARK of each target to which copies never arrive */
    double fetch_seconds;
};

/* As real agents check an assignment, which know no stage without units yet (test_keepers.c). */
static inline int agent_check(const struct assignment *assignment, struct err *err)
{
    const struct assignment_run *run = &assignment->run;
    const bool pipeline = assignment->has_run && run->stages_listed == 0;
    return pipeline && run->first == run->end ? 0 : assignment_check(assignment, err);
}

/* An agent that runs and is enrolled. */
struct agent *world_agent(struct world *world, const char *name, double gflops);
/* NULL: no agent has this id. */
struct agent *world_agent_of(struct world *world, const char *device_id);
void agent_enroll(struct world *world, struct agent *agent);
/* Another process with its identity enrols. */
void agent_enroll_as(struct world *world, struct agent *agent, const char *boot);
/* A new boot: everything in memory is gone. */
void agent_restart(struct world *world, struct agent *agent);
/* Its heartbeats arrive: the one under way and one with its present state. */
void agent_beat(struct world *world, struct agent *agent);
/* Send the last heartbeat once more. */
void agent_beat_again(struct world *world, struct agent *agent);
/* The next heartbeat lists its holdings. */
void agent_tell_holdings(struct agent *agent);
/* Its run fails with this code. */
void agent_fail(struct world *world, struct agent *agent, const char *code);
/* It dies; what it has on disk stays. */
void agent_kill(struct agent *agent);
/* Whether nothing passes between the two. */
bool agents_apart(const struct agent *a, const struct agent *b);
/* enum phase: where it is. */
int agent_phase(const struct agent *agent);
/* Its poll is answered, and it moves towards its assignment as far as possible: take units, be
 * ready, begin to run, stop. */
void agent_follow(struct world *world, struct agent *agent);
/* All agents follow and beat until nothing changes any more. */
void world_settle(struct world *world);
/* All agents do everything there is to do, `steps` steps of training at most. */
void world_train(struct world *world, int64_t steps);

/* ---- agent_work.c: its stage ---- */

/* Build the stage of the run in agent->assignment. */
void agent_build(struct agent *agent);
void agent_discard(struct agent *agent);
/* RUN, STOP, HOLD, RELEASE, AWAY, BACK, ROUNDS, UPLOAD. */
void agent_tell(struct world *world, struct agent *agent, const struct session_action *action);
/* Train: stage 0 begins a step, the others do what there is to do. All stages then go on as far as
 * they reach each other. false: nothing to do. */
bool agent_step(struct world *world, struct agent *agent);
/* The same, but no stage begins a step. */
bool agent_work(struct world *world);
/* Send one more unit of an open round. false: nothing was sent. */
bool agent_replicate(struct world *world, struct agent *agent);
/* Store one more unit of the collected version in the center. false: nothing to do. */
bool agent_upload(struct world *world, struct agent *agent);
/* Stage 0: the version of its open round, 0: none. */
int64_t agent_round(const struct agent *agent, enum replica_kind kind);
/* The rounds and judgements of its stage. */
void agent_report(const struct agent *agent, struct heartbeat *out);
/* A snapshot of its units. */
void agent_snapshot(struct agent *agent, int64_t version, const struct round_mark *mark);

/* ---- agent_exchange.c: a stage of servers and workers ---- */

void agent_exchange_build(struct agent *agent);
void agent_exchange_discard(struct agent *agent);
void agent_exchange_follow(struct agent *agent, bool begins);
/* One task, and what it sends. false: nothing to do. */
bool agent_exchange_work(struct world *world, struct agent *agent);

/* ---- agent_prepare.c ---- */

/* Take units, and be ready when all are here. */
void agent_get_ready(struct world *world, struct agent *agent);

/* ---- agent_copies.c: the snapshots it holds ---- */

#define SNAPSHOT_BYTES 1000
void unit_sha256(char out[SHA256_SIZE], int64_t version, int64_t unit);
bool agent_holds(const struct agent *agent, const char *job, int64_t version, int64_t unit);
/* A snapshot of its run; replaced unless its generation is older. */
void agent_hold(struct agent *agent, const struct agent *sender, int64_t version, int64_t unit);
void agent_drop(struct agent *agent, const struct drop *drop);
/* A new generation starts from the version: newer versions are discarded. */
void agent_cut_off(struct agent *agent, const char *job, int64_t version);

/* ---- agent.c, for the others ---- */

/* An event of its run. */
void agent_event(struct world *world, struct agent *agent, struct session_event *event);
static inline bool agent_works(const struct agent *agent)
{
    return agent->pipeline || agent->exchange;
}
/* Whether the other agent answers calls of this one. */
bool agent_answers(const struct agent *agent, const struct agent *other);
/* Whether a request of one reaches the other and is let in. */
bool agent_reaches(const struct agent *agent, const struct agent *other);

#endif
