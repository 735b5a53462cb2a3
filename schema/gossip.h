/* gossip.h: a job whose groups train apart, each on its own part of the data, and mix from time to
 * time: its options, and what its parent knows of the groups. Defaults and meaning: docs/jobs.md.
 * Plain structs. */
#ifndef SCHEMA_GOSSIP_H
#define SCHEMA_GOSSIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"
#include "libtrain/model/shards.h"
#include "schema/id.h"
#include "schema/limits.h"
#include "schema/mix.h"

/* async: no group waits for another. rounds: after its steps each group waits for its mix. */
enum gossip_schedule { SCHEDULE_ASYNC, SCHEDULE_ROUNDS };
extern const char *const gossip_schedule_names[];

/* How often each pair of groups meets. */
enum gossip_pairs { PAIRS_BANDWIDTH, PAIRS_UNIFORM };
extern const char *const gossip_pairs_names[];

/* How far the sides of a pair move: both to the middle, or the one with more loss further. */
enum gossip_weights { WEIGHTS_EQUAL, WEIGHTS_ACCURACY };
extern const char *const gossip_weights_names[];

/* The weights of an average and of the two sides of a pair. */
enum gossip_average_by { AVERAGE_GROUPS, AVERAGE_SAMPLES };
extern const char *const gossip_average_by_names[];

#define GOSSIP_AVERAGES_KEPT 2 /* checkpoints of averages */

struct gossip_options {
    int schedule; /* enum gossip_schedule */
    bool level;   /* steps between two mixes depend on the group's speed; else one pass over its
                     samples */
    int split;    /* enum shards_split; has_split: given */
    bool has_split;
    double alpha;              /* of dirichlet and speed; 0: left out */
    int64_t classes_per_shard; /* of by_class */
    int pairs;                 /* enum gossip_pairs */
    int weights;               /* enum gossip_weights */
    double critical;           /* share of the samples that a slow group selects by their losses */
    int average_by;            /* enum gossip_average_by; has_average_by: given */
    bool has_average_by;
    int64_t average_every;  /* mixes of each group between two averages; 0: left out */
    bool adopt;             /* groups move to each average; else the average is only stored */
    double target_accuracy; /* three averages in a row of this accuracy end the job; 0: none */
};
#define GOSSIP_OPTIONS_DEFAULT                                                                     \
    {                                                                                              \
        .level = true, .classes_per_shard = 2, .adopt = true                                       \
    }
#define GOSSIP_ALPHA 0.3 /* default alpha of dirichlet */
extern const struct record gossip_options_record;
/* Return the mixes of each group between two averages in a job of `groups` groups. */
int64_t gossip_average_every(const struct gossip_options *options, size_t groups);

/* The evaluation of an average on the samples that a group's device holds out. */
struct gossip_tests {
    struct mix_xid xid;    /* the average; counter 0: none yet */
    int64_t step, samples; /* step: of the parent, as of struct gossip_average */
    double loss, accuracy; /* means */
};

/* What the parent knows of a group beside its part. */
struct gossip_member {
    int64_t samples;           /* of its part of the data, without the held-out ones */
    int64_t held;              /* samples that its device holds out */
    struct gossip_tests tests; /* the last evaluation */
    int64_t window;            /* samples of an epoch, if it selects some by their losses; 0: all */
    double speed;              /* samples per second when the data were divided */
    int64_t incarnation; /* the newest incarnation: the generation of struct mix_member; 0: none has
                            begun */
    int64_t rate_step;   /* step of the parent when that incarnation began */
    int64_t steps;       /* of the jobs before its present one, and `lost` */
    int64_t lost;        /* steps that its present job went back since it trained last ... */
    int64_t lost_to;     /* ... to this step */
    int64_t failures;    /* times that its jobs failed by themselves */
    struct mix_xid origin; /* the average that this incarnation began with; counter 0: none */
    struct mix_member origin_author; /* computed that average; generation 0: unknown */
};

/* An average that became a checkpoint. */
struct gossip_average {
    struct mix_xid xid;
    struct mix_member author; /* the group that computed it */
    struct checkpoint_id checkpoint;
    char sha256[SHA256_SIZE];
    int64_t bytes;
    int64_t step; /* of the parent */
    double accuracy;
    bool has_accuracy;
};

struct gossip_state {
    int64_t life; /* of the coordinator: it rises with each start (docs/adr/0153) */
    struct gossip_member member[GROUPS_MAX];
    size_t member_count;
    struct gossip_average average[GOSSIP_AVERAGES_KEPT]; /* the newest last */
    size_t average_count;
    int64_t averages; /* stored so far */
    int64_t good;     /* newest averages in a row that reach target_accuracy */
};
extern const struct record gossip_state_record;

struct job_spec;
/* Return whether averages and mixes weigh by samples. */
bool gossip_by_samples(const struct job_spec *spec);
/* Check the rules between the fields of a job of groups that train apart, and between its `gossip`
 * and the other fields. Adds faults. ERR_INVALID when there is one; err names the first. */
NODISCARD int gossip_check(const struct job_spec *spec, struct record_faults *faults,
                           struct err *err);

#endif
