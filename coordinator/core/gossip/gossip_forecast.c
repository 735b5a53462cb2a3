#include "coordinator/core/gossip/gossip_forecast.h"

#include <math.h>

#include "coordinator/core/gossip/gossip_form.h"
#include "coordinator/core/jobs/previews.h"
#include "coordinator/core/state/state.h"
#include "libtrain/model/cost.h"
#include "schema/job_check.h"

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

/* An average contains the mean of its groups' steps, so their total takes group_count times as
 * long.
 */
static int fastest_way(const struct gossip_preview *preview)
{
    const double seconds[] = {[GOSSIP_WAY_GOSSIP] =
                                  preview->total_seconds * (double)preview->group_count,
                              [GOSSIP_WAY_PIPELINE] = preview->pipeline_seconds,
                              [GOSSIP_WAY_SINGLE] = preview->single_seconds};
    return previews_fastest(seconds, sizeof(seconds) / sizeof(seconds[0]));
}

static void fill_group(const struct core *core, const struct gossip_asked *asked,
                       const struct recruit *recruit, struct preview_mixer *out)
{
    previews_name_device(core, asked->question, &recruit->device, &out->device, out->name);
    out->samples_per_second = recruit->speed;
}

/* The transfers between two averages: one copy in each direction for each mix, and one copy for the
 * average. Groups that adopt or evaluate the average also fetch it. In schedule rounds, an average
 * that is adopted takes the place of a mix. */
static void fill_traffic(const struct job_spec *spec, const struct prospect *prospect,
                         struct gossip_preview *preview)
{
    const size_t count = preview->group_count;
    const int64_t every = gossip_average_every(&spec->gossip, count);
    const bool adopts = spec->gossip.adopt, fetched = adopts || spec->test_local.holdout > 0;
    const bool replaces = adopts && spec->gossip.schedule == SCHEDULE_ROUNDS;
    const double mixes = (double)(replaces ? every - 1 : every);
    const double rate = (double)preview->copy_bytes / ((double)every * preview->period_seconds);
    bool all[GROUPS_MAX];
    for (size_t g = 0; g < count; g++) {
        all[g] = true;
    }
    const size_t averager = levels_averager(&prospect->problem, all, all);
    for (size_t g = 0; g < count; g++) {
        struct preview_mixer *group = &preview->group[g];
        const double others = (double)(count - 1);
        const bool averages = g == averager; /* it also sends the average to the coordinator */
        const double given = averages && fetched ? others + 1 : 1;
        const double taken = averages ? others : fetched ? 1 : 0;
        group->given_bytes_per_second = rate * (mixes + given);
        group->taken_bytes_per_second = rate * (mixes + taken);
        group->link_share =
            prospect->rate[g] > 0 ? rate * (mixes + fmax(given, taken)) / prospect->rate[g] : 0;
    }
}

/* Write the steps of a levelled group between two mixes. Return its samples per second: after these
 * steps the group slows down, or waits. */
static double fill_steps(const struct job_spec *spec, double speed, double period,
                         struct preview_mixer *out)
{
    out->every = levels_every(speed, period, out->samples, spec->batch, &out->slows);
    return out->slows ? (double)(out->every * spec->batch) / period : speed;
}

/* Only for a forecast with groups. */
static void fill_seconds(struct core *core, const struct gossip_asked *asked,
                         const struct recruit *recruit, double passes,
                         struct gossip_preview *preview)
{
    const bool levels = asked->spec->gossip.level;
    const int64_t all = job_epoch_samples(asked->data);
    const size_t count = preview->group_count;
    struct prospect prospect;
    int64_t samples[GROUPS_MAX];
    double sum = 0;
    gossip_prospect(core, asked->spec, recruit, count, &prospect);
    for (size_t g = 0; g < count; g++) {
        samples[g] = preview->group[g].samples =
            gossip_recruit_samples(core, asked->spec, asked->model,
                                   asked->classes ? asked->classes->count : 0, &recruit[g], g);
    }
    preview->period_seconds =
        levels ? levels_period(&prospect.problem) : levels_round(&prospect.problem, samples);
    for (size_t g = 0; g < count; g++) {
        if (levels) {
            sum += fill_steps(asked->spec, recruit[g].speed, preview->period_seconds,
                              &preview->group[g]);
        } else {
            preview->group[g].every = levels_pass(samples[g], asked->spec->batch);
        }
    }
    preview->epoch_seconds = levels ? (double)all / sum : preview->period_seconds;
    preview->total_seconds = preview->epoch_seconds * passes;
    preview->rounds_seconds = round_seconds(&prospect, all, false) * passes;
    preview->sized_rounds_seconds = round_seconds(&prospect, all, true) * passes;
    fill_traffic(asked->spec, &prospect, preview);
}

void gossip_forecast(struct core *core, const struct gossip_asked *asked, struct job_preview *out)
{
    struct gossip_preview *preview = &out->gossip;
    struct recruit recruit[GROUPS_MAX];
    const bool listed = asked->question && asked->question->has_devices; /* they count as free */
    struct gossip_wanted wanted = {.spec = asked->spec,
                                   .model = asked->model,
                                   .classes = asked->classes,
                                   .question = asked->question,
                                   .candidates = listed ? CANDIDATES_ONLINE : CANDIDATES_FREE};
    const double samples = (double)(out->steps * asked->spec->batch);
    size_t there;
    size_t count = gossip_recruit(core, &wanted, recruit, &there);
    if (count == 0) {
        wanted.candidates = CANDIDATES_ONLINE;
        count = gossip_recruit(core, &wanted, recruit, &there);
    }
    preview->copy_bytes = (int64_t)cost_state_bytes(asked->model);
    if (!job_is_local(asked->spec)) { /* else no device has all samples */
        preview->pipeline_seconds = out->predicted_total_seconds;
        preview->single_seconds = there > 0 ? samples / recruit[0].speed : 0;
    }
    preview->group_count = count;
    if (count > 0) {
        fill_seconds(core, asked, recruit, samples / (double)job_epoch_samples(asked->data),
                     preview);
    }
    for (size_t g = 0; g < count; g++) {
        fill_group(core, asked, &recruit[g], &preview->group[g]);
    }
    preview->fastest = fastest_way(preview);
    out->has_gossip = true;
}
