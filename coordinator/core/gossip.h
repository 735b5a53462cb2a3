/* gossip.h: matches the groups of one job of strategy gossip: who mixes with whom and when, and who
 * averages. It knows only what groups report, and may be restarted with a new life: what it forgets
 * are matches, which expire. Pure, without allocation. Our own derivation (docs/adr/0145).
 *
 * A group has one open match of a pair at a time, and is matched only after a report has named the
 * one that it has open. An average goes through two phases. Its groups give a copy, and one of them
 * fetches these and computes their average; the others adopt it. If it cannot get a copy, another
 * one computes the average of those that gave theirs or still may. Where averages are adopted, no
 * pair is matched meanwhile. If devices hold out samples, each group evaluates the average after
 * that: one that does not adopt it fetches it for that alone. No other average is begun meanwhile.
 */
#ifndef COORDINATOR_CORE_GOSSIP_H
#define COORDINATOR_CORE_GOSSIP_H

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
    bool rounds;                 /* groups hold after their steps until all have made theirs */
    bool level;                  /* steps by speed; else one pass of the group's samples */
    enum levels_weights weights; /* ACCURACY: equal while the loss of either side is unknown */
    bool uniform;                /* all pairs meet equally often */
    bool adopts;                 /* groups adopt averages */
    bool tests;                  /* they evaluate averages on samples that their devices hold out */
    int64_t average_every;       /* mixes of each group between two averages */
    int64_t test_samples;        /* on which the one that computes an average evaluates it */
};

/* What a group says of its matches. */
struct gossip_report {
    int64_t generation;
    bool wants;    /* a match: it has made its steps */
    bool mixed;    /* once at least */
    bool computed; /* it records that it has computed the average that is under way */
    int64_t step;  /* that it has made */
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
    int64_t step, passed; /* passed: rounds: it goes on from this step without a mix */
    double speed, loss;   /* has_loss: the last one reported */
    struct mix_xid open;  /* counter 0: none */
    int64_t open_until_ms, last_mix_ms, mixes;
    bool asked, gave, tried, adopted; /* of the present average; tried: it was to compute it */
    int lacked;                       /* failed fetches of its copy: GOSSIP_LACKED_MAX */
    bool tests, tested;               /* it is to evaluate it, and has done so */
};

enum gossip_phase { GOSSIP_MIXES, GOSSIP_COMPUTES, GOSSIP_ADOPTS };

/* A match for a group. */
struct gossip_order {
    size_t group;
    struct mix_match match;
};

struct gossip {
    struct gossip_rules rules;
    size_t count; /* groups that there have been */
    struct gossip_group group[LEVELS_GROUPS_MAX];
    double seconds[LEVELS_GROUPS_MAX][LEVELS_GROUPS_MAX]; /* of a copy */
    double chance[LEVELS_GROUPS_MAX][LEVELS_GROUPS_MAX];
    double period;                   /* seconds; 0: fewer than two groups, or not levelled */
    int64_t rounds;                  /* closed since the last average */
    int64_t round_ms;                /* when the last one was closed */
    int64_t counter;                 /* of the last match of this life */
    int64_t rate_step, average_step; /* average_step: rate_step when the average was begun */
    enum gossip_phase phase;
    struct mix_xid average;
    bool finishes, is_last; /* gossip_finish was called; the average was begun after that */
    size_t averager;
    bool avoids; /* the group `avoided` computes an average only if no other one can */
    size_t avoided;
    bool in_average[LEVELS_GROUPS_MAX];      /* whose copies the present one has */
    bool failed;                             /* the averager has given up */
    size_t lacks;                            /* whose copy it needs; LEVELS_GROUPS_MAX: unknown */
    int64_t offered_until_ms;                /* the average to the other groups; 0: it is not yet */
    int64_t phase_until_ms, copies_until_ms; /* copies_: groups may still give theirs */
    bool stored;                             /* the present average is */
    int64_t tests_until_ms;     /* 0: no average is being evaluated on what devices hold out */
    bool has_tests;             /* the present one was, and gossip_take_tests has not said so */
    int64_t averages;           /* that were computed in this life */
    int64_t arrives_until_ms;   /* the computed one is on its way until then; 0: none is */
    int64_t evaluates_until_ms; /* by the group that has computed it */
    int overdue;                /* averages in turn that were not there by then */
    struct gossip_order order[GOSSIP_ORDERS_MAX]; /* a ring */
    size_t first, orders;
};

void gossip_init(struct gossip *gossip, const struct gossip_rules *rules);
/* A group begins, or begins again, on so many samples, with so many samples per second. successor:
 * it takes over a shard whose group has ended. */
void gossip_enter(struct gossip *gossip, size_t group, int64_t generation, int64_t samples,
                  double speed, bool successor, int64_t now_ms);
/* Its device holds out so many samples, on which it evaluates averages. */
void gossip_hold_out(struct gossip *gossip, size_t group, int64_t held);
void gossip_leave(struct gossip *gossip, size_t group);
/* The seconds of a copy between two groups, and the speed of a group, as measured; both are above
 * 0. gossip_level takes them into account. */
void gossip_link(struct gossip *gossip, size_t a, size_t b, double seconds);
void gossip_speed(struct gossip *gossip, size_t group, double speed);
void gossip_level(struct gossip *gossip);
/* Return the steps of a group between two mixes; 1 until gossip_level. */
int64_t gossip_steps(const struct gossip *gossip, size_t group);
/* Whether it could make more of them in a period. Of schedule async: it slows down after them. */
bool gossip_slows(const struct gossip *gossip, size_t group);
/* Return the step from which a group of schedule rounds makes them without a mix; 0: none. */
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
/* A group knows this match. If none of the present life came after it, a life that this coordinator
 * does not know has made it: those to come are of a later one, as groups refuse earlier ones. */
void gossip_outlive(struct gossip *gossip, uint64_t core_seed, struct mix_xid known);
/* Match the groups that want it and may, and go on with the average. rate_step: the step of the job
 * whose learning rate holds from now on. */
void gossip_tick(struct gossip *gossip, int64_t rate_step, int64_t now_ms);
/* Take the next order; false: none. */
bool gossip_next(struct gossip *gossip, struct gossip_order *out);

/* The average is in the store. No other is begun before that, unless it is lost with the group that
 * sends it. */
void gossip_stored(struct gossip *gossip, struct mix_xid xid);
/* Return whether the present average is stored, and all groups that are there have evaluated it on
 * what their devices hold out, or their time is over. True once for each. */
bool gossip_take_tests(struct gossip *gossip);
/* Return whether the group is to evaluate the present average, and has not done so. */
static inline bool gossip_is_testing(const struct gossip *gossip, size_t group)
{
    const struct gossip_group *of = &gossip->group[group];
    return gossip->tests_until_ms > 0 && of->present && of->tests && !of->tested;
}
/* Return whether the group computes the present average, evaluates it or sends it. */
bool gossip_is_averaging(const struct gossip *gossip, size_t group);
/* The same while it evaluates it, and so makes no step: as long as that takes, as it may hang. */
bool gossip_is_evaluating(const struct gossip *gossip, size_t group, int64_t now_ms);
/* Average once more, as soon as the average under way is over, and match no pair any more. Nobody
 * adopts it, and a single group is enough. It is begun again until it arrives. */
static inline void gossip_finish(struct gossip *gossip)
{
    gossip->finishes = true;
}
/* The last average is not evaluated, as its groups have stopped: they average once more when they
 * are back. */
void gossip_repeat_last(struct gossip *gossip);
/* From the next average on this group computes one only if no other group can. LEVELS_GROUPS_MAX:
 * any does. */
static inline void gossip_avoid(struct gossip *gossip, size_t group)
{
    gossip->avoids = group < LEVELS_GROUPS_MAX;
    gossip->avoided = group;
}
/* Return whether the present average has the copy of more than one group. */
bool gossip_had_choice(const struct gossip *gossip);
/* Return whether the average is the last one. */
static inline bool gossip_is_last(const struct gossip *gossip)
{
    return gossip->is_last;
}
/* What was sent as the last average is none: another group that gave its copy computes it next, if
 * there is one. */
void gossip_refuse(struct gossip *gossip, int64_t now_ms);
/* When gossip_tick may have something to do without a report: a match or a phase is over.
 * INT64_MAX: never. */
int64_t gossip_due_ms(const struct gossip *gossip);

#endif
