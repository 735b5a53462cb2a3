/* gossip.h: matches the groups of one job of strategy gossip: who mixes with whom and when, and who
 * averages. It knows only the reports of groups. It may restart with a new life: it then forgets
 * matches, which expire. Pure, without allocation. Our own derivation (docs/adr/0145).
 *
 * A group has at most one open pair match. It is matched only after a report has named the open
 * match. An average has two phases. First its groups give copies, and one group, the averager,
 * fetches these and computes their average; then the others adopt it. If the averager cannot get a
 * copy, another group averages the copies that were given or may still come. If averages are
 * adopted, no pairs are matched meanwhile. If devices hold out samples, each group then evaluates
 * the average; a group that does not adopt it fetches it for this. No other average begins then. */
#ifndef COORDINATOR_CORE_GOSSIP_GOSSIP_H
#define COORDINATOR_CORE_GOSSIP_GOSSIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/plan/levels.h"
#include "schema/mix.h"

#define GOSSIP_ORDERS_MAX (4 * LEVELS_GROUPS_MAX)
#define GOSSIP_LACKED_MAX 2 /* failed fetches of a group's copy until averages do without it */

struct gossip_rules {
    uint64_t seed;
    int64_t life;                /* of the coordinator */
    int64_t batch;               /* samples of a step */
    bool rounds;                 /* groups wait after their steps until all have made theirs */
    bool level;                  /* steps by speed; else one pass of the group's samples */
    enum levels_weights weights; /* ACCURACY: equal while the loss of either side is unknown */
    bool uniform;                /* all pairs meet equally often */
    bool adopts;                 /* groups adopt averages */
    bool tests;                  /* they evaluate averages on samples that their devices hold out */
    int64_t average_every;       /* mixes of each group between two averages */
    int64_t test_samples;        /* on which the averager evaluates its average */
};

/* The report of a group on its matches. */
struct gossip_report {
    int64_t generation;
    bool wants;    /* it wants a match: it has made its steps */
    bool mixed;    /* it has mixed at least once */
    bool computed; /* it has a record that it computed the present average */
    int64_t step;  /* its last completed step */
    struct {
        struct mix_xid xid;
        bool open, copied, fetched, applied; /* as enum mixing_state of the agent */
        bool tested;                         /* average: on the samples that its device holds out */
        bool has_loss; /* average: of its newest copy, once the group has evaluated it */
        double loss;   /* of the samples that all groups evaluate */
        bool failed;   /* average: it expired, or was rejected */
        bool has_lacks;
        int64_t lacks; /* the group whose copy the averager needs, or could not get */
    } pair, average;
};

struct gossip_group {
    bool present, heard, wants, successor, has_loss;
    int64_t generation, samples;
    int64_t held;         /* samples that its device holds out */
    int64_t step, passed; /* passed: in rounds, it continues from this step without a mix */
    double speed, loss;   /* has_loss: the last one reported */
    struct mix_xid open;  /* counter 0: none */
    int64_t open_until_ms, last_mix_ms, mixes;
    bool asked, gave, tried, adopted; /* of the present average; tried: it was the averager */
    int lacked;                       /* failed fetches of its copy: GOSSIP_LACKED_MAX */
    bool tests, tested;               /* it must evaluate the average; it has done so */
};

enum gossip_phase { GOSSIP_MIXES, GOSSIP_COMPUTES, GOSSIP_ADOPTS };

/* A match for a group. */
struct gossip_order {
    size_t group;
    struct mix_match match;
};

struct gossip {
    struct gossip_rules rules;
    size_t count; /* one more than the greatest index of a group so far */
    struct gossip_group group[LEVELS_GROUPS_MAX];
    double seconds[LEVELS_GROUPS_MAX][LEVELS_GROUPS_MAX]; /* of a copy */
    double chance[LEVELS_GROUPS_MAX][LEVELS_GROUPS_MAX];
    double period;                   /* seconds; 0: fewer than two groups, or not levelled */
    int64_t rounds;                  /* rounds closed since the last average */
    int64_t round_ms;                /* time at which the last round was closed */
    int64_t counter;                 /* of the last match of this life */
    int64_t rate_step, average_step; /* average_step: rate_step when the average was begun */
    enum gossip_phase phase;
    struct mix_xid average;
    bool finishes, is_last; /* gossip_finish was called; the average was begun after that */
    size_t averager;
    bool avoids; /* the group `avoided` computes an average only if no other group can */
    size_t avoided;
    bool in_average[LEVELS_GROUPS_MAX]; /* groups whose copies are in the present average */
    bool failed;                        /* the averager has given up */
    size_t lacks;                       /* group of its missing copy; LEVELS_GROUPS_MAX: unknown */
    int64_t offered_until_ms;           /* end of the offer to other groups; 0: not offered yet */
    int64_t phase_until_ms, copies_until_ms; /* copies_: end of the time to give copies */
    bool stored;                             /* the present average is stored */
    int64_t tests_until_ms;     /* end of the evaluation on held-out samples; 0: none runs */
    bool has_tests;             /* that evaluation is over; gossip_take_tests has not reported it */
    int64_t averages;           /* averages computed in this life */
    int64_t arrives_until_ms;   /* deadline for the upload of the average; 0: no upload runs */
    int64_t evaluates_until_ms; /* deadline for the evaluation by the averager */
    int overdue;                /* consecutive averages that missed arrives_until_ms */
    struct gossip_order order[GOSSIP_ORDERS_MAX]; /* a ring */
    size_t first, orders;
};

void gossip_init(struct gossip *gossip, const struct gossip_rules *rules);
/* Add a group that begins, or begins again, with its samples and its speed in samples per second.
 * successor: the group takes over the shard of a group that has ended. */
void gossip_enter(struct gossip *gossip, size_t group, int64_t generation, int64_t samples,
                  double speed, bool successor, int64_t now_ms);
/* Set the number of samples that the group's device holds out to evaluate averages. */
void gossip_hold_out(struct gossip *gossip, size_t group, int64_t held);
void gossip_leave(struct gossip *gossip, size_t group);
/* Set the measured seconds of a copy between two groups, and the measured speed of a group; both
 * are above 0. They take effect in gossip_level. */
void gossip_link(struct gossip *gossip, size_t a, size_t b, double seconds);
void gossip_speed(struct gossip *gossip, size_t group, double speed);
void gossip_level(struct gossip *gossip);
/* Return the steps of a group between two mixes; 1 until gossip_level. */
int64_t gossip_steps(const struct gossip *gossip, size_t group);
/* Return whether the group could make more steps in a period. In schedule async it then slows down.
 */
bool gossip_slows(const struct gossip *gossip, size_t group);
/* Return the step from which a group of schedule rounds continues without a mix; 0: none. */
int64_t gossip_passed(const struct gossip *gossip, size_t group);

/* Return the periods since the last mix of a group in which it could have mixed. */
static inline int64_t gossip_missed_periods(const struct gossip *gossip, size_t group,
                                            int64_t now_ms)
{
    const double seconds = (double)(now_ms - gossip->group[group].last_mix_ms) / 1000;
    const double periods = gossip->period > 0 ? seconds / gossip->period : 0;
    return periods < 2 ? 0 : periods < 1e9 ? (int64_t)periods - 1 : 1000000000;
}

/* Return how many groups train. */
size_t gossip_present(const struct gossip *gossip);
void gossip_hear(struct gossip *gossip, size_t group, const struct gossip_report *report,
                 int64_t now_ms);
/* Take a match that a group knows. If it is newer than all matches of this life, an unknown life of
 * the coordinator made it. Then begin a later life, as groups reject matches of earlier lives. */
void gossip_outlive(struct gossip *gossip, uint64_t core_seed, struct mix_xid known);
/* Match the groups that want a match and may get one, and continue the average. rate_step: the step
 * of the job that sets the learning rate from now on. */
void gossip_tick(struct gossip *gossip, int64_t rate_step, int64_t now_ms);
/* Take the next order; false: none. */
bool gossip_next(struct gossip *gossip, struct gossip_order *out);

/* Note that the average is stored. No other average begins before that, unless this one is lost
 * with the group that uploads it. */
void gossip_stored(struct gossip *gossip, struct mix_xid xid);
/* Return whether the present average is stored and its evaluation on held-out samples is over: all
 * present groups have evaluated it, or the time is over. True once for each average. */
bool gossip_take_tests(struct gossip *gossip);
/* Return whether the group must still evaluate the present average. */
static inline bool gossip_is_testing(const struct gossip *gossip, size_t group)
{
    const struct gossip_group *of = &gossip->group[group];
    return gossip->tests_until_ms > 0 && of->present && of->tests && !of->tested;
}
/* Return whether the group computes the present average, evaluates it or uploads it. */
bool gossip_is_averaging(const struct gossip *gossip, size_t group);
/* Return whether the averager evaluates the average and so makes no steps. Bounded: it may hang. */
bool gossip_is_evaluating(const struct gossip *gossip, size_t group, int64_t now_ms);
/* Begin the last average as soon as the present one is over, and match no more pairs. No group
 * adopts the last average, and a single group suffices for it. It is repeated until it arrives. */
static inline void gossip_finish(struct gossip *gossip)
{
    gossip->finishes = true;
}
/* Abandon the last average, which was not evaluated because its groups have stopped. They average
 * once more when they are back. */
void gossip_repeat_last(struct gossip *gossip);
/* From the next average on, let this group average only if no other group can. LEVELS_GROUPS_MAX:
 * avoid no group. */
static inline void gossip_avoid(struct gossip *gossip, size_t group)
{
    gossip->avoids = group < LEVELS_GROUPS_MAX;
    gossip->avoided = group;
}
/* Return whether the present average has the copies of more than one group. */
bool gossip_had_choice(const struct gossip *gossip);
/* Return whether the average is the last one. */
static inline bool gossip_is_last(const struct gossip *gossip)
{
    return gossip->is_last;
}
/* Reject the upload of the last average as invalid. Another group that gave its copy computes the
 * average next, if there is such a group. */
void gossip_refuse(struct gossip *gossip, int64_t now_ms);
/* Return the time at which gossip_tick has work without a report: a match or a phase is over.
 * INT64_MAX: never. */
int64_t gossip_due_ms(const struct gossip *gossip);

#endif
