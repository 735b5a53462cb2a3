/* mix_digest.h: the arithmetic of mixes (libtrain/optim/mix) without arithmetic: what a group comes
 * to by a move depends on everything that the real state depends on, in the same order. Pure. */
#ifndef TESTS_SIM_MIX_DIGEST_H
#define TESTS_SIM_MIX_DIGEST_H

#include "schema/mix.h"
#include "tests/sim/digest.h"

/* A copy of a group's units, or an average. */
struct mix_state {
    uint64_t unit[DIGEST_UNITS_MAX];
};

/* What a move depends on beside the states. */
struct mix_share {
    struct mix_xid xid;
    double alpha, statistics_alpha;
};

/* The stage moves from the own copy towards the other. */
void mix_digest_move(struct digest_stage *stage, const struct mix_state *own,
                     const struct mix_state *peer, const struct mix_share *share);
/* Add the next copy to an average, which begins with zeros. */
void mix_digest_add(struct mix_state *average, const struct mix_state *copy, double weight);
/* The content of an average as a file. */
uint64_t mix_digest_file(const struct mix_state *average, size_t units);
/* A step of a group: its learning rate is the parent's in the step `rate_step`. */
void mix_digest_update(struct digest_stage *stage, int64_t step, int64_t rate_step, uint64_t total);

#endif
