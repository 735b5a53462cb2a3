/* Averages on held-out samples, as devices evaluate them and as the coordinator adds them up. */
#include "tests/sim/check_held_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "tests/sim/check_gossip.h"
#include "tests/sim/check_log.h"
#include "tests/sim/coordinator.h"

#define REPORTS_MAX 8192
#define EVALUATION_MS_MAX 600000 /* coordinator/core/gossip/gossip_inside.h */
#define FROZEN_MS_MAX 60000      /* in which the coordinator does not look, and clocks jump */
#define MEAN_ERROR 1e-9

struct check_held_out {
    struct {
        struct job_id parent;
        int64_t group, generation;
        struct mix_xid xid;
        struct mix_tests tests;
    } report[REPORTS_MAX];
    size_t report_count;
    struct {
        struct job_id parent;
        struct gossip_tests tests[GROUPS_MAX];
        struct mix_xid judged; /* the newest average that has an accuracy */
        struct mix_xid paused; /* the newest average while the job was paused */
        int backups;           /* put back when it was looked at last */
    } parent[PARENTS_SEEN_MAX];
    size_t parent_count;
};

int check_held_out_new(struct check_held_out **out, struct err *err)
{
    *out = calloc(1, sizeof(**out));
    return *out ? 0 : err_set(err, ERR_MEMORY, "check");
}

void check_held_out_free(struct check_held_out **held)
{
    free(*held);
    *held = NULL;
}

/* ---- at a device ---- */

void check_evaluated(struct world *world, const struct run *run, struct mix_xid xid,
                     const struct mix_tests *tests)
{
    struct check_held_out *held = world->check->held_out;
    const struct job *group = rows_job(&world->coordinator->rows, run->desired->job.text);
    const struct mix_duty *duty = &run->desired->mix;
    if (!group) {
        return; /* a backup does not know it */
    }
    for (size_t i = 0; i < held->report_count; i++) {
        if (held->report[i].group == duty->group &&
            held->report[i].generation == duty->generation &&
            mix_xid_is(held->report[i].xid, xid) &&
            id_equal(held->report[i].parent.text, group->parent.text) &&
            world->check->backups == 0) {
            check_fail(world, "%s evaluates average %" PRId64 "-%" PRId64 " again",
                       run->agent->name, xid.life, xid.counter);
        }
    }
    ASSERT(held->report_count < REPORTS_MAX);
    held->report[held->report_count].parent = group->parent;
    held->report[held->report_count].group = duty->group;
    held->report[held->report_count].generation = duty->generation;
    held->report[held->report_count].xid = xid;
    held->report[held->report_count++].tests = *tests;
}

/* ---- at the coordinator ---- */

static bool was_reported(const struct check_held_out *held, const struct job *job, size_t group,
                         const struct gossip_tests *tests)
{
    bool found = false;
    for (size_t i = 0; i < held->report_count && !found; i++) {
        const struct mix_tests *sums = &held->report[i].tests;
        found = held->report[i].group == (int64_t)group &&
                mix_xid_is(held->report[i].xid, tests->xid) && sums->samples == tests->samples &&
                id_equal(held->report[i].parent.text, job->id.text) &&
                fabs(tests->accuracy * (double)sums->samples - (double)sums->correct) < 1e-6 &&
                fabs(tests->loss * (double)sums->samples - sums->loss) < 1e-6 * (1 + sums->loss);
    }
    return found;
}

static void check_member(struct world *world, const struct job *job, size_t group,
                         const struct gossip_tests *seen, const struct gossip_tests *now)
{
    const bool same = mix_xid_is(seen->xid, now->xid);
    if (now->xid.counter == 0 || world->check->backups > 0) {
        return;
    }
    if (same ? memcmp(seen, now, sizeof(*now)) != 0 : mix_xid_after(seen->xid, now->xid)) {
        check_fail(world, "the figures of group %zu of %s change for average %" PRId64 "-%" PRId64,
                   group, job->spec.name, now->xid.life, now->xid.counter);
    } else if (!same && !was_reported(world->check->held_out, job, group, now)) {
        check_fail(world, "group %zu of %s has not reported its figures", group, job->spec.name);
    }
}

/* Of an earlier time, which is put back: its groups may have reported of the next one since. */
static struct mix_xid newest_judged(const struct gossip_state *state)
{
    const struct gossip_average *newest = &state->average[state->average_count - 1];
    return newest->has_accuracy ? newest->xid : (struct mix_xid){0};
}

/* When it is judged: by all that its groups have reported, and by nothing else. Later they report
 * of the next one, which is evaluated before it is stored. */
static void check_mean(struct world *world, const struct job *job, const struct gossip_state *state,
                       struct mix_xid *judged)
{
    const struct gossip_average *newest = &state->average[state->average_count - 1];
    double samples = 0, correct = 0;
    if (!newest->has_accuracy || mix_xid_is(newest->xid, *judged)) {
        return;
    }
    *judged = newest->xid;
    for (size_t g = 0; g < state->member_count; g++) {
        const struct gossip_tests *tests = &state->member[g].tests;
        if (mix_xid_is(tests->xid, newest->xid)) {
            samples += (double)tests->samples;
            correct += tests->accuracy * (double)tests->samples;
        }
    }
    if (!(fabs(newest->accuracy * samples - correct) < MEAN_ERROR * samples)) {
        check_fail(world, "the accuracy of average %" PRId64 "-%" PRId64 " of %s is no mean",
                   newest->xid.life, newest->xid.counter, job->spec.name);
    }
}

static void check_end(struct world *world, const struct job *job, const struct gossip_state *state,
                      struct mix_xid paused)
{
    const struct gossip_average *newest = &state->average[state->average_count - 1];
    bool reported = false;
    for (size_t g = 0; g < state->member_count; g++) {
        reported = reported || mix_xid_is(state->member[g].tests.xid, newest->xid);
    }
    if (job->state != JOB_SUCCEEDED || !id_equal(job->checkpoint.text, newest->checkpoint.text)) {
        return;
    }
    if (reported && !newest->has_accuracy) {
        check_fail(world, "%s has ended, and its average is not judged by its groups",
                   job->spec.name);
    } else if (mix_xid_is(paused, newest->xid) && strcmp(job->state_reason, "stopped_early") != 0) {
        check_fail(world, "%s has ended with the average that a pause kept from being evaluated",
                   job->spec.name);
    }
}

/* No evaluation takes longer than its time, whoever is lost meanwhile. */
static void check_time(struct world *world, const struct job *job)
{
    const struct core *core = world->coordinator->core;
    const struct parent_slot *parent = slots_parent(core, job->id.text);
    const struct gossip *gossip = parent ? &parent->mixes.gossip : NULL;
    if (!parent || !parent->mixes.begun || parent->work.ended || gossip->tests_until_ms == 0) {
        return;
    }
    if (gossip->tests_until_ms > core->now_ms + EVALUATION_MS_MAX ||
        gossip->tests_until_ms + FROZEN_MS_MAX < core->now_ms) {
        check_fail(world, "average %" PRId64 "-%" PRId64 " of %s is evaluated for too long",
                   gossip->average.life, gossip->average.counter, job->spec.name);
    }
}

void check_held_out(struct world *world, const struct job *job, const struct parent *parent)
{
    struct check_held_out *held = world->check->held_out;
    const struct gossip_state *state = &parent->gossip;
    size_t at = 0;
    if (job->spec.test_local.holdout <= 0) {
        return;
    }
    while (at < held->parent_count && !id_equal(held->parent[at].parent.text, job->id.text)) {
        at++;
    }
    if (at == held->parent_count) {
        ASSERT(at < PARENTS_SEEN_MAX);
        held->parent[held->parent_count++].parent = job->id;
    }
    for (size_t g = 0; g < state->member_count; g++) {
        check_member(world, job, g, &held->parent[at].tests[g], &state->member[g].tests);
        held->parent[at].tests[g] = state->member[g].tests;
    }
    if (state->average_count == 0) {
        return;
    }
    if (held->parent[at].backups != world->check->backups) {
        held->parent[at].backups = world->check->backups;
        held->parent[at].judged = newest_judged(state);
    }
    check_mean(world, job, state, &held->parent[at].judged);
    check_end(world, job, state, held->parent[at].paused);
    check_time(world, job);
    if (parent->paused && !job_state_ended(job->state)) {
        held->parent[at].paused = state->average[state->average_count - 1].xid;
    }
}
