#include "coordinator/plan/servers_improve.h"

#include <string.h>

#include "coordinator/plan/servers_place.h"

/* The devices that may work in a trial layout. */
enum team {
    TEAM_PRESENT, /* those of the best plan */
    TEAM_SERVERS, /* the servers: nothing that they keep is transferred */
    TEAM_BOTH,
    TEAMS,
};

static void set_team(const struct servers_scratch *scratch, enum team team,
                     struct servers_layout *layout)
{
    const struct servers_layout *best = &scratch->best.layout;
    layout->worker_count = 0;
    for (size_t i = 0; i < scratch->worker_count && layout->worker_count < SERVERS_STAGES_MAX;
         i++) {
        const size_t device = scratch->by_speed[i].device;
        const bool present = servers_trial_has(best->worker, best->worker_count, device);
        const bool serves = servers_trial_has(layout->server, layout->server_count, device);
        if ((present && team != TEAM_SERVERS) || (serves && team != TEAM_PRESENT)) {
            layout->worker[layout->worker_count++] = device;
        }
    }
}

/* Try a layout. Given shares fit only their own number of workers. */
static bool try_layout(struct servers_scratch *scratch, const struct servers_layout *layout)
{
    const struct servers_problem *problem = scratch->problem;
    const double gain =
        layout->server_count > scratch->best.layout.server_count ? PARTITION_TIE : 0;
    if (layout->worker_count == 0 || servers_trial_spent(scratch, &scratch->best) ||
        servers_trial_devices(layout) > problem->stages_max ||
        servers_trial_devices(layout) < problem->stages_min ||
        (problem->shares != SERVERS_SPEED && layout->worker_count > problem->micro_batches) ||
        (problem->shares == SERVERS_GIVEN && layout->worker_count != problem->share_count)) {
        return false;
    }
    scratch->trial.layout = *layout;
    servers_trial_run(scratch, SERVERS_TRIAL_NONE, scratch->best.total.step_seconds);
    if (!servers_trial_faster(&scratch->trial, &scratch->best, gain)) {
        return false;
    }
    scratch->best = scratch->trial;
    return true;
}

static bool try_teams(struct servers_scratch *scratch, struct servers_layout *layout)
{
    for (enum team team = TEAM_PRESENT; team < TEAMS; team++) {
        set_team(scratch, team, layout);
        if (try_layout(scratch, layout)) {
            return true;
        }
    }
    return false;
}

/* Both kinds of boundaries; without memory caps they are the same. */
static bool try_servers(struct servers_scratch *scratch, struct servers_layout *layout)
{
    const struct servers_problem *problem = scratch->problem;
    for (int roomy = 0; roomy <= (problem->memory_cap_bytes ? 1 : 0); roomy++) {
        if (servers_place(problem, layout->server, layout->server_count, roomy, layout->end) &&
            try_teams(scratch, layout)) {
            return true;
        }
    }
    return false;
}

/* Try another device of the pool instead of a server, or as a new server before it. */
static bool try_pool(struct servers_scratch *scratch, size_t at, bool add)
{
    const struct servers_layout best = scratch->best.layout;
    for (size_t i = 0; i < scratch->pool_count; i++) {
        struct servers_layout layout = best;
        if (servers_trial_has(best.server, best.server_count, scratch->pool[i])) {
            continue;
        }
        if (add) {
            memmove(layout.server + at + 1, layout.server + at,
                    (best.server_count - at) * sizeof(layout.server[0]));
            layout.server_count++;
        }
        layout.server[at] = scratch->pool[i];
        if (try_servers(scratch, &layout)) {
            return true;
        }
    }
    return false;
}

static bool try_exchange(struct servers_scratch *scratch, size_t at)
{
    const struct servers_layout best = scratch->best.layout;
    for (size_t other = at + 1; other < best.server_count; other++) {
        struct servers_layout layout = best;
        layout.server[at] = best.server[other];
        layout.server[other] = best.server[at];
        if (try_servers(scratch, &layout)) {
            return true;
        }
    }
    return false;
}

static bool try_without(struct servers_scratch *scratch, size_t at)
{
    struct servers_layout layout = scratch->best.layout;
    layout.server_count--;
    memmove(layout.server + at, layout.server + at + 1,
            (layout.server_count - at) * sizeof(layout.server[0]));
    return layout.server_count > 0 && try_servers(scratch, &layout);
}

/* Move a boundary by one unit: more, or fewer, for the server before it. */
static bool try_boundary(struct servers_scratch *scratch, size_t at)
{
    struct servers_layout layout = scratch->best.layout;
    const size_t first = at == 0 ? 0 : layout.end[at - 1], end = layout.end[at];
    if (end + 1 < layout.end[at + 1]) {
        layout.end[at] = end + 1;
        if (try_layout(scratch, &layout)) {
            return true;
        }
    }
    layout.end[at] = end - 1;
    return end - 1 > first && try_layout(scratch, &layout);
}

static bool try_fewer_workers(struct servers_scratch *scratch)
{
    const struct servers_layout best = scratch->best.layout;
    for (size_t w = 0; w < best.worker_count; w++) {
        struct servers_layout layout = best;
        layout.worker_count--;
        memmove(layout.worker + w, layout.worker + w + 1,
                (layout.worker_count - w) * sizeof(layout.worker[0]));
        if (try_layout(scratch, &layout)) {
            return true;
        }
    }
    return false;
}

bool servers_improve(struct servers_scratch *scratch)
{
    const struct servers_problem *problem = scratch->problem;
    const size_t count = scratch->best.layout.server_count;
    if (problem->server_end) {
        return try_fewer_workers(scratch);
    }
    for (size_t at = 0; at < count; at++) {
        if (try_pool(scratch, at, false) || try_exchange(scratch, at) ||
            (at + 1 < count && try_boundary(scratch, at))) {
            return true;
        }
    }
    const bool may_add = count < SERVERS_MAX && count < problem->unit_count;
    for (size_t at = 0; at <= count && scratch->wanted == 0; at++) {
        if ((at < count && try_without(scratch, at)) || (may_add && try_pool(scratch, at, true))) {
            return true;
        }
    }
    return try_fewer_workers(scratch);
}
