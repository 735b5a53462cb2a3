/* levels.h: how often groups that train apart mix their parameters in pairs (strategy gossip),
 * which pairs they form, and how far each side moves. Groups are levelled: between two mixes each
 * group makes as many steps as it can in one period, so that no group waits and no state falls
 * behind. Pairs with a fast link mix more often, as long as the states of all groups still
 * converge.
 *
 * Source: gossip in random pairs and its second eigenvalue, Boyd, Ghosh, Prabhakar and Shah,
 * "Randomized gossip algorithms", IEEE Trans. Inf. Theory 52(6), 2006. Levels, weights and the
 * choice by links are our own derivations. Pure: numbers in, numbers out; nothing allocates. */
#ifndef COORDINATOR_PLAN_LEVELS_H
#define COORDINATOR_PLAN_LEVELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEVELS_GROUPS_MAX 32

struct levels_problem {
    size_t count;          /* groups; 2 to LEVELS_GROUPS_MAX */
    int64_t batch;         /* samples of a step */
    const double *speed;   /* [count] samples per second; > 0 */
    const double *seconds; /* [count][count] of a copy from one group to another; > 0, and equal in
                              both directions; the diagonal is not read */
    bool uniform;          /* all pairs mix equally often */
};

/* Return the period in seconds: the longest of a step of the slowest group, two median copies, 50
 * ms, and 10 ms for each group. A group slower than a sixteenth of the median one does not count.
 */
double levels_period(const struct levels_problem *problem);
/* Return the steps of a group in a period; at least 1. */
int64_t levels_steps(double speed, double period, int64_t batch);
/* Return the steps of one pass over `samples` samples, rounded to the nearest; at least 1. */
int64_t levels_pass(int64_t samples, int64_t batch);
/* Return the steps of a group between two mixes: those in a period, but four passes of its samples
 * at most, because states that train longer on few samples come apart (docs/adr/0162).
 *
 *     slows  out: it could make more of them in a period; NULL: not needed */
int64_t levels_every(double speed, double period, int64_t samples, int64_t batch, bool *slows);
/* Return the seconds of a round in which each group makes one pass of its samples [count] and all
 * wait for the slowest: that pass, and the longest copy. */
double levels_round(const struct levels_problem *problem, const int64_t *samples);

/* Compute how often the groups choose each other.
 *
 *     chance  out: [count][count] the chance that a group chooses each other one; rows add up to 1,
 *             the diagonal is 0
 *
 * Seven tenths of a row are in proportion to 1 / seconds, the rest is equal for all. The equal part
 * grows until the spectral gap of the mean mix is at least half of that of uniform pairs. Returns
 * the equal part: 0.3 to 1. */
double levels_chances(const struct levels_problem *problem, double *chance);
/* Return the second eigenvalue of the mean mix of one pair, in which both sides move to the middle.
 * Each mix multiplies the expected variance between the groups by at most this factor. Computed
 * from the power 2^40, by squaring; for reports. O(count^3). */
double levels_second_eigenvalue(size_t count, const double *chance);
/* Return whether 1 - that eigenvalue is larger than `gap`, up to rounding. O(count^3). */
bool levels_has_gap(size_t count, const double *chance, double gap);
/* Return the partner that a group draws among the free ones; count: none is free.
 *
 *     row   [count] its chances
 *     free  [count] whether the group may be chosen
 *     at    uniform in [0, 1) */
size_t levels_partner(const double *row, const bool *free, size_t count, double at);

/* Return the group that computes an average; count: none may. The fastest one of those that get the
 * copies of the members, one after the other, in at most twice the time of the best connected one.
 *
 *     member  [count] whose copies it is made of
 *     may     [count] which groups may compute it */
size_t levels_averager(const struct levels_problem *problem, const bool *member, const bool *may);

/* ---- how far each side moves ---- */

/* The weights of the two sides. */
enum levels_weights { LEVELS_EQUAL, LEVELS_SAMPLES, LEVELS_ACCURACY };

struct levels_side {
    int64_t samples;        /* of the shard; SAMPLES: > 0 */
    double loss;            /* of the common samples; ACCURACY: finite */
    int64_t missed_periods; /* since its last mix, without the mix that is due */
    bool successor;         /* it has not mixed since it took over a shard */
};

#define LEVELS_STALE_PERIODS 8 /* missed periods of a group that is not stale */

/* Compute the share of the difference by which each side moves towards the other; both are in 0 to
 * 1 and add up to 1, so that both sides reach the same point.
 *
 *     EQUAL     1/2
 *     SAMPLES   the part of the other side's samples in both
 *     ACCURACY  1 / (1 + e^((loss of the other - own loss) / 0.1)), within 0.2 and 0.8
 *
 * If only one side is stale, after m missed periods, it moves by 1 - 4 / m. A successor whose peer
 * is not a successor takes over the peer's state: 1. */
void levels_alphas(enum levels_weights weights, const struct levels_side side[2], double alpha[2]);

#endif
