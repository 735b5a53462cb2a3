#include "libtrain/model/view.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"

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

void view_sizes(const struct view *view, const int64_t *count, size_t class_count,
                struct view_sizes *out)
{
    struct own own;
    struct view_sizes sizes = {0};
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
        out->of[i] = view->numbers == VIEW_NUMBERS_DATA ? (int32_t)i : out->other;
    }
    for (size_t i = 0; view->numbers == VIEW_NUMBERS_VIEW && i < view->class_count; i++) {
        ASSERT(view->class[i] >= 0 && view->class[i] < VIEW_CLASSES_MAX);
        out->of[view->class[i]] = (int32_t)i;
    }
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

/* A choice of `wanted` from `left` samples that are seen one after the other, in order and with
 * equal probability for each. Source: Knuth, The Art of Computer Programming, 3.4.2, algorithm S.
 */
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
