/* mixing.h: the protocol of one group in a job of strategy gossip. It decides when the group copies
 * its state, which copies it fetches, when it applies them, and which records it keeps. Its owner
 * has the buffers and the connections.
 *
 *     MATCHED   the coordinator has named the match; the copy is due at the next step boundary
 *     COPIED    other groups may fetch the copy; the group fetches theirs, and goes on training
 *     FETCHED   everything is there; it is applied at the next step boundary
 *
 * Rules. A match is applied at most once, and only at a step boundary. Nothing of an ended
 * generation is served or applied. After the deadline a group abandons the match alone. A match of
 * a pair may be open together with an average that is not adopted. An adopted average ends an open
 * pair at its copy, because a copy from before the average must not be applied after it. Once its
 * mix is due, and until that mix, a group may go on, slow down or hold. Records travel with every
 * copy that depends on them, until the coordinator acknowledges them; a group without room for more
 * records takes no match. Nothing assumes that a group is one device. Pure. */
#ifndef AGENT_CORE_MIXING_H
#define AGENT_CORE_MIXING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/mix_duty.h"

/* Own records and those of others that it carries. Without its coordinator each group makes at most
 * two. */
#define MIXING_RECORDS_MAX 96
#define MIXING_NEVER INT64_MAX
#define MIXING_SLOW_MS 200      /* per step while a group slows down */
#define MIXING_SLOW_FOR_MS 2000 /* then it goes on: the coordinator or its partner may be away */

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
    struct mix_member copy; /* of this group */
    bool has_copy;          /* valid until the next copy of this place */
    bool spoiled;           /* the copy is not finite; it is not served */
    size_t fetched;         /* peers whose copies have arrived, in order */
};

struct mixing {
    int64_t group, generation;
    struct mixing_slot slot[MIXING_PLACES];
    struct mix_xid newest[MIXING_PLACES]; /* the newest matches taken */
    int64_t applied_step; /* the last step before the newest mix; at first: the resumed version */
    int64_t passed;       /* the last step after which it continued without a mix, as ordered */
    int64_t mixes;        /* applied by this incarnation */
    int64_t due_step;     /* the last step after which a mix was due, once the group has made it */
    int64_t due_version, due_ms; /* its last step at that time, or when it began to slow down */
    bool slows;                  /* as ordered */
    struct mix_record record[MIXING_RECORDS_MAX]; /* not acknowledged; the oldest first */
    size_t record_count;
    size_t average_records; /* the first records, on which the newest average depends */
};

void mixing_init(struct mixing *mixing, int64_t group, int64_t generation, int64_t version);

/* ---- from the coordinator ---- */

enum mixing_answer {
    MIXING_TAKEN,
    MIXING_KNOWN, /* the match is open or has ended */
    MIXING_OTHER, /* for another incarnation of the group */
    MIXING_FULL,  /* no room for its records */
    MIXING_BUSY,  /* a pair, while an adopted average has this group's copy */
};
/* Take a match. An open match of the same place expires. The matches for computing and for adopting
 * an average have the xid of the average. They use the copy that the group gave if that match is
 * still open; to adopt the average later, the group copies again. A group may fetch an average only
 * to evaluate it; such a match moves and records nothing (mix_match_moves). */
enum mixing_answer mixing_take(struct mixing *mixing, const struct mix_match *match);
/* Expire the matches whose deadline has passed. */
void mixing_tick(struct mixing *mixing, int64_t now_ms);
/* Note that the coordinator has stored the record (mix_record_is). */
void mixing_acknowledge(struct mixing *mixing, const struct mix_record *record);
/* Return whether the coordinator has stored all records of the newest average that this group has
 * computed. Before that, nobody may start from this average. */
bool mixing_average_is_logged(const struct mixing *mixing);
/* Return whether all records are stored. Before that, nobody may continue from the state of this
 * group. */
bool mixing_is_logged(const struct mixing *mixing);
/* Return the group whose copy this group needs, or could not get, for the newest average that it
 * computes; the group itself if its own copy is spoiled; -1: none. */
int64_t mixing_lacks(const struct mixing *mixing);
/* Expire an average for which the group gives its copy if the duty has no order for it: nobody
 * computes it any more. */
void mixing_stand(struct mixing *mixing, const struct mix_duty *duty);
/* Note that the group continues after the step `version` without a mix. */
void mixing_pass(struct mixing *mixing, int64_t version);
/* Return the step after which a match is due: `every` steps after the last mix or the last pass. */
int64_t mixing_due_at(const struct mixing *mixing, int64_t every);
/* The pace of a group between the step after which its mix is due and that mix. */
enum mixing_pace {
    MIXING_GOES_ON, /* it makes steps as before */
    MIXING_SLOWS,   /* it makes one in MIXING_SLOW_MS, for MIXING_SLOW_FOR_MS */
    MIXING_HOLDS,   /* it makes none, unless it passed (schedule rounds) */
};
static inline enum mixing_pace mixing_pace_of(const struct mix_duty *duty)
{
    return duty->holds ? MIXING_HOLDS : duty->slows ? MIXING_SLOWS : MIXING_GOES_ON;
}
/* Note that the group has made the step `version`, and the pace at which it is to continue. */
void mixing_reach(struct mixing *mixing, int64_t version, int64_t every, enum mixing_pace pace,
                  int64_t now_ms);
/* Return whether mixing_reach has noted the step after which its mix is due. */
bool mixing_is_reached(const struct mixing *mixing, int64_t every);
/* Return the step after which the group must hold now; MIXING_NEVER: it need not hold. */
int64_t mixing_holds_at(const struct mixing *mixing, int64_t every, enum mixing_pace pace,
                        int64_t now_ms);
/* Return when a group that slows down may make its next step; MIXING_NEVER: it need not wait. */
int64_t mixing_slows_until_ms(const struct mixing *mixing, int64_t every, int64_t now_ms);
/* Return whether the group wants a match after the step `version`: one is due, no pair and no
 * average to adopt is open, and there is room for its records. */
bool mixing_wants(const struct mixing *mixing, int64_t version, int64_t every);

/* ---- what it reports ---- */

/* The reported state of the group's matches. */
struct mixing_news {
    struct mix_xid xid[MIXING_PLACES];
    enum mixing_state state[MIXING_PLACES];
    bool copied[MIXING_PLACES], wants;
    int64_t mixes, lacks;
};
enum mixing_urgency {
    MIXING_OLD,
    MIXING_SOON, /* the progress of a pair: a report sent for another reason may carry it */
    MIXING_NOW,  /* others wait, for the wanted match or for the group's part in an average */
};
void mixing_find_news(const struct mixing *mixing, bool wants, struct mixing_news *out);
/* Return how soon the changes since the last report must be reported. */
enum mixing_urgency mixing_compare(const struct mixing_news *told, const struct mixing_news *news);

/* ---- at a step boundary ---- */

enum mixing_work { MIXING_GO_ON, MIXING_COPY, MIXING_APPLY };
/* Return the work that is due at a place. */
enum mixing_work mixing_due(const struct mixing *mixing, enum mixing_place place);
/* Return the next work at this step boundary, and its place. Call it until it returns
 * MIXING_GO_ON. */
enum mixing_work mixing_next(const struct mixing *mixing, enum mixing_place *place);
/* Note that the state of that version was copied. Nobody computes an average from a copy that is
 * not finite: if this group was to compute it, the match is rejected. */
void mixing_copied(struct mixing *mixing, enum mixing_place place, int64_t version, bool finite);
/* Note that the fetched copies were applied after the step `version`. */
void mixing_applied(struct mixing *mixing, enum mixing_place place, int64_t version);

/* ---- copies of other groups ---- */

/* Return the next peer whose copy is to be fetched; NULL: none. The group that computes an average
 * fetches all copies except its own, in order. */
const struct mix_member *mixing_fetch(const struct mixing *mixing, enum mixing_place place);
/* The number of new records that come with a copy, and the number that there is room for. */
struct mixing_room {
    size_t needed, available;
};
struct mixing_room mixing_room(const struct mixing *mixing, const struct mix_record *record,
                               size_t count);
/* Take a fetched copy and the records that came with it. The copy is rejected and the match ends if
 * it is not of the named incarnation, is not finite, or brings more records than there is room
 * for. */
void mixing_fetched(struct mixing *mixing, enum mixing_place place, const struct mix_member *copy,
                    bool finite, const struct mix_record *record, size_t records);

/* Expire the match because a copy that it needs cannot arrive any more. */
void mixing_abandon(struct mixing *mixing, enum mixing_place place);

enum mixing_verdict {
    MIXING_SERVE, /* send the requested copy or average, of *place, with all records */
    MIXING_PARK,  /* it will exist at a step boundary, or once all copies of others have arrived */
    MIXING_LATER, /* the match may not be known here yet */
    MIXING_GONE,  /* the match ended without a copy, or another one replaced it */
};
/* Judge a request of another group for the copy of a match, or for the average that this group
 * computes. */
enum mixing_verdict mixing_serve(const struct mixing *mixing, struct mix_xid xid, bool average,
                                 enum mixing_place *place);

#endif
