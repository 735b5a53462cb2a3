/* replay_run.h: runs the actions of a plan (replay_plan.h). One stage of the whole model trains all
 * groups in turn; the states of the other groups are stored outside the stage. For replay.c; one
 * thread (and the pool's). */
#ifndef AGENT_OFFLINE_REPLAY_RUN_H
#define AGENT_OFFLINE_REPLAY_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "agent/offline/local_job.h"
#include "agent/offline/local_model.h"
#include "agent/offline/model_file.h"
#include "agent/offline/replay_data.h"
#include "agent/offline/replay_plan.h"
#include "base/err.h"
#include "schema/job.h"

/* Everything is borrowed for the life of the run. */
struct replay_run_config {
    const struct replay_plan *plan;
    const struct job_spec *spec;  /* of the job */
    const struct job_spec *group; /* [groups] of its groups: their shards */
    size_t groups;
    const struct replay_data *data;
    const struct local_model *model;
    size_t threads;
    /* Called after each step with the number of steps done. */
    void (*stepped)(void *arg, int64_t steps);
    /* Called when an average is complete; the source is valid during the call. */
    int (*averaged)(void *arg, const struct mix_record *record, const struct model_source *source,
                    struct err *err);
    void *arg;
};

struct replay_run;

/* ERR_INVALID for a shard that the data does not have, ERR_MEMORY. */
NODISCARD int replay_run_new(const struct replay_run_config *config, struct replay_run **out,
                             struct err *err);
void replay_run_free(struct replay_run **run);
/* Return the approximate total memory of the run. */
uint64_t replay_run_bytes(const struct replay_run *run);
/* Run all actions. ERR_DIVERGED, and errors of `averaged`. */
NODISCARD int replay_run_all(struct replay_run *run, struct err *err);

#endif
