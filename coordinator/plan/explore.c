#include "coordinator/plan/explore.h"

#include <math.h>

#include "coordinator/plan/improve.h"

/* Share of the work for a good plan before the search of all plans. */
#define GOOD_SHARE 0.3

/* Work of checking a kind for the next stage. */
#define NEXT_WORK 0.04

/* A stage of the depth-first search with a device, but without an end. */
struct branch {
    size_t index, first, state;
    double received; /* wire bytes of its input */
    struct stage_bound bound;
};

static bool may_go_on(struct search *search)
{
    bool may = search->work < search->work_max && kinds_may_ask(&search->kinds, 1);
    search->complete = search->complete && may;
    return may;
}

static double rest_of(const struct search *search, size_t state, size_t next_index, size_t kind,
                      size_t end)
{
    if (search->kinds.problem->in_order) {
        return search->order_rest[next_index][end];
    }
    return bound_rest(&search->bound, state, search->kinds.group_of[kind] - search->kinds.count,
                      end);
}

static size_t state_of(const struct search *search, size_t state, size_t kind)
{
    return search->kinds.problem->in_order
               ? 0
               : bound_state(&search->bound, state,
                             search->kinds.group_of[kind] - search->kinds.count);
}

/* The bound of a branch with its end, codec and next device, in *next. */
static double branch_bound(const struct search *search, const struct branch *branch, size_t end,
                           size_t next_kind, size_t codec, struct branch *next)
{
    const struct kinds *kinds = &search->kinds;
    const size_t kind = search->layout.kind[branch->index];
    const bool last = end == kinds->problem->unit_count;
    const double sent = stages_wire_bytes(kinds, codec, end);
    const double work = stages_units_seconds(kinds, kind, branch->first, end) +
                        stages_bytes_seconds(kinds, kind, branch->received + sent);
    const struct stage_cost cost = {work, stages_update_seconds(kinds, kind, branch->first, end),
                                    branch->index == 0};
    struct crossing crossing;
    if (!last) {
        crossing =
            stages_cross(kinds, kinds_link(kinds, kind, next_kind), codec, branch->first, end);
    }
    *next = (struct branch){.index = branch->index + 1, .first = end, .received = sent};
    next->bound = stages_bound_add(kinds->problem, branch->bound, cost, last ? NULL : &crossing);
    if (last) {
        const double others = (double)kinds->problem->micro_batches - 1;
        return stages_max(next->bound.most, next->bound.before + others * search->passes.least);
    }
    next->state = state_of(search, branch->state, next_kind);
    return stages_max(next->bound.most, next->bound.before + rest_of(search, next->state,
                                                                     next->index, next_kind, end));
}

static void descend(struct search *search, const struct branch *branch);

/* Try all ends and codecs of a branch whose next device is known. */
static void descend_next(struct search *search, const struct branch *branch, size_t next_kind)
{
    const struct kinds *kinds = &search->kinds;
    const struct partition_problem *problem = kinds->problem;
    const size_t kind = search->layout.kind[branch->index];
    const struct bound_ends ends = bound_ends(kinds, kind, branch->first);
    const size_t codecs = problem->codec_count > 0 ? problem->codec_count : 1;
    const double count = (double)problem->micro_batches;
    search->layout.kind[branch->index + 1] = (uint16_t)next_kind;
    search->used[next_kind]++;
    for (size_t end = ends.least; end <= ends.most && end < problem->unit_count; end++) {
        double alone = count * stages_units_seconds(kinds, kind, branch->first, end);
        if (!search_faster(search, branch->bound.before + alone) ||
            !bound_passes_fit(kinds, kind, branch->first, end, search->passes) ||
            !may_go_on(search)) {
            break;
        }
        for (size_t codec = 0; codec < codecs; codec++) {
            struct branch next;
            search->work += kinds_work(kinds, BOUND_WORK);
            if (search_faster(search, branch_bound(search, branch, end, next_kind, codec, &next))) {
                search->layout.end[branch->index] = (uint16_t)end;
                search->layout.codec[branch->index] = (uint8_t)codec;
                descend(search, &next);
            }
        }
    }
    search->used[next_kind]--;
}

/* Whether a device of the kind may run the next stage. */
static bool may_be_next(const struct search *search, size_t index, size_t kind)
{
    return search->kinds.problem->in_order ? kind == index + 1
                                           : search->used[kind] < search->kinds.kind[kind].count;
}

/* Depth first; the depth is the number of stages. */
static void descend(struct search *search, const struct branch *branch)
{
    const struct kinds *kinds = &search->kinds;
    const size_t units = kinds->problem->unit_count, stages = branch->index + 1;
    const struct bound_ends ends =
        bound_ends(kinds, search->layout.kind[branch->index], branch->first);
    struct branch none;
    if (stages >= search->stages_min && ends.least <= ends.most && ends.most == units &&
        search_faster(search, branch_bound(search, branch, units, 0, 0, &none))) {
        search->layout.end[branch->index] = (uint16_t)units;
        search->layout.codec[branch->index] = 0;
        search->layout.count = stages;
        (void)search_try(search, &search->layout, true);
    }
    search->work += kinds_work(kinds, NEXT_WORK * (double)kinds->count);
    for (size_t i = 0; i < kinds->count && stages < search->stages_max; i++) {
        const size_t next = kinds->by_speed[i];
        if (may_be_next(search, branch->index, next)) {
            descend_next(search, branch, next);
        }
    }
}

static void explore_all(struct search *search)
{
    const struct kinds *kinds = &search->kinds;
    const size_t first_kinds = kinds->problem->in_order ? 1 : kinds->count;
    for (size_t i = 0; i < first_kinds; i++) {
        const size_t kind = kinds->problem->in_order ? 0 : kinds->by_speed[i];
        const struct branch root = {.state = state_of(search, 0, kind)};
        if (search_faster(search, rest_of(search, root.state, 0, kind, 0))) {
            search->layout.kind[0] = (uint16_t)kind;
            search->used[kind]++;
            descend(search, &root);
            search->used[kind]--;
        }
    }
}

/* ---- intervals of the longest pass ---- */

#define CELLS_MAX 64
/* An interval this narrow is not divided. */
#define CELL_RATIO 1.02
/* Share of the work for dividing intervals. */
#define DIVIDE_SHARE 0.8

/* Plans by their longest pass, and their bound. */
struct cell {
    struct bound_passes passes;
    double lower_seconds;
};

struct cells {
    struct cell cell[CELLS_MAX];
    size_t count;
};

/* Fill the tables for plans with these passes. Return their bound. */
static double fill_bounds(struct search *search, struct bound_passes passes)
{
    const struct kinds *kinds = &search->kinds;
    search->passes = passes;
    if (kinds->problem->in_order) {
        uint16_t kind[PARTITION_STAGES_MAX];
        struct layout layout;
        for (size_t i = 0; i < kinds->count; i++) {
            kind[i] = (uint16_t)i;
        }
        return order_cut(kinds, kind, kinds->count, passes, search->order_rest, &layout,
                         &search->work);
    }
    search->bound.work = 0;
    bound_fill(&search->bound, passes, search->limit_seconds);
    search->work += search->bound.work;
    return bound_root(&search->bound);
}

static void add_cell(struct search *search, struct cells *cells, struct bound_passes passes)
{
    const double lower = fill_bounds(search, passes);
    if (search_faster(search, lower)) {
        cells->cell[cells->count++] = (struct cell){passes, lower};
        improve_path(search);
    }
}

/* Remove the cell with the least bound; false: none is left, or none may have a faster plan. */
static bool take_cell(const struct search *search, struct cells *cells, struct cell *out)
{
    size_t least = 0;
    for (size_t i = 1; i < cells->count; i++) {
        least = cells->cell[i].lower_seconds < cells->cell[least].lower_seconds ? i : least;
    }
    if (cells->count == 0 || !search_faster(search, cells->cell[least].lower_seconds)) {
        return false;
    }
    *out = cells->cell[least];
    cells->cell[least] = cells->cell[--cells->count];
    return true;
}

/* Divide the cell with the least bound, repeatedly. */
static void divide(struct search *search, struct cells *cells, double until)
{
    struct cells narrow = {.count = 0};
    struct cell cell;
    while (cells->count + narrow.count + 2 <= CELLS_MAX && search->work < until &&
           take_cell(search, cells, &cell)) {
        const double middle = sqrt(cell.passes.least * cell.passes.most);
        if (cell.passes.most <= cell.passes.least * CELL_RATIO) {
            narrow.cell[narrow.count++] = cell;
            continue;
        }
        add_cell(search, cells, (struct bound_passes){cell.passes.least, middle});
        add_cell(search, cells, (struct bound_passes){middle, cell.passes.most});
    }
    for (size_t i = 0; i < narrow.count; i++) {
        cells->cell[cells->count++] = narrow.cell[i];
    }
}

/* Begin with intervals around the longest pass of the best plan. The longest pass of any plan is at
 * least that of the longest unit, and a step is longer than this pass for all micro-batches. If the
 * work is used up, the rest is one interval with the bound of all plans. */
static void split(struct search *search, struct cells *cells, double until)
{
    static const double parts[] = {0.5, 0.7, 0.85, 0.95, 1.05, 1.2, 1.5, 2};
    const double others = (double)search->kinds.problem->micro_batches - 1;
    const double most = search->limit_seconds / others;
    const double lower = cells->cell[0].lower_seconds;
    double from = stages_min(bound_least_pass(&search->kinds), most);
    cells->count = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && search->work < until; i++) {
        const double to = stages_min(parts[i] * search->best_pass, most);
        if (to > from) {
            add_cell(search, cells, (struct bound_passes){from, to});
            from = to;
        }
    }
    const struct bound_passes rest = {from, most};
    if (most > from && search->work < until) {
        add_cell(search, cells, rest);
    } else if (most > from) {
        cells->cell[cells->count++] = (struct cell){rest, lower};
    }
}

/* ---- the search ---- */

static void prepare_bounds(struct search *search, double work)
{
    struct kinds *kinds = &search->kinds;
    if (!kinds->problem->in_order) {
        kinds_group(kinds, search->stages_max,
                    bound_states_max(kinds->problem->unit_count, GOOD_SHARE * work));
        bound_init(&search->bound, kinds, search->stages_min, search->stages_max);
    }
}

/* Search the cells, the one with the least bound first. Unfinished cells bound the answer. */
static void explore_cells(struct search *search, struct cells *cells)
{
    struct cell cell;
    while (take_cell(search, cells, &cell)) {
        bool before = search->complete;
        search->complete = true;
        if (search->work < search->work_max) {
            (void)fill_bounds(search, cell.passes);
            explore_all(search);
        } else {
            search->complete = false;
        }
        if (!search->complete) {
            search->lower_seconds = stages_min(search->lower_seconds, cell.lower_seconds);
        }
        search->complete = search->complete && before;
    }
}

void explore_run(struct search *search, size_t stages_min, size_t stages_max, double limit_seconds,
                 double work)
{
    const double until = search->work + work;
    const struct bound_passes any = {0, INFINITY};
    struct cells cells = {.count = 0};
    search->stages_min = stages_min;
    search->stages_max = stages_max;
    search->best.count = 0;
    search->limit_seconds = limit_seconds;
    search->complete = true;
    prepare_bounds(search, work);
    search->lower_seconds = fill_bounds(search, any);
    if (!search_faster(search, search->lower_seconds)) {
        return;
    }
    search->work_max = search->work + GOOD_SHARE * (until - search->work);
    improve_run(search);
    search->work_max = until;
    if (search->kinds.problem->first_fit && search->best.count > 0) {
        search->complete = false;
        return;
    }
    search->complete = true;
    cells.cell[cells.count++] = (struct cell){any, search->lower_seconds};
    search->lower_seconds = INFINITY;
    if (search->kinds.problem->micro_batches > 1 && isfinite(search->limit_seconds)) {
        const double divided = search->work + DIVIDE_SHARE * (until - search->work);
        split(search, &cells, divided);
        divide(search, &cells, divided);
    }
    explore_cells(search, &cells);
}
