/* gossip_inside.h: shared by the implementation of gossip.h: gossip.c has the groups,
 * gossip_orders.c their orders, gossip_pairs.c the pairs, gossip_average.c the averages,
 * gossip_tests.c the evaluations of averages. */
#ifndef COORDINATOR_CORE_GOSSIP_GOSSIP_INSIDE_H
#define COORDINATOR_CORE_GOSSIP_GOSSIP_INSIDE_H

#include "coordinator/core/gossip/gossip.h"

static inline bool gossip_is_open(const struct gossip_group *group)
{
    return group->open.counter > 0;
}

/* Return whether the group may be matched. */
static inline bool gossip_is_free(const struct gossip_group *group)
{
    return group->present && group->heard && !gossip_is_open(group);
}

/* Return whether the groups adopt the present average: no group adopts the last one. */
static inline bool gossip_adopts(const struct gossip *gossip)
{
    return gossip->rules.adopts && !gossip->is_last;
}

/* ---- orders ---- */

bool gossip_has_room(const struct gossip *gossip, size_t orders);
struct mix_xid gossip_new_xid(struct gossip *gossip);
/* Add an order, for which there is room. */
struct mix_match *gossip_add(struct gossip *gossip, size_t group, struct mix_xid xid, int kind,
                             int64_t deadline_ms);
void gossip_add_peer(const struct gossip *gossip, struct mix_match *match, size_t group);
void gossip_add_alpha(struct mix_match *match, double alpha);
/* Return the seconds of a step of a group: a group gives copies and mixes only between steps. */
double gossip_step_seconds(const struct gossip *gossip, size_t group);
/* Return the seconds of a step of the slowest group that trains. */
double gossip_longest_step(const struct gossip *gossip);
/* Return the timeout of a match whose copies and steps are expected to take `seconds`. */
int64_t gossip_patience_ms(double seconds);

/* ---- pairs ---- */

/* Return whether pairs are matched at present. */
static inline bool gossip_may_match(const struct gossip *gossip)
{
    return !gossip->finishes && (gossip->phase == GOSSIP_MIXES || !gossip_adopts(gossip));
}

/* Return whether a round of schedule rounds must close: all groups wait for it or, if groups are
 * levelled, two groups wait and the others are late. */
bool gossip_round_is_over(const struct gossip *gossip, int64_t now_ms);
/* Return whether an average takes the place of the pairs of the present round. */
bool gossip_round_averages(const struct gossip *gossip);
/* Begin a round. */
void gossip_begin_round(struct gossip *gossip, int64_t now_ms);
/* Return the time from which the other groups are late; INT64_MAX: never, or too few groups wait.
 */
int64_t gossip_late_ms(const struct gossip *gossip);
/* Match the groups that want it. */
void gossip_match(struct gossip *gossip, int64_t now_ms);

/* ---- averages ---- */

/* Return the timeout for an average to reach the store; until then no other average begins. It also
 * bounds the evaluation of an average, whatever speed a device claims. It doubles after each
 * average that missed it, for large models over slow links. */
#define GOSSIP_ARRIVAL_MS 600000
#define GOSSIP_ARRIVAL_DOUBLINGS 6 /* greatest number of doublings of GOSSIP_ARRIVAL_MS */
int64_t gossip_arrival_ms(const struct gossip *gossip);

/* Note that a group has given its copy for the average. If it was the last one, only the transfer
 * of the copies remains. */
void gossip_note_copy(struct gossip *gossip, int64_t now_ms);
/* Begin an average if one is due, or continue the present one. */
void gossip_average(struct gossip *gossip, int64_t now_ms);

/* ---- evaluations of averages on held-out samples ---- */

/* Return whether the groups may evaluate the average. They evaluate the last average only once it
 * is stored, because it is computed again if it does not arrive. */
static inline bool gossip_may_test(const struct gossip *gossip)
{
    return gossip->rules.tests && (!gossip->is_last || gossip->stored);
}

/* Return whether an average is being evaluated, or gossip_take_tests has yet to be called. */
static inline bool gossip_awaits_tests(const struct gossip *gossip)
{
    return gossip->tests_until_ms > 0 || (gossip->has_tests && gossip->stored);
}

/* Return how long the group that has computed the average may evaluate it. */
int64_t gossip_evaluation_ms(const struct gossip *gossip);
/* Let all present groups evaluate the average from now on. seconds: of the copies before that. */
void gossip_begin_tests(struct gossip *gossip, double seconds, int64_t now_ms);
/* Note that a group has evaluated the average, or cannot because it missed the order. */
void gossip_hear_tests(struct gossip *gossip, size_t group, const struct gossip_report *report,
                       int64_t now_ms);
void gossip_tick_tests(struct gossip *gossip, int64_t now_ms);
/* Note that the average is stored: if it is the last one, its evaluation begins. */
void gossip_store_tests(struct gossip *gossip);

#endif
