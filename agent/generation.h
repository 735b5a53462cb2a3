/* generation.h: the work of this device for one generation of a job: one thread, with its work
 * (runtime/work.h) and the outbox. It builds the work, computes, keeps snapshots and uploads them
 * to the center on request. The control thread starts and controls it and takes its reports; only
 * generation_free makes the control thread wait. */
#ifndef AGENT_GENERATION_H
#define AGENT_GENERATION_H

#include "agent/device.h"
#include "agent/reports.h"
#include "schema/assignment.h"

struct generation;

struct generation_config {
    const struct device_context *device; /* borrowed; its id is copied */
    struct reports *reports;             /* borrowed */
    int64_t serial;                      /* of all its reports */
};

/* Start the generation. assignment is taken, also on failure. previous (may be NULL) is taken too,
 * also on failure: it is cancelled, and the new thread waits for its end before it allocates any
 * memory. */
NODISCARD int generation_start(const struct generation_config *config,
                               struct assignment **assignment, struct generation **previous,
                               struct generation **out, struct err *err);
/* Cancel all work of the generation. Its thread frees the stage once it notices the
 * cancellation. */
void generation_cancel(struct generation *generation);
/* Return whether the thread has ended. */
bool generation_ended(struct generation *generation);
/* Wait for the thread's end and free the generation. */
void generation_free(struct generation **generation);

/* Carry out an action: RUN, STOP, HOLD, RELEASE, AWAY, BACK, ROUNDS or UPLOAD. */
void generation_tell(struct generation *generation, const struct session_action *action);
/* For a group: take the matches of a new assignment; note that the coordinator has stored the
 * records of a report. */
void generation_mix(struct generation *generation, const struct mix_duty *duty);
void generation_mixes_stored(struct generation *generation, const struct mix_report *report);
/* Fail the generation if a disk call does not return: the hanging thread cannot report it. */
void generation_check_disk(struct generation *generation);
/* Note that a drop was carried out. */
void generation_drop(struct generation *generation, const struct drop *drop);

/* Fill in step, unit_seconds, update_seconds, busy_ms, links, bytes_moved, fetch_seconds, kernels,
 * open rounds and peers in trouble. */
void generation_measure(struct generation *generation, struct heartbeat *out);

#endif
