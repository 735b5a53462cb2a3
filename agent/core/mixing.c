#include "agent/core/mixing.h"

#include <string.h>

#include "base/assert.h"

/* One each for a pair, for an average, and for its adoption by the group that computed it. */
#define OWN_RECORDS 3

void mixing_init(struct mixing *mixing, int64_t group, int64_t generation, int64_t version)
{
    *mixing = (struct mixing){.group = group, .generation = generation, .applied_step = version};
}

static bool is_open(const struct mixing_slot *slot)
{
    return slot->state == MIXING_MATCHED || slot->state == MIXING_COPIED ||
           slot->state == MIXING_FETCHED;
}

static enum mixing_place place_of(const struct mix_match *match)
{
    return match->kind == MIX_PAIR ? MIXING_PAIRS : MIXING_AVERAGES;
}

static void end(struct mixing_slot *slot, enum mixing_state how)
{
    slot->state = is_open(slot) ? how : slot->state;
}

/* Return how many peers' copies the match needs. For an average, only the group that computes it
 * fetches copies. */
static size_t peers_of(const struct mix_match *match)
{
    return match->kind == MIX_AVERAGE && !match->averages ? 0 : match->peer_count;
}

static bool is_own(const struct mixing *mixing, const struct mix_member *member)
{
    return member->group == mixing->group;
}

/* ---- records ---- */

static size_t find_record(const struct mixing *mixing, const struct mix_record *record)
{
    size_t at = 0;
    while (at < mixing->record_count && !mix_record_is(&mixing->record[at], record)) {
        at++;
    }
    return at;
}

void mixing_acknowledge(struct mixing *mixing, const struct mix_record *record)
{
    const size_t at = find_record(mixing, record);
    if (at == mixing->record_count) {
        return;
    }
    mixing->record_count--;
    mixing->average_records -= at < mixing->average_records;
    memmove(&mixing->record[at], &mixing->record[at + 1],
            (mixing->record_count - at) * sizeof(mixing->record[0]));
}

bool mixing_average_is_logged(const struct mixing *mixing)
{
    return mixing->average_records == 0;
}

bool mixing_is_logged(const struct mixing *mixing)
{
    return mixing->record_count == 0;
}

/* Keep room for the records of the matches that may be open. */
static bool has_room(const struct mixing *mixing)
{
    return mixing->record_count + OWN_RECORDS <= MIXING_RECORDS_MAX;
}

struct mixing_room mixing_room(const struct mixing *mixing, const struct mix_record *record,
                               size_t count)
{
    const size_t taken = mixing->record_count + OWN_RECORDS;
    struct mixing_room room = {.available =
                                   taken < MIXING_RECORDS_MAX ? MIXING_RECORDS_MAX - taken : 0};
    for (size_t i = 0; i < count; i++) {
        room.needed += find_record(mixing, &record[i]) == mixing->record_count;
    }
    return room;
}

static void carry(struct mixing *mixing, const struct mix_record *record, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (find_record(mixing, &record[i]) == mixing->record_count) {
            mixing->record[mixing->record_count++] = record[i];
        }
    }
}

static struct mix_record *note(struct mixing *mixing, const struct mixing_slot *slot, int kind)
{
    const struct mix_match *match = &slot->match;
    ASSERT(mixing->record_count < MIXING_RECORDS_MAX);
    struct mix_record *record = &mixing->record[mixing->record_count++];
    *record = (struct mix_record){.xid = match->xid, .kind = kind, .own = slot->copy};
    return record;
}

/* Note the finished average. It is served from now on, whether or not this group adopts it. */
static void note_average(struct mixing *mixing, const struct mixing_slot *slot)
{
    struct mix_record *record = note(mixing, slot, MIX_AVERAGE);
    record->peer_count = slot->match.peer_count;
    memcpy(record->peer, slot->match.peer, record->peer_count * sizeof(record->peer[0]));
    mixing->average_records = mixing->record_count;
}

/* Note a move. The peer of its record is the other group of the pair, or the group that has the
 * average, which may be this group. */
static void note_move(struct mixing *mixing, const struct mixing_slot *slot, int64_t step)
{
    const struct mix_match *match = &slot->match;
    const bool pair = match->kind == MIX_PAIR;
    struct mix_record *record = note(mixing, slot, pair ? MIX_PAIR : MIX_ADOPT);
    record->peer_count = 1;
    record->peer[0] = match->averages ? slot->copy : match->peer[0];
    record->alpha = match->alpha;
    record->statistics_alpha = match->statistics_alpha;
    record->applied_step = step;
    record->applied_mixes = mixing->mixes;
    record->rate_step = match->rate_step;
}

/* ---- copies that are there ---- */

/* Set a peer's copy that has arrived. Its share of an average stays as the coordinator set it. */
static void set_copy(struct mix_member *peer, const struct mix_member *copy)
{
    const double weight = peer->weight;
    *peer = *copy;
    peer->weight = weight;
}

/* Skip this group's own copy, which an average contains among others. */
static void skip_own(struct mixing *mixing, struct mixing_slot *slot)
{
    if (slot->match.averages && slot->spoiled) {
        slot->state = MIXING_REJECTED;
        return;
    }
    while (slot->fetched < peers_of(&slot->match) &&
           is_own(mixing, &slot->match.peer[slot->fetched])) {
        set_copy(&slot->match.peer[slot->fetched++], &slot->copy);
    }
    const bool waits = slot->fetched < peers_of(&slot->match) || peers_of(&slot->match) == 0;
    slot->state = waits ? MIXING_COPIED : MIXING_FETCHED;
    if (!waits && slot->match.averages) {
        note_average(mixing, slot);
    }
}

/* ---- from the coordinator ---- */

/* Return whether the match continues the open average: a group that has given its copy computes or
 * adopts the average. A group that still computes it may adopt the average of another group. */
static bool continues(const struct mixing_slot *slot, const struct mix_match *match)
{
    const bool average = slot->match.kind == MIX_AVERAGE && slot->has_copy;
    const bool only_gave = slot->state == MIXING_APPLIED && !mix_match_moves(&slot->match);
    const bool uses = match->kind == MIX_ADOPT || match->averages;
    if (!average || !uses || !mix_xid_is(slot->match.xid, match->xid)) {
        return false;
    }
    if (slot->match.averages) {
        return slot->state == MIXING_COPIED && match->kind == MIX_ADOPT;
    }
    return slot->state == MIXING_COPIED ||
           (only_gave && (match->averages || !mix_match_moves(match)));
}

/* Return whether the group has not adopted the average and has no copy to adopt it with. */
static bool is_late(const struct mixing_slot *slot, const struct mix_match *match)
{
    const bool waits = slot->state == MIXING_MATCHED || slot->state == MIXING_EXPIRED ||
                       slot->state == MIXING_REJECTED; /* the group could not compute the average */
    return match->kind == MIX_ADOPT && mix_xid_is(slot->match.xid, match->xid) && waits &&
           slot->match.kind == MIX_AVERAGE;
}

static enum mixing_answer judge(const struct mixing *mixing, const struct mix_match *match)
{
    const enum mixing_place place = place_of(match);
    const struct mixing_slot *average = &mixing->slot[MIXING_AVERAGES];
    if (match->own.group != mixing->group || match->own.generation != mixing->generation) {
        return MIXING_OTHER;
    }
    if (!mix_xid_after(match->xid, mixing->newest[place]) &&
        !is_late(&mixing->slot[place], match)) {
        return MIXING_KNOWN;
    }
    const bool spans = is_open(average) && average->has_copy && average->match.alpha > 0;
    return place == MIXING_PAIRS && spans ? MIXING_BUSY
           : has_room(mixing)             ? MIXING_TAKEN
                                          : MIXING_FULL;
}

enum mixing_answer mixing_take(struct mixing *mixing, const struct mix_match *match)
{
    struct mixing_slot *slot = &mixing->slot[place_of(match)];
    const enum mixing_answer answer = judge(mixing, match);
    if (answer != MIXING_OTHER && continues(slot, match)) {
        slot->match = *match;
        slot->fetched = 0;
        skip_own(mixing, slot);
        return MIXING_TAKEN;
    }
    if (answer == MIXING_TAKEN) {
        end(slot, MIXING_EXPIRED);
        mixing->newest[place_of(match)] = match->xid;
        slot->match = *match;
        slot->state = MIXING_MATCHED;
        slot->has_copy = slot->spoiled = false;
        slot->fetched = 0;
    }
    return answer;
}

void mixing_tick(struct mixing *mixing, int64_t now_ms)
{
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        if (now_ms >= mixing->slot[p].match.deadline_ms) {
            end(&mixing->slot[p], MIXING_EXPIRED);
        }
    }
}

void mixing_stand(struct mixing *mixing, const struct mix_duty *duty)
{
    struct mixing_slot *slot = &mixing->slot[MIXING_AVERAGES];
    bool stands = slot->match.kind != MIX_AVERAGE || slot->match.averages;
    for (size_t i = 0; i < duty->order_count; i++) {
        stands = stands || mix_xid_is(duty->order[i].xid, slot->match.xid);
    }
    if (!stands) {
        end(slot, MIXING_EXPIRED);
    }
}

void mixing_pass(struct mixing *mixing, int64_t version)
{
    mixing->passed = version > mixing->passed ? version : mixing->passed;
}

int64_t mixing_due_at(const struct mixing *mixing, int64_t every)
{
    const bool passed = mixing->passed > mixing->applied_step;
    return (passed ? mixing->passed : mixing->applied_step) + every;
}

/* A group may be far beyond that step when the order to slow down arrives. It slows down from its
 * present step. */
void mixing_reach(struct mixing *mixing, int64_t version, int64_t every, enum mixing_pace pace,
                  int64_t now_ms)
{
    const bool begins = pace == MIXING_SLOWS && !mixing->slows;
    mixing->slows = pace == MIXING_SLOWS;
    if (version >= mixing_due_at(mixing, every) && (begins || !mixing_is_reached(mixing, every))) {
        mixing->due_step = mixing_due_at(mixing, every);
        mixing->due_version = version;
        mixing->due_ms = now_ms;
    }
}

bool mixing_is_reached(const struct mixing *mixing, int64_t every)
{
    return mixing->due_step == mixing_due_at(mixing, every);
}

/* Return the time since the mix was due. */
static int64_t waited_ms(const struct mixing *mixing, int64_t now_ms)
{
    return now_ms > mixing->due_ms ? now_ms - mixing->due_ms : 0;
}

int64_t mixing_holds_at(const struct mixing *mixing, int64_t every, enum mixing_pace pace,
                        int64_t now_ms)
{
    const int64_t due = mixing_due_at(mixing, every);
    if (pace != MIXING_SLOWS) {
        return pace == MIXING_HOLDS ? due : MIXING_NEVER;
    }
    if (!mixing_is_reached(mixing, every)) {
        return due;
    }
    const int64_t waited = waited_ms(mixing, now_ms);
    return waited < MIXING_SLOW_FOR_MS ? mixing->due_version + waited / MIXING_SLOW_MS
                                       : MIXING_NEVER;
}

int64_t mixing_slows_until_ms(const struct mixing *mixing, int64_t every, int64_t now_ms)
{
    if (!mixing_is_reached(mixing, every) || waited_ms(mixing, now_ms) >= MIXING_SLOW_FOR_MS) {
        return MIXING_NEVER;
    }
    return mixing->due_ms + (waited_ms(mixing, now_ms) / MIXING_SLOW_MS + 1) * MIXING_SLOW_MS;
}

bool mixing_wants(const struct mixing *mixing, int64_t version, int64_t every)
{
    const struct mixing_slot *average = &mixing->slot[MIXING_AVERAGES];
    return version >= mixing_due_at(mixing, every) && !is_open(&mixing->slot[MIXING_PAIRS]) &&
           (!is_open(average) || average->match.alpha == 0) && has_room(mixing);
}

/* ---- what it reports ---- */

int64_t mixing_lacks(const struct mixing *mixing)
{
    const struct mixing_slot *slot = &mixing->slot[MIXING_AVERAGES];
    if (slot->match.averages && slot->spoiled) {
        return mixing->group;
    }
    const bool needs = slot->match.averages && slot->has_copy && slot->state != MIXING_MATCHED &&
                       slot->fetched < slot->match.peer_count;
    return needs ? slot->match.peer[slot->fetched].group : -1;
}

void mixing_find_news(const struct mixing *mixing, bool wants, struct mixing_news *out)
{
    *out =
        (struct mixing_news){.wants = wants, .mixes = mixing->mixes, .lacks = mixing_lacks(mixing)};
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        out->xid[p] = mixing->newest[p];
        out->state[p] = mixing->slot[p].state;
        out->copied[p] = mixing->slot[p].has_copy;
    }
}

static bool differs(const struct mixing_news *a, const struct mixing_news *b,
                    enum mixing_place place)
{
    return !mix_xid_is(a->xid[place], b->xid[place]) || a->state[place] != b->state[place] ||
           a->copied[place] != b->copied[place];
}

enum mixing_urgency mixing_compare(const struct mixing_news *told, const struct mixing_news *news)
{
    const bool part = differs(told, news, MIXING_AVERAGES);
    if ((news->wants && !told->wants) || (part && news->state[MIXING_AVERAGES] != MIXING_MATCHED)) {
        return MIXING_NOW;
    }
    return part || differs(told, news, MIXING_PAIRS) || news->wants != told->wants ||
                   news->mixes != told->mixes || news->lacks != told->lacks
               ? MIXING_SOON
               : MIXING_OLD;
}

/* ---- at a step boundary ---- */

enum mixing_work mixing_due(const struct mixing *mixing, enum mixing_place place)
{
    const enum mixing_state state = mixing->slot[place].state;
    return state == MIXING_MATCHED   ? MIXING_COPY
           : state == MIXING_FETCHED ? MIXING_APPLY
                                     : MIXING_GO_ON;
}

enum mixing_work mixing_next(const struct mixing *mixing, enum mixing_place *place)
{
    enum mixing_work work = MIXING_GO_ON;
    for (size_t p = 0; p < MIXING_PLACES && work == MIXING_GO_ON; p++) {
        work = mixing_due(mixing, (enum mixing_place)p);
        if (work != MIXING_GO_ON) {
            *place = (enum mixing_place)p;
        }
    }
    return work;
}

void mixing_copied(struct mixing *mixing, enum mixing_place place, int64_t version, bool finite)
{
    struct mixing_slot *slot = &mixing->slot[place];
    ASSERT(slot->state == MIXING_MATCHED);
    slot->copy = (struct mix_member){.group = mixing->group,
                                     .generation = mixing->generation,
                                     .version = version,
                                     .mixes = mixing->mixes};
    slot->has_copy = true;
    slot->spoiled = !finite;
    skip_own(mixing, slot);
    const bool gives = slot->match.kind == MIX_AVERAGE && !slot->match.averages;
    if (gives && !mix_match_moves(&slot->match)) {
        slot->state = MIXING_APPLIED;
    }
    if (place == MIXING_AVERAGES && slot->match.alpha > 0) {
        end(&mixing->slot[MIXING_PAIRS], MIXING_EXPIRED);
    }
}

void mixing_applied(struct mixing *mixing, enum mixing_place place, int64_t version)
{
    struct mixing_slot *slot = &mixing->slot[place];
    ASSERT(slot->state == MIXING_FETCHED);
    slot->state = MIXING_APPLIED;
    if (!mix_match_moves(&slot->match)) {
        return;
    }
    note_move(mixing, slot, version);
    mixing->mixes++;
    mixing->applied_step = version;
}

/* ---- copies of other groups ---- */

const struct mix_member *mixing_fetch(const struct mixing *mixing, enum mixing_place place)
{
    const struct mixing_slot *slot = &mixing->slot[place];
    const bool waits = slot->state == MIXING_COPIED && slot->fetched < peers_of(&slot->match);
    return waits ? &slot->match.peer[slot->fetched] : NULL;
}

void mixing_fetched(struct mixing *mixing, enum mixing_place place, const struct mix_member *copy,
                    bool finite, const struct mix_record *record, size_t records)
{
    struct mixing_slot *slot = &mixing->slot[place];
    if (!mixing_fetch(mixing, place)) {
        return; /* the match ended while the copy was on its way */
    }
    struct mix_member *peer = &slot->match.peer[slot->fetched];
    const bool is_named = copy->group == peer->group && copy->generation == peer->generation;
    const struct mixing_room room = mixing_room(mixing, record, records);
    if (!finite || !is_named || room.needed > room.available) {
        end(slot, MIXING_REJECTED);
        return;
    }
    carry(mixing, record, records);
    set_copy(peer, copy);
    slot->fetched++;
    skip_own(mixing, slot);
}

void mixing_abandon(struct mixing *mixing, enum mixing_place place)
{
    end(&mixing->slot[place], MIXING_EXPIRED);
}

static enum mixing_verdict verdict_of(const struct mixing_slot *slot, bool average)
{
    const bool fails = slot->state == MIXING_EXPIRED || slot->state == MIXING_REJECTED;
    if (!average) {
        return slot->state == MIXING_MATCHED ? MIXING_PARK
               : slot->has_copy              ? MIXING_SERVE
                                             : MIXING_GONE;
    }
    if (!slot->match.averages) {
        return slot->match.kind == MIX_AVERAGE && !fails ? MIXING_LATER : MIXING_GONE;
    }
    return fails                                                            ? MIXING_GONE
           : slot->state == MIXING_FETCHED || slot->state == MIXING_APPLIED ? MIXING_SERVE
                                                                            : MIXING_PARK;
}

enum mixing_verdict mixing_serve(const struct mixing *mixing, struct mix_xid xid, bool average,
                                 enum mixing_place *place)
{
    bool may_come = true;
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        const struct mixing_slot *slot = &mixing->slot[p];
        if (mix_xid_is(slot->match.xid, xid)) {
            *place = (enum mixing_place)p;
            return verdict_of(slot, average);
        }
        may_come = may_come && mix_xid_after(xid, mixing->newest[p]);
    }
    return may_come ? MIXING_LATER : MIXING_GONE;
}
