#include "coordinator/plan/partition.h"

#include <math.h>
#include <string.h>

#include "base/pages.h"
#include "coordinator/plan/explore.h"
#include "coordinator/plan/improve.h"
#include "coordinator/plan/misfit.h"
#include "coordinator/plan/scratch.h"

/* Shares of the work: for the fastest plan, and for a plan with fewer devices. */
#define FASTEST_SHARE 0.7
#define FEWER_SHARE 0.1
/* Share of the work for the strict order of the fastest plans. */
#define STRICT_SHARE 0.05

/* ---- life ---- */

int partition_scratch_new(struct partition_scratch **out, struct err *err)
{
    *out = pages_new(1, sizeof(**out));
    return *out ? 0 : err_set(err, ERR_MEMORY, "%zu bytes for planning", sizeof(**out));
}

void partition_scratch_free(struct partition_scratch **scratch)
{
    pages_free(*scratch);
    *scratch = NULL;
}

/* ---- checks ---- */

static int check_ends(const struct partition_problem *problem, struct err *err)
{
    size_t first = 0;
    for (size_t i = 0; i < problem->end_count; i++) {
        const size_t end = problem->end[i];
        const bool last = i + 1 == problem->end_count;
        if (end <= first || end > problem->unit_count || (last && end != problem->unit_count)) {
            return err_set(err, ERR_INVALID,
                           "stage %zu ends at unit %zu: boundaries must rise to %zu", i, end,
                           problem->unit_count);
        }
        first = end;
    }
    return problem->end_count == 0 || problem->end_count > PARTITION_STAGES_MAX
               ? err_set(err, ERR_INVALID, "%zu stages: expected 1 to %d", problem->end_count,
                         PARTITION_STAGES_MAX)
               : 0;
}

static int check_problem(const struct partition_problem *problem, struct err *err)
{
    const struct {
        size_t value, most;
        const char *what;
    } size[] = {{problem->unit_count, PARTITION_UNITS_MAX, "units"},
                {problem->device_count,
                 problem->in_order ? PARTITION_STAGES_MAX : PARTITION_DEVICES_MAX, "devices"},
                {problem->stages_max, PARTITION_STAGES_MAX, "stages"}};
    for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
        if (size[i].value < 1 || size[i].value > size[i].most) {
            return err_set(err, ERR_INVALID, "%zu %s: expected 1 to %zu", size[i].value,
                           size[i].what, size[i].most);
        }
    }
    if (problem->micro_batches < 1) {
        return err_set(err, ERR_INVALID, "no micro-batches");
    }
    if (problem->codec_count > PARTITION_CODECS_MAX || problem->pair_count > PARTITION_PAIRS_MAX) {
        return err_set(err, ERR_INVALID, "%zu codecs and %zu links: expected at most %d and %d",
                       problem->codec_count, problem->pair_count, PARTITION_CODECS_MAX,
                       PARTITION_PAIRS_MAX);
    }
    return problem->end ? check_ends(problem, err) : 0;
}

/* How many stages a plan may have. */
struct range {
    size_t least, most;
};

static int stage_range(const struct partition_problem *problem, struct range *out, struct err *err)
{
    const size_t devices = problem->device_count, units = problem->unit_count;
    struct range range = {problem->stages_min > 1 ? problem->stages_min : 1, problem->stages_max};
    range.most = range.most < devices ? range.most : devices;
    range.most = range.most < units ? range.most : units;
    if (problem->in_order) {
        range = (struct range){devices, devices};
    }
    if (problem->end) {
        range = (struct range){problem->end_count, problem->end_count};
    }
    size_t wanted = range.least;
    if (wanted > units) {
        return err_set(err, ERR_INVALID, "%zu devices for %zu units: each device needs a unit",
                       wanted, units);
    }
    if (wanted > devices || (problem->in_order && wanted != devices) || wanted > range.most) {
        return err_set(err, ERR_INVALID, "%zu stages for %zu devices", wanted, devices);
    }
    *out = range;
    return 0;
}

/* ---- ties ---- */

static double moved_if(const struct partition_problem *problem, size_t device, size_t first,
                       size_t end)
{
    double bytes = 0;
    for (size_t s = 0, begin = 0; s < problem->present_count; begin = problem->present_end[s++]) {
        for (size_t u = begin; u < problem->present_end[s]; u++) {
            bool moves = u >= first && u < end && problem->present_device[s] != device;
            bytes += moves ? problem->state_bytes ? (double)problem->state_bytes[u] : 1 : 0;
        }
    }
    return bytes;
}

/* Give each stage the device of its kind that holds most of the stage. Return the moved bytes. */
static double choose_devices(const struct search *search, const struct layout *layout,
                             size_t *device)
{
    const struct kinds *kinds = &search->kinds;
    const struct partition_problem *problem = kinds->problem;
    double moved = 0;
    for (size_t i = 0, first = 0; i < layout->count; first = layout->end[i++]) {
        double least = INFINITY;
        for (size_t d = 0; d < problem->device_count; d++) {
            bool taken = kinds->kind_of[d] != layout->kind[i];
            for (size_t k = 0; k < i && !taken; k++) {
                taken = device[k] == d;
            }
            double bytes = taken ? INFINITY : moved_if(problem, d, first, layout->end[i]);
            if (bytes < least) {
                least = bytes;
                device[i] = d;
            }
        }
        moved += least;
    }
    return moved;
}

/* Find a plan with fewer devices that is as good as the fastest. Each search may use a share of the
 * work, all together the work that the fastest plan left. */
static void prefer_fewer(struct search *search, size_t stages_min, double limit, double work)
{
    const double until = search->work + (1 - FASTEST_SHARE) * work;
    bool fewer = true;
    while (fewer && search->best.count > stages_min && search->work < until) {
        const struct layout best = search->best;
        const struct partition_plan plan = search->plan;
        explore_run(search, stages_min, best.count - 1, limit, FEWER_SHARE * work);
        if (search->best.count == 0) {
            search->best = best;
            search->plan = plan;
            fewer = false;
        }
    }
}

/* Play a layout that moves fewer bytes, and take it if it is within the limit. */
static void prefer(struct search *search, const struct layout *layout, double limit)
{
    const struct layout best = search->best;
    const struct partition_plan plan = search->plan;
    search->limit_seconds = limit;
    if (!search_try(search, layout, false)) {
        search->best = best;
        search->plan = plan;
    }
}

static bool present_layout(const struct search *search, struct layout *out)
{
    const struct kinds *kinds = &search->kinds;
    const struct partition_problem *problem = kinds->problem;
    out->count = problem->present_count;
    for (size_t i = 0, first = 0; i < out->count; first = out->end[i++]) {
        if (problem->present_device[i] >= problem->device_count) {
            return false;
        }
        out->kind[i] = kinds->kind_of[problem->present_device[i]];
        out->end[i] = (uint16_t)problem->present_end[i];
        const struct bound_ends ends = bound_ends(kinds, out->kind[i], first);
        if (out->end[i] < ends.least || out->end[i] > ends.most ||
            (problem->in_order && problem->present_device[i] != i)) {
            return false;
        }
        out->codec[i] = 0;
    }
    for (size_t i = 0, first = 0; i + 1 < out->count; first = out->end[i++]) {
        const struct link_speed *link = kinds_link(kinds, out->kind[i], out->kind[i + 1]);
        out->codec[i] = (uint8_t)stages_codec(kinds, link, first, out->end[i]);
    }
    return out->count > 0 && out->end[out->count - 1] == problem->unit_count;
}

/* Move boundaries to those of the present plan. */
static void prefer_present_cuts(struct search *search, double limit)
{
    const struct partition_problem *problem = search->kinds.problem;
    size_t device[PARTITION_STAGES_MAX];
    for (size_t i = 0; i + 1 < search->best.count && !problem->end; i++) {
        for (size_t s = 0; s + 1 < problem->present_count; s++) {
            struct layout layout = search->best;
            const size_t below = i == 0 ? 0 : layout.end[i - 1], end = problem->present_end[s];
            const double moved = choose_devices(search, &layout, device);
            if (end <= below || end >= layout.end[i + 1]) {
                continue;
            }
            layout.end[i] = (uint16_t)end;
            if (choose_devices(search, &layout, device) < moved) {
                prefer(search, &layout, limit);
            }
        }
    }
}

/* Give boundaries earlier codecs, within the limit. */
static void prefer_wider(struct search *search, double limit)
{
    for (size_t i = 0; i + 1 < search->best.count; i++) {
        for (uint8_t codec = 0; codec < search->best.codec[i]; codec++) {
            struct layout layout = search->best;
            layout.codec[i] = codec;
            prefer(search, &layout, limit);
        }
    }
}

static void break_ties(struct search *search, size_t stages_min, double limit, double work)
{
    struct layout present;
    prefer_fewer(search, stages_min, limit, work);
    search->work_max = search->work + FEWER_SHARE * work;
    if (present_layout(search, &present) && present.count == search->best.count) {
        prefer(search, &present, limit);
    }
    prefer_present_cuts(search, limit);
    const double gain = search->kinds.problem->codec_gain;
    if (gain > 0) {
        prefer_wider(search, limit / (1 + PARTITION_TIE) * (1 + gain));
    }
}

/* ---- the strict order ---- */

/* Play a layout in the strict order. It becomes *plan if that is faster by more than the tie rule's
 * share. */
static bool play_strict(struct search *search, const struct layout *layout,
                        struct partition_plan *plan)
{
    struct flights flights;
    if (!flights_init(&flights, &search->kinds, layout)) {
        return false;
    }
    flights.strict = true;
    flights_try(&flights);
    flights_improve(&flights, search->work_max - search->work);
    search->work += flights.work;
    if (flights.step_seconds >= plan->step_seconds * (1 - PARTITION_TIE)) {
        return false;
    }
    flights_plan(&flights, plan);
    return true;
}

/* The preferred plan among ties comes first. Other plans may have other codecs, which must gain
 * more than the tie rule's share, so they are not tried if the search chooses codecs. */
static void offer_strict(struct search *search, double work)
{
    const struct partition_problem *problem = search->kinds.problem;
    const bool chooses_codecs = problem->codec_count > 1 && problem->codec_gain > 0;
    const size_t kept = search->keeps < SEARCH_RECENT ? search->keeps : SEARCH_RECENT;
    search->work_max = search->work + STRICT_SHARE * work;
    (void)play_strict(search, &search->best, &search->plan);
    for (size_t i = 0; i < kept && !chooses_codecs && search->work < search->work_max; i++) {
        if (play_strict(search, &search->recent[i], &search->plan)) {
            search->best = search->recent[i];
        }
    }
}

/* ---- the answer ---- */

static double fluid_bound(const struct search *search)
{
    const struct kinds *kinds = &search->kinds;
    const size_t units = kinds->problem->unit_count;
    double capacity = 0;
    for (size_t i = 0; i < search->best.count; i++) {
        capacity += 1 / stages_units_seconds(kinds, search->best.kind[i], 0, units);
    }
    return (double)kinds->problem->micro_batches / capacity;
}

static void fill_links(const struct kinds *kinds, const struct layout *layout,
                       struct partition_plan *out)
{
    const double count = (double)kinds->problem->micro_batches;
    for (size_t i = 0, first = 0; i + 1 < layout->count; first = layout->end[i++]) {
        const struct link_speed *link = kinds_link(kinds, layout->kind[i], layout->kind[i + 1]);
        const struct crossing crossing =
            stages_cross(kinds, link, layout->codec[i], first, layout->end[i]);
        const double seconds =
            count * stages_max(crossing.forward_seconds, crossing.backward_seconds);
        out->link[i] = *link;
        out->link_busy[i] = out->step_seconds > 0 ? seconds / out->step_seconds : 0;
    }
}

int partition_solve(const struct partition_problem *problem, struct partition_scratch *scratch,
                    struct partition_plan *out, struct err *err)
{
    struct range range = {0, 0};
    int rc = check_problem(problem, err);
    rc = rc == 0 ? stage_range(problem, &range, err) : rc;
    if (rc != 0) {
        return rc;
    }
    struct search *search = &scratch->search;
    const double work = problem->work_max > 0 ? problem->work_max : PARTITION_WORK_MAX;
    search_init(search, problem);
    explore_run(search, range.least, range.most, INFINITY, FASTEST_SHARE * work);
    if (kinds_cancelled(&search->kinds)) {
        return err_set(err, ERR_CANCELLED, "the search for a plan was cancelled");
    }
    if (search->best.count == 0) {
        return misfit_explain(&search->kinds, range.most, err);
    }
    const double fastest = search->plan.step_seconds;
    const double lower = search->complete ? fastest : stages_min(search->lower_seconds, fastest);
    const bool optimal = search->complete;
    if (!problem->first_fit) {
        break_ties(search, range.least, fastest * (1 + PARTITION_TIE), work);
        if (problem->order == PARTITION_EITHER && !problem->async) {
            offer_strict(search, work);
        }
    }
    *out = search->plan;
    (void)choose_devices(search, &search->best, out->device);
    fill_links(&search->kinds, &search->best, out);
    out->fluid_seconds = fluid_bound(search);
    out->lower_seconds = lower;
    out->optimal = optimal;
    out->gap = lower > 0 ? fastest / lower - 1 : 0;
    out->work = search->work;
    return 0;
}

void partition_play(const struct partition_problem *problem, struct partition_scratch *scratch,
                    struct partition_plan *plan)
{
    struct kinds *kinds = &scratch->search.kinds;
    struct layout layout = {.count = plan->stage_count};
    struct timeline_stage stage[PARTITION_STAGES_MAX];
    struct timeline_result result;
    const struct timeline_rules rules = {.micro_batches = problem->micro_batches,
                                         .clips_norm = problem->clips_norm,
                                         .strict = plan->strict,
                                         .async = problem->async};
    kinds_init(kinds, problem);
    for (size_t i = 0; i < layout.count; i++) {
        layout.kind[i] = kinds->kind_of[plan->device[i]];
        layout.end[i] = (uint16_t)plan->end[i];
        layout.codec[i] = (uint8_t)plan->codec[i];
    }
    stages_fill(kinds, &layout, stage);
    for (size_t i = 0; i < layout.count; i++) {
        const double share = kinds->kind[layout.kind[i]].processor_share;
        stage[i].in_flight = plan->in_flight[i];
        stage[i].forward_seconds *= share;
        stage[i].backward_seconds *= share;
        stage[i].update_seconds *= share;
        stage[i].share = share;
    }
    timeline_play(stage, layout.count, &rules, &result);
    plan->step_seconds = result.step_seconds;
    memcpy(plan->busy, result.busy, layout.count * sizeof(plan->busy[0]));
    fill_links(kinds, &layout, plan);
}
