/* mixing.h: the part of one group in a job of strategy gossip: when it copies its state, what it
 * fetches, when it applies, and what it records. Its owner has the buffers and the connections.
 *
 *     MATCHED   the coordinator has named the match; the copy is due at the next step boundary
 *     COPIED    other groups may fetch the copy; the group fetches theirs, and goes on training
 *     FETCHED   everything is there; it is applied at the next step boundary
 *
 * Rules. A match is applied at most once, and only at a step boundary. Nothing of an ended
 * generation is served or applied. After the deadline a group abandons the match alone. A match of
 * a pair and an average that is not adopted may be open together; one that is adopted ends the pair
 * that is open at its copy, because what was copied before it must not be applied after it. Between
 * the step that its mix is due after and that mix a group may go on, slow down or hold. Records
 * travel with every copy that depends on them, until the coordinator acknowledges them; a group
 * without room for more records takes no match. Nothing assumes that a group is one device. Pure.
 */
#ifndef AGENT_CORE_MIXING_H
#define AGENT_CORE_MIXING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/mix_duty.h"

/* Own and carried; without its coordinator each group leaves at most two. */
#define MIXING_RECORDS_MAX 96
#define MIXING_NEVER INT64_MAX
#define MIXING_SLOW_MS 200      /* of a step while a group slows down */
#define MIXING_SLOW_FOR_MS 2000 /* then it goes on: who matches or mixes with it may be away */

enum mixing_state {
    MIXING_NONE,
    MIXING_MATCHED,
    MIXING_COPIED,
    MIXING_FETCHED,
    /* How the last match ended. */
    MIXING_APPLIED,
    MIXING_EXPIRED,
    MIXING_REJECTED, /* a copy that is not finite, or not of the incarnation named */
};

/* Two matches may be open, each with a copy of its own. */
enum mixing_place { MIXING_PAIRS, MIXING_AVERAGES };
#define MIXING_PLACES 2

struct mixing_slot {
    enum mixing_state state;
    struct mix_match match;
    struct mix_member copy; /* the own one */
    bool has_copy;          /* until the next copy of this place */
    bool spoiled;           /* that copy is not finite: nobody takes it */
    size_t fetched;         /* peers whose copy is there, in order */
};

struct mixing {
    int64_t group, generation;
    struct mixing_slot slot[MIXING_PLACES];
    struct mix_xid newest[MIXING_PLACES]; /* of those that were taken */
    int64_t applied_step; /* the last step before the newest mix; at first: the resumed version */
    int64_t passed;       /* the last step after which it went on without a mix, as ordered */
    int64_t mixes;        /* applied by this incarnation */
    int64_t due_step;     /* the last one that a mix was due after, once the group has made it */
    int64_t due_version, due_ms; /* its last step when that was seen, or it began to slow down */
    bool slows;                  /* as told */
    struct mix_record record[MIXING_RECORDS_MAX]; /* not acknowledged; the oldest first */
    size_t record_count;
    size_t average_records; /* the first ones, that the newest average depends on */
};

void mixing_init(struct mixing *mixing, int64_t group, int64_t generation, int64_t version);

/* ---- from the coordinator ---- */

enum mixing_answer {
    MIXING_TAKEN,
    MIXING_KNOWN, /* it is open, or has ended */
    MIXING_OTHER, /* of another incarnation of the group */
    MIXING_FULL,  /* there is no room for its records */
    MIXING_BUSY,  /* a pair: an average that is adopted has this group's copy */
};
/* Take a match. One of the same place that is open expires. The computation and the adoption of an
 * average have its xid. They use the copy that the group gave, if it is still open; to adopt it
 * later, a group copies again. An average may be fetched for an evaluation alone: that moves and
 * records nothing (mix_match_moves). */
enum mixing_answer mixing_take(struct mixing *mixing, const struct mix_match *match);
/* Expire the matches whose deadline is over. */
void mixing_tick(struct mixing *mixing, int64_t now_ms);
/* The coordinator has stored the record (mix_record_is). */
void mixing_acknowledge(struct mixing *mixing, const struct mix_record *record);
/* Whether all records of the newest average that this group has computed are stored: before that,
 * nobody may begin with it. */
bool mixing_average_is_logged(const struct mixing *mixing);
/* Whether all records are stored: before that, nobody may continue with the state of this group. */
bool mixing_is_logged(const struct mixing *mixing);
/* Return the group whose copy this one needs, or could not get, for the newest average, which it is
 * to compute: itself, if its own is spoiled; -1: none. */
int64_t mixing_lacks(const struct mixing *mixing);
/* An average for which the group gives its copy expires if the duty has no order for it: nobody
 * computes it any more. */
void mixing_stand(struct mixing *mixing, const struct mix_duty *duty);
/* After the step `version` the group goes on without a mix. */
void mixing_pass(struct mixing *mixing, int64_t version);
/* Return the step after which a match is due: `every` after the last mix, or after it passed. */
int64_t mixing_due_at(const struct mixing *mixing, int64_t every);
/* What a group does between the step that its mix is due after and that mix. */
enum mixing_pace {
    MIXING_GOES_ON, /* it makes steps as before */
    MIXING_SLOWS,   /* it makes one in MIXING_SLOW_MS, for MIXING_SLOW_FOR_MS */
    MIXING_HOLDS,   /* it makes none, unless it passed (schedule rounds) */
};
static inline enum mixing_pace mixing_pace_of(const struct mix_duty *duty)
{
    return duty->holds ? MIXING_HOLDS : duty->slows ? MIXING_SLOWS : MIXING_GOES_ON;
}
/* The group has made the step `version`, and is told how to go on. */
void mixing_reach(struct mixing *mixing, int64_t version, int64_t every, enum mixing_pace pace,
                  int64_t now_ms);
/* Whether mixing_reach has seen that it has made the step that its mix is due after. */
bool mixing_is_reached(const struct mixing *mixing, int64_t every);
/* Return the step after which it makes none now; MIXING_NEVER: there is none. */
int64_t mixing_holds_at(const struct mixing *mixing, int64_t every, enum mixing_pace pace,
                        int64_t now_ms);
/* Return when a group that slows down may make its next step; MIXING_NEVER: nothing is to come. */
int64_t mixing_slows_until_ms(const struct mixing *mixing, int64_t every, int64_t now_ms);
/* Whether a match is due after that many steps, and none is open. */
bool mixing_wants(const struct mixing *mixing, int64_t version, int64_t every);

/* ---- what it reports ---- */

/* Of its matches. */
struct mixing_news {
    struct mix_xid xid[MIXING_PLACES];
    enum mixing_state state[MIXING_PLACES];
    bool copied[MIXING_PLACES], wants;
    int64_t mixes, lacks;
};
enum mixing_urgency {
    MIXING_OLD,
    MIXING_SOON, /* the course of a pair: a report for another reason may bring it */
    MIXING_NOW,  /* others wait: for a match that it wants, or for its part in an average */
};
void mixing_find_news(const struct mixing *mixing, bool wants, struct mixing_news *out);
/* How soon what differs from the last report is to be reported. */
enum mixing_urgency mixing_compare(const struct mixing_news *told, const struct mixing_news *news);

/* ---- at a step boundary ---- */

enum mixing_work { MIXING_GO_ON, MIXING_COPY, MIXING_APPLY };
/* What is due at a place. */
enum mixing_work mixing_due(const struct mixing *mixing, enum mixing_place place);
/* What is due at this step boundary, and of which place; repeat it until there is nothing. */
enum mixing_work mixing_next(const struct mixing *mixing, enum mixing_place *place);
/* The state of that version was copied. An average of a copy that is not finite is computed by
 * nobody: the match is rejected if the group itself was to do so. */
void mixing_copied(struct mixing *mixing, enum mixing_place place, int64_t version, bool finite);
/* The fetched copies were applied after the step `version`. */
void mixing_applied(struct mixing *mixing, enum mixing_place place, int64_t version);

/* ---- copies of other groups ---- */

/* The next peer whose copy is to be fetched; NULL: none. The group that computes an average fetches
 * all but its own, in order. */
const struct mix_member *mixing_fetch(const struct mixing *mixing, enum mixing_place place);
/* New records that come along with a copy, and those that there is room for. */
struct mixing_room {
    size_t needed, available;
};
struct mixing_room mixing_room(const struct mixing *mixing, const struct mix_record *record,
                               size_t count);
/* Its copy is there, with the records that came along. Rejects it, and ends the match, if it is not
 * of the incarnation named, not finite, or brings more records than there is room for. */
void mixing_fetched(struct mixing *mixing, enum mixing_place place, const struct mix_member *copy,
                    bool finite, const struct mix_record *record, size_t records);

/* A copy that it needs cannot come any more: the match expires. */
void mixing_abandon(struct mixing *mixing, enum mixing_place place);

enum mixing_verdict {
    MIXING_SERVE, /* what is asked for, of *place, with all records */
    MIXING_PARK,  /* it will be there at a step boundary, or when all copies of others are */
    MIXING_LATER, /* it may not have been heard of yet */
    MIXING_GONE,  /* it has ended without a copy, or another took its place */
};
/* Another group asks for the copy of a match, or for the average that this group computes. */
enum mixing_verdict mixing_serve(const struct mixing *mixing, struct mix_xid xid, bool average,
                                 enum mixing_place *place);

#endif
