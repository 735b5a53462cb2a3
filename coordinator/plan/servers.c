#include "coordinator/plan/servers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "coordinator/plan/servers_answer.h"
#include "coordinator/plan/servers_improve.h"
#include "coordinator/plan/servers_place.h"
#include "coordinator/plan/servers_trial.h"

/* Shares of larger steps are searched in coarser parts. */
#define SEARCH_BOUNDARIES 64

/* ---- life ---- */

int servers_scratch_new(size_t layers, struct servers_scratch **out, struct err *err)
{
    struct servers_scratch *scratch = calloc(1, sizeof(*scratch));
    if (!scratch) {
        return err_set(err, ERR_MEMORY, "%zu bytes for planning", sizeof(*scratch));
    }
    scratch->layers = layers;
    int rc = segments_scratch_new(layers, &scratch->transfers.segments, err);
    rc = rc ? rc : shares_scratch_new(&scratch->shares, err);
    if (rc == 0) {
        scratch->transfers.server = calloc(layers + 1, sizeof(size_t));
        scratch->transfers.end = calloc(layers + 1, sizeof(size_t));
        if (!scratch->transfers.server || !scratch->transfers.end) {
            rc = err_set(err, ERR_MEMORY, "%zu layers", layers);
        }
    }
    if (rc) {
        servers_scratch_free(&scratch);
        return rc;
    }
    *out = scratch;
    return 0;
}

void servers_scratch_free(struct servers_scratch **scratch)
{
    if (*scratch) {
        segments_scratch_free(&(*scratch)->transfers.segments);
        shares_scratch_free(&(*scratch)->shares);
        free((*scratch)->transfers.server);
        free((*scratch)->transfers.end);
        free(*scratch);
        *scratch = NULL;
    }
}

double servers_scratch_work(const struct servers_scratch *scratch)
{
    return scratch->asked;
}

/* ---- checks ---- */

static int check_servers(const struct servers_problem *problem, struct err *err)
{
    const size_t count = problem->server_count;
    for (size_t s = 0, first = 0; problem->server_end && s < count;
         first = problem->server_end[s++]) {
        const size_t end = problem->server_end[s], device = problem->server_device[s];
        if (end <= first || end > problem->unit_count ||
            (s + 1 == count && end != problem->unit_count)) {
            return err_set(err, ERR_INVALID,
                           "server %zu ends at unit %zu: boundaries must rise to %zu", s, end,
                           problem->unit_count);
        }
        for (size_t t = 0; t < s; t++) {
            if (problem->server_device[t] == device) {
                return err_set(err, ERR_INVALID, "servers %zu and %zu are the same device", t, s);
            }
        }
        if (device >= problem->device_count) {
            return err_set(err, ERR_INVALID, "server %zu is no device", s);
        }
    }
    return 0;
}

static int check_shares(const struct servers_problem *problem, struct err *err)
{
    size_t sum = 0;
    if (problem->shares != SERVERS_GIVEN) {
        return 0;
    }
    for (size_t w = 0; w < problem->share_count; w++) {
        if (problem->share[w] < 1 || problem->share[w] > problem->micro_batches) {
            return err_set(err, ERR_INVALID, "share %zu: expected 1 to %zu micro-batches", w,
                           problem->micro_batches);
        }
        sum += problem->share[w];
    }
    if (sum != problem->micro_batches) {
        return err_set(err, ERR_INVALID, "the shares have %zu micro-batches, the step %zu", sum,
                       problem->micro_batches);
    }
    return 0;
}

static int check_problem(const struct servers_problem *problem,
                         const struct servers_scratch *scratch, struct err *err)
{
    const size_t share_count = problem->shares == SERVERS_GIVEN ? problem->share_count : 1;
    const struct {
        size_t value, least, most;
        const char *what;
    } size[] = {{problem->unit_count, 1, SERVERS_UNITS_MAX, "units"},
                {problem->device_count, 1, SERVERS_DEVICES_MAX, "devices"},
                {problem->layer_count, 1, scratch->layers, "layers"},
                {problem->micro_batches, 1, REDUCE_COUNT_MAX, "micro-batches"},
                {problem->stages_max, 1, SERVERS_STAGES_MAX, "devices of a plan"},
                {problem->stages_min, 0, problem->stages_max, "devices of a plan at least"},
                {problem->pair_count, 0, PARTITION_PAIRS_MAX, "links"},
                {problem->server_count, problem->server_end ? 1 : 0, SERVERS_MAX, "servers"},
                {share_count, 1, SERVERS_STAGES_MAX, "shares"}};
    for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
        if (size[i].value < size[i].least || size[i].value > size[i].most) {
            return err_set(err, ERR_INVALID, "%zu %s: expected %zu to %zu", size[i].value,
                           size[i].what, size[i].least, size[i].most);
        }
    }
    if (problem->server_count > problem->stages_max ||
        problem->server_count > problem->unit_count) {
        return err_set(err, ERR_INVALID,
                       "%zu servers: the plan has at most %zu devices and %zu units",
                       problem->server_count, problem->stages_max, problem->unit_count);
    }
    const size_t servers = problem->server_count > 0           ? problem->server_count
                           : problem->unit_count < SERVERS_MAX ? problem->unit_count
                                                               : SERVERS_MAX;
    if (problem->stages_min > servers + problem->micro_batches) {
        return err_set(err, ERR_INVALID,
                       "%zu devices: %zu micro-batches are for at most as many workers, beside %zu "
                       "servers",
                       problem->stages_min, problem->micro_batches, servers);
    }
    const int rc = check_servers(problem, err);
    return rc ? rc : check_shares(problem, err);
}

/* ---- ranks ---- */

static int compare(const void *a, const void *b)
{
    const struct servers_ranked *left = a, *right = b;
    if (left->key != right->key) {
        return left->key < right->key ? -1 : 1;
    }
    return (left->device > right->device) - (left->device < right->device);
}

static void rank(struct servers_scratch *scratch)
{
    const struct servers_problem *problem = scratch->problem;
    scratch->worker_count = scratch->server_count = 0;
    for (size_t d = 0; d < problem->device_count; d++) {
        double seconds = 0;
        for (size_t l = 0; l < problem->layer_count; l++) {
            const size_t at = d * problem->layer_count + l;
            seconds += problem->forward_seconds[at] + problem->backward_seconds[at];
        }
        if (!problem->may_work || problem->may_work[d]) {
            scratch->by_speed[scratch->worker_count++] = (struct servers_ranked){seconds, d};
        }
        if (!problem->may_serve || problem->may_serve[d]) {
            scratch->by_rate[scratch->server_count++] =
                (struct servers_ranked){-problem->bytes_per_second[d], d};
        }
    }
    sort_in_place(scratch->by_speed, scratch->worker_count, sizeof(struct servers_ranked), compare);
    sort_in_place(scratch->by_rate, scratch->server_count, sizeof(struct servers_ranked), compare);
}

/* ---- workers ---- */

/* Whether the plan may have one more device with a share. */
static bool may_add(const struct servers_scratch *scratch, const struct servers_layout *layout,
                    size_t device)
{
    const struct servers_problem *problem = scratch->problem;
    const bool serves = servers_trial_has(layout->server, layout->server_count, device);
    const size_t devices = servers_trial_devices(layout) + !serves;
    const size_t most =
        problem->shares == SERVERS_GIVEN ? problem->share_count : problem->micro_batches;
    return devices <= problem->stages_max && layout->worker_count < most &&
           layout->worker_count < SERVERS_STAGES_MAX;
}

/* Set the trial to the fastest `count` workers, within the limits of the plan. Enough of them keep
 * no units, so that the plan has its least number of devices. */
static bool take_fastest(struct servers_scratch *scratch, const struct servers_layout *servers,
                         size_t count)
{
    struct servers_layout *layout = &scratch->trial.layout;
    const size_t least = scratch->problem->stages_min;
    *layout = *servers;
    layout->worker_count = 0;
    for (size_t i = 0; i < scratch->worker_count && layout->worker_count < count; i++) {
        const size_t device = scratch->by_speed[i].device;
        const size_t left = count - layout->worker_count, has = servers_trial_devices(layout);
        const bool serves = servers_trial_has(layout->server, layout->server_count, device);
        if (may_add(scratch, layout, device) && !(serves && has + left <= least)) {
            layout->worker[layout->worker_count++] = device;
        }
    }
    return layout->worker_count == count;
}

static void find_workers(struct servers_scratch *scratch, const struct servers_layout *servers,
                         struct servers_trial *best)
{
    const bool given = scratch->problem->shares == SERVERS_GIVEN;
    for (size_t count = given ? scratch->problem->share_count : 1;
         take_fastest(scratch, servers, count); count++) {
        if (servers_trial_devices(&scratch->trial.layout) < scratch->problem->stages_min) {
            continue;
        }
        if (servers_trial_spent(scratch, best)) {
            return;
        }
        servers_trial_run(scratch, SERVERS_TRIAL_NONE, best->total.step_seconds);
        if (servers_trial_faster(&scratch->trial, best, 0)) {
            *best = scratch->trial;
        }
    }
}

/* Add a worker to the trial, in the order of speed. */
static bool take_one_more(struct servers_scratch *scratch, const struct servers_trial *plan,
                          size_t device)
{
    struct servers_layout *layout = &scratch->trial.layout;
    *layout = plan->layout;
    if (!may_add(scratch, layout, device)) {
        return false;
    }
    layout->worker_count = 0;
    for (size_t i = 0; i < scratch->worker_count; i++) {
        const size_t d = scratch->by_speed[i].device;
        if (d == device || servers_trial_has(plan->layout.worker, plan->layout.worker_count, d)) {
            layout->worker[layout->worker_count++] = d;
        }
    }
    return true;
}

/* Try each device without a share, and write its effect. Return whether a trial was faster; then
 * scratch->best has it. */
static bool try_idle(struct servers_scratch *scratch, struct servers_plan *out)
{
    out->idle_count = 0;
    for (size_t i = 0; i < scratch->worker_count && out->idle_count < PARTITION_LEFT_OUT_MAX; i++) {
        const size_t device = scratch->by_speed[i].device;
        const struct servers_layout *layout = &scratch->best.layout;
        if (servers_trial_has(layout->worker, layout->worker_count, device)) {
            continue;
        }
        if (servers_trial_spent(scratch, &scratch->best)) {
            return false; /* what the others would change is not known */
        }
        struct servers_idle idle = {device, SERVERS_STAGES_FULL, INFINITY};
        if (take_one_more(scratch, &scratch->best, device)) {
            servers_trial_run(scratch, device, INFINITY);
            if (servers_trial_faster(&scratch->trial, &scratch->best, 0)) {
                scratch->best = scratch->trial;
                return true;
            }
            idle.step_seconds_with = scratch->trial.total.step_seconds;
            idle.reason = isfinite(idle.step_seconds_with) ? SERVERS_SLOWER : SERVERS_NO_MEMORY;
        }
        out->idle[out->idle_count++] = idle;
    }
    return false;
}

/* ---- servers ---- */

static void add_to_pool(struct servers_scratch *scratch, size_t device)
{
    const size_t at = scratch->pool_count;
    if (at < SERVERS_POOL_MAX && !servers_trial_has(scratch->pool, at, device)) {
        scratch->pool[at] = device;
        servers_step_links(scratch->problem, device, scratch->pool_link[at]);
        scratch->pool_count++;
    }
}

/* The given servers, or the devices with the fastest links and the fastest workers. */
static void fill_pool(struct servers_scratch *scratch)
{
    const struct servers_problem *problem = scratch->problem;
    scratch->pool_count = 0;
    for (size_t s = 0; problem->server_end && s < problem->server_count; s++) {
        add_to_pool(scratch, problem->server_device[s]);
    }
    for (size_t i = 0; !problem->server_end && i < SERVERS_MAX && i < scratch->server_count; i++) {
        add_to_pool(scratch, scratch->by_rate[i].device);
    }
    for (size_t i = 0; !problem->server_end && i < scratch->worker_count; i++) {
        const size_t device = scratch->by_speed[i].device;
        if (!problem->may_serve || problem->may_serve[device]) {
            add_to_pool(scratch, device);
        }
    }
}

/* Choosing greedy segments takes O(layers^3), so the search uses optimal segments instead. */
static bool is_greedy(const struct servers_problem *problem)
{
    return !problem->automatic && problem->transfers == SEGMENTS_GREEDY;
}

/* The fastest plan with these servers in this order. Return whether the units fit. */
static bool try_servers(struct servers_scratch *scratch, const size_t *server, size_t k)
{
    const struct servers_problem *problem = scratch->problem;
    const bool tight = problem->memory_cap_bytes && !problem->server_end;
    bool placed = false;
    for (int roomy = 0; roomy <= (tight ? 1 : 0); roomy++) {
        struct servers_layout servers = {.server_count = k};
        memcpy(servers.server, server, k * sizeof(server[0]));
        if (problem->server_end) {
            memcpy(servers.end, problem->server_end, k * sizeof(size_t));
        } else if (!servers_place(problem, server, k, roomy, servers.end)) {
            continue;
        }
        placed = true;
        for (int way = 0; way < (problem->automatic ? 2 : 1); way++) {
            const bool optimal = problem->automatic ? way == 0 : is_greedy(problem);
            servers.transfers = optimal              ? SEGMENTS_OPTIMAL
                                : problem->automatic ? SEGMENTS_STREAM
                                                     : problem->transfers;
            find_workers(scratch, &servers, &scratch->of_count[k]);
        }
    }
    return placed;
}

/* Find the fastest plan with k servers: the given ones, or those with the fastest links. One server
 * is tried on every device of the pool, and two on every pair if one server lacks the memory. */
static bool find_plan(struct servers_scratch *scratch, size_t k)
{
    const bool given = scratch->problem->server_end != NULL;
    bool placed = try_servers(scratch, scratch->pool, k);
    for (size_t a = 0; !given && k == 1 && a < scratch->pool_count; a++) {
        placed = try_servers(scratch, &scratch->pool[a], 1) || placed;
    }
    const bool pairs = !given && k == 2 && !isfinite(scratch->of_count[1].total.step_seconds);
    for (size_t i = 0; pairs && i < scratch->pool_count * scratch->pool_count; i++) {
        const size_t a = i / scratch->pool_count, b = i % scratch->pool_count;
        const size_t pair[] = {scratch->pool[a], scratch->pool[b]};
        placed = (a != b && try_servers(scratch, pair, 2)) || placed;
    }
    return placed;
}

/* Improve scratch->best until no single change is faster. */
static void improve(struct servers_scratch *scratch, struct servers_plan *out)
{
    bool better = true;
    for (size_t i = 0; i < SERVERS_DEVICES_MAX && better; i++) {
        better = servers_improve(scratch) || try_idle(scratch, out);
    }
}

/* Find a plan for each wanted number of servers. Return whether the units fit on any. */
static bool find_plans(struct servers_scratch *scratch, size_t wanted)
{
    const struct servers_problem *problem = scratch->problem;
    scratch->wanted = wanted;
    bool placed = false, spent = false;
    for (size_t k = 1; k <= SERVERS_MAX; k++) {
        struct servers_plan unused;
        const bool may = (wanted == 0 || wanted == k) && k <= scratch->pool_count &&
                         k <= problem->stages_max && k <= problem->unit_count && !spent;
        scratch->of_count[k].total.step_seconds = INFINITY;
        placed = (may && find_plan(scratch, k)) || placed;
        if (isfinite(scratch->of_count[k].total.step_seconds)) {
            scratch->best = scratch->of_count[k];
            improve(scratch, &unused);
            scratch->of_count[k] = scratch->best;
            spent = servers_trial_spent(scratch, &scratch->best);
        }
    }
    return placed;
}

/* A search for any number of servers may find a faster plan with the given number. */
static void find_on_the_way(struct servers_scratch *scratch)
{
    const size_t wanted = scratch->problem->server_count;
    struct servers_trial best = scratch->of_count[wanted];
    scratch->found = isfinite(best.total.step_seconds);
    (void)find_plans(scratch, 0);
    for (size_t k = 1; k <= SERVERS_MAX; k++) {
        const struct servers_trial *found = &scratch->of_count[k];
        if (found->layout.server_count == wanted && servers_trial_faster(found, &best, 0)) {
            best = *found;
        }
        scratch->of_count[k].total.step_seconds = INFINITY;
    }
    scratch->of_count[wanted] = best;
    scratch->wanted = wanted;
}

/* Of the plans within the tie rule's share of the fastest, the one with the fewest servers. */
static const struct servers_trial *choose_plan(const struct servers_scratch *scratch)
{
    const struct servers_trial *chosen = NULL;
    double best = INFINITY;
    for (size_t k = 1; k <= SERVERS_MAX; k++) {
        best = fmin(best, scratch->of_count[k].total.step_seconds);
    }
    for (size_t k = 1; k <= SERVERS_MAX && isfinite(best); k++) {
        const struct servers_trial *plan = &scratch->of_count[k];
        if (plan->total.step_seconds <= best * (1 + PARTITION_TIE) &&
            (!chosen || plan->layout.server_count < chosen->layout.server_count)) {
            chosen = plan;
        }
    }
    return chosen;
}

/* ---- answer ---- */

/* The power of 2 for which a share may begin at most at SEARCH_BOUNDARIES places of a step. */
static size_t search_grain(size_t micro_batches)
{
    size_t grain = 1;
    while (micro_batches > SEARCH_BOUNDARIES * grain) {
        grain *= 2;
    }
    return grain;
}

/* The exact shares of a plan that was searched with a coarser grain. */
static void refine(struct servers_scratch *scratch)
{
    scratch->grain = 1;
    scratch->trial.layout = scratch->best.layout;
    servers_trial_run(scratch, SERVERS_TRIAL_NONE, INFINITY);
    if (servers_trial_faster(&scratch->trial, &scratch->best, 0)) {
        scratch->best = scratch->trial;
    }
}

static void take_greedy(struct servers_scratch *scratch)
{
    struct servers_trial *best = &scratch->best;
    best->layout.transfers = SEGMENTS_GREEDY;
    servers_trial_set_links(scratch, &best->layout);
    servers_step_times(scratch->problem, &best->layout, &scratch->transfers, &scratch->times);
    best->total = servers_step_total(&scratch->times, best->share);
}

int servers_solve(const struct servers_problem *problem, struct servers_scratch *scratch,
                  struct servers_plan *out, struct err *err)
{
    struct servers_plan plan = {0};
    const int rc = check_problem(problem, scratch, err);
    if (rc) {
        return rc;
    }
    scratch->problem = problem;
    scratch->found = false;
    rank(scratch);
    scratch->asked = 0;
    scratch->grain = search_grain(problem->micro_batches);
    fill_pool(scratch);
    const bool placed = find_plans(scratch, problem->server_count);
    if (problem->server_count > 0 && !problem->server_end) {
        find_on_the_way(scratch);
    }
    const struct servers_trial *chosen = choose_plan(scratch);
    if (!chosen && problem->cancelled && *problem->cancelled) {
        return err_set(err, ERR_CANCELLED, "the search for servers and workers was cancelled");
    }
    if (!chosen) {
        return placed ? err_set(err, ERR_MEMORY, "no device has memory for a share")
                      : err_set(err, ERR_MEMORY, "the units do not fit on any servers");
    }
    scratch->best = *chosen;
    improve(scratch, &plan); /* of the plan that is chosen: what its idle devices would change */
    if (scratch->grain > 1) {
        refine(scratch);
    }
    if (is_greedy(problem)) {
        take_greedy(scratch);
    }
    servers_answer_write(scratch, &plan);
    *out = plan;
    return 0;
}
