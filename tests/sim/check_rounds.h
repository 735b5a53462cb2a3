/* check_rounds.h: what must hold of groups that mix in rounds (docs/adr/0147), and how few steps a
 * group makes that slows down before its mix (docs/adr/0162). One thread. */
#ifndef TESTS_SIM_CHECK_ROUNDS_H
#define TESTS_SIM_CHECK_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct check_rounds;
struct event;
struct mix_duty;
struct run;
struct world;

int check_rounds_new(struct check_rounds **out, struct err *err);
void check_rounds_free(struct check_rounds **rounds);

/* ---- at the coordinator ---- */
/* The core has taken an event. A round is closed when all groups wait, or when the others of those
 * that wait are late; whoever waits is answered once: with a pair, with an average that is adopted,
 * or by passing, which one at most does. */
void check_rounds(struct world *world, const struct event *event);

/* ---- at a device ---- */
/* What a group has been told and has done, beside the program that is checked. */
struct check_hold {
    int64_t mixed_at, passed, every;
    bool holds, slows;
    int64_t slow_from;          /* the step that it slows down after; 0: it does not */
    int64_t slow_step, slow_ms; /* the first one that it began after that, and when */
};
/* An incarnation begins. */
void check_round_begins(struct check_hold *hold, int64_t version);
/* It has a new assignment. */
void check_round_duty(struct world *world, const struct run *run, struct check_hold *hold,
                      const struct mix_duty *duty);
/* It has moved after that step. */
void check_round_mixed(struct check_hold *hold, int64_t step);
/* It begins a step: none after the one that its mix is due after, or few if it is to slow down. */
void check_round_step(struct world *world, const struct run *run, struct check_hold *hold,
                      int64_t step);

#endif
