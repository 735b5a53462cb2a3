#include "coordinator/core/gossip/gossip_result.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "coordinator/core/copies/exports.h"
#include "coordinator/core/copies/kept.h"
#include "coordinator/core/gossip/gossip_groups.h"
#include "coordinator/core/gossip/gossip_job.h"
#include "coordinator/core/gossip/gossip_records.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"

#define GOOD_AVERAGES 3 /* averages in a row that end a job with target_accuracy */
/* The product of accuracy and labels may differ by this much from the number of correct labels.
 * Rounding errors of doubles stay below it up to some 10^12 labels. */
#define LABEL_ERROR 0.001

/* ---- the end ---- */

/* Append the numbers of the groups that are not in the result. false: all groups are in it. */
static bool name_left_out(const struct parent *row, const bool without[GROUPS_MAX],
                          char message[MESSAGE_SIZE])
{
    bool any = false;
    for (size_t g = 0; g < row->groups.count; g++) {
        const size_t size = strlen(message);
        if (without[g]) {
            text_set(message + size, MESSAGE_SIZE - size, "%s %zu",
                     any ? "," : "; not in the last average: group", g);
            any = true;
        }
    }
    return any;
}

void gossip_succeed(struct core *core, struct parent_slot *parent,
                    const struct checkpoint_id *checkpoint, const char *reason,
                    const bool without[GROUPS_MAX])
{
    struct job_progress *progress = &parent->job.progress;
    struct parent *row = &parent->parent;
    char message[MESSAGE_SIZE] = "trained";
    if (row->gossip.good >= GOOD_AVERAGES) {
        text_set(message, sizeof(message), "%d averages in a row have an accuracy of %g",
                 GOOD_AVERAGES, parent->job.spec.gossip.target_accuracy);
    }
    if (name_left_out(row, without, message)) {
        reason = "degraded";
    }
    parent->job.checkpoint = *checkpoint;
    progress->step = gossip_steps_done(parent);
    progress->steps =
        progress->step > gossip_steps_all(parent) ? progress->step : gossip_steps_all(parent);
    progress->fraction = 1;
    for (size_t g = 0; g < row->groups.count; g++) {
        if (row->part[g].state == PART_TRAINS) {
            gossip_leave_job(parent, g);
            groups_cancel(core, &row->part[g], "", "the last average is stored");
            row->part[g].state = PART_TRAINED;
        }
    }
    groups_end(core, parent, JOB_SUCCEEDED, reason, message);
}

/* ---- averages ---- */

/* The job of the group that is expected to send the average, or NULL. */
static const struct job_slot *author_of(const struct core *core, const char *device_id,
                                        const struct stored_average *average,
                                        struct parent_slot **parent)
{
    const struct job_slot *job = slots_job(core, average->job.text);
    const struct device_slot *device = slots_device(core, device_id);
    *parent = job ? slots_parent(core, job->job.parent.text) : NULL;
    if (!*parent || !device || device->job != job ||
        (*parent)->job.spec.strategy != STRATEGY_GOSSIP ||
        job->plan.generation != average->generation) {
        return NULL;
    }
    const struct gossip *gossip = &(*parent)->mixes.gossip;
    const bool expected =
        mix_xid_is(gossip->average, average->xid) && gossip->averager == (size_t)job->job.group;
    return expected ? job : NULL;
}

const struct job_spec *core_average_job(const struct core *core, const char *device_id,
                                        const struct stored_average *average,
                                        const struct model **model)
{
    struct parent_slot *parent;
    const struct job_slot *job = author_of(core, device_id, average, &parent);
    *model = job ? parent->model : NULL;
    return job ? &parent->job.spec : NULL;
}

/* The accuracy comes from one test set: it must be a whole number of its labels. */
bool core_average_possible(const struct core *core, const char *device_id,
                           const struct stored_average *average)
{
    struct parent_slot *parent;
    if (!average->has_accuracy || !author_of(core, device_id, average, &parent)) {
        return true;
    }
    const struct job *job = &parent->job;
    const double labels = job->spec.dataset_test[0] != '\0'
                              ? (double)job->data.test_samples * (double)parent->model->positions
                              : 0;
    const double correct = average->accuracy * labels;
    return labels > 0 && fabs(correct - round(correct)) <= LABEL_ERROR;
}

/* Keep only the newest averages. */
static void keep_average(struct core *core, struct parent_slot *parent,
                         const struct gossip_average *average)
{
    struct gossip_state *state = &parent->parent.gossip;
    if (state->average_count == GOSSIP_AVERAGES_KEPT) {
        const struct gossip_average gone = state->average[0];
        memmove(&state->average[0], &state->average[1],
                (GOSSIP_AVERAGES_KEPT - 1) * sizeof(state->average[0]));
        state->average_count--;
        kept_discard(core, &gone.checkpoint, gone.sha256);
    }
    state->average[state->average_count++] = *average;
    state->averages++;
}

static void show_accuracy(struct core *core, struct parent_slot *parent,
                          const struct gossip_average *average, double loss)
{
    struct job_progress *progress = &parent->job.progress;
    const struct metric metric[] = {
        {.step = average->step, .name = METRIC_TEST_LOSS, .value = loss},
        {.step = average->step, .name = METRIC_TEST_ACCURACY, .value = average->accuracy}};
    for (size_t i = 0; average->has_accuracy && i < 2; i++) {
        act_metric(core, parent->job.id.text, &metric[i]);
    }
    progress->accuracy = average->accuracy;
    progress->has_accuracy = average->has_accuracy;
    parent->work.job_changed = true;
}

/* Mark the groups that are not in the average. */
static void find_left_out(const struct parent_slot *parent, bool out[GROUPS_MAX])
{
    for (size_t g = 0; g < parent->parent.gossip.member_count; g++) {
        out[g] = !parent->mixes.gossip.in_average[g];
    }
}

bool gossip_has_result(const struct parent_slot *parent)
{
    return gossip_is_last(&parent->mixes.gossip) && parent->mixes.gossip.stored;
}

static void end_job(struct core *core, struct parent_slot *parent)
{
    const struct gossip_state *state = &parent->parent.gossip;
    bool without[GROUPS_MAX] = {false};
    find_left_out(parent, without);
    gossip_succeed(core, parent, &state->average[state->average_count - 1].checkpoint, "", without);
}

void gossip_end_without_groups(struct core *core, struct parent_slot *parent)
{
    if (!parent->mixes.gossip.rules.tests) {
        end_job(core, parent);
    }
}

void gossip_vary_author(struct parent_slot *parent)
{
    struct gossip *gossip = &parent->mixes.gossip;
    const struct gossip_state *state = &parent->parent.gossip;
    const bool varies = state->good > 0 && !gossip->rules.tests && state->average_count > 0;
    gossip_avoid(gossip, varies ? (size_t)state->average[state->average_count - 1].author.group
                                : LEVELS_GROUPS_MAX);
}

/* Two consecutive accuracies from the same author count once, unless the average has only the copy
 * of this author. */
static bool is_heard_again(const struct parent_slot *parent)
{
    const struct gossip_state *state = &parent->parent.gossip;
    const struct gossip_average *newest = &state->average[state->average_count - 1];
    return state->good > 0 && !parent->mixes.gossip.rules.tests && state->average_count > 1 &&
           newest[-1].author.group == newest->author.group &&
           gossip_had_choice(&parent->mixes.gossip);
}

static int64_t count_good(const struct parent_slot *parent)
{
    const struct gossip_state *state = &parent->parent.gossip;
    const struct gossip_average *average = &state->average[state->average_count - 1];
    const double target = parent->job.spec.gossip.target_accuracy;
    if (target <= 0 || !average->has_accuracy || average->accuracy < target) {
        return 0;
    }
    return is_heard_again(parent) ? state->good : state->good + 1;
}

/* The average that was stored last was judged, or cannot be judged. The job may end with it. */
static void take_judged(struct core *core, struct parent_slot *parent, double loss)
{
    bool without[GROUPS_MAX] = {false};
    struct gossip_state *state = &parent->parent.gossip;
    const struct gossip_average *average = &state->average[state->average_count - 1];
    show_accuracy(core, parent, average, loss);
    state->good = count_good(parent);
    gossip_vary_author(parent);
    groups_changed(parent);
    if (gossip_is_last(&parent->mixes.gossip)) {
        end_job(core, parent);
    } else if (state->good >= GOOD_AVERAGES) {
        gossip_succeed(core, parent, &average->checkpoint, "stopped_early", without);
    }
}

void gossip_on_average(struct core *core, const struct event *event)
{
    const struct event_average_stored *stored = &event->average_stored;
    struct parent_slot *parent;
    const struct job_slot *author = author_of(core, stored->device.text, &stored->average, &parent);
    if (stored->refused) {
        if (author) {
            gossip_refuse(&parent->mixes.gossip, core->now_ms);
            parent->work.touched = true;
        }
        return;
    }
    if (!author) {
        act_problem(core, PROBLEM_STALE_GENERATION, "the average is not expected any more");
        return;
    }
    const struct gossip_state *state = &parent->parent.gossip;
    const struct gossip_average *newest =
        state->average_count > 0 ? &state->average[state->average_count - 1] : NULL;
    act_reply(core, 204, OBJECT_NOTHING, NULL);
    if (newest && mix_xid_is(newest->xid, stored->average.xid)) {
        return; /* a repeat */
    }
    const int64_t group = author->job.group;
    struct gossip_average average = {
        .xid = stored->average.xid,
        .author = {.group = group, .generation = parent->parent.gossip.member[group].incarnation},
        .bytes = stored->bytes,
        .step = parent->mixes.gossip.average_step,
        .accuracy = stored->average.accuracy,
        .has_accuracy = stored->average.has_accuracy && !parent->mixes.gossip.rules.tests};
    memcpy(average.sha256, stored->sha256, SHA256_SIZE);
    exports_store(core, &parent->job, average.step, average.sha256, average.bytes);
    average.checkpoint = core->checkpoint.id;
    keep_average(core, parent, &average);
    const struct mix_record record = {
        .xid = average.xid, .kind = MIX_STORED, .own = average.author};
    gossip_record(core, parent, &record);
    gossip_stored(&parent->mixes.gossip, average.xid);
    gossip_watch_average(core, parent, average.step);
    groups_changed(parent);
    parent->work.touched = true;
    act_publish_job(core, "average_stored", &parent->job, average.checkpoint.text,
                    "average %" PRId64 " of '%s' is stored", state->averages,
                    parent->job.spec.name);
    if (!parent->mixes.gossip.rules.tests) { /* else gossip_judge follows */
        take_judged(core, parent, stored->average.loss);
    }
}

/* ---- averages on held-out samples ---- */

void gossip_note_tests(struct parent_slot *parent, size_t group, const struct mix_report *report)
{
    const struct gossip *gossip = &parent->mixes.gossip;
    struct gossip_member *member = &parent->parent.gossip.member[group];
    const struct mix_tests *tests = &report->tests;
    const int64_t labels = member->held * (int64_t)parent->model->positions;
    if (!report->has_tests || !gossip_is_testing(gossip, group) ||
        !mix_xid_is(report->average.xid, gossip->average) || tests->samples == 0 ||
        tests->samples != member->held || tests->correct > labels || !isfinite(tests->loss)) {
        return;
    }
    member->tests = (struct gossip_tests){.xid = gossip->average,
                                          .step = gossip->average_step,
                                          .samples = tests->samples,
                                          .loss = tests->loss / (double)tests->samples,
                                          .accuracy = (double)tests->correct / (double)labels};
    groups_changed(parent);
}

void gossip_judge(struct core *core, struct parent_slot *parent)
{
    struct gossip_state *state = &parent->parent.gossip;
    double samples = 0, loss = 0, accuracy = 0;
    if (parent->work.ended || !gossip_take_tests(&parent->mixes.gossip)) {
        return;
    }
    struct gossip_average *average = &state->average[state->average_count - 1];
    for (size_t g = 0; g < state->member_count; g++) {
        const struct gossip_tests *tests = &state->member[g].tests;
        if (mix_xid_is(tests->xid, average->xid)) {
            samples += (double)tests->samples;
            loss += tests->loss * (double)tests->samples;
            accuracy += tests->accuracy * (double)tests->samples;
        }
    }
    average->has_accuracy = samples > 0;
    average->accuracy = samples > 0 ? fmin(accuracy / samples, 1) : 0;
    take_judged(core, parent, samples > 0 ? loss / samples : 0);
}
