/* mixer.h: the mixes of one group: the simulated counterpart of agent/gossip around the real
 * agent/core/mixing. A run of the strategy pipeline owns one if its assignment has a part in mixes.
 * mixer.c is the control side and the compute thread, mixer_fetch.c the threads and the receiver.
 * One thread. */
#ifndef TESTS_SIM_MIXER_H
#define TESTS_SIM_MIXER_H

#include "agent/core/mixing.h"
#include "agent/core/repeat.h"
#include "schema/mix_duty.h"
#include "tests/sim/check_rounds.h"
#include "tests/sim/mix_digest.h"
#include "tests/sim/run.h"

#define MIXER_PARKED_MAX 32

/* The body of an answer to another group. */
struct mix_answer {
    struct mix_member copy;
    struct mix_state state;
    size_t record_count;
    struct mix_record record[];
};

enum mixer_average_state { MIXER_NO_AVERAGE, MIXER_EVALUATES, MIXER_SENDS };

/* What a report says. */
struct mixer_news {
    struct mixing_news matches;
    bool has_tests;
    enum mixer_average_state average;
};

struct mixer_fetch {
    struct call *call;
    struct repeat repeat;
    bool repeating, waits; /* until the next try */
    struct mix_xid xid;
    size_t index;
    bool average; /* what the other group has computed, not its copy */
};

struct mixer {
    struct mixing mixing;
    bool closed; /* it moves no more */
    int64_t every, rate_step;
    bool probes; /* as in struct mix_duty */
    enum mixing_pace pace;
    int64_t holds_at;                /* mixing_holds_at */
    bool goes_on;                    /* that has risen */
    struct mix_xid to_probe, probed; /* averages: whose copy is the state, and that `loss` is of */
    double loss;
    bool holds_out;                 /* its device evaluates averages on samples of its own */
    struct mix_xid to_test, tested; /* such averages: the one to evaluate, and that of `tests` */
    struct mix_tests tests;
    struct check_hold seen;                /* for check_rounds.c */
    struct mix_order order[MIXING_PLACES]; /* the newest of each place, and what it comes to */
    struct mix_match pending[MIXING_PLACES];
    bool waits[MIXING_PLACES];             /* it was not taken yet */
    struct mix_order match[MIXING_PLACES]; /* those that were taken */
    struct mix_state own[MIXING_PLACES], peer[GROUPS_MAX], average, other;
    struct mix_xid averaged; /* what the average is of; counter 0: it is none */
    struct mix_report reported;
    struct mixer_news told;
    struct mixer_fetch fetch[MIXING_PLACES];
    struct {
        enum mixer_average_state state;
        struct mix_xid xid;
        bool tested, waits;
        double loss, accuracy;
        struct call *call;
    } upload;
    struct {
        struct call *call; /* held; NULL: unused */
        int64_t deadline_us;
    } parked[MIXER_PARKED_MAX];
    int64_t timer_us;
    bool woken;
};

/* NULL: the run is no group that mixes. */
struct mixer *mixer_of(const struct run *run);

int mixer_new(struct run *run, struct mixer **out, struct err *err);
void mixer_free(struct world *world, struct run *run, struct mixer **mixer);

/* A new assignment. */
void mixer_take(struct world *world, struct run *run, const struct mix_duty *duty);
/* The coordinator has taken the last report. */
void mixer_stored(struct world *world, struct run *run);
void mixer_report(struct mixer *mixer, const struct run *run, struct heartbeat *out);
/* Whether no step is to be made now (agent/gossip/mixer.h). */
bool mixer_holds(const struct run *run);
/* The run is at a step boundary. */
void mixer_boundary(struct world *world, struct run *run);
/* It has stopped: it gives copies and averages, and moves no more. */
void mixer_close(struct world *world, struct run *run);
/* Something has changed: take orders, tell others, look whether a boundary has work. */
void mixer_refresh(struct world *world, struct run *run);

/* ---- mixer_fetch.c ---- */
/* Begin, end or repeat what the matches need. */
void mixer_go_on(struct world *world, struct run *run);
/* A request of another group. */
void mixer_serve(struct world *world, struct run *run, struct call *call);
void mixer_forget(struct world *world, struct run *run, struct call *call);
/* What was parked may be answered now. */
void mixer_retry(struct world *world, struct run *run);
/* The run ends. */
void mixer_hang_up(struct world *world, struct run *run, struct mixer *mixer);

#endif
