#include "libtrain/model/view.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "libtrain/model/shards.h"

const char *const view_numbers_names[] = {
    [VIEW_NUMBERS_VIEW] = "view", [VIEW_NUMBERS_DATA] = "data", NULL};

/* Own classes by class number. */
struct own {
    bool class[VIEW_CLASSES_MAX];
};

static void list_own(const struct view *view, struct own *out)
{
    *out = (struct own){0};
    for (size_t i = 0; i < view->class_count; i++) {
        ASSERT(view->class[i] >= 0 && view->class[i] < VIEW_CLASSES_MAX);
        out->class[view->class[i]] = true;
    }
}

static bool is_own(const struct own *own, int32_t class)
{
    return class >= 0 && class < VIEW_CLASSES_MAX && own->class[class];
}

uint64_t view_held(const struct view *view, uint64_t samples)
{
    if (view->holdout <= 0 || samples == 0) {
        return 0;
    }
    const uint64_t held = (uint64_t)(view->holdout * (double)samples);
    return held > 0 ? held : 1;
}

static uint64_t drawn(const struct view *view, uint64_t own, uint64_t others)
{
    if (view->negatives <= 0 || own == 0) {
        return 0;
    }
    const uint64_t wanted = (uint64_t)(view->negatives * (double)own + 0.5);
    const uint64_t count = wanted > 0 ? wanted : 1;
    return count < others ? count : others;
}

static uint64_t shard_samples(const struct view *view)
{
    uint64_t samples = 0;
    for (size_t i = 0; i < view->range_count; i++) {
        samples += view->range[i].count;
    }
    return samples;
}

void view_sizes(const struct view *view, const int64_t *count, size_t class_count,
                struct view_sizes *out)
{
    struct own own;
    struct view_sizes sizes = {0};
    if (view->is_shard) {
        *out = (struct view_sizes){.own = shard_samples(view), .window = (uint64_t)view->window};
        return;
    }
    list_own(view, &own);
    for (size_t class = 0; class < class_count; class ++) {
        const uint64_t samples = (uint64_t)count[class];
        if (!is_own(&own, (int32_t) class)) {
            sizes.others += samples;
        } else {
            const uint64_t held = view_held(view, samples);
            sizes.held += held;
            sizes.own += samples - held;
        }
    }
    sizes.drawn = drawn(view, sizes.own, sizes.others);
    *out = sizes;
}

void view_labels(const struct view *view, struct view_labels *out)
{
    out->other = (int32_t)view->class_count;
    for (size_t i = 0; i < VIEW_CLASSES_MAX; i++) {
        out->of[i] = view_has_places(view) ? out->other : (int32_t)i;
    }
    for (size_t i = 0; view_has_places(view) && i < view->class_count; i++) {
        ASSERT(view->class[i] >= 0 && view->class[i] < VIEW_CLASSES_MAX);
        out->of[view->class[i]] = (int32_t)i;
    }
}

size_t view_misfit(const struct view *view, const int64_t *count, size_t class_count)
{
    bool seen[VIEW_CLASSES_MAX] = {false};
    size_t i = 0;
    for (; i < view->range_count; i++) {
        const struct view_range *range = &view->range[i];
        if (range->class >= class_count || range->class >= VIEW_CLASSES_MAX || seen[range->class] ||
            (int64_t)range->first + range->count > count[range->class]) {
            break;
        }
        seen[range->class] = true;
    }
    return i;
}

static int32_t class_at(const unsigned char *stored, uint64_t sample)
{
    int32_t class;
    memcpy(&class, stored + sample * sizeof(class), sizeof(class));
    return class;
}

void view_count(const unsigned char *stored, uint64_t samples, int64_t count[VIEW_CLASSES_MAX])
{
    memset(count, 0, VIEW_CLASSES_MAX * sizeof(count[0]));
    for (uint64_t i = 0; i < samples; i++) {
        const int32_t class = class_at(stored, i);
        if (class >= 0 && class < VIEW_CLASSES_MAX) {
            count[class]++;
        }
    }
}

/* The state of a choice of `wanted` out of `left` samples, which come one after the other. Their
 * order is kept, and each sample has the same probability. Source: Knuth, The Art of Computer
 * Programming, 3.4.2, algorithm S. */
struct choice {
    uint64_t left, wanted, seen;
};

static bool choose(struct choice *choice, const struct rng_stream *stream)
{
    const bool chosen = rng_below(stream, choice->seen, choice->left) < choice->wanted;
    choice->seen++;
    choice->left--;
    choice->wanted -= chosen;
    return chosen;
}

void view_split(const struct view *view, uint64_t seed, const unsigned char *stored,
                uint64_t samples, const int64_t count[VIEW_CLASSES_MAX],
                const struct view_samples *out)
{
    struct choice choice[VIEW_CLASSES_MAX];
    struct own classes;
    size_t own = 0, held = 0, others = 0;
    list_own(view, &classes);
    for (size_t i = 0; i < VIEW_CLASSES_MAX; i++) {
        choice[i] = (struct choice){.left = (uint64_t)count[i],
                                    .wanted = view_held(view, (uint64_t)count[i])};
    }
    for (uint64_t i = 0; i < samples; i++) {
        const int32_t class = class_at(stored, i);
        if (!is_own(&classes, class)) {
            out->others[others++] = (uint32_t)i;
            continue;
        }
        const struct rng_stream stream = rng_stream(seed, RNG_HOLDOUT, (uint64_t) class, 0);
        if (choose(&choice[class], &stream)) {
            out->held[held++] = (uint32_t)i;
        } else {
            out->own[own++] = (uint32_t)i;
        }
    }
}

/* List the samples by class, so that the order of the ranges does not matter. */
void view_list_shard(const struct view *view, const unsigned char *stored, uint64_t samples,
                     const int64_t count[VIEW_CLASSES_MAX], uint32_t *order, uint32_t *out)
{
    const struct view_range *range_of[VIEW_CLASSES_MAX] = {NULL};
    uint32_t *next[VIEW_CLASSES_MAX] = {NULL};
    for (size_t i = 0; i < view->range_count; i++) {
        ASSERT(view->range[i].class < VIEW_CLASSES_MAX);
        range_of[view->range[i].class] = &view->range[i];
    }
    uint32_t *end = order;
    for (size_t class = 0; class < VIEW_CLASSES_MAX; class ++) {
        next[class] = end;
        end += range_of[class] ? count[class] : 0;
    }
    for (uint64_t i = 0; i < samples; i++) {
        const int32_t class = class_at(stored, i);
        if (class >= 0 && class < VIEW_CLASSES_MAX && range_of[class]) {
            *next[class]++ = (uint32_t)i;
        }
    }
    for (size_t class = 0; class < VIEW_CLASSES_MAX; class ++) {
        const struct view_range *range = range_of[class];
        if (range) {
            uint32_t *first = next[class] - count[class];
            shards_order((uint64_t)view->seed, class, first, (size_t)count[class]);
            memcpy(out, first + range->first, range->count * sizeof(*out));
            out += range->count;
        }
    }
}

void view_draw(const struct view_sizes *sizes, uint64_t seed, int64_t epoch, const uint32_t *others,
               uint32_t *out)
{
    const struct rng_stream stream = rng_stream(seed, RNG_NEGATIVES, (uint64_t)epoch, 0);
    struct choice choice = {.left = sizes->others, .wanted = sizes->drawn};
    size_t count = 0;
    for (uint64_t i = 0; i < sizes->others && choice.wanted > 0; i++) {
        if (choose(&choice, &stream)) {
            out[count++] = others[i];
        }
    }
}
