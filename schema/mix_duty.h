/* mix_duty.h: the orders of a gossip job's group for mixes (in its assignment), and its reports of
 * them (in its heartbeat). docs/protocol.md, "Mixes". Plain structs. */
#ifndef SCHEMA_MIX_DUTY_H
#define SCHEMA_MIX_DUTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/record.h"
#include "schema/id.h"
#include "schema/mix.h"
#include "schema/peer.h"

#define MIX_ORDERS_MAX 2      /* a pair, and an average */
#define MIX_PROBE_SAMPLES 256 /* of the training data, drawn by the seed (mix_duty.probes) */
#define MIX_REPORTED_MAX 8    /* records of one heartbeat */

/* Another group and the place of its copies: the device that trains it, in a generation of the
 * group's own job. */
struct mix_source {
    int64_t group, generation; /* as of struct mix_member */
    double weight;             /* AVERAGE: its share; 0: all shares are equal */
    struct job_id job;
    int64_t job_generation;
    struct plan_id plan; /* plan of that job: identifies the device at relays */
    struct peer peer;    /* url "": this group */
};

/* The coordinator's order for a match. */
struct mix_order {
    struct mix_xid xid;
    int kind;      /* enum mix_kind: PAIR, AVERAGE or ADOPT */
    bool averages; /* AVERAGE: this group computes, evaluates and stores it */
    double alpha, statistics_alpha;
    int64_t rate_step; /* the step of the parent whose learning rate applies afterwards; AVERAGE:
                          the step of the parent to which the average belongs */
    int64_t left_ms;   /* from the order until its deadline */
    struct mix_source source[GROUPS_MAX]; /* the peers of struct mix_match */
    size_t source_count;
};

/* The mixing duty of a group. If the coordinator matches it, it mixes `every` steps after its last
 * mix or after step `passed`, whichever is later. */
struct mix_duty {
    int64_t group, generation; /* as of struct mix_member */
    int64_t groups;            /* groups of the parent: the most copies of an average */
    int64_t every;
    int64_t passed;
    bool probes;       /* it reports the loss of each copy for an average */
    bool holds;        /* it makes no further step before it has mixed or passed */
    bool slows;        /* it makes further steps slowly (agent/core/mixing.h) until it has mixed */
    int64_t rate_step; /* until the first mix: the learning rate is that of this parent step */
    int64_t steps;     /* of the parent, for its learning rate */
    struct mix_order order[MIX_ORDERS_MAX];
    size_t order_count;
};
extern const struct record mix_duty_record;
/* Check the rules between the fields. ERR_INVALID names the first fault by its place in an
 * assignment. */
NODISCARD int mix_duty_check(const struct mix_duty *duty, struct err *err);

/* Return the number of copies of its state that a group has room for: two of its own, one of
 * another group, the average, and the parts of a sum over all groups (at least one more copy). */
static inline size_t mix_copies(size_t groups)
{
    size_t parts = 1;
    while (groups >> parts > 0) {
        parts++;
    }
    return 3 + (parts > 2 ? parts : 2);
}
#define MIX_NOTES_BYTES (8ull << 20) /* at most, for records in transit */

/* A group that averages fetches several small copies at once, because their requests take longer
 * than their bytes. Each has a buffer beside the copies above. */
#define MIX_FETCHES_MAX 4
#define MIX_FETCHES_BYTES (8ull << 20)

/* Return how many copies of `bytes` bytes a group fetches at once; 1: without a buffer. */
static inline size_t mix_fetches(size_t groups, uint64_t bytes)
{
    const uint64_t fit = MIX_FETCHES_BYTES / (bytes > 0 ? bytes : 1);
    const uint64_t most = fit < MIX_FETCHES_MAX ? fit : MIX_FETCHES_MAX;
    const uint64_t others = groups > 2 ? groups - 1 : 1;
    const uint64_t fetches = most < others ? most : others;
    return fetches > 1 ? (size_t)fetches : 1;
}

/* Return how many states of `bytes` bytes a group has room for. */
static inline size_t mix_states(size_t groups, uint64_t bytes)
{
    const size_t fetches = mix_fetches(groups, bytes);
    return mix_copies(groups) + (fetches > 1 ? fetches : 0);
}

/* Return the most memory that a group needs beside its training. bytes: size of a state. */
static inline uint64_t mix_memory(size_t groups, uint64_t bytes)
{
    return mix_states(groups, bytes) * bytes + MIX_NOTES_BYTES;
}

/* The progress of a match; the same numbers as the agent's enum mixing_state. */
enum mix_progress {
    MIX_NONE,
    MIX_MATCHED,
    MIX_COPIED,
    MIX_FETCHED,
    MIX_APPLIED,
    MIX_EXPIRED,
    MIX_REJECTED,
};
extern const char *const mix_progress_names[];

static inline bool mix_is_open(int state)
{
    return state == MIX_MATCHED || state == MIX_COPIED || state == MIX_FETCHED;
}

#define MIX_DISTANCE_MAX 1e30 /* of a group that has not diverged */
#define MIX_SECONDS_MAX 1e9

struct mix_status {
    struct mix_xid xid; /* the newest match of this kind; counter 0: none yet */
    int state;          /* enum mix_progress */
    bool copied;        /* it has a copy for others */
    double seconds;     /* from the copy to its application, without waits for others; 0: unknown */
};

/* The evaluation of an average on the device's held-out samples: only sums, nothing about a single
 * sample. */
struct mix_tests {
    int64_t samples; /* 0: the loss is not finite, or the evaluation failed */
    int64_t correct; /* labels */
    double loss;     /* the sum */
};

/* The report of a group. */
struct mix_report {
    int64_t group, generation;
    bool wants;    /* it has made its steps */
    int64_t mixes; /* applied by this incarnation */
    struct mix_status pair, average;
    bool has_loss; /* of the copy for the average, on samples that are the same for all groups */
    double loss;
    bool has_distance;
    double distance;    /* between the newest average and the group's copy for it */
    double gap_seconds; /* the longest time between the ends of two steps of its generation */
    bool has_tests;     /* of the newest average, dataset.test.holdout */
    struct mix_tests tests;
    bool has_lacks;
    int64_t lacks; /* the group whose copy it needs for the average that it computes */
    struct mix_record record[MIX_REPORTED_MAX]; /* the oldest unacknowledged ones */
    size_t record_count;
};
extern const struct record mix_report_record;

#endif
