#include "coordinator/plan/partition.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/plan/stages.h"

/* Share of the work that may go into improving the first plan before the exact search begins. */
#define LOCAL_SHARE 0.5
/* Share of the work of stage_memory that may go into finding the longest stages that fit. */
#define FITS_SHARE 0.5
/* Work of one stage's bound, measured against a micro-batch played on it. */
#define BOUND_WORK 0.05

struct search {
    const struct partition_problem *problem;
    struct stages stages;
    uint16_t fits_end[PARTITION_DEVICES_MAX]
                     [PARTITION_UNITS_MAX + 1]; /* the longest stage from a unit on that fits */
    /* The least time that any split of the units from u on over the devices from k on adds to a
     * step: from the arrival of the first micro-batch at k until its last gradient has left.
     * INFINITY: does not fit. */
    double rest[PARTITION_DEVICES_MAX][PARTITION_UNITS_MAX + 1];
    struct partition_plan best; /* step_seconds INFINITY before the first */
    double work, work_max;
};

static int check_problem(const struct partition_problem *problem, struct err *err)
{
    if (problem->unit_count < 1 || problem->unit_count > PARTITION_UNITS_MAX) {
        return err_set(err, ERR_INVALID, "%zu units: expected 1 to %d", problem->unit_count,
                       PARTITION_UNITS_MAX);
    }
    if (problem->device_count < 1 || problem->device_count > PARTITION_DEVICES_MAX) {
        return err_set(err, ERR_INVALID, "%zu devices: expected 1 to %d", problem->device_count,
                       PARTITION_DEVICES_MAX);
    }
    if (problem->device_count > problem->unit_count) {
        return err_set(err, ERR_INVALID, "%zu devices for %zu units: each device needs a unit",
                       problem->device_count, problem->unit_count);
    }
    if (problem->micro_batches < 1) {
        return err_set(err, ERR_INVALID, "no micro-batches");
    }
    return 0;
}

/* The end of the longest stage from `first` on that fits. The search starts just after `near` and
 * continues in growing steps: one question may take a millisecond. */
static size_t longest_fit(const struct search *search, size_t device, size_t first, size_t near)
{
    const size_t units = search->problem->unit_count;
    size_t fits = first, beyond = units + 1, step = 1;
    size_t end = near < units ? near + 1 : units;
    while (fits + 1 < beyond) {
        if (stages_memory(&search->stages, device, first, end, 1) <=
            search->problem->memory_cap_bytes[device]) {
            fits = end;
            end += step;
        } else {
            beyond = end;
            end = end > step ? end - step : 0;
        }
        step *= 2;
        end = end > fits && end < beyond ? end : fits + (beyond - fits) / 2;
    }
    return fits;
}

static bool may_ask(const struct search *search, double share)
{
    const struct partition_problem *problem = search->problem;
    const double most =
        problem->memory_work_max > 0 ? problem->memory_work_max : PARTITION_MEMORY_WORK_MAX;
    return !problem->memory_work || *problem->memory_work < share * most;
}

static void sort_by_cap(const struct partition_problem *problem, size_t *order)
{
    for (size_t d = 0; d < problem->device_count; d++) {
        size_t at = d;
        for (; at > 0 && problem->memory_cap_bytes[order[at - 1]] > problem->memory_cap_bytes[d];
             at--) {
            order[at] = order[at - 1];
        }
        order[at] = d;
    }
}

/* The smallest device first: once the questions are used up, units that fit one device count as
 * fitting the larger ones. */
static void prepare_fits(struct search *search)
{
    const struct partition_problem *problem = search->problem;
    size_t order[PARTITION_DEVICES_MAX];
    sort_by_cap(problem, order);
    for (size_t i = 0; i < problem->device_count; i++) {
        size_t d = order[i], fits = problem->unit_count;
        bool less = i > 0 && !may_ask(search, FITS_SHARE);
        for (size_t first = 0; first < problem->unit_count; first++) {
            if (less) {
                fits = search->fits_end[order[i - 1]][first];
            } else if (problem->memory_cap_bytes[d] != UINT64_MAX) {
                fits = longest_fit(search, d, first, fits);
            }
            search->fits_end[d][first] = (uint16_t)fits;
        }
    }
}

/* ---- the bound ----
 * Within a step, stage i starts once the first micro-batch has passed the stages and links before
 * it, works on all micro-batches, and its last gradient passes the stages back. A step is thus
 * never shorter than the time before the stage (once forth and back) plus micro_batches times the
 * stage's own work. The same holds for a link. The time before is a sum over the stages, so the
 * best split by this bound follows from a recurrence over (first unit, device), last device
 * first. */

struct bound {
    double before; /* the time before the next stage */
    double most;   /* the longest stage or link so far */
};

/* Where steps overlap, a step is no shorter than the work of a stage and than a tensor takes on its
 * link. */
static struct bound async_bound_add(const struct search *search, struct bound bound, size_t device,
                                    size_t first, size_t end)
{
    double most = stages_work_seconds(&search->stages, device, first, end) +
                  stages_update_seconds(&search->stages, device, first, end);
    if (device + 1 < search->problem->device_count) {
        most = stages_max(most, stages_send_seconds(&search->stages, device, end));
    }
    return (struct bound){.most = stages_max(bound.most, most)};
}

static struct bound bound_add(const struct search *search, struct bound bound, size_t device,
                              size_t first, size_t end)
{
    double count = (double)search->problem->micro_batches;
    double work = stages_work_seconds(&search->stages, device, first, end);
    if (search->problem->async) {
        return async_bound_add(search, bound, device, first, end);
    }
    double most = count * work;
    double through = work;
    if (device + 1 < search->problem->device_count) {
        double send = stages_send_seconds(&search->stages, device, end);
        double latency = search->problem->link[device].latency_seconds;
        most = stages_max(most, work + 2 * latency + (count + 1) * send);
        through = work + 2 * latency + 2 * send;
    }
    return (struct bound){.before = bound.before + through,
                          .most = stages_max(bound.most, bound.before + most)};
}

/* Last unit boundary that leaves one unit for each later device. */
static size_t last_end(const struct search *search, size_t device, size_t first)
{
    size_t end = search->problem->unit_count - (search->problem->device_count - 1 - device);
    return search->fits_end[device][first] < end ? search->fits_end[device][first] : end;
}

static void prepare_rest(struct search *search)
{
    const struct partition_problem *problem = search->problem;
    size_t units = problem->unit_count, last = problem->device_count - 1;
    const struct bound none = {0, 0};
    for (size_t first = 0; first <= units; first++) {
        bool fits = first < units && search->fits_end[last][first] == units;
        search->rest[last][first] =
            fits ? bound_add(search, none, last, first, units).most : INFINITY;
    }
    for (size_t d = last; d-- > 0;) {
        for (size_t first = 0; first <= units; first++) {
            double best = INFINITY;
            size_t most = first < units ? last_end(search, d, first) : 0;
            for (size_t end = first + 1; end <= most; end++) {
                struct bound bound = bound_add(search, none, d, first, end);
                best = stages_min(best,
                                  stages_max(bound.most, bound.before + search->rest[d + 1][end]));
            }
            search->rest[d][first] = best;
        }
    }
}

/* ---- given cuts ---- */

/* No step of these cuts is shorter. */
static double cuts_bound(const struct search *search, const size_t *end)
{
    struct bound bound = {0, 0};
    size_t first = 0;
    for (size_t d = 0; d < search->problem->device_count; d++) {
        bound = bound_add(search, bound, d, first, end[d]);
        first = end[d];
    }
    return search->problem->async
               ? bound.most
               : bound.most + stages_update_seconds(&search->stages, 0, 0, end[0]);
}

/* Play the cuts if they can be better than the best plan. Whether they are. */
static bool try_cuts(struct search *search, const size_t *end)
{
    struct partition_plan plan;
    search->work += BOUND_WORK * (double)search->problem->device_count;
    if (!(cuts_bound(search, end) < search->best.step_seconds * (1 - STAGES_EQUAL))) {
        return false;
    }
    if (!stages_play(&search->stages, end, &plan, &search->work) ||
        !(plan.step_seconds < search->best.step_seconds * (1 - STAGES_EQUAL))) {
        return false;
    }
    search->best = plan;
    return true;
}

/* ---- the search ---- */

/* Whether there is work left, of a share of that on cuts. */
static bool goes_on(const struct search *search, double share)
{
    return search->work < share * search->work_max && may_ask(search, 1);
}

struct child {
    double bound;
    size_t end;
};

/* By bound, then by end: insertion, since qsort may allocate. */
static void child_insert(struct child *child, size_t count, struct child new_child)
{
    size_t at = count;
    while (at > 0 && child[at - 1].bound > new_child.bound) {
        child[at] = child[at - 1];
        at--;
    }
    child[at] = new_child;
}

/* The ends of a stage that can still be better than the best plan, most promising first. */
static size_t list_children(const struct search *search, struct bound bound, double update,
                            size_t device, size_t first, struct child *child)
{
    size_t count = 0, most = last_end(search, device, first);
    for (size_t end = first + 1; end <= most; end++) {
        double first_update =
            device == 0 ? stages_update_seconds(&search->stages, 0, 0, end) : update;
        struct bound next = bound_add(search, bound, device, first, end);
        double least =
            stages_max(next.most, next.before + search->rest[device + 1][end]) + first_update;
        if (isfinite(least) && least < search->best.step_seconds * (1 - STAGES_EQUAL)) {
            child_insert(child, count++, (struct child){.bound = least, .end = end});
        }
    }
    return count;
}

/* Cut device after device, depth first; end[] is filled as it goes. The depth is the number of
 * devices. only_first: the most promising child alone. */
static void descend(struct search *search, struct bound bound, double update, size_t device,
                    size_t *end, bool only_first)
{
    size_t first = device == 0 ? 0 : end[device - 1];
    if (device + 1 == search->problem->device_count) {
        end[device] = search->problem->unit_count;
        (void)try_cuts(search, end);
        return;
    }
    struct child child[PARTITION_UNITS_MAX];
    size_t count = list_children(search, bound, update, device, first, child);
    search->work += BOUND_WORK * (double)(search->problem->unit_count - first) + (double)count;
    for (size_t i = 0; i < count && (only_first || goes_on(search, 1)); i++) {
        if (!(child[i].bound < search->best.step_seconds * (1 - STAGES_EQUAL))) {
            break;
        }
        end[device] = child[i].end;
        double first_update =
            device == 0 ? stages_update_seconds(&search->stages, 0, 0, end[0]) : update;
        descend(search, bound_add(search, bound, device, first, end[device]), first_update,
                device + 1, end, only_first);
        if (only_first) {
            break;
        }
    }
}

/* Try the best plan with one boundary moved by `by` units up or down. */
static bool move_boundary(struct search *search, size_t boundary, size_t by, bool up)
{
    size_t end[PARTITION_DEVICES_MAX];
    memcpy(end, search->best.end, sizeof(end));
    size_t below = boundary == 0 ? 0 : end[boundary - 1];
    if (up ? end[boundary] + by >= end[boundary + 1] : end[boundary] <= below + by) {
        return false;
    }
    end[boundary] = up ? end[boundary] + by : end[boundary] - by;
    return try_cuts(search, end);
}

/* Move the boundaries of the best plan one at a time, as long as that helps. */
static void improve(struct search *search)
{
    size_t boundaries = search->problem->device_count - 1;
    bool better = isfinite(search->best.step_seconds);
    while (better) {
        better = false;
        for (size_t i = 0; i < boundaries; i++) {
            for (size_t by = 1; by < search->problem->unit_count; by *= 2) {
                if (!goes_on(search, LOCAL_SHARE)) {
                    return;
                }
                better = move_boundary(search, i, by, false) || better;
                better = move_boundary(search, i, by, true) || better;
            }
        }
    }
}

/* ---- models that do not fit ---- */

static int misfit(const struct stages *stages, size_t device, size_t first, size_t unit,
                  struct err *err)
{
    const struct partition_problem *problem = stages->problem;
    char unit_name[80], first_name[80], device_name[80];
    const struct {
        char *text;
        const char *const *names;
        size_t index;
        const char *word;
    } name[] = {
        {unit_name, problem->unit_name, unit, "unit"},
        {first_name, problem->unit_name, first, "unit"},
        {device_name, problem->device_name, device, "device"},
    };
    for (size_t i = 0; i < 3; i++) {
        if (name[i].names) {
            (void)snprintf(name[i].text, sizeof(unit_name), "%s '%s'", name[i].word,
                           name[i].names[name[i].index]);
        } else {
            (void)snprintf(name[i].text, sizeof(unit_name), "%s %zu", name[i].word, name[i].index);
        }
    }
    uint64_t bytes = stages_memory(stages, device, first, unit + 1, 1);
    uint64_t cap = problem->memory_cap_bytes[device];
    uint64_t missing = bytes > cap ? bytes - cap : 0;
    if (first == unit) {
        return err_set(err, ERR_MEMORY,
                       "%s does not fit on %s: it needs %" PRIu64 " bytes, %" PRIu64
                       " are available (%" PRIu64 " too many)",
                       unit_name, device_name, bytes, cap, missing);
    }
    return err_set(err, ERR_MEMORY,
                   "%s does not fit on %s with %zu unit%s from %s on: they need %" PRIu64
                   " bytes, %" PRIu64 " are available (%" PRIu64 " too many)",
                   unit_name, device_name, unit - first, unit - first == 1 ? "" : "s", first_name,
                   bytes, cap, missing);
}

/* Fill device after device as far as possible and say where that ends. */
static int explain(const struct search *search, struct err *err)
{
    const struct partition_problem *problem = search->problem;
    size_t first = 0;
    for (size_t d = 0; d < problem->device_count; d++) {
        size_t limit = problem->unit_count - (problem->device_count - 1 - d);
        size_t end = last_end(search, d, first);
        if (end == first || (d + 1 == problem->device_count && end < limit)) {
            return misfit(&search->stages, d, first, end, err);
        }
        first = end;
    }
    return err_set(err, ERR_MEMORY, "no split of the %zu units fits the memory of the %zu devices",
                   problem->unit_count, problem->device_count);
}

int partition_solve(const struct partition_problem *problem, struct partition_plan *out,
                    struct err *err)
{
    int rc = check_problem(problem, err);
    if (rc != 0) {
        return rc;
    }
    const double work_max = problem->work_max > 0 ? problem->work_max : PARTITION_WORK_MAX;
    struct search search = {.problem = problem,
                            .best = {.step_seconds = INFINITY},
                            .work_max = problem->first_fit ? 0 : work_max};
    const struct bound none = {0, 0};
    size_t end[PARTITION_DEVICES_MAX] = {0};
    stages_init(&search.stages, problem);
    prepare_fits(&search);
    prepare_rest(&search);
    descend(&search, none, 0, 0, end, true);
    if (!isfinite(search.best.step_seconds)) {
        search.work_max = work_max;
    }
    improve(&search);
    descend(&search, none, 0, 0, end, false);
    if (!isfinite(search.best.step_seconds)) {
        return explain(&search, err);
    }
    *out = search.best;
    out->work = search.work;
    return 0;
}

int partition_evaluate(const struct partition_problem *problem, const size_t *end,
                       struct partition_plan *out, struct err *err)
{
    int rc = check_problem(problem, err);
    if (rc != 0) {
        return rc;
    }
    size_t first = 0;
    for (size_t d = 0; d < problem->device_count; d++) {
        bool last = d + 1 == problem->device_count;
        if (end[d] <= first || end[d] > problem->unit_count ||
            (last && end[d] != problem->unit_count)) {
            return err_set(err, ERR_INVALID,
                           "stage %zu ends at unit %zu: boundaries must rise to %zu", d, end[d],
                           problem->unit_count);
        }
        first = end[d];
    }
    struct stages stages;
    struct partition_plan plan;
    double work = 0;
    stages_init(&stages, problem);
    if (stages_play(&stages, end, &plan, &work)) {
        *out = plan;
        return 0;
    }
    first = 0;
    for (size_t d = 0; d < problem->device_count; first = end[d], d++) {
        if (stages_memory(&stages, d, first, end[d], 1) > problem->memory_cap_bytes[d]) {
            return misfit(&stages, d, first, end[d] - 1, err);
        }
    }
    return err_set(err, ERR_MEMORY,
                   "the stages of these cuts do not fit the memory of the devices");
}
