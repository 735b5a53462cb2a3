#include "coordinator/core/gossip/gossip_requests.h"

#include <string.h>

#include "base/assert.h"
#include "coordinator/core/gossip/gossip_forecast.h"
#include "coordinator/core/gossip/gossip_parts.h"
#include "coordinator/core/jobs/jobs.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/state.h"

/* The least number of groups must have a batch each. */
static bool refuse_division(struct core *core, const struct event_job_submit *submit)
{
    double speed[GROUPS_MAX];
    struct err err = {0};
    for (size_t g = 0; g < GROUPS_MAX; g++) {
        speed[g] = 1;
    }
    if (gossip_divide(submit->spec, submit->classes->samples, submit->classes->count, speed,
                      (size_t)submit->spec->devices_min, core->shard, &err) == 0) {
        return false;
    }
    act_problem(core, PROBLEM_BAD_SPLIT, "/gossip/split: %.200s", err.text);
    return true;
}

static bool refuse_weights(struct core *core, const struct job_spec *spec)
{
    if (spec->gossip.weights != WEIGHTS_ACCURACY) {
        return false;
    }
    act_problem(core, PROBLEM_BAD_SPLIT,
                "/gossip/weights: must be 'equal' with data that stay on devices: no samples are "
                "the same for all groups");
    return true;
}

void gossip_on_submit(struct core *core, const struct event *event)
{
    const struct event_job_submit *submit = &event->job_submit;
    const struct event_classes *classes = submit->classes;
    struct job_spec one;
    struct event_job_submit group = *submit;
    const bool local = job_is_local(submit->spec);
    ASSERT(local || (classes && classes->count <= COUNTED_CLASSES_MAX));
    gossip_any_job(submit->spec, &one);
    group.spec = &one;
    if ((local ? refuse_weights(core, submit->spec) : refuse_division(core, submit)) ||
        jobs_refuse(core, &group, NULL)) {
        return;
    }
    if (submit->dry_run) {
        const struct gossip_asked asked = {
            .spec = submit->spec, .model = submit->model, .data = submit->data, .classes = classes};
        jobs_dry_run(core, submit);
        gossip_forecast(core, &asked, &core->answer->preview);
        return;
    }
    struct parent_slot *parent = groups_add(core, submit);
    if (!parent) {
        act_problem(core, PROBLEM_TOO_MANY,
                    "the coordinator has its maximum of %zu jobs of parts; cancel one, or wait "
                    "until one ends",
                    core->parents.max);
        return;
    }
    parent->parent.phase = PARENT_MIXING;
    if (!local) {
        memcpy(parent->parent.class_samples, classes->samples,
               classes->count * sizeof(classes->samples[0]));
        parent->parent.class_count = classes->count;
    }
    act_reply(core, 201, OBJECT_JOB, &parent->job);
}
