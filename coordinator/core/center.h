/* center.h: versions at the coordinator: whole, coming, dropped. */
#ifndef COORDINATOR_CORE_CENTER_H
#define COORDINATOR_CORE_CENTER_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

/* A version in the center, whole or on its way. */
struct center_version {
    int64_t version; /* 0: none */
    size_t count;    /* units that are there */
    struct center_unit unit[UNITS_MAX];
    bool present[UNITS_MAX];
};

struct center {
    struct center_version version[2];
    int whole; /* which of the two is job.version; the other one is coming */
};

/* Whether its job cannot do without it: once all its units are in the center, nobody misses it. */
bool center_needs_device(const struct device_slot *device);
struct center_version *center_whole(struct job_slot *job);
struct center_version *center_coming(struct job_slot *job);
/* A version begins to come; what had come of another one is forgotten. */
void center_expect(struct core *core, struct job_slot *job, int64_t version);
/* Whether the device still owes units of the coming version. */
bool center_owes(const struct job_slot *job, size_t stage);
/* Forget what has come of a version that was given up. */
void center_discard(struct core *core, struct job_slot *job);
/* Forget every unit of the job. keep: a hash that lives on, or "". */
void center_forget(struct core *core, struct job_slot *job, const char *keep);
/* Whether some unit of the version has that content. */
bool center_refers(const struct center_version *version, size_t unit_count, const char *sha256);
/* Forget the whole version, which is damaged. */
void center_lose(struct core *core, struct job_slot *job);
/* A row that stays although its job is not live: its blob is not deleted for an equal one of
 * another job. */
void center_keep(struct core *core, const char *sha256);
/* All units of a job that failed. */
void center_keep_job(struct core *core, const struct job_slot *job);
/* A row from the store. */
void center_restore_unit(struct job_slot *job, const struct center_unit *unit);
/* What the stage's device holds of the coming version; NULL: it has not reported it. */
const struct holding *center_holding(const struct core *core, const struct job_slot *job,
                                     size_t stage, int64_t unit);
/* Empty the version and delete the blobs that nothing else refers to, except `keep` (a hash or "").
 */
void center_drop(struct core *core, struct job_slot *job, struct center_version *version,
                 const char *keep);

#endif
