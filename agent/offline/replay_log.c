#include "agent/offline/replay_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"

struct replay_name replay_name(const struct mix_record *record)
{
    struct replay_name name;
    const struct mix_member *own = &record->own;
    char xid[64] = "";
    if (record->xid.counter > 0) {
        (void)snprintf(xid, sizeof(xid), " %" PRId64 ":%" PRId64, record->xid.life,
                       record->xid.counter);
    }
    (void)snprintf(name.text, sizeof(name.text), "%s%s of group %" PRId64 ", generation %" PRId64,
                   mix_kind_names[record->kind], xid, own->group, own->generation);
    return name;
}

/* ---- orders ---- */

static int compare_numbers(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_members(const struct mix_member *a, const struct mix_member *b)
{
    const int by_group = compare_numbers(a->group, b->group);
    return by_group ? by_group : compare_numbers(a->generation, b->generation);
}

static int compare_xids(struct mix_xid a, struct mix_xid b)
{
    const int by_life = compare_numbers(a.life, b.life);
    return by_life ? by_life : compare_numbers(a.counter, b.counter);
}

static int by_xid(const void *left, const void *right)
{
    const struct mix_record *a = *(const struct mix_record *const *)left;
    const struct mix_record *b = *(const struct mix_record *const *)right;
    const int xids = compare_xids(a->xid, b->xid);
    const int kinds = xids ? xids : compare_numbers(a->kind, b->kind);
    return kinds ? kinds : compare_members(&a->own, &b->own);
}

/* Order records by incarnation, its start before its moves. */
static int by_incarnation(const void *left, const void *right)
{
    const struct mix_record *a = *(const struct mix_record *const *)left;
    const struct mix_record *b = *(const struct mix_record *const *)right;
    const int members = compare_members(&a->own, &b->own);
    const int starts =
        members ? members : compare_numbers(a->kind != MIX_START, b->kind != MIX_START);
    return starts ? starts : compare_numbers(a->applied_mixes, b->applied_mixes);
}

/* ---- a record alone ---- */

static int wrong(const struct mix_record *record, const char *what, struct err *err)
{
    return err_set(err, ERR_INVALID, "%s: %s", replay_name(record).text, what);
}

static int check_start(const struct mix_record *record, struct err *err)
{
    const struct mix_member *own = &record->own, *peer = &record->peer[0];
    if (!mix_record_forks(record)) {
        return own->version == 0 && own->mixes == 0 && record->peer_count <= 1
                   ? 0
                   : wrong(record, "it begins with a version that no earlier generation has", err);
    }
    const bool fits = record->peer_count == 1 && peer->group == own->group &&
                      peer->generation < own->generation && peer->version == own->version &&
                      own->mixes == 0;
    return fits ? 0 : wrong(record, "expected an earlier generation of the group", err);
}

static int check_average(const struct mix_record *record, struct err *err)
{
    if (record->peer_count == 0) {
        return wrong(record, "it has no copies", err);
    }
    for (size_t i = 0; i < record->peer_count; i++) {
        const struct mix_member *peer = &record->peer[i];
        if (peer->group == record->own.group && !replay_is_copy(peer, &record->own)) {
            return wrong(record, "it names two copies of its own group", err);
        }
        for (size_t k = 0; k < i; k++) {
            if (record->peer[k].group == peer->group) {
                return wrong(record, "it has two copies of one group", err);
            }
        }
    }
    return 0;
}

static int check_stored(const struct mix_record *record, struct err *err)
{
    return record->peer_count == 0 ? 0 : wrong(record, "expected no peer", err);
}

static int check_move(const struct mix_record *record, struct err *err)
{
    const struct mix_member *own = &record->own;
    if (record->peer_count != 1) {
        return wrong(record, "expected one peer", err);
    }
    if (record->kind == MIX_PAIR && record->peer[0].group == own->group) {
        return wrong(record, "its peer is its own group", err);
    }
    return own->version <= record->applied_step && own->mixes <= record->applied_mixes
               ? 0
               : wrong(record, "it was applied before its copy was taken", err);
}

static int check_member(const struct mix_record *record, const struct mix_member *member,
                        size_t groups, struct err *err)
{
    if (member->group < 0 || (uint64_t)member->group >= groups) {
        return err_set(err, ERR_INVALID, "%s names group %" PRId64 ": the job has %zu groups",
                       replay_name(record).text, member->group, groups);
    }
    return 0;
}

static int check_record(const struct mix_record *record, size_t groups, struct err *err)
{
    int rc = check_member(record, &record->own, groups, err);
    for (size_t i = 0; rc == 0 && i < record->peer_count; i++) {
        rc = check_member(record, &record->peer[i], groups, err);
    }
    if (rc == 0 && record->kind != MIX_START && record->xid.counter <= 0) {
        rc = wrong(record, "it has no match", err);
    }
    if (rc != 0) {
        return rc;
    }
    switch ((enum mix_kind)record->kind) {
    case MIX_START: return check_start(record, err);
    case MIX_STORED: return check_stored(record, err);
    case MIX_AVERAGE: return check_average(record, err);
    case MIX_PAIR:
    case MIX_ADOPT: return check_move(record, err);
    }
    return 0;
}

/* ---- records among others ---- */

static int contradict(const struct mix_record *a, const struct mix_record *b, struct err *err)
{
    return err_set(err, ERR_INVALID, "%s contradicts %s", replay_name(a).text, replay_name(b).text);
}

static bool both_stored(const struct mix_record *a, const struct mix_record *b)
{
    return a->kind == MIX_STORED && b->kind == MIX_STORED && mix_xid_is(a->xid, b->xid);
}

/* Check that both sides of a pair name the same copies. */
static int check_sides(const struct mix_record *a, const struct mix_record *b, struct err *err)
{
    const bool are_sides = a->kind == MIX_PAIR && b->kind == MIX_PAIR &&
                           mix_xid_is(a->xid, b->xid) && replay_is_of(&a->peer[0], &b->own);
    return !are_sides ||
                   (replay_is_copy(&a->peer[0], &b->own) && replay_is_copy(&b->peer[0], &a->own))
               ? 0
               : contradict(a, b, err);
}

static int check_order(const struct replay_index *index, struct err *err)
{
    int rc = 0;
    for (size_t i = 1; rc == 0 && i < index->count; i++) {
        const struct mix_record *before = index->by_xid[i - 1], *record = index->by_xid[i];
        rc = mix_record_is(before, record) ? wrong(record, "it is in the log twice", err)
             : both_stored(before, record) ? contradict(record, before, err)
                                           : check_sides(before, record, err);
    }
    return rc;
}

static int add_move(struct replay_incarnation *incarnation, const struct mix_record *record,
                    struct err *err)
{
    const size_t m = incarnation->moves;
    const struct mix_record *before = m > 0 ? incarnation->move[m - 1] : incarnation->start;
    const int64_t earliest = m > 0 ? before->applied_step : before->own.version;
    if (m > 0 && record->applied_mixes == before->applied_mixes) {
        return contradict(record, before, err);
    }
    if (record->applied_mixes != (int64_t)m) {
        return err_set(err, ERR_INVALID,
                       "%s is mix %" PRId64 " of its generation: the record of mix %zu is missing",
                       replay_name(record).text, record->applied_mixes, m);
    }
    if (record->applied_step < earliest) {
        return contradict(record, before, err);
    }
    incarnation->moves++;
    return 0;
}

static int make_incarnations(struct replay_index *index, size_t own, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < own; i++) {
        const struct mix_record *record = index->own[i];
        struct replay_incarnation *last =
            index->incarnations > 0 ? &index->incarnation[index->incarnations - 1] : NULL;
        if (last && replay_is_of(&last->start->own, &record->own)) {
            rc = record->kind == MIX_START ? contradict(record, last->start, err)
                                           : add_move(last, record, err);
        } else if (record->kind == MIX_START) {
            index->incarnation[index->incarnations++] =
                (struct replay_incarnation){.start = record, .move = &index->own[i + 1]};
        } else {
            rc = wrong(record, "the record of the start of its generation is missing", err);
        }
    }
    return rc;
}

/* Check that the incarnation had the state of each of its own copies. */
static int check_own_copies(const struct replay_index *index, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < index->incarnations; i++) {
        const struct replay_incarnation *incarnation = &index->incarnation[i];
        for (size_t m = 0; rc == 0 && m < incarnation->moves; m++) {
            rc = replay_check_copy(incarnation, &incarnation->move[m]->own, incarnation->move[m],
                                   err);
        }
    }
    for (size_t i = 0; rc == 0 && i < index->averages; i++) {
        const struct mix_record *record = index->average[i];
        if (replay_index_find(index, &record->own) == index->incarnations) {
            rc = wrong(record, "the record of the start of its generation is missing", err);
        }
    }
    return rc;
}

/* ---- life ---- */

static int allocate(struct replay_index *index, size_t count, struct err *err)
{
    index->by_xid = calloc(count + 1, sizeof(index->by_xid[0]));
    index->own = calloc(count + 1, sizeof(index->own[0]));
    index->average = calloc(count + 1, sizeof(index->average[0]));
    index->stored = calloc(count + 1, sizeof(index->stored[0]));
    index->incarnation = calloc(count + 1, sizeof(index->incarnation[0]));
    return index->by_xid && index->own && index->average && index->stored && index->incarnation
               ? 0
               : err_set(err, ERR_MEMORY, "%zu records of mixes", count);
}

int replay_index_new(const struct mix_record *record, size_t count, size_t groups,
                     struct replay_index *out, struct err *err)
{
    size_t own = 0;
    *out = (struct replay_index){.count = count};
    int rc = allocate(out, count, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = check_record(&record[i], groups, err);
        out->by_xid[i] = &record[i];
    }
    if (rc != 0) {
        return rc;
    }
    sort_in_place(out->by_xid, count, sizeof(out->by_xid[0]), by_xid);
    for (size_t i = 0; i < count; i++) {
        if (out->by_xid[i]->kind == MIX_AVERAGE) {
            out->average[out->averages++] = out->by_xid[i];
        } else if (out->by_xid[i]->kind == MIX_STORED) {
            out->stored[out->stored_count++] = out->by_xid[i];
        } else {
            out->own[own++] = out->by_xid[i];
        }
    }
    sort_in_place(out->own, own, sizeof(out->own[0]), by_incarnation);
    rc = check_order(out, err);
    rc = rc ? rc : make_incarnations(out, own, err);
    return rc ? rc : check_own_copies(out, err);
}

void replay_index_done(struct replay_index *index)
{
    free(index->by_xid);
    free(index->own);
    free(index->average);
    free(index->stored);
    free(index->incarnation);
    *index = (struct replay_index){0};
}

/* ---- finding ---- */

size_t replay_index_find(const struct replay_index *index, const struct mix_member *member)
{
    size_t first = 0, end = index->incarnations;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        const int order = compare_members(&index->incarnation[middle].start->own, member);
        if (order == 0) {
            return middle;
        }
        first = order < 0 ? middle + 1 : first;
        end = order < 0 ? end : middle;
    }
    return index->incarnations;
}

size_t replay_index_average(const struct replay_index *index, struct mix_xid xid,
                            const struct mix_member *author)
{
    size_t first = 0, end = index->averages;
    while (first < end) { /* find the first that is not before it */
        const size_t middle = first + (end - first) / 2;
        const struct mix_record *record = index->average[middle];
        const int xids = compare_xids(record->xid, xid);
        const bool before =
            xids < 0 || (xids == 0 && author && compare_members(&record->own, author) < 0);
        first = before ? middle + 1 : first;
        end = before ? end : middle;
    }
    const bool found = first < index->averages && mix_xid_is(index->average[first]->xid, xid) &&
                       (!author || replay_is_of(&index->average[first]->own, author));
    return found ? first : index->averages;
}

const struct mix_record *replay_index_stored(const struct replay_index *index, struct mix_xid xid)
{
    size_t at = index->stored_count;
    while (at > 0 && mix_xid_after(index->stored[at - 1]->xid, xid)) {
        at--;
    }
    return at > 0 && mix_xid_is(index->stored[at - 1]->xid, xid) ? index->stored[at - 1] : NULL;
}

bool replay_averages_agree(const struct mix_record *a, const struct mix_record *b)
{
    bool agree = a->peer_count == b->peer_count;
    for (size_t i = 0; agree && i < a->peer_count; i++) {
        agree = replay_is_copy(&a->peer[i], &b->peer[i]) && a->peer[i].weight == b->peer[i].weight;
    }
    return agree;
}

/* ---- copies ---- */

int replay_check_copy(const struct replay_incarnation *incarnation, const struct mix_member *copy,
                      const struct mix_record *by, struct err *err)
{
    const size_t moves = incarnation->moves;
    if (copy->mixes < 0 || (uint64_t)copy->mixes > moves) {
        return err_set(err, ERR_INVALID,
                       "%s names group %" PRId64 ", generation %" PRId64 ", after %" PRId64
                       " mixes: the record of mix %zu is missing",
                       replay_name(by).text, copy->group, copy->generation, copy->mixes, moves);
    }
    const size_t mixes = (size_t)copy->mixes;
    const int64_t earliest =
        mixes > 0 ? incarnation->move[mixes - 1]->applied_step : incarnation->start->own.version;
    if (copy->version < earliest) {
        return contradict(by, mixes > 0 ? incarnation->move[mixes - 1] : incarnation->start, err);
    }
    return mixes == moves || copy->version <= incarnation->move[mixes]->applied_step
               ? 0
               : contradict(by, incarnation->move[mixes], err);
}

size_t replay_moves_until(const struct replay_incarnation *incarnation, int64_t version)
{
    size_t moves = 0;
    while (moves < incarnation->moves && incarnation->move[moves]->applied_step <= version) {
        moves++;
    }
    return moves;
}
