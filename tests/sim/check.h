/* check.h: what must hold at any moment, whatever fails. The first violation ends the run of a
 * seed. One thread. */
#ifndef TESTS_SIM_CHECK_H
#define TESTS_SIM_CHECK_H

#include "schema/heartbeat.h"
#include "tests/sim/rows.h"
#include "tests/sim/run.h"
#include "tests/sim/world.h"

struct core;
struct check_gossip;
struct check_held_out;
struct check_rounds;

#define CHECK_IDS_MAX 256
#define CHECK_STEPS_MAX 128
#define CHECK_DELETED_MAX 128

struct check {
    uint64_t
        heard[SIM_DEVICES_MAX]; /* losses of memory that each device had had at its last report */
    char failure[512];          /* "" while everything holds */
    /* Ids that jobs ever had, and the facts known of each. */
    struct {
        struct job_id id;
        size_t job;                  /* of the users' */
        struct job *part;            /* of a parent, as it was made; owned, as the next two */
        struct reference *reference; /* of the part */
        struct course *course;
        int64_t version, generation;
        int64_t
            neighbor_version; /* committed, and how often devices had lost their memory by then */
        uint64_t losses[SIM_DEVICES_MAX];
        char model[SHA256_SIZE]; /* of the newest plan that trained from 0 */
        char
            model_put_back[SHA256_SIZE]; /* of the versions in a restored backup; "": it has none */
        int64_t furthest;                /* step that any of its devices has applied */
        int64_t plan_generation;         /* the newest plan that was seen */
        struct {
            int64_t furthest; /* then */
            int count;
        } repeat[PLAN_REASONS]; /* plans in a row that were made for the same reason, by which it
                                   got no further */
        uint64_t faults[SIM_DEVICES_MAX]; /* of each device when the newest plan was made */
        int put_back;                     /* plans that the rows of an earlier time explain still */
        struct {
            int64_t generation, boots;
            size_t agent;
        } measured[CHECK_STEPS_MAX];       /* who measured the loss of a step last */
        bool stored[CHECK_STEPS_MAX];      /* its row is committed */
        int64_t taken_us[CHECK_STEPS_MAX]; /* when the loss was taken first since the last commit;
                                              0: not taken */
        int64_t evaluated;                 /* the newest version that its devices have evaluated */
        int state;                         /* enum job_state of its newest row */
        int64_t cool_until_ms; /* of that row, by a clock of the center that was so far off */
        int64_t clock_us;
        bool corrected;              /* of that row */
        struct plan_id stopped_plan; /* of servers: the newest whose devices stop, and where */
        int64_t stopped_version;
        struct plan_id applied_plan; /* of servers: the newest in which a step was applied, and
                                        the last of these */
        int64_t applied;
        int64_t failed; /* of servers: the newest generation that has failed */
        bool forgotten; /* earlier rows were restored since: the drops in between are unknown */
    } known[CHECK_IDS_MAX];
    size_t known_count;
    bool drained[SIM_DEVICES_MAX];                   /* as their rows said last */
    struct checkpoint_id deleted[CHECK_DELETED_MAX]; /* by users */
    size_t deleted_count;
    struct check_gossip *gossip;     /* of groups that mix */
    struct check_held_out *held_out; /* and evaluate on what their devices hold out */
    struct check_rounds *rounds;     /* and do so in rounds */
    struct replicas *replicas;       /* of the job that is compared with its rows */
    int repeats;                     /* the highest count of them all */
    int backups;                     /* how often rows of an earlier time were put back */
    uint64_t restored;               /* commits since rows were last compared with the core */
};

int check_new(struct world *world, struct err *err);
void check_free(struct world *world);
void check_fail(struct world *world, const char *format, ...) PRINTF_LIKE(2, 3);
/* The index of a job that was ever seen; known_count: it was not. */
size_t check_known(const struct check *check, const char *id);
/* What the job must come to; NULL: it is not known. */
const struct reference *check_reference(const struct world *world, const char *id);
/* That job's, if it is asynchronous; else NULL. */
struct course *check_course(const struct world *world, const char *id);

/* A number that the coordinator takes of a job is that of the undisturbed run. */
void check_metric(struct world *world, const struct action *action);
/* While only the coordinator fails, or only speeds change, no device is blamed. */
void check_event(struct world *world, const struct action *action);
/* A device's report is taken: what it says it holds, it held then. */
void check_heartbeat(struct world *world, const struct call *call);
/* Before the rows of a transaction are committed. */
void check_commit(struct world *world, const struct transaction *transaction);
/* After that: the rows say what the core does, and restoring them gives its durable part. */
void check_rows(struct world *world);
/* Rows and blobs of an earlier time were put back: what they do not know may be lost. */
void check_backup(struct world *world);
void check_delete_blob(struct world *world, const char *sha256);
/* State that a device keeps, or has just computed, is that of the undisturbed run. */
void check_snapshot(struct world *world, const struct agent *agent, const struct holding *holding,
                    uint64_t digest);
void check_step(struct world *world, const struct run *run);

/* Whether that is the state of a unit of the job at the version. */
bool check_is_right(const struct world *world, const char *job, int64_t version, size_t unit,
                    uint64_t digest);

/* Whether devices hold all units of the version. except: an index of a device that does not count,
 * or SIZE_MAX. */
bool check_is_whole(const struct world *world, const struct job *job, int64_t version,
                    size_t except);
/* Whether a device has lost its memory since the newest version was committed to devices. */
bool check_lost_any(const struct world *world, const struct job *job);

/* ---- check_deleted.c ---- */
/* A checkpoint's row is about to be deleted: no live job needs it. */
void check_delete_checkpoint(struct world *world, const struct transaction *transaction,
                             const char *id);
/* The core lets a user delete it. */
void check_note_deleted(struct world *world, const char *id);
/* Whether a user ever deleted that checkpoint. */
bool check_deleted(const struct world *world, const char *id);

/* ---- check_parents.c ---- */
/* Parents and parts agree, in the rows and in the core. */
void check_parents(struct world *world);
/* The same of a core that was restored from the rows. */
void check_restored_parents(struct world *world, const struct core *core);

/* ---- check_rows.c ---- */
/* Nothing needs a device whose row says that it is drained. */
void check_drained(struct world *world);
/* The rows equal the live state. */
void check_alive(struct world *world);
/* A core of these rows alone has the same jobs, versions, and generations not below. */
void check_restore(struct world *world);

/* ---- check_kernels.c ---- */
/* A device trains with the kernels that computed what its generation resumes: they may change only
 * where nothing of others is kept. */
void check_kernels(struct world *world, const struct run *run);
/* The job's row of an earlier time was put back, or (NULL) that time did not know the job. */
void check_kernels_put_back(struct world *world, size_t known, const struct job *job);

/* ---- check_protocol.c ---- */
/* The assignment has nothing that the agent's protocol does not know. */
void check_protocol(const struct world *world, const struct agent *agent);

/* ---- check_servers.c ---- */
/* A plan of servers is about to be stored: it has not failed for a device without units, and what
 * follows a stop resumes from the last version that a server applied. known: the job. */
void check_survived(struct world *world, size_t known, const struct plan *plan);

/* ---- check_stop.c ---- */
/* The step that a job which succeeds ends with. */
int64_t check_last_step(const struct world *world, const struct job *job);
/* A job judges its evaluations as the undisturbed run does, and keeps what it lists. */
void check_stop(struct world *world, const struct job *job);
/* No stage trains beyond the end of its job. */
void check_overrun(struct world *world, const struct run *run);

/* ---- check_course.c ---- */
/* A plan is about to be stored: no failure repeats for ever. A job gets further, or waits longer
 * and longer, or a new fault has struck a device of it. */
void check_plan(struct world *world, const struct plan *plan);
/* How often a device was struck by a fault, or started. */
uint64_t check_faults(const struct world *world, size_t agent);
/* A job changes its plan by itself only if it may, and not before the cool-down is over. */
void check_own_change(struct world *world, const struct job *job);
/* A run has computed a step. */
void check_measured(struct world *world, const struct run *run);
/* A device has evaluated a version. */
void check_evaluation(struct world *world, const struct run *run, int64_t version);
/* The coordinator dies. */
void check_crash(struct world *world);
/* A transaction is about to be committed: metrics that were taken are stored with it, and of a job
 * that has succeeded none is missing. */
void check_curves(struct world *world, const struct transaction *transaction);
/* The most plans in a row that one job needed for the same failure. */
int check_repeats(const struct world *world);
/* After each step of a session. */
void check_agent(struct world *world, const struct agent *agent);

#endif
