/* center.h: the two versions that the center keeps of a job: the whole one and the coming one. */
#ifndef COORDINATOR_CORE_COPIES_CENTER_H
#define COORDINATOR_CORE_COPIES_CENTER_H

#include "coordinator/core/core.h"

struct device_slot;
struct job_slot;

/* A version in the center. */
struct center_version {
    int64_t version; /* 0: none */
    size_t count;    /* units present */
    struct center_unit unit[UNITS_MAX];
    bool present[UNITS_MAX];
};

struct center {
    struct center_version version[2];
    int whole; /* index of the whole version, job.version; the other one is coming */
};

struct center_version *center_whole(struct job_slot *job);
struct center_version *center_coming(struct job_slot *job);
/* Expect the units of a version; units of another coming version are forgotten. */
void center_expect(struct core *core, struct job_slot *job, int64_t version);
/* Return whether the stage has yet to upload units of the coming version. */
bool center_owes(const struct job_slot *job, size_t stage);
/* Return whether the job still needs the device. Once the device has uploaded the last version, the
 * job no longer needs it. */
bool center_needs_device(const struct device_slot *device);
/* Forget the units of the coming version, which is abandoned. */
void center_discard(struct core *core, struct job_slot *job);
/* Forget every unit of the job. keep: the hash of a blob to keep, or "". */
void center_forget(struct core *core, struct job_slot *job, const char *keep);
/* Return whether a unit of the version has the hash. */
bool center_refers(const struct center_version *version, size_t unit_count, const char *sha256);
/* Forget the whole version, because it is damaged. */
void center_lose(struct core *core, struct job_slot *job);
/* Keep the blob of a row whose job is not live: deleting an equal unit of another job must not
 * delete it. */
void center_keep(struct core *core, const char *sha256);
/* Release the kept blob, because its row was deleted. */
void center_release(struct core *core, const char *sha256);
/* Keep the blobs of a failed job. */
void center_keep_job(struct core *core, const struct job_slot *job);
/* Restore a unit from its row. */
void center_restore_unit(struct job_slot *job, const struct center_unit *unit);
/* Return the snapshot of the unit that the stage's device reports for the coming version, or NULL.
 */
const struct holding *center_holding(const struct core *core, const struct job_slot *job,
                                     size_t stage, int64_t unit);
/* Empty the version. Delete its blobs, except `keep` (a hash or "") and those in use elsewhere. */
void center_drop(struct core *core, struct job_slot *job, struct center_version *version,
                 const char *keep);

#endif
