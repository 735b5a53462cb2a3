#include "bench/groups/member.h"

#include <string.h>

#include "base/assert.h"

#define COPY_MS 5 /* of another group's state */

static void take_order(struct member *member, const struct mix_order *order, int64_t now_ms)
{
    struct mix_match match = {
        .xid = order->xid,
        .kind = order->kind,
        .own = {.group = member->mixing.group, .generation = member->mixing.generation},
        .averages = order->averages,
        .peer_count = order->source_count,
        .alpha = order->alpha,
        .statistics_alpha = order->statistics_alpha,
        .rate_step = order->rate_step,
        .deadline_ms = now_ms + order->left_ms,
    };
    for (size_t i = 0; i < order->source_count; i++) {
        match.peer[i] = (struct mix_member){.group = order->source[i].group,
                                            .generation = order->source[i].generation,
                                            .weight = order->source[i].weight};
    }
    (void)mixing_take(&member->mixing, &match);
}

void member_follow(struct member *member, int64_t now_ms)
{
    const struct assignment *assignment = member->assignment;
    const struct assignment_run *run = &assignment->run;
    member->changed = member->changed || !member->begun || run->phase != member->phase;
    if (!assignment->has_run || run->phase != PHASE_RUN) {
        return;
    }
    ASSERT(run->has_mix);
    if (!member->begun) {
        mixing_init(&member->mixing, run->mix.group, run->mix.generation, run->resume_version);
        member->begun = true;
        member->step_at_ms = now_ms + member->step_ms;
    }
    mixing_pass(&member->mixing, run->mix.passed);
    mixing_stand(&member->mixing, &run->mix);
    for (size_t i = 0; i < run->mix.order_count; i++) {
        take_order(member, &run->mix.order[i], now_ms);
    }
}

/* Copies of other groups arrive after a while. */
static void fetch(struct member *all, size_t count, struct member *member, enum mixing_place place,
                  int64_t now_ms)
{
    const struct mix_member *peer = mixing_fetch(&member->mixing, place);
    if (!peer) {
        member->fetch_at_ms[place] = now_ms + COPY_MS;
        return;
    }
    if (now_ms < member->fetch_at_ms[place]) {
        return;
    }
    enum mixing_place at;
    const struct mixing_slot *slot = &member->mixing.slot[place];
    for (size_t g = 0; g < count; g++) {
        struct member *other = &all[g];
        if (other->begun && other->mixing.group == peer->group &&
            mixing_serve(&other->mixing, slot->match.xid, slot->match.kind == MIX_ADOPT, &at) ==
                MIXING_SERVE) {
            member->fetch_at_ms[place] = now_ms + COPY_MS;
            mixing_fetched(&member->mixing, place, &other->mixing.slot[at].copy, true,
                           other->mixing.record, other->mixing.record_count);
            return;
        }
    }
}

/* Between two steps: one of a group that holds is none. */
static void mix(struct member *member)
{
    enum mixing_place place;
    for (enum mixing_work work; (work = mixing_next(&member->mixing, &place)) != MIXING_GO_ON;) {
        if (work == MIXING_COPY) {
            mixing_copied(&member->mixing, place, member->step, true);
        } else {
            const struct mix_match *match = &member->mixing.slot[place].match;
            member->uploads = member->uploads || match->averages;
            member->average = match->averages ? match->xid : member->average;
            mixing_applied(&member->mixing, place, member->step);
        }
    }
}

void member_train(struct member *all, size_t count, struct member *member, int64_t now_ms)
{
    const struct mix_duty *duty = &member->assignment->run.mix;
    const enum mixing_pace pace = mixing_pace_of(duty);
    mixing_reach(&member->mixing, member->step, duty->every, pace, now_ms);
    const bool holds = member->step >= mixing_holds_at(&member->mixing, duty->every, pace, now_ms);
    mixing_tick(&member->mixing, now_ms);
    for (size_t p = 0; p < MIXING_PLACES; p++) {
        fetch(all, count, member, (enum mixing_place)p, now_ms);
    }
    if (holds) {
        mix(member);
        member->step_at_ms = now_ms + member->step_ms;
    } else if (now_ms >= member->step_at_ms) {
        member->step++;
        member->step_at_ms = now_ms + member->step_ms;
        mix(member);
    }
}

static struct mix_status status_of(const struct mixing *mixing, enum mixing_place place)
{
    const struct mixing_slot *slot = &mixing->slot[place];
    return (struct mix_status){.xid = mixing->newest[place],
                               .state = (int)slot->state,
                               .copied = slot->has_copy,
                               .seconds = slot->state == MIXING_APPLIED ? 0.001 * COPY_MS : 0};
}

struct mix_report member_report(const struct member *member)
{
    const struct mixing *mixing = &member->mixing;
    struct mix_report report;
    memset(&report, 0, sizeof(report)); /* it is compared as a whole */
    report.group = mixing->group;
    report.generation = mixing->generation;
    report.wants = mixing_wants(mixing, member->step, member->assignment->run.mix.every);
    report.mixes = mixing->mixes;
    report.pair = status_of(mixing, MIXING_PAIRS);
    report.average = status_of(mixing, MIXING_AVERAGES);
    for (size_t i = 0; i < mixing->record_count && i < MIX_REPORTED_MAX; i++) {
        report.record[report.record_count++] = mixing->record[i];
    }
    return report;
}

/* What others should hear of at once. */
bool member_has_news(const struct member *member)
{
    struct mix_report report = member_report(member);
    const bool records = report.record_count > 0;
    report.record_count = 0;
    memset(report.record, 0, sizeof(report.record));
    return records || memcmp(&report, &member->told, sizeof(report)) != 0;
}

void member_told(struct member *member)
{
    member->told = member_report(member);
    member->told.record_count = 0;
    memset(member->told.record, 0, sizeof(member->told.record));
}
