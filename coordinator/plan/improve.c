#include "coordinator/plan/improve.h"

#include <math.h>
#include <string.h>

/* Most kinds tried for a stage: the fastest ones. */
#define POOL_MAX 48

static bool has_work(const struct search *search)
{
    return search->work < search->work_max && kinds_may_ask(&search->kinds, 1);
}

/* ---- cuts ---- */

/* Try the best plan with one boundary moved by `by` units up or down. */
static bool move_boundary(struct search *search, size_t boundary, size_t by, bool up)
{
    struct layout layout = search->best;
    const size_t below = boundary == 0 ? 0 : layout.end[boundary - 1];
    const size_t end = layout.end[boundary];
    if (search->kinds.problem->end ||
        (up ? end + by >= layout.end[boundary + 1] : end <= below + by)) {
        return false;
    }
    layout.end[boundary] = (uint16_t)(up ? end + by : end - by);
    return search_try(search, &layout, false);
}

static bool change_codec(struct search *search, size_t boundary, size_t codec)
{
    struct layout layout = search->best;
    if (layout.codec[boundary] == codec) {
        return false;
    }
    layout.codec[boundary] = (uint8_t)codec;
    return search_try(search, &layout, false);
}

static bool change_cut(struct search *search, size_t boundary)
{
    bool better = false;
    for (size_t by = 1; by < search->kinds.problem->unit_count && has_work(search); by *= 2) {
        better = move_boundary(search, boundary, by, false) || better;
        better = move_boundary(search, boundary, by, true) || better;
    }
    for (size_t c = 0; c < search->kinds.problem->codec_count && has_work(search); c++) {
        better = change_codec(search, boundary, c) || better;
    }
    return better;
}

void improve_cuts(struct search *search)
{
    bool better = search->best.count > 0;
    while (better) {
        better = false;
        for (size_t i = 0; i + 1 < search->best.count && has_work(search); i++) {
            better = change_cut(search, i) || better;
        }
    }
}

/* ---- devices ---- */

static size_t left_of(const struct search *search, size_t kind)
{
    size_t used = 0;
    for (size_t i = 0; i < search->best.count; i++) {
        used += search->best.kind[i] == kind;
    }
    return search->kinds.kind[kind].count - used;
}

/* Try the best plan with stage `at` removed (kind: none) or with one more before it. */
static bool try_changed(struct search *search, size_t at, bool remove, size_t kind)
{
    uint16_t order[PARTITION_STAGES_MAX];
    const struct layout *best = &search->best;
    size_t count = 0;
    for (size_t i = 0; i <= best->count; i++) {
        if (i == at && !remove) {
            order[count++] = (uint16_t)kind;
        }
        if (i < best->count && !(i == at && remove)) {
            order[count++] = best->kind[i];
        }
    }
    return search_try_order(search, order, count);
}

static bool try_swapped(struct search *search, size_t a, size_t b)
{
    uint16_t order[PARTITION_STAGES_MAX];
    const struct layout *best = &search->best;
    if (best->kind[a] == best->kind[b]) {
        return false;
    }
    memcpy(order, best->kind, sizeof(order));
    order[a] = best->kind[b];
    order[b] = best->kind[a];
    return search_try_order(search, order, best->count);
}

/* Move the device of stage `from` to before stage `to`. */
static bool try_moved(struct search *search, size_t from, size_t to)
{
    uint16_t order[PARTITION_STAGES_MAX];
    const struct layout *best = &search->best;
    size_t count = 0;
    for (size_t i = 0; i < best->count; i++) {
        if (i != from) {
            order[count++] = best->kind[i];
        }
    }
    memmove(&order[to + 1], &order[to], (count - to) * sizeof(order[0]));
    order[to] = best->kind[from];
    return search_try_order(search, order, best->count);
}

static bool try_replaced(struct search *search, size_t at, size_t kind)
{
    uint16_t order[PARTITION_STAGES_MAX];
    memcpy(order, search->best.kind, sizeof(order));
    order[at] = (uint16_t)kind;
    return search_try_order(search, order, search->best.count);
}

static bool change_order(struct search *search)
{
    bool better = false;
    for (size_t a = 0; a < search->best.count; a++) {
        for (size_t b = 0; b < search->best.count && has_work(search); b++) {
            better = (a < b && try_swapped(search, a, b)) || better;
            better = (a != b && a != b + 1 && try_moved(search, a, b)) || better;
        }
    }
    return better;
}

/* Try to add a device of a kind at any place, or to replace another one. */
static bool bring_in(struct search *search, size_t kind)
{
    bool better = false;
    for (size_t at = 0; at <= search->best.count && has_work(search); at++) {
        if (left_of(search, kind) == 0) {
            break;
        }
        if (search->best.count < search->stages_max) {
            better = try_changed(search, at, false, kind) || better;
        }
        if (at < search->best.count && left_of(search, kind) > 0) {
            better = try_replaced(search, at, kind) || better;
        }
    }
    return better;
}

static bool change_devices(struct search *search)
{
    bool better = false;
    for (size_t at = 0; at < search->best.count && has_work(search); at++) {
        if (search->best.count > search->stages_min && search->best.count > 1) {
            better = try_changed(search, at, true, 0) || better;
        }
    }
    for (size_t i = 0; i < search->kinds.count && i < POOL_MAX; i++) {
        better = bring_in(search, search->kinds.by_speed[i]) || better;
    }
    return better;
}

/* ---- first plans ---- */

/* Play the plan that attains the bound, with the fastest devices for its groups. */
void improve_path(struct search *search)
{
    const struct kinds *kinds = &search->kinds;
    struct layout layout;
    uint16_t used[PARTITION_DEVICES_MAX] = {0};
    if (kinds->problem->in_order) {
        return;
    }
    bound_path(&search->bound, &layout);
    for (size_t i = 0; i < layout.count; i++) {
        for (size_t k = 0; k < kinds->count; k++) {
            size_t kind = kinds->by_speed[k];
            if (kinds->group_of[kind] == layout.kind[i] && used[kind] < kinds->kind[kind].count) {
                used[kind]++;
                layout.kind[i] = (uint16_t)kind;
                break;
            }
        }
    }
    for (size_t i = 0, first = 0; i + 1 < layout.count; first = layout.end[i++]) {
        const struct link_speed *link = kinds_link(kinds, layout.kind[i], layout.kind[i + 1]);
        layout.codec[i] = (uint8_t)stages_codec(kinds, link, first, layout.end[i]);
    }
    (void)search_try(search, &layout, false);
    if (!kinds_exact(kinds)) {
        (void)search_try_order(search, layout.kind, layout.count);
    }
}

/* Try the first `count` devices of a list of kinds. */
static void try_list(struct search *search, const uint16_t *list, size_t count)
{
    uint16_t order[PARTITION_STAGES_MAX];
    size_t filled = 0;
    for (size_t k = 0; k < search->kinds.count && filled < count; k++) {
        for (size_t i = 0; i < search->kinds.kind[list[k]].count && filled < count; i++) {
            order[filled++] = list[k];
        }
    }
    if (filled == count) {
        (void)search_try_order(search, order, count);
    }
}

static void sort_by_cap(const struct kinds *kinds, uint16_t *list)
{
    for (size_t k = 0; k < kinds->count; k++) {
        size_t at = k;
        for (; at > 0 &&
               kinds->kind[list[at - 1]].cap_bytes < kinds->kind[kinds->by_speed[k]].cap_bytes;
             at--) {
            list[at] = list[at - 1];
        }
        list[at] = kinds->by_speed[k];
    }
}

static void try_lists(struct search *search)
{
    uint16_t by_cap[PARTITION_DEVICES_MAX];
    sort_by_cap(&search->kinds, by_cap);
    for (size_t count = search->stages_min; count <= search->stages_max; count++) {
        if (count > search->stages_min && !has_work(search)) {
            break;
        }
        try_list(search, search->kinds.by_speed, count);
        if (search->best.count == 0) {
            try_list(search, by_cap, count);
        }
    }
}

void improve_run(struct search *search)
{
    const struct partition_problem *problem = search->kinds.problem;
    if (problem->in_order) {
        uint16_t order[PARTITION_STAGES_MAX];
        for (size_t i = 0; i < search->kinds.count; i++) {
            order[i] = (uint16_t)i;
        }
        (void)search_try_order(search, order, search->kinds.count);
        improve_cuts(search);
        return;
    }
    improve_path(search);
    if (problem->first_fit && search->best.count > 0) {
        return;
    }
    try_lists(search);
    bool better = search->best.count > 0 && !problem->first_fit;
    while (better && has_work(search)) {
        improve_cuts(search);
        better = change_order(search);
        better = change_devices(search) || better;
    }
}
