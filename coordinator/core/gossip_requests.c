#include "coordinator/core/gossip_requests.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/act.h"
#include "coordinator/core/gossip_form.h"
#include "coordinator/core/gossip_local.h"
#include "coordinator/core/gossip_parts.h"
#include "coordinator/core/groups.h"
#include "coordinator/core/jobs.h"
#include "coordinator/core/slots.h"
#include "coordinator/core/state.h"
#include "coordinator/core/text.h"
#include "coordinator/core/unit_work.h"
#include "coordinator/plan/levels.h"
#include "libtrain/model/shards.h"
#include "schema/job_check.h"

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

/* ---- a dry run ---- */

/* The seconds of an epoch in rounds of one pass, with equal parts of the data or by speed. */
static double round_seconds(const struct prospect *prospect, int64_t all, bool by_speed)
{
    int64_t samples[GROUPS_MAX];
    double sum = 0;
    for (size_t g = 0; g < prospect->problem.count; g++) {
        sum += by_speed ? prospect->speed[g] : 1;
    }
    for (size_t g = 0; g < prospect->problem.count; g++) {
        samples[g] = llround((double)all * (by_speed ? prospect->speed[g] : 1) / sum);
    }
    return levels_round(&prospect->problem, samples);
}

static void add_way(struct gossip_preview *preview, enum gossip_way way, double seconds,
                    double *least)
{
    if (seconds > 0 && seconds < *least) {
        *least = seconds;
        preview->fastest = way;
    }
}

static int64_t samples_of(const struct core *core, const struct event_job_submit *submit,
                          const struct recruit *recruit, size_t group)
{
    return gossip_recruit_samples(core, submit->spec, submit->model,
                                  submit->classes ? submit->classes->count : 0, recruit, group);
}

static void fill_group(const struct core *core, const struct event_job_submit *submit,
                       const struct recruit *recruit, struct gossip_preview *preview, size_t g)
{
    const struct job_spec *spec = submit->spec;
    const struct device_slot *device = slots_device(core, recruit->device.text);
    const int64_t samples = samples_of(core, submit, recruit, g);
    preview->group[g] = (struct preview_mixer){
        .device = recruit->device,
        .samples = samples,
        .samples_per_second = recruit->speed,
        .every = spec->gossip.level
                     ? levels_steps(recruit->speed, preview->period_seconds, spec->batch)
                     : levels_pass(samples, spec->batch),
    };
    text_set(preview->group[g].name, NAME_SIZE, "%s", device ? device->device.name : "");
}

/* There are groups. */
static void fill_seconds(const struct core *core, const struct event_job_submit *submit,
                         const struct recruit *recruit, size_t count, double passes,
                         struct gossip_preview *preview)
{
    const bool levels = submit->spec->gossip.level;
    const int64_t all = job_epoch_samples(submit->data);
    struct prospect prospect;
    int64_t samples[GROUPS_MAX];
    double sum = 0;
    gossip_prospect(core, submit->spec, submit->model, recruit, count, &prospect);
    for (size_t g = 0; g < count; g++) {
        samples[g] = samples_of(core, submit, &recruit[g], g);
        sum += recruit[g].speed;
    }
    preview->period_seconds =
        levels ? levels_period(&prospect.problem) : levels_round(&prospect.problem, samples);
    preview->epoch_seconds = levels ? (double)all / sum : preview->period_seconds;
    preview->total_seconds = preview->epoch_seconds * passes;
    preview->rounds_seconds = round_seconds(&prospect, all, false) * passes;
    preview->sized_rounds_seconds = round_seconds(&prospect, all, true) * passes;
}

/* Of the devices that are free, or else of all that are there. */
static void forecast(struct core *core, const struct event_job_submit *submit,
                     struct job_preview *out)
{
    const struct job_spec *spec = submit->spec;
    struct gossip_preview *preview = &out->gossip;
    struct recruit recruit[GROUPS_MAX];
    size_t there;
    size_t count = gossip_recruit(core, spec, submit->model, submit->classes, CANDIDATES_FREE,
                                  recruit, &there);
    count = count > 0 ? count
                      : gossip_recruit(core, spec, submit->model, submit->classes,
                                       CANDIDATES_ONLINE, recruit, &there);
    const double samples = (double)(out->steps * spec->batch);
    double least = INFINITY;
    preview->copy_bytes = (int64_t)unit_work_state_bytes(submit->model);
    preview->pipeline_seconds = out->predicted_total_seconds;
    preview->single_seconds = there > 0 ? samples / recruit[0].speed : 0;
    preview->group_count = count;
    if (count > 0) {
        fill_seconds(core, submit, recruit, count,
                     samples / (double)job_epoch_samples(submit->data), preview);
    }
    for (size_t g = 0; g < count; g++) {
        fill_group(core, submit, &recruit[g], preview, g);
    }
    add_way(preview, GOSSIP_WAY_GOSSIP, preview->total_seconds, &least);
    add_way(preview, GOSSIP_WAY_PIPELINE, preview->pipeline_seconds, &least);
    add_way(preview, GOSSIP_WAY_SINGLE, preview->single_seconds, &least);
    out->has_gossip = true;
}

void gossip_on_submit(struct core *core, const struct event *event)
{
    const struct event_job_submit *submit = &event->job_submit;
    const struct event_classes *classes = submit->classes;
    struct job_spec one;
    struct event_job_submit group = *submit;
    const bool local = gossip_is_local(submit->spec);
    ASSERT(local || (classes && classes->count <= COUNTED_CLASSES_MAX));
    gossip_any_job(submit->spec, &one);
    group.spec = &one;
    if ((local ? refuse_weights(core, submit->spec) : refuse_division(core, submit)) ||
        jobs_refuse(core, &group, NULL)) {
        return;
    }
    if (submit->dry_run) {
        jobs_dry_run(core, submit);
        forecast(core, submit, &core->answer->preview);
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
