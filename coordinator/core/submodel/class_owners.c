#include "coordinator/core/submodel/class_owners.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

#define IMPROVEMENTS_MAX 4096 /* each makes the slowest group faster */
#define OWNER_CLASSES_MIN (GROUP_CLASSES_MIN + 1)

static size_t count_classes(const struct class_owner *owner)
{
    size_t count = 0;
    for (size_t c = 0; c < owner->data.count; c++) {
        count += owner->data.samples[c] > 0;
    }
    return count;
}

/* ---- which devices ---- */

/* Devices that may have a group: the fewest samples first, of equal ones the slowest first. */
struct chosen {
    const struct owner_problem *problem;
    size_t owner[OWNERS_MAX];
    int64_t samples[OWNERS_MAX]; /* of each owner of the problem */
    size_t count;
    size_t has[OFFER_CLASSES_MAX]; /* number of these devices that have the class */
};

static bool comes_before(const struct chosen *chosen, size_t a, size_t b)
{
    const struct class_owner *owner = chosen->problem->owner;
    return chosen->samples[a] != chosen->samples[b] ? chosen->samples[a] < chosen->samples[b]
                                                    : owner[a].speed < owner[b].speed;
}

static void list_usable(const struct owner_problem *problem, struct chosen *chosen)
{
    *chosen = (struct chosen){.problem = problem};
    for (size_t i = 0; i < problem->owner_count; i++) {
        const struct class_owner *owner = &problem->owner[i];
        if (count_classes(owner) < OWNER_CLASSES_MIN) {
            continue;
        }
        chosen->samples[i] = class_samples_all(&owner->data);
        size_t at = chosen->count++;
        while (at > 0 && comes_before(chosen, i, chosen->owner[at - 1])) {
            chosen->owner[at] = chosen->owner[at - 1];
            at--;
        }
        chosen->owner[at] = i;
        for (size_t c = 0; c < problem->class_count; c++) {
            chosen->has[c] += class_samples_of(&owner->data, c) > 0;
        }
    }
}

/* Whether each class of the device is on enough of the other devices. */
static bool is_spare(const struct chosen *chosen, const struct class_owner *owner)
{
    bool spare = true;
    for (size_t c = 0; c < chosen->problem->class_count && spare; c++) {
        spare =
            class_samples_of(&owner->data, c) == 0 || chosen->has[c] > chosen->problem->replicas;
    }
    return spare;
}

/* Leave out spare devices until `count` remain. One pass suffices: a device that is not spare never
 * becomes spare. */
static bool choose(struct chosen *chosen, size_t count)
{
    size_t kept = 0;
    const size_t before = chosen->count;
    for (size_t i = 0; i < before; i++) {
        const struct class_owner *owner = &chosen->problem->owner[chosen->owner[i]];
        if (chosen->count > count && is_spare(chosen, owner)) {
            chosen->count--;
            for (size_t c = 0; c < chosen->problem->class_count; c++) {
                chosen->has[c] -= class_samples_of(&owner->data, c) > 0;
            }
        } else {
            chosen->owner[kept++] = chosen->owner[i];
        }
    }
    return chosen->count == count;
}

/* ---- which classes ---- */

/* The state of the search for the classes of each group. */
struct owning {
    const struct owner_problem *problem;
    const struct class_owner *owner[GROUPS_MAX];
    size_t group_count;
    bool may[GROUPS_MAX][OFFER_CLASSES_MAX], has[GROUPS_MAX][OFFER_CLASSES_MAX];
    size_t count[GROUPS_MAX], most[GROUPS_MAX]; /* present and greatest number of classes */
    size_t served[OFFER_CLASSES_MAX];
    double own[GROUPS_MAX], all[GROUPS_MAX]; /* samples */
};

static double gain(const struct owning *owning, size_t group, size_t class)
{
    return (double)class_samples_of(&owning->owner[group]->data, class);
}

static void give(struct owning *owning, size_t group, size_t class)
{
    ASSERT(!owning->has[group][class]);
    owning->has[group][class] = true;
    owning->count[group]++;
    owning->served[class]++;
    owning->own[group] += gain(owning, group, class);
}

static void take(struct owning *owning, size_t group, size_t class)
{
    ASSERT(owning->has[group][class]);
    owning->has[group][class] = false;
    owning->count[group]--;
    owning->served[class]--;
    owning->own[group] -= gain(owning, group, class);
}

static double load_of(const struct owning *owning, size_t group, double own)
{
    return class_samples_epoch(own, owning->all[group], owning->problem->negatives) /
           owning->owner[group]->speed;
}

/* The least samples of a class with which a device may get the class: a share of those of the best
 * devices, at least 1. */
static double least_samples(const struct owning *owning, size_t class, double share)
{
    double best[2] = {0, 0};
    for (size_t g = 0; g < owning->group_count; g++) {
        const double own = gain(owning, g, class);
        best[1] = own > best[0] ? best[0] : fmax(own, best[1]);
        best[0] = fmax(own, best[0]);
    }
    return fmax(share * best[owning->problem->replicas - 1], 1);
}

static void list_choices(struct owning *owning, double share)
{
    for (size_t c = 0; c < owning->problem->class_count; c++) {
        const double least = least_samples(owning, c, share);
        for (size_t g = 0; g < owning->group_count; g++) {
            owning->may[g][c] = gain(owning, g, c) >= least;
        }
    }
}

/* Find one more class for a group. If necessary, take it from another group that finds a
 * replacement. */
static bool find_class(struct owning *owning, size_t group, bool *seen)
{
    for (size_t c = 0; c < owning->problem->class_count; c++) {
        if (!owning->may[group][c] || owning->has[group][c] || seen[c]) {
            continue;
        }
        seen[c] = true;
        bool found = owning->served[c] < owning->problem->replicas;
        for (size_t g = 0; g < owning->group_count && !found; g++) {
            if (owning->has[g][c] && find_class(owning, g, seen)) {
                take(owning, g, c);
                found = true;
            }
        }
        if (found) {
            give(owning, group, c);
            return true;
        }
    }
    return false;
}

/* The group that is fastest with the class. GROUPS_MAX: no group has room. */
static size_t fastest_with(const struct owning *owning, size_t class)
{
    size_t best = GROUPS_MAX;
    double least = INFINITY;
    for (size_t g = 0; g < owning->group_count; g++) {
        const double load = load_of(owning, g, owning->own[g] + gain(owning, g, class));
        if (owning->may[g][class] && !owning->has[g][class] && owning->count[g] < owning->most[g] &&
            load < least) {
            best = g;
            least = load;
        }
    }
    return best;
}

/* Find a group for a class. If necessary, move another class of this group to another group. */
static bool find_group(struct owning *owning, size_t class, bool *seen)
{
    const size_t free = fastest_with(owning, class);
    if (free < GROUPS_MAX) {
        give(owning, free, class);
        return true;
    }
    for (size_t g = 0; g < owning->group_count; g++) {
        if (!owning->may[g][class] || owning->has[g][class] || seen[g]) {
            continue;
        }
        seen[g] = true;
        for (size_t c = 0; c < owning->problem->class_count; c++) {
            if (owning->has[g][c] && find_group(owning, c, seen)) {
                take(owning, g, c);
                give(owning, g, class);
                return true;
            }
        }
    }
    return false;
}

/* First find two classes for each group, then a group for each class. The second step keeps the
 * result of the first. */
static bool divide(struct owning *owning)
{
    const struct owner_problem *problem = owning->problem;
    bool done = true;
    for (size_t i = 0; i < GROUP_CLASSES_MIN * owning->group_count && done; i++) {
        bool seen[OFFER_CLASSES_MAX] = {false};
        done = find_class(owning, i % owning->group_count, seen);
    }
    for (size_t c = 0; c < problem->class_count; c++) {
        while (done && owning->served[c] < problem->replicas) {
            bool seen[GROUPS_MAX] = {false};
            done = find_group(owning, c, seen);
        }
    }
    return done;
}

/* ---- improvements ---- */

static size_t slowest(const struct owning *owning)
{
    size_t slow = 0;
    for (size_t g = 1; g < owning->group_count; g++) {
        if (load_of(owning, g, owning->own[g]) > load_of(owning, slow, owning->own[slow])) {
            slow = g;
        }
    }
    return slow;
}

/* Whether a group may have the class in place of one of its own (OFFER_CLASSES_MAX: in addition).
 */
static bool may_get(const struct owning *owning, size_t group, size_t class, size_t instead)
{
    const bool room = instead < OFFER_CLASSES_MAX || owning->count[group] < owning->most[group];
    return owning->may[group][class] && !owning->has[group][class] && room;
}

/* Move a class out of the slowest group, or swap it for a class of another group
 * (OFFER_CLASSES_MAX: none), if both groups are then faster than the slowest group was. */
static bool try_exchange(struct owning *owning, size_t slow, size_t class, size_t group,
                         size_t other)
{
    const bool swaps = other < OFFER_CLASSES_MAX;
    if (!may_get(owning, group, class, other) ||
        (swaps ? !may_get(owning, slow, other, class) : owning->count[slow] <= GROUP_CLASSES_MIN)) {
        return false;
    }
    const double own =
        owning->own[slow] - gain(owning, slow, class) + (swaps ? gain(owning, slow, other) : 0);
    const double theirs =
        owning->own[group] + gain(owning, group, class) - (swaps ? gain(owning, group, other) : 0);
    const double after = fmax(load_of(owning, slow, own), load_of(owning, group, theirs));
    if (after >= load_of(owning, slow, owning->own[slow]) * (1 - 1e-12)) {
        return false;
    }
    take(owning, slow, class);
    if (swaps) {
        take(owning, group, other);
        give(owning, slow, other);
    }
    give(owning, group, class);
    return true;
}

static bool improve_by(struct owning *owning, size_t slow, size_t class)
{
    for (size_t g = 0; g < owning->group_count; g++) {
        if (g == slow) {
            continue;
        }
        if (try_exchange(owning, slow, class, g, OFFER_CLASSES_MAX)) {
            return true;
        }
        for (size_t other = 0; other < owning->problem->class_count; other++) {
            if (owning->has[g][other] && try_exchange(owning, slow, class, g, other)) {
                return true;
            }
        }
    }
    return false;
}

static bool improve(struct owning *owning)
{
    const size_t slow = slowest(owning);
    for (size_t c = 0; c < owning->problem->class_count; c++) {
        if (owning->has[slow][c] && improve_by(owning, slow, c)) {
            return true;
        }
    }
    return false;
}

/* ---- the whole choice ---- */

static bool assign(const struct chosen *chosen, double share, struct owning *owning)
{
    memset(owning, 0, sizeof(*owning));
    owning->problem = chosen->problem;
    owning->group_count = chosen->count;
    for (size_t g = 0; g < chosen->count; g++) {
        /* the most samples first */
        const size_t owner = chosen->owner[chosen->count - 1 - g];
        owning->owner[g] = &chosen->problem->owner[owner];
        owning->most[g] = count_classes(owning->owner[g]) - 1;
        owning->all[g] = (double)class_samples_all(&owning->owner[g]->data);
    }
    list_choices(owning, share);
    if (!divide(owning)) {
        return false;
    }
    for (int i = 0; i < IMPROVEMENTS_MAX && improve(owning); i++) {
    }
    return true;
}

static void write_groups(const struct owning *owning, struct class_groups *out, size_t *place)
{
    memset(out, 0, sizeof(*out));
    for (size_t g = 0; g < owning->group_count; g++) {
        struct class_group *made = &out->group[out->count++];
        *made = (struct class_group){.class_first = (int64_t)out->class_count};
        place[g] = (size_t)(owning->owner[g] - owning->problem->owner);
        for (size_t c = 0; c < owning->problem->class_count; c++) {
            if (owning->has[g][c]) {
                out->class_of[out->class_count++] = (int64_t)c;
            }
        }
        made->class_count = (int64_t)out->class_count - made->class_first;
    }
}

static int explain(const struct chosen *chosen, struct err *err)
{
    const struct owner_problem *problem = chosen->problem;
    for (size_t c = 0; c < problem->class_count; c++) {
        if (chosen->has[c] < problem->replicas) {
            return err_set(err, ERR_INVALID,
                           "class %zu is on %zu devices that have %d classes or more; %zu must "
                           "train it",
                           c, chosen->has[c], OWNER_CLASSES_MIN, problem->replicas);
        }
    }
    if (problem->group_count > 0) {
        return err_set(err, ERR_INVALID,
                       "%zu devices that have %d classes or more cannot be divided into %zu groups "
                       "with all %zu classes",
                       chosen->count, OWNER_CLASSES_MIN, problem->group_count,
                       problem->class_count);
    }
    return err_set(err, ERR_INVALID,
                   "what %zu devices have cannot be divided into groups of two classes or more",
                   chosen->count);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

int class_owners_solve(const struct owner_problem *problem, struct class_groups *out, size_t *place,
                       struct err *err)
{
    static const double shares[] = {OWNER_SHARE_MIN, 0};
    struct chosen usable, chosen;
    struct owning owning;
    ASSERT(problem->owner_count <= OWNERS_MAX && problem->class_count <= OFFER_CLASSES_MAX);
    list_usable(problem, &usable);
    const size_t by_classes = problem->class_count * problem->replicas / GROUP_CLASSES_MIN;
    size_t count =
        least(least(usable.count, by_classes), least(problem->groups_max, (size_t)GROUPS_MAX));
    if (problem->group_count > 0) {
        count = problem->group_count <= count ? problem->group_count : 0;
    }
    chosen = usable;
    for (; count >= 2 && choose(&chosen, count); count--) {
        for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
            if (assign(&chosen, shares[i], &owning)) {
                write_groups(&owning, out, place);
                return 0;
            }
        }
        if (problem->group_count > 0) {
            break;
        }
    }
    return explain(&usable, err);
}
