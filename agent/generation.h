/* generation.h: what this device does for one generation of a job, as one thread with its senders
 * and the one that replicates: build the stage, compute, keep snapshots, put them into the center
 * when asked. The control thread starts it, tells it and takes its reports; nothing here makes the
 * control thread wait, but generation_free. */
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

/* Start. assignment is taken, also on failure. previous (may be NULL) is cancelled, and waited for
 * by the new thread before it takes any memory; it is taken, also on failure. */
NODISCARD int generation_start(const struct generation_config *config,
                               struct assignment **assignment, struct generation **previous,
                               struct generation **out, struct err *err);
/* Give up whatever it does. Its memory goes when its thread has noticed. */
void generation_cancel(struct generation *generation);
/* Whether the thread has ended. */
bool generation_ended(struct generation *generation);
/* Wait for the thread's end. */
void generation_free(struct generation **generation);

void generation_run(struct generation *generation);
void generation_stop(struct generation *generation);
void generation_hold(struct generation *generation, bool held);
/* Put the units of `version`, where it stopped, into the center. */
void generation_upload(struct generation *generation, int64_t version);
/* The coordinator is away: open no round of replication; or it is back. */
void generation_away(struct generation *generation, bool away);
/* Fail when a call to the disk does not return: a thread that hangs in one cannot say so. */
void generation_check_disk(struct generation *generation);
/* What became of the rounds that are open, by enum replica_kind. */
void generation_take_rounds(struct generation *generation, const struct round round[REPLICA_KINDS]);
/* A drop was carried out. */
void generation_drop(struct generation *generation, const struct drop *drop);

/* Fill in step, unit_seconds, update_seconds, busy_ms, links, bytes_moved, fetch_seconds, kernels,
 * open rounds and peers in trouble. */
void generation_measure(struct generation *generation, struct heartbeat *out);

#endif
