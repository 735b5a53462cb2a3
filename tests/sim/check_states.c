/* States that devices compute and keep are those of the undisturbed run. */
#include <inttypes.h>

#include "tests/sim/check.h"
#include "tests/sim/check_gossip.h"
#include "tests/sim/trace.h"
#include "tests/sim/users.h"

/* A state of an asynchronous job is one that its plans come to, that of a group one that it kept.
 */
bool check_is_right(const struct world *world, const char *job, int64_t version, size_t unit,
                    uint64_t digest)
{
    const struct course *course = check_course(world, job);
    const struct reference *reference = check_reference(world, job);
    return course      ? course_has_unit(course, version, unit, digest)
           : reference ? reference_unit(reference, version, unit) == digest
                       : check_group_kept(world, job, version, unit, digest);
}

static bool is_group(const struct world *world, const char *id)
{
    const size_t at = check_known(world->check, id);
    return at < world->check->known_count && world->check->known[at].part &&
           check_is_group(world->check->known[at].part);
}

void check_snapshot(struct world *world, const struct agent *agent, const struct holding *holding,
                    uint64_t digest)
{
    const struct reference *reference = check_reference(world, holding->job.text);
    if (is_group(world, holding->job.text)) {
        check_group_keeps(world, holding, digest);
        return;
    }
    if (!reference || holding->version > reference->steps ||
        !check_is_right(world, holding->job.text, holding->version, (size_t)holding->unit,
                        digest)) {
        check_fail(world, "%s keeps a wrong state of unit %" PRId64 " of %s at %" PRId64,
                   agent->name, holding->unit, trace_name(world, holding->job.text),
                   holding->version);
    }
}

void check_step(struct world *world, const struct run *run)
{
    const struct reference *reference = check_reference(world, run->desired->job.text);
    const size_t at = check_known(world->check, run->desired->job.text);
    if (at < world->check->known_count && run->step > world->check->known[at].furthest) {
        world->check->known[at].furthest = run->step;
    }
    check_kernels(world, run);
    check_measured(world, run);
    check_overrun(world, run);
    if (is_group(world, run->desired->job.text)) {
        return; /* check_log */
    }
    for (size_t u = run->stage.first; u < run->stage.end; u++) {
        if (!reference ||
            !check_is_right(world, run->desired->job.text, run->step, u, run->stage.state[u])) {
            check_fail(world, "%s computes a wrong state of unit %zu at %" PRId64, run->agent->name,
                       u, run->step);
            return;
        }
    }
}
