/* core.h: the coordinator's decisions: one pure, deterministic state machine. Same events, same
 * actions, byte for byte. No clock, files, sockets, JSON, SQL, logging, threads; no allocation
 * inside core_step: what planning needs is reserved by core_new, so that memory that runs out is
 * never an answer about a job. Used by the loop and by the simulator; one thread. */
#ifndef COORDINATOR_CORE_CORE_H
#define COORDINATOR_CORE_CORE_H

#include "coordinator/core/action.h"
#include "coordinator/core/event.h"

#define CHECKPOINTS_MAX 1024 /* uploaded; those of jobs are rows only */

struct core_config {
    int64_t heartbeat_ms; /* 1000 */
    int64_t lease_ms;     /* 5000 */
    size_t devices_max, jobs_max;
};
extern const struct core_config core_config_default;

struct core;
NODISCARD int core_new(const struct core_config *config, struct core **out, struct err *err);
void core_free(struct core **core);

/* One event in, actions out (appended to actions, which the caller cleared). */
void core_step(struct core *core, const struct event *event, struct actions *actions);
/* When the core wants an EVENT_TICK (CLOCK_BOOTTIME ms), INT64_MAX for never. */
int64_t core_deadline_ms(const struct core *core);

/* ---- what readers may see; borrowed until the next core_step; NULL when unknown or (job) ended
 * and forgotten: its row is in the store ---- */
size_t core_device_count(const struct core *core);
const struct device *core_device_at(const struct core *core, size_t index); /* in order of ids */
const struct device *core_device(const struct core *core, const char *id);
size_t core_job_count(const struct core *core);
const struct job *core_job_at(const struct core *core, size_t index); /* in order of ids */
const struct job *core_job(const struct core *core, const char *id);
const struct plan *core_job_plan(const struct core *core, const char *job_id); /* the newest */
/* Its open incident; NULL: none. Those that are over are in the store. */
const struct incident *core_job_incident(const struct core *core, const char *job_id);
/* Who holds what of the job, and what each failure would cost. false: unknown or ended. A quarter
 * of a megabyte: for the heap. Costs some milliseconds on large fleets: not for polling in a loop.
 */
bool core_replicas(const struct core *core, const char *job_id, struct replicas *out);
/* What its devices have measured of its kernels, with the generation that did: the text of the
 * whole model (kernel_text.h) after ACTION_TUNE until EVENT_TUNED; NULL: nothing is asked for. */
const char *core_job_kernels(const struct core *core, const char *job_id, int64_t *generation);
/* Whether the core knows of anything that has the blob, or will have it: not the models of jobs
 * that have ended. */
bool core_refers(const struct core *core, const char *sha256);
const struct checkpoint *core_upload(const struct core *core,
                                     const char *sha256); /* an uploaded checkpoint */
bool core_uploads_full(
    const struct core *core); /* there are CHECKPOINTS_MAX of them: no other would be kept */
size_t core_dataset_count(const struct core *core);
const struct dataset *core_dataset_at(const struct core *core,
                                      size_t index); /* in order of names */
const struct dataset *core_dataset(const struct core *core, const char *name);
const struct model_row *core_model(const struct core *core, const char *name);
size_t core_model_count(const struct core *core);
const struct model_row *core_model_at(const struct core *core, size_t index);

/* The assignment of a device as of now. Tickets and the model's description are left empty: the
 * edge fills them in. false: unknown device or boot. */
bool core_assignment(const struct core *core, const char *device_id, const char *boot,
                     struct assignment *out);
/* Its revision alone. 0: unknown. */
int64_t core_assignment_revision(const struct core *core, const char *device_id);
/* Whether the assignment of the device names the blob (GET), or it may store that unit (PUT). */
bool core_may_read_blob(const struct core *core, const char *device_id, const char *sha256);
bool core_may_store_unit(const struct core *core, const char *device_id,
                         const struct center_unit *unit);

#endif
