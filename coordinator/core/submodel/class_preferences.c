#include "coordinator/core/submodel/class_preferences.h"

#include "base/sort.h"

bool class_preferences_read(const char *text, size_t class_count, struct class_ranges *out)
{
    bool any = false;
    const bool is_read = class_ranges_read(text, out);
    for (size_t c = 0; c < COUNTED_CLASSES_MAX; c++) {
        out->class[c] = out->class[c] && c < class_count;
        any = any || out->class[c];
    }
    return is_read && any;
}

/* ---- swaps ---- */

struct swaps {
    const struct class_problem *problem;
    const struct class_ranges *const *preference;
    struct class_groups *groups;
    struct group_load load[GROUPS_MAX];
    double own[GROUPS_MAX];  /* samples */
    double most[GROUPS_MAX]; /* load */
};

static int64_t *classes_of(const struct swaps *swaps, size_t group)
{
    return &swaps->groups->class_of[swaps->groups->group[group].class_first];
}

static bool has_class(const struct swaps *swaps, size_t group, int64_t class)
{
    const int64_t *own = classes_of(swaps, group);
    int64_t i = 0;
    while (i < swaps->groups->group[group].class_count && own[i] != class) {
        i++;
    }
    return i < swaps->groups->group[group].class_count;
}

static bool prefers(const struct swaps *swaps, size_t group, int64_t class)
{
    return swaps->preference[group] && swaps->preference[group]->class[class];
}

static bool fits(const struct swaps *swaps, size_t group, double own)
{
    return group_load_of(&swaps->load[group], own) <= swaps->most[group];
}

/* Give the group a preferred class in exchange for one that it does not prefer. */
static bool try_swap(struct swaps *swaps, size_t group, int64_t *given, size_t other,
                     int64_t *taken)
{
    const int64_t *samples = swaps->problem->samples;
    const double gain = (double)samples[*taken] - (double)samples[*given];
    if (!prefers(swaps, group, *taken) || prefers(swaps, other, *taken) ||
        has_class(swaps, group, *taken) || has_class(swaps, other, *given) ||
        !fits(swaps, group, swaps->own[group] + gain) ||
        !fits(swaps, other, swaps->own[other] - gain)) {
        return false;
    }
    const int64_t class = *given;
    *given = *taken;
    *taken = class;
    swaps->own[group] += gain;
    swaps->own[other] -= gain;
    return true;
}

static bool swap_class(struct swaps *swaps, size_t group, int64_t *given)
{
    for (size_t other = 0; other < swaps->groups->count; other++) {
        int64_t *classes = classes_of(swaps, other);
        for (int64_t k = 0; other != group && k < swaps->groups->group[other].class_count; k++) {
            if (try_swap(swaps, group, given, other, &classes[k])) {
                return true;
            }
        }
    }
    return false;
}

static void begin(struct swaps *swaps)
{
    for (size_t g = 0; g < swaps->groups->count; g++) {
        swaps->load[g] = class_loads_fixed(swaps->problem, g, swaps->groups->group[g].width);
        swaps->own[g] = class_loads_own(swaps->problem, swaps->groups, g);
        swaps->most[g] =
            group_load_of(&swaps->load[g], swaps->own[g]) * (1 + CLASS_PREFERENCES_SLACK);
    }
}

static int compare_classes(const void *a, const void *b)
{
    const int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;
    return (first > second) - (first < second);
}

void class_preferences_follow(const struct class_problem *problem,
                              const struct class_ranges *const *preference,
                              struct class_groups *groups)
{
    struct swaps swaps = {.problem = problem, .preference = preference, .groups = groups};
    begin(&swaps);
    for (size_t g = 0; g < groups->count; g++) {
        int64_t *classes = classes_of(&swaps, g);
        for (int64_t c = 0; preference[g] && c < groups->group[g].class_count; c++) {
            if (!prefers(&swaps, g, classes[c])) {
                (void)swap_class(&swaps, g, &classes[c]);
            }
        }
    }
    for (size_t g = 0; g < groups->count; g++) {
        sort_in_place(classes_of(&swaps, g), (size_t)groups->group[g].class_count, sizeof(int64_t),
                      compare_classes);
    }
}
