/* replay_data.h: the training data of the groups of a replay: shards of one data set, or the data
 * of each group's device. For replay.c. */
#ifndef AGENT_OFFLINE_REPLAY_DATA_H
#define AGENT_OFFLINE_REPLAY_DATA_H

#include "agent/offline/local_job.h"
#include "schema/mix.h"

struct replay_data {
    struct local_job_data job; /* the data for fitting the model; the samples of all groups */
    bool local;                /* each group has data of its own */
    struct local_job_data own[GROUPS_MAX];
    const struct mix_record *record; /* [records] the log; borrowed, as the next one */
    size_t records;
    const struct job_spec *group;
    int64_t steps; /* of the job, which determine the learning rates */
};

/* The groups and the log to replay. */
struct replay_of {
    const struct job_spec *group; /* [groups] */
    size_t groups;
    const struct mix_record *record; /* [records] */
    size_t records;
};

/* Open the data sets that the job names (--dataset). For data that stayed on devices, open the data
 * of each group (--local GROUP=PATH, GROUP a number or a device), which must begin with the data
 * that the group trained on; *spec then gets the model of the groups. Call replay_data_done(out),
 * also on failure. */
NODISCARD int replay_data_open(const struct local_places *places, const struct conf_list *local,
                               const struct replay_of *of, struct job_spec *spec,
                               struct replay_data *out, struct err *err);
void replay_data_done(struct replay_data *data);
/* Return the data of a group. */
const struct local_job_data *replay_data_of(const struct replay_data *data, size_t group);
/* Count the samples that an incarnation trained on: the first ones of its group's data.
 * ERR_INVALID: the given data does not begin with these samples. */
NODISCARD int replay_data_count(const struct replay_data *data, const struct mix_member *own,
                                struct job_data *out, struct err *err);

#endif
