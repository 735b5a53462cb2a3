/* agent.h: an agent: its real session core, and an edge that does what agent/control, generation,
 * build, runtime and peer do: calls to the coordinator, snapshots, one run with its stage, tensors
 * in and out. One thread. */
#ifndef TESTS_SIM_AGENT_H
#define TESTS_SIM_AGENT_H

#include "agent/copies/snapshot_list.h"
#include "agent/core/admission.h"
#include "agent/core/probe_timer.h"
#include "agent/core/session.h"
#include "agent/core/timing.h"
#include "tests/sim/net.h"

#define RECEIVES_MAX 64
#define EVENTS_MAX 32
#define METRICS_KEPT 256
#define DATA_SETS_MAX 4

struct run;

/* A tensor whose body is on its way in, or waits for its slot. */
struct receive {
    struct call *call; /* held; NULL: unused */
    struct slot_claim claim;
    int64_t serial; /* of the run it is for */
    int64_t deadline_us;
    bool parked, marks, duplicate;
};

/* A fault of this device alone: it cannot prepare a generation but still sends heartbeats. */
enum local_fault {
    LOCAL_NONE,
    LOCAL_DISK_FULL,
    LOCAL_DISK_HUNG, /* nothing comes of what it prepares, no error either */
    LOCAL_CACHE_WRONG,
    LOCAL_MEMORY,
    LOCAL_FAULTS,
};

struct agent {
    int actor;
    size_t index;
    char name[NAME_SIZE];
    char key[SHA256_SIZE];
    int64_t slowness, usual_slowness; /* per cent of the time that a task takes on a good device */
    double gflops;
    int64_t memory_bytes;
    bool zstd; /* it has the codecs with zstd */
    const char *numeric_class;
    int protocol; /* version that it speaks */
    enum local_fault local_fault;

    /* On disk. */
    bool keeps; /* its snapshots: --replica-dir */
    char data[DATA_SETS_MAX][SHA256_SIZE];
    size_t data_count;
    int64_t boots;
    uint64_t losses; /* how often its snapshots were lost */
    struct {
        int64_t count;   /* of appendings to its own data (offers.h) */
        int64_t changes; /* of these data before them */
        int64_t looks;
    } appended;

    /* In memory. */
    char boot[ID_SIZE];
    struct device_id id;
    struct session *session;
    struct session_actions actions;
    struct assignment *desired; /* while its event is handled */
    struct admission admission;
    struct snapshot_list held;
    uint64_t reported_revision;
    struct run *run; /* the current one, or an abandoned one that has not ended yet */
    bool discarded;
    struct run *stage; /* takes tensors */
    struct probe_timer probing;
    struct timing_transfers transfers;
    struct call *under_way[3];
    struct receive receive[RECEIVES_MAX];
    struct session_event event[EVENTS_MAX]; /* from the run, for the next turn */
    size_t event_count;
    struct {
        int64_t serial;
        struct metric metric;
    } metric[METRICS_KEPT];
    size_t metric_count;
    bool turn_asked, room;
    int64_t timer_us;
    bool exited;
    bool leaving; /* it has announced that it leaves */
};

int agent_new(struct world *world, size_t index, struct err *err);
void agent_free(struct world *world, size_t index);
struct agent *agent_of(const struct world *world, int actor);

void agent_start(struct world *world, struct agent *agent);
/* Its process dies: everything in memory is gone. */
void agent_crash(struct world *world, struct agent *agent);
/* It announces that it leaves, and goes once nothing needs it. */
void agent_leave(struct world *world, struct agent *agent);
/* A request of a peer has arrived. */
void agent_take(struct world *world, struct call *call);
/* The connection of a message that it has not answered broke. */
void agent_hang_up(struct world *world, struct call *call);
/* Think of a turn now: reports, snapshots that changed, an end of a run. */
void agent_poke(struct world *world, struct agent *agent);

/* The actor that listens at an address. */
int agent_at(const struct world *world, const char *url);

/* ---- for the run ---- */
/* An event without more to say. */
void agent_tell(struct world *world, struct agent *agent, enum session_event_type type);
void agent_report(struct world *world, struct agent *agent, const struct session_event *event);
void agent_metric(struct world *world, struct agent *agent, int64_t serial,
                  const struct metric *metric);

/* ---- snapshot.c ---- */
const struct snapshot *agent_snapshot(const struct agent *agent, const char *job, int64_t version,
                                      int64_t unit);
struct snapshot_bytes agent_count_bytes(const struct agent *agent, enum snapshot_origin origin,
                                        const struct job_id *job, int64_t generation);
/* As snapshot_list_insert; the hash represents its state. */
int agent_keep(struct world *world, struct agent *agent, const struct holding *holding,
               enum snapshot_origin origin);
void agent_drop(struct world *world, struct agent *agent, const struct drop *drop);
void agent_cut(struct world *world, struct agent *agent, const struct snapshot_start *start);
/* Memory is short: discard versions of this run's abandoned rounds. */
void agent_release(struct world *world, struct agent *agent, const struct run *run,
                   enum snapshot_origin origin);
/* The process ended. keeps: the snapshots are in files, which the next one finds. */
void agent_forget_snapshots(struct agent *agent, bool keeps);

/* ---- peer.c ---- */
void peer_take(struct world *world, struct agent *agent, struct call *call);
/* A slot may be free again. */
void peer_room(struct world *world, struct agent *agent);
void peer_drop(struct world *world, struct agent *agent);

#endif
