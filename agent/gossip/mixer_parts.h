/* mixer_parts.h: shared by mixer.c (memory, the control side), mixer_boundary.c (the compute
 * thread), mixer_reply.c (the receiver), mixer_work.c, mix_fetch.h and average_file.c (the
 * threads). For these only. */
#ifndef AGENT_GOSSIP_MIXER_PARTS_H
#define AGENT_GOSSIP_MIXER_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "agent/gossip/mix_body.h"
#include "agent/gossip/mixer.h"
#include "agent/peer/reach.h"
#include "agent/peer/receive.h"
#include "agent/peer/ways.h"
#include "libtrain/optim/mix.h"
#include "libtrain/train.h"

/* States in memory. Each has one writer at a time: COPY the compute thread, the others the thread
 * of their place. The state of a match says when others may read. */
enum mixer_use {
    MIXER_COPY,                                     /* this group's copy, by place */
    MIXER_PEER = MIXER_COPY + MIXING_PLACES,        /* the other group's, of a pair */
    MIXER_AVERAGE,                                  /* computed here, or fetched */
    MIXER_SUM,                                      /* more parts of a sum (mix_sum), at least one:
                                                       the first is scratch between two sums */
    MIXER_SLABS = MIXER_AVERAGE + MIX_SUMS_MAX + 1, /* at most */
};

struct mixer_slab {
    float *data;         /* [floats]: parameters, then statistics */
    unsigned readers;    /* replies, and threads of this device */
    bool wanted;         /* the owner waits to overwrite it */
    int64_t deadline_ms; /* of its match: readers lose their right to the slab then */
};

/* The average of this group on its way to the coordinator. */
enum average_state {
    AVERAGE_NONE,
    AVERAGE_TO_EVALUATE, /* at the next step boundary */
    AVERAGE_EVALUATING,
    AVERAGE_TO_SEND,
};

struct mixer_average {
    enum average_state state;
    struct mix_xid xid; /* of its order */
    bool tested;
    double test_loss, test_accuracy;
};

/* An order, from the time when it is first seen. */
struct mixer_order {
    struct mix_order order;
    int64_t deadline_ms;
    bool waits; /* it was not taken yet */
};

/* The reported state. */
struct mixer_news {
    struct mixing_news matches;
    bool has_distance, has_loss, has_tests;
    enum average_state average;
};

/* One thread for pairs, and one or more for averages, because a sum fetches several copies at a
 * time. */
#define MIXER_WORKERS_MAX (MIXING_PLACES - 1 + MIX_FETCHES_MAX)
struct mixer_worker {
    struct mixer *mixer;
    enum mixing_place place;
    bool fetches; /* it only fetches copies for sums */
    pthread_t thread;
    bool started;
    struct reach_caller caller;
    struct buf head, text; /* header of the received body; scratch */
    struct mix_note *note;
    float *buffer; /* [floats] holds a copy until its turn in the sum; NULL: one thread fetches */
};

/* An average that is being computed. Copies are added in the order of the groups. */
struct mixer_sum {
    struct mix_sum sum;
    struct mix_xid xid; /* of the average */
    double weight[GROUPS_MAX];
    size_t begun; /* the first copies: those received or on their way */
    bool adds;    /* a thread uses `sum` without the lock */
};

struct mixer {
    struct mixer_config config;
    struct job_id job;
    int64_t generation; /* of the job */
    int64_t peer_ms;
    const struct job_spec *spec; /* the keeper's */
    struct train_stage *train;
    struct train_state state; /* of the stage */
    struct mix_body body;
    size_t floats, groups;
    int64_t steps; /* of the parent */
    float *memory;
    struct cancel *cancel; /* the keeper's */
    struct mixer_worker worker[MIXER_WORKERS_MAX];
    size_t workers;
    struct mix_note *served; /* the receiver's, as the next two */
    struct buf served_text;  /* scratch */
    struct mixer_header {
        struct buf text;
        bool taken;
    } header[RECEIVES_MAX];  /* of replies; the first ones are used most */
    struct work_config work; /* without its run and data */

    atomic_bool due;               /* at a step boundary */
    atomic_int_least64_t wants_at; /* the step of its next match or slowdown, or MIXING_NEVER */
    atomic_int_least64_t holds_at; /* the step after which it must hold, or MIXING_NEVER */
    atomic_int_least64_t version;  /* the last step */
    atomic_int_least64_t rate_step;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct mixing mixing;
    bool closed; /* it applies no more mixes */
    int64_t every;
    bool probes; /* copies for averages */
    enum mixing_pace pace;
    struct mixer_order order[MIXING_PLACES]; /* the newest of each place */
    struct mix_order match[MIXING_PLACES];   /* the matches that were taken */
    struct mixer_slab slab[MIXER_SLABS];
    struct mixer_sum sum;
    struct mix_xid averaged; /* the match of the average; counter 0: none */
    struct mixer_average average;
    bool holds_out; /* the device evaluates averages on samples of its own, and reports sums */
    struct mix_xid to_test, tested; /* such averages: the one to evaluate; the one of `tests` */
    struct mix_tests tests;
    struct mix_xid to_probe, probed; /* averages: whose copy is the state; that of `loss` */
    double loss;
    struct mix_xid distance_xid; /* counter 0: none */
    double distance;
    double seconds[MIXING_PLACES]; /* duration of its match, without waits */
    double stepped_seconds;        /* when the last step ended; 0: none has */
    double gap_seconds;            /* the longest between the ends of two steps */
    struct mixer_news told;
};

static inline struct mixer_slab *mixer_copy(struct mixer *mixer, enum mixing_place place)
{
    return &mixer->slab[MIXER_COPY + place];
}

static inline struct mixer_slab *mixer_scratch(struct mixer *mixer)
{
    return &mixer->slab[MIXER_SUM];
}

/* Return the parts of a slab. */
static inline struct train_state mixer_state_of(const struct mixer *mixer, float *data)
{
    return (struct train_state){.parameter = data,
                                .statistic = data + mixer->body.parameters,
                                .parameters = mixer->body.parameters,
                                .statistics = mixer->body.statistics};
}

/* Update the mixer after a change, under the lock: take waiting matches and set the due work.
 * Returns the signals to send without the lock. */
struct mixer_signals {
    bool wake, room;
    enum mixing_urgency report;
};
struct mixer_signals mixer_refresh(struct mixer *mixer);
/* Send the signals, after the lock was released. */
void mixer_tell(struct mixer *mixer, struct mixer_signals signals);

/* The threads (mixer_work.c). */
void *mixer_work(void *arg);
/* Send the average to the coordinator, once (average_file.c). Returns 0 when it has it or does not
 * want it, ERR_STATE to try again, ERR_CANCELLED. */
NODISCARD int average_file_send(struct mixer_worker *worker, const struct mixer_average *average,
                                struct err *err);
/* Return whether the average must still be sent. Not under the lock. */
bool mixer_sends(struct mixer *mixer, struct mix_xid xid);

#endif
