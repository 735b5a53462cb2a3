/* core.h: the coordinator's decisions: one pure, deterministic state machine. Equal events give
 * equal actions, byte for byte. No clock, files, sockets, JSON, SQL, logging or threads. core_new
 * reserves all memory and core_step allocates nothing, so decisions never depend on free memory.
 * Used by the loop and by the simulator; one thread. */
#ifndef COORDINATOR_CORE_CORE_H
#define COORDINATOR_CORE_CORE_H

#include "coordinator/core/action.h"
#include "coordinator/core/event.h"
#include "schema/replicas.h"

#define CHECKPOINTS_MAX 1024 /* uploaded checkpoints; the core does not keep those of jobs */

struct core_config {
    int64_t heartbeat_ms; /* interval of heartbeats; default 1000 */
    int64_t lease_ms;     /* default 5000 */
    int64_t relay_port;   /* of the coordinator's relay; 0: it has none */
    size_t devices_max, jobs_max;
};
extern const struct core_config core_config_default;

struct core;
/* Reserve the state of the core. ERR_INVALID: invalid configuration; ERR_MEMORY. */
NODISCARD int core_new(const struct core_config *config, struct core **out, struct err *err);
void core_free(struct core **core);

/* Handle one event and append the actions; the caller has cleared `actions`. */
void core_step(struct core *core, const struct event *event, struct actions *actions);
/* Return the time (CLOCK_BOOTTIME, ms) of the next EVENT_TICK; INT64_MAX: none is due. */
int64_t core_deadline_ms(const struct core *core);

/* ---- readers ----
 * Pointers are borrowed until the next core_step. NULL: unknown, or a job that has ended; the store
 * has its row. */
size_t core_device_count(const struct core *core);
const struct device *core_device_at(const struct core *core, size_t index); /* in order of ids */
const struct device *core_device(const struct core *core, const char *id);
/* Live jobs in order of ids, then the jobs that consist of groups. */
size_t core_job_count(const struct core *core);
const struct job *core_job_at(const struct core *core, size_t index);
const struct job *core_job(const struct core *core, const char *id);
const struct plan *core_job_plan(const struct core *core, const char *job_id); /* the newest */
/* Return the parts of a job that consists of groups; NULL: the job has no groups. */
const struct parent *core_parent(const struct core *core, const char *job_id);
/* Return the open incident of the job, or NULL. The store has the closed ones. */
const struct incident *core_job_incident(const struct core *core, const char *job_id);
/* List the copies of every unit and the cost of each loss. false: unknown or ended. `out` takes a
 * quarter of a megabyte: put it on the heap. Takes milliseconds on large fleets: do not poll it. */
bool core_replicas(const struct core *core, const char *job_id, struct replicas *out);
/* Return the kernels that the job's devices measured (kernel_text.h, the whole model) and the
 * generation that measured them. NULL except between ACTION_TUNE and EVENT_TUNED. */
const char *core_job_kernels(const struct core *core, const char *job_id, int64_t *generation);
struct planning;
/* Fill the question of a user: the plan of a job as submitted, or of a live job without some
 * devices. It is independent of the open question. The caller puts the answer into the event that
 * replies to the user. false: the job is unknown; the event reports this too. */
void core_plan_submission(struct core *core, const struct event_job_submit *submit,
                          struct planning *planning);
bool core_plan_question(struct core *core, const struct event_plan_question *asked,
                        const struct job_spec *spec, struct planning *planning);
/* Fill the plan of a combination. */
void core_plan_combination(const struct core *core, const struct plan_question *question,
                           const struct planned *planned, struct plan_combination *out);
/* Fill the open question of ACTION_PLAN, for placement_solve on any thread. The caller keeps the
 * model of the job alive until the answer has arrived. false: the question is closed and needs no
 * answer. Takes up to some milliseconds. */
bool core_planning(struct core *core, uint64_t question, struct planning *planning);
/* Return whether an object refers to the blob or will refer to it. Models of ended jobs do not
 * count. */
bool core_refers(const struct core *core, const char *sha256);
/* Return the uploaded checkpoint with this content, or NULL. */
const struct checkpoint *core_upload(const struct core *core, const char *sha256);
/* Return whether CHECKPOINTS_MAX is reached: another upload would be rejected. */
bool core_uploads_full(const struct core *core);
/* Return how many measurements in heartbeats were ignored because their values are impossible. */
uint64_t core_measurements_refused(const struct core *core);
/* Return the next measured direction between two devices after *at, which begins at 0; NULL: end.
 */
const struct link_row *core_next_link(const struct core *core, size_t *at);
struct prediction;
/* Fill the device, its overheads and the expected times of a model's units as the job computes
 * them. Leave the other members unchanged. false: the device is unknown. */
bool core_predict(const struct core *core, const char *device_id, const struct model *model,
                  const struct job_spec *spec, struct prediction *out);
/* Data sets and models, in order of names. */
size_t core_dataset_count(const struct core *core);
const struct dataset *core_dataset_at(const struct core *core, size_t index);
const struct dataset *core_dataset(const struct core *core, const char *name);
const struct model_row *core_model(const struct core *core, const char *name);
size_t core_model_count(const struct core *core);
const struct model_row *core_model_at(const struct core *core, size_t index);

/* Write the present assignment of the device. Tickets (core_next_ticket) and the model's
 * description stay empty; the edge fills them in. false: unknown device or boot. */
bool core_assignment(const struct core *core, const char *device_id, const char *boot,
                     struct assignment *out);
/* Return the revision of the assignment; 0: unknown device. */
int64_t core_assignment_revision(const struct core *core, const char *device_id);
/* A ticket of an assignment: the edge signs `text` and writes the signature to *out. The text is
 * the same in the assignments of the caller and of the called device. It names the plan, not the
 * generation: after a restored backup another generation may get the same number. */
struct core_ticket {
    char text[4 * ID_SIZE + 4];
    char *out; /* in the assignment */
    /* A second ticket, for relays (net/relay.h). */
    char *relay_out; /* NULL: none */
    struct plan_id plan;
    char relay_name[2 * ID_SIZE]; /* of the called device, "DEVICE.PLAN" */
    bool parks;                   /* this device is the called one */
};
/* Write the next ticket of the device's assignment. *at: 0 before the first. false: end. */
bool core_next_ticket(const struct core *core, const char *device_id, struct assignment *assignment,
                      size_t *at, struct core_ticket *ticket);
/* Return whether the device may fetch the data set (its job uses it), the blob (its assignment
 * names it), or upload the unit. */
bool core_may_read_data(const struct core *core, const char *device_id, const char *sha256);
bool core_may_read_blob(const struct core *core, const char *device_id, const char *sha256);
bool core_may_store_unit(const struct core *core, const char *device_id,
                         const struct center_unit *unit);
/* Return the job for which the device may store an average of groups, and set *model to its model.
 * NULL: the device may store none. Both are borrowed until the next step. */
const struct job_spec *core_average_job(const struct core *core, const char *device_id,
                                        const struct stored_average *average,
                                        const struct model **model);
/* Return whether the accuracy of the average corresponds to a whole number of correct labels. True
 * for an average that is not expected. */
bool core_average_possible(const struct core *core, const char *device_id,
                           const struct stored_average *average);

/* Counts of all jobs of strategy gossip since the start. */
struct core_gossip {
    size_t training; /* groups that train now */
    uint64_t matches, applied, expired, rejected, averages;
    uint64_t records_refused; /* records that cannot belong to the job */
    double mix_seconds;       /* of all mixes that were applied */
    double gap_seconds;       /* the longest between two steps of a group that trains */
};
struct core_gossip core_gossip_counts(const struct core *core);

struct groups_view;
/* Fill in the present state of the groups of a live job of strategy gossip. */
void core_fill_groups(const struct core *core, const char *job_id, struct groups_view *out);

#endif
