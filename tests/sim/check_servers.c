/* What must hold where workers and servers share a step. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/servers.h"
#include "tests/sim/trace.h"

void check_arena(struct world *world, const struct run *run, int64_t version, size_t end,
                 bool statistics)
{
    const struct servers_run *work = servers_of(run);
    for (size_t l = 0; l < end; l++) {
        const bool right = work->parameter_version[l] == version &&
                           (!statistics || work->statistic_version[l] == version);
        if (!right) {
            check_fail(world,
                       "%s computes with version %" PRId64 ", statistics of %" PRId64
                       ", of layer %zu in place of %" PRId64,
                       run->agent->name, work->parameter_version[l], work->statistic_version[l], l,
                       version);
            return;
        }
    }
}

void check_served(struct world *world, const struct run *run, size_t unit, int64_t version)
{
    const struct reference *reference = check_reference(world, run->desired->job.text);
    if (!reference || reference_unit(reference, version, unit) != run->stage.state[unit]) {
        check_fail(world, "%s gives out unit %zu as version %" PRId64 ", which it is not",
                   run->agent->name, unit, version);
    }
}

void check_block(struct world *world, const struct run *run, size_t block, size_t layer,
                 int64_t step)
{
    const int64_t held = servers_of(run)->received_step[block][layer];
    if (held != 0 && held != step) {
        check_fail(world,
                   "%s takes step %" PRId64 " of layer %zu into the buffer of block %zu, which "
                   "has step %" PRId64,
                   run->agent->name, step, layer, block, held);
    }
}

void check_sums(struct world *world, const struct run *run, size_t block, int64_t step)
{
    const struct servers_run *work = servers_of(run);
    for (size_t l = work->first; l < work->end; l++) {
        if (work->received_step[block][l] != step) {
            check_fail(world,
                       "%s adds layer %zu of block %zu in step %" PRId64
                       ", which has step %" PRId64,
                       run->agent->name, l, block, step, work->received_step[block][l]);
            return;
        }
    }
}

void check_blocks(struct world *world, const struct run *run, int64_t step)
{
    for (size_t b = 0; b < servers_of(run)->blocks; b++) {
        check_sums(world, run, b, step);
    }
}

static bool is_same_plan(const struct run *a, const struct run *b)
{
    return a != b && a->row == b->row && a->work && a->published &&
           id_equal(a->desired->plan.text, b->desired->plan.text);
}

static void note_applied(struct world *world, const struct run *run, int64_t version)
{
    struct check *check = world->check;
    const size_t at = check_known(check, run->desired->job.text);
    if (at == check->known_count) {
        return;
    }
    const bool same = id_equal(check->known[at].applied_plan.text, run->desired->plan.text);
    check->known[at].applied_plan = run->desired->plan;
    check->known[at].applied =
        same && check->known[at].applied > version ? check->known[at].applied : version;
}

void check_servers(struct world *world, const struct run *run)
{
    const int64_t version = exchange_version(servers_of(run)->exchange);
    note_applied(world, run, version);
    for (size_t i = 0; i < world->agent_count; i++) {
        for (const struct run *other = world->agent[i]->run; other; other = other->previous) {
            if (!is_same_plan(other, run) || !servers_is_server(other)) {
                continue;
            }
            const int64_t of_other = exchange_version(servers_of(other)->exchange);
            if (of_other > version + 1 || version > of_other + 1) {
                check_fail(world, "%s has version %" PRId64 " while %s has %" PRId64,
                           run->agent->name, version, other->agent->name, of_other);
            }
        }
    }
}

void check_stopped(struct world *world, const struct run *run, int64_t version)
{
    struct check *check = world->check;
    const size_t at = check_known(check, run->desired->job.text);
    if (at == check->known_count) {
        return;
    }
    if (id_equal(check->known[at].stopped_plan.text, run->desired->plan.text) &&
        check->known[at].stopped_version != version) {
        check_fail(
            world,
            "%s stops at version %" PRId64 " of generation %" PRId64 ", another device at %" PRId64,
            run->agent->name, version, run->desired->generation, check->known[at].stopped_version);
    }
    check->known[at].stopped_plan = run->desired->plan;
    check->known[at].stopped_version = version;
}

/* Whether the text names a device that keeps no units of the plan. */
static bool blames_worker(const struct world *world, const struct plan *plan, const char *text)
{
    for (size_t s = 0; s < plan->stage_count; s++) {
        char name[NAME_SIZE + 16];
        (void)snprintf(name, sizeof(name), "device '%s'",
                       trace_name(world, plan->stage[s].device.text));
        if (plan->stage[s].first == plan->stage[s].end && strstr(text, name)) {
            return true;
        }
    }
    return false;
}

/* The device of that id; agent_count: it is gone. A dead process has no id. */
static size_t index_of(const struct world *world, const char *id)
{
    size_t i = 0;
    while (i < world->agent_count && strcmp(trace_name(world, id), world->agent[i]->name) != 0) {
        i++;
    }
    return i;
}

/* No fault has struck a server since the plan was made. */
static bool are_well(const struct world *world, size_t known, const struct plan *plan)
{
    for (size_t s = 0; s < plan->stage_count; s++) {
        const size_t i = index_of(world, plan->stage[s].device.text);
        const bool keeps = plan->stage[s].first < plan->stage[s].end;
        if (keeps && (i == world->agent_count ||
                      check_faults(world, i) != world->check->known[known].faults[i])) {
            return false;
        }
    }
    return true;
}

void check_survived(struct world *world, size_t known, const struct plan *plan)
{
    struct check *check = world->check;
    const struct job *job = rows_job(&world->coordinator->rows, plan->job.text);
    const struct plan *before = rows_plan(&world->coordinator->rows, plan->job.text);
    if (!job || job->spec.strategy != STRATEGY_PARAMETER_SERVER) {
        return;
    }
    const int64_t applied = check->known[known].applied;
    /* Behind a bad link, a version that is near at hand may be chosen (coordinator/core/weighing).
     */
    const bool follows = before && !id_equal(before->id.text, plan->id.text) &&
                         before->reason != PLAN_LINK &&
                         id_equal(check->known[known].applied_plan.text, before->id.text);
    if (follows && check->known[known].failed < before->generation &&
        plan->resume_version < applied && are_well(world, known, before)) {
        check_fail(world,
                   "%s resumes from version %" PRId64
                   " after a stop, while servers came to %" PRId64,
                   job->spec.name, plan->resume_version, applied);
    }
    if (plan->started_ms > 0 && blames_worker(world, plan, plan->failure) &&
        are_well(world, known, plan)) {
        check_fail(world, "%s loses version %" PRId64 " with a device that keeps no units: %s",
                   job->spec.name, applied, plan->failure);
    }
    if (plan->failure[0] != '\0') {
        check->known[known].failed = plan->generation;
    }
}
