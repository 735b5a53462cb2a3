/* member.h: a group of bench/groups.c on its device: the real core of an agent's mixes, a clock for
 * its steps, and copies of other groups that take a while. Its states have no bytes. One thread. */
#ifndef BENCH_GROUPS_MEMBER_H
#define BENCH_GROUPS_MEMBER_H

#include "agent/core/mixing.h"
#include "schema/assignment.h"

struct member {
    struct device_id device;
    struct assignment *assignment; /* owned */
    int64_t revision;
    int64_t step_ms; /* its speed */
    int phase;       /* enum phase, as reported */
    int64_t step, step_at_ms, beat_at_ms, fetch_at_ms[MIXING_PLACES];
    bool begun, changed; /* changed: it has something to report */
    struct mixing mixing;
    struct mix_report told;
    int64_t sent_step;      /* of the metrics that are stored */
    struct mix_xid average; /* that it has computed; uploads: and is to send */
    bool uploads;
};

/* Its assignment is a new one. */
void member_follow(struct member *member, int64_t now_ms);
/* Do what is due now: take copies of others, make a step or hold, mix. all[count]: all groups. */
void member_train(struct member *all, size_t count, struct member *member, int64_t now_ms);
struct mix_report member_report(const struct member *member);
/* Whether the coordinator should hear of it at once, since the report that member_told noted. */
bool member_has_news(const struct member *member);
void member_told(struct member *member);

#endif
