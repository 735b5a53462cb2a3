#include "agent/offline/replay_needs.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/sort.h"

struct search {
    const struct replay_index *index;
    struct replay_needs *needs;
    bool *known;                    /* [incarnations] */
    const struct mix_record **open; /* records whose needs are not known yet */
    size_t opened;
};

/* ---- what a record needs ---- */

static int need_copy(struct search *search, const struct mix_member *copy,
                     const struct mix_record *by, struct err *err)
{
    const struct replay_index *index = search->index;
    struct replay_needs *needs = search->needs;
    const size_t at = replay_index_find(index, copy);
    if (at == index->incarnations) {
        return err_set(err, ERR_INVALID,
                       "%s names group %" PRId64 ", generation %" PRId64
                       ": the record of its start is missing",
                       replay_name(by).text, copy->group, copy->generation);
    }
    const struct replay_incarnation *incarnation = &index->incarnation[at];
    struct replay_life *life = &needs->life[at];
    int rc = replay_check_copy(incarnation, copy, by, err);
    if (rc != 0) {
        return rc;
    }
    needs->want[needs->wants++] = (struct replay_want){
        .incarnation = at, .mixes = copy->mixes, .version = copy->version, .by = by};
    if (!search->known[at]) {
        search->known[at] = true;
        search->open[search->opened++] = incarnation->start;
    }
    while (life->moves < (size_t)copy->mixes) {
        search->open[search->opened++] = incarnation->move[life->moves++];
    }
    return 0;
}

/* Two groups may compute an average for the same match. This is harmless if the averages agree, or
 * if the log states whose was stored. Older logs have no such records. */
static int check_authors(const struct replay_index *index, size_t at, struct err *err)
{
    const struct mix_record *record = index->average[at];
    if (replay_index_stored(index, record->xid)) {
        return 0;
    }
    for (size_t i = at + 1; i < index->averages; i++) {
        const struct mix_record *other = index->average[i];
        if (!mix_xid_is(other->xid, record->xid)) {
            break;
        }
        if (!replay_averages_agree(other, record)) {
            return err_set(err, ERR_INVALID, "%s and %s differ, and which one counts is not known",
                           replay_name(record).text, replay_name(other).text);
        }
    }
    return 0;
}

/* Return the stored average of a match, or else the first one. */
static size_t find_stored(const struct replay_index *index, struct mix_xid xid)
{
    const struct mix_record *stored = replay_index_stored(index, xid);
    return replay_index_average(index, xid, stored ? &stored->own : NULL);
}

static void need_average(struct search *search, size_t at)
{
    if (search->needs->uses[at]++ == 0) {
        search->open[search->opened++] = search->index->average[at];
    }
}

static int need_average_of(struct search *search, const struct mix_record *by, struct err *err)
{
    const struct replay_index *index = search->index;
    const size_t at = replay_needs_average(index, by);
    if (at == index->averages) {
        return err_set(err, ERR_INVALID, "%s: the record of its average is missing",
                       replay_name(by).text);
    }
    const struct mix_record *record = index->average[at];
    if (by->kind == MIX_ADOPT && !replay_is_copy(&record->own, &by->peer[0])) {
        return err_set(err, ERR_INVALID, "%s contradicts %s", replay_name(by).text,
                       replay_name(record).text);
    }
    need_average(search, at);
    return by->peer_count == 0 ? check_authors(index, at, err) : 0;
}

static int need_start(struct search *search, const struct mix_record *start, struct err *err)
{
    if (!mix_record_forks(start)) {
        return start->xid.counter > 0 ? need_average_of(search, start, err) : 0;
    }
    struct mix_member from = start->peer[0];
    const size_t at = replay_index_find(search->index, &from);
    if (at < search->index->incarnations) {
        from.mixes = (int64_t)replay_moves_until(&search->index->incarnation[at], from.version);
    }
    return need_copy(search, &from, start, err);
}

static int need_of(struct search *search, const struct mix_record *record, struct err *err)
{
    int rc = 0;
    switch ((enum mix_kind)record->kind) {
    case MIX_START: return need_start(search, record, err);
    case MIX_STORED: return 0; /* its average covers it */
    case MIX_PAIR:
        rc = need_copy(search, &record->own, record, err);
        return rc ? rc : need_copy(search, &record->peer[0], record, err);
    case MIX_ADOPT:
        rc = need_copy(search, &record->own, record, err);
        return rc ? rc : need_average_of(search, record, err);
    case MIX_AVERAGE:
        for (size_t i = 0; rc == 0 && i < record->peer_count; i++) {
            rc = need_copy(search, &record->peer[i], record, err);
        }
        return rc;
    }
    return rc;
}

static int find(struct search *search, bool all, struct err *err)
{
    const struct replay_index *index = search->index;
    if (index->averages == 0) {
        return err_set(err, ERR_INVALID, "no group has computed an average");
    }
    const struct mix_record *newest = index->stored_count > 0
                                          ? index->stored[index->stored_count - 1]
                                          : index->average[index->averages - 1];
    const size_t last = find_stored(index, newest->xid);
    if (last == index->averages) {
        return err_set(err, ERR_INVALID, "%s: the record of its average is missing",
                       replay_name(newest).text);
    }
    search->needs->last = index->average[last];
    int rc = check_authors(index, last, err);
    need_average(search, last);
    for (size_t i = 0; all && i < index->averages; i++) {
        need_average(search, i);
    }
    while (rc == 0 && search->opened > 0) {
        rc = need_of(search, search->open[--search->opened], err);
    }
    return rc;
}

/* ---- their order ---- */

static int compare_wants(const void *left, const void *right)
{
    const struct replay_want *a = left, *b = right;
    if (a->incarnation != b->incarnation) {
        return a->incarnation < b->incarnation ? -1 : 1;
    }
    if (a->mixes != b->mixes) {
        return a->mixes < b->mixes ? -1 : 1;
    }
    if (a->version != b->version) {
        return a->version < b->version ? -1 : 1;
    }
    if (!a->by || !b->by) {
        return a->by ? 1 : b->by ? -1 : 0;
    }
    return mix_xid_is(a->by->xid, b->by->xid) ? 0 : mix_xid_after(a->by->xid, b->by->xid) ? 1 : -1;
}

static void order(struct replay_needs *needs)
{
    sort_in_place(needs->want, needs->wants, sizeof(needs->want[0]), compare_wants);
    for (size_t i = 0; i < needs->wants; i++) {
        struct replay_life *life = &needs->life[needs->want[i].incarnation];
        life->first = life->end == 0 ? i : life->first;
        life->end = i + 1;
    }
}

bool replay_wants_agree(const struct replay_want *a, const struct replay_want *b)
{
    return a->incarnation == b->incarnation && a->mixes == b->mixes && a->version == b->version;
}

size_t replay_needs_want(const struct replay_needs *needs, const struct replay_index *index,
                         const struct mix_member *copy)
{
    const struct replay_want wanted = {.incarnation = replay_index_find(index, copy),
                                       .mixes = copy->mixes,
                                       .version = copy->version};
    size_t first = 0, end = needs->wants;
    while (first < end) {
        const size_t middle = first + (end - first) / 2;
        const bool before = compare_wants(&needs->want[middle], &wanted) < 0;
        first = before ? middle + 1 : first;
        end = before ? end : middle;
    }
    ASSERT(first < needs->wants && replay_wants_agree(&needs->want[first], &wanted));
    return first;
}

size_t replay_needs_average(const struct replay_index *index, const struct mix_record *record)
{
    const struct mix_member *author = record->kind == MIX_AVERAGE ? &record->own
                                      : record->peer_count > 0    ? &record->peer[0]
                                                                  : NULL;
    return author ? replay_index_average(index, record->xid, author)
                  : find_stored(index, record->xid);
}

/* ---- life ---- */

/* Return an upper bound of the wants: a record wants at most its own copy and those of its
 * peers. */
static size_t count_wants(const struct replay_index *index)
{
    size_t wants = 0;
    for (size_t i = 0; i < index->count; i++) {
        wants += 1 + index->by_xid[i]->peer_count;
    }
    return wants;
}

int replay_needs_find(const struct replay_index *index, bool all, struct replay_needs *out,
                      struct err *err)
{
    struct search search = {.index = index, .needs = out};
    *out = (struct replay_needs){0};
    out->want = calloc(count_wants(index) + 1, sizeof(out->want[0]));
    out->life = calloc(index->incarnations + 1, sizeof(out->life[0]));
    out->uses = calloc(index->averages + 1, sizeof(out->uses[0]));
    search.known = calloc(index->incarnations + 1, sizeof(search.known[0]));
    search.open = calloc(index->count + 1, sizeof(search.open[0]));
    const bool full = out->want && out->life && out->uses && search.known && search.open;
    int rc = full ? find(&search, all, err)
                  : err_set(err, ERR_MEMORY, "the needs of %zu records", index->count);
    if (rc == 0) {
        order(out);
    }
    free(search.known);
    free(search.open);
    return rc;
}

void replay_needs_done(struct replay_needs *needs)
{
    free(needs->want);
    free(needs->life);
    free(needs->uses);
    *needs = (struct replay_needs){0};
}
