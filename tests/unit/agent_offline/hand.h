/* hand.h: groups of a gossip job trained and mixed by hand with libtrain, beside the code of the
 * replay: each has a stage of its own, and an average is the sum of all copies at once. Tests only;
 * one thread. */
#ifndef TESTS_UNIT_AGENT_OFFLINE_HAND_H
#define TESTS_UNIT_AGENT_OFFLINE_HAND_H

#include "agent/offline/local_job.h"
#include "agent/offline/local_model.h"
#include "libtrain/train.h"

struct hand_world {
    struct job_spec spec, group[2];
    struct local_job_data data;
    struct local_model model;
    struct train_pool *pool;
};

/* A group in training, or only its state. */
struct hand {
    struct hand_world *world;
    struct train_stage *stage;
    struct train_sampler *sampler;
    int64_t version, rate_step;
};

struct hand_copy {
    float *parameter, *statistic;
};

/* The job of the tiny model job.json with its groups group0.json and group1.json, and the data set
 * "a", in a directory. */
void hand_world_open(struct hand_world *world, const char *directory);
void hand_world_close(struct hand_world *world);

/* A group at version 0 of the job. */
struct hand hand_begin(struct hand_world *world, size_t group, int64_t rate_step);
void hand_end(struct hand *hand);
/* Train until that version. */
void hand_train(struct hand *hand, int64_t until);

struct hand_copy hand_copy(const struct hand *hand);
void hand_drop(struct hand_copy *copy);
void hand_move(struct hand *hand, double alpha, const struct hand_copy *own,
               const struct hand_copy *peer, int64_t rate_step);
/* weight: [2] or NULL */
struct hand_copy hand_average(const struct hand *hand, const struct hand_copy *a,
                              const struct hand_copy *b, const double *weight);
/* Write the file of the model with that state, which becomes the group's. */
void hand_write(struct hand *hand, const struct hand_copy *average, const char *directory,
                const char *name);

#endif
