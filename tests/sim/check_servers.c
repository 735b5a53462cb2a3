/* What must hold where workers and servers share a step. */
#include <inttypes.h>

#include "tests/sim/check.h"
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

void check_servers(struct world *world, const struct run *run)
{
    const int64_t version = exchange_version(servers_of(run)->exchange);
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
