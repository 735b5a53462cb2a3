/* gossip_inside.h: what the parts of gossip.h share: gossip.c has the groups, gossip_orders.c
 * what they are told, gossip_pairs.c who mixes with whom, gossip_average.c averages, gossip_tests.c
 * their evaluations. */
#ifndef COORDINATOR_CORE_GOSSIP_INSIDE_H
#define COORDINATOR_CORE_GOSSIP_INSIDE_H

#include "coordinator/core/gossip.h"

static inline bool gossip_is_open(const struct gossip_group *group)
{
    return group->open.counter > 0;
}

/* It may be matched. */
static inline bool gossip_is_free(const struct gossip_group *group)
{
    return group->present && group->heard && !gossip_is_open(group);
}

/* Whether the groups move to the average: to the last one none does. */
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
/* Return the seconds of a step of a group: it gives copies and moves at the end of one only. */
double gossip_step_seconds(const struct gossip *gossip, size_t group);
/* Return those of the slowest group that trains. */
double gossip_longest_step(const struct gossip *gossip);
/* Return how long a match may take whose copies and steps take so long. */
int64_t gossip_patience_ms(double seconds);

/* ---- pairs ---- */

/* Whether pairs are matched at present. */
static inline bool gossip_may_match(const struct gossip *gossip)
{
    return !gossip->finishes && (gossip->phase == GOSSIP_MIXES || !gossip_adopts(gossip));
}

/* Of schedule rounds: whether the round is to be closed. All groups wait for it, or, where groups
 * are levelled, two do and the others are late. */
bool gossip_round_is_over(const struct gossip *gossip, int64_t now_ms);
/* Whether an average takes the place of the pairs of the present round. */
bool gossip_round_averages(const struct gossip *gossip);
/* A round begins. */
void gossip_begin_round(struct gossip *gossip, int64_t now_ms);
/* When the others are late; INT64_MAX: never, or too few groups wait. */
int64_t gossip_late_ms(const struct gossip *gossip);
/* Match the groups that want it. */
void gossip_match(struct gossip *gossip, int64_t now_ms);

/* ---- averages ---- */

/* Until another average is begun: of the way of one to the store, and of its evaluation at most,
 * whatever a device claims of its speed. Twice as long after each one that has not arrived in that
 * time, for large models behind slow links. */
#define GOSSIP_ARRIVAL_MS 600000
#define GOSSIP_ARRIVAL_DOUBLINGS 6 /* at most */
int64_t gossip_arrival_ms(const struct gossip *gossip);

/* A group has given its copy for the average: if it was the last one that was asked, only the way
 * of the copies is left. */
void gossip_note_copy(struct gossip *gossip, int64_t now_ms);
/* Begin an average if one is due, and go on with it. */
void gossip_average(struct gossip *gossip, int64_t now_ms);

/* ---- evaluations of averages on what devices hold out ---- */

/* Return whether the groups are to evaluate the average: the last one when it is stored, as it
 * would be computed again if it did not arrive. */
static inline bool gossip_may_test(const struct gossip *gossip)
{
    return gossip->rules.tests && (!gossip->is_last || gossip->stored);
}

/* Return whether an average is being evaluated, or gossip_take_tests is still to be called. */
static inline bool gossip_awaits_tests(const struct gossip *gossip)
{
    return gossip->tests_until_ms > 0 || (gossip->has_tests && gossip->stored);
}

/* Return how long the group that has computed the average may evaluate it. */
int64_t gossip_evaluation_ms(const struct gossip *gossip);
/* All groups that are there evaluate it from now on, after copies that take so many seconds. */
void gossip_begin_tests(struct gossip *gossip, double seconds, int64_t now_ms);
/* A group has evaluated it, or cannot: it has not taken the order in time. */
void gossip_hear_tests(struct gossip *gossip, size_t group, const struct gossip_report *report,
                       int64_t now_ms);
void gossip_tick_tests(struct gossip *gossip, int64_t now_ms);
/* The average is stored: the last one is evaluated from now on. */
void gossip_store_tests(struct gossip *gossip);

#endif
