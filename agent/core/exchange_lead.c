#include "agent/core/exchange_lead.h"

#include <string.h>

#include "base/assert.h"

/* ---- life ---- */

static void begin_evaluation(struct exchange_lead *lead)
{
    const int64_t version = lead->course->version;
    lead->evaluating = exchange_plan_evaluation_due(lead->plan, version) ? version : 0;
    lead->results = 0;
    exchange_arrivals_clear(&lead->result);
}

int exchange_lead_init(struct exchange_lead *lead, const struct exchange_plan *plan,
                       struct exchange_course *course, struct err *err)
{
    const struct exchange_config *config = &plan->config;
    *lead = (struct exchange_lead){.plan = plan, .course = course, .judged = config->judged};
    lead->total_steps = early_stop_last(&config->judged, config->total_steps);
    lead->rounds = (struct rounds){.resume_version = config->resume_version,
                                   .total_steps = lead->total_steps,
                                   .checkpoint_every = config->checkpoint_every};
    memcpy(lead->rounds.every, config->round_every, sizeof(config->round_every));
    for (size_t i = 0; i < config->count; i++) {
        lead->notice[i].step = config->resume_version;
    }
    int rc = exchange_arrivals_init(&lead->result, config->evaluation_batches, err);
    if (rc == 0) {
        begin_evaluation(lead);
    }
    return rc;
}

void exchange_lead_done(struct exchange_lead *lead)
{
    exchange_arrivals_done(&lead->result);
}

/* ---- results of an evaluation ---- */

static struct exchange_parts part_of(const struct exchange_message *message)
{
    return (struct exchange_parts){message->micro_batch, message->micro_batch + 1};
}

enum exchange_verdict exchange_lead_offer(struct exchange_lead *lead,
                                          const struct exchange_message *message,
                                          struct exchange_claim *claim)
{
    const struct exchange_course *course = lead->course;
    if (message->step > course->version) {
        return message->step > course->committed ? EXCHANGE_REFUSE : EXCHANGE_NOT_YET;
    }
    if (message->step < lead->plan->config.resume_version) {
        return EXCHANGE_OUTDATED;
    }
    if (message->step != lead->evaluating ||
        exchange_arrivals_here(&lead->result, part_of(message)) == 1) {
        return EXCHANGE_STORED;
    }
    if (exchange_course_ends(course)) {
        return EXCHANGE_OUTDATED;
    }
    *claim = (struct exchange_claim){exchange_arrivals_claim(&lead->result, part_of(message))};
    return EXCHANGE_TAKE;
}

bool exchange_lead_holds(const struct exchange_lead *lead, const struct exchange_message *message,
                         const struct exchange_claim *claim)
{
    return exchange_arrivals_holds(&lead->result, part_of(message), claim->number);
}

void exchange_lead_fill(struct exchange_lead *lead, const struct exchange_message *message,
                        bool here)
{
    exchange_arrivals_fill(&lead->result, part_of(message), here);
    lead->results += here;
}

/* ---- decisions ---- */

static bool all_are_done(const struct exchange_lead *lead, const struct exchange_server *server)
{
    const struct exchange_plan *plan = lead->plan;
    for (size_t i = 0; i < plan->config.count; i++) {
        if (exchange_plan_is_worker(plan, i) && !exchange_server_is_done(server, i)) {
            return false;
        }
        if (i > 0 && exchange_plan_is_server(plan, i) &&
            lead->notice[i].step < lead->course->committed) {
            return false;
        }
    }
    return true;
}

/* Return whether the evaluation that is due after the newest committed step is complete. */
static bool is_evaluated(const struct exchange_lead *lead)
{
    const struct exchange_course *course = lead->course;
    return lead->evaluating == 0 && (course->committed == course->version ||
                                     !exchange_plan_evaluation_due(lead->plan, course->committed));
}

void exchange_lead_settle(struct exchange_lead *lead, struct exchange_server *server, bool held)
{
    struct exchange_course *course = lead->course;
    const bool holds = held && lead->plan->end == 0;
    if (!exchange_course_ends(course) && course->committed < lead->total_steps &&
        !lead->stop_asked && course->committed == course->version && lead->evaluating == 0 &&
        !holds && all_are_done(lead, server)) {
        rounds_open(&lead->rounds, course->committed + 1, &lead->mark);
        exchange_server_take_commit(server, &lead->mark);
    }
    const bool last = course->committed == lead->total_steps;
    if (!exchange_course_ends(course) && (lead->stop_asked || (last && is_evaluated(lead)))) {
        course->stop_version = course->committed;
        lead->unevaluated = last && !is_evaluated(lead);
    }
}

/* ---- tasks ---- */

bool exchange_lead_next(const struct exchange_lead *lead, struct exchange_task *task)
{
    *task = (struct exchange_task){.work = EXCHANGE_JUDGE, .step = lead->evaluating};
    return lead->evaluating > 0 && !exchange_course_ends(lead->course) &&
           lead->results == lead->plan->config.evaluation_batches;
}

static void judge(struct exchange_lead *lead, double value)
{
    const struct exchange_config *config = &lead->plan->config;
    if (config->judges) {
        early_stop_judge(&config->stop, lead->evaluating, value, &lead->judged);
        lead->total_steps = early_stop_last(&lead->judged, lead->total_steps);
    }
    lead->evaluating = 0;
}

void exchange_lead_end(struct exchange_lead *lead, const struct exchange_task *task)
{
    if (task->work == EXCHANGE_JUDGE) {
        judge(lead, task->value);
    } else if (task->work == EXCHANGE_UPDATE) {
        begin_evaluation(lead);
    }
}

/* ---- notices ---- */

bool exchange_lead_message(struct exchange_lead *lead, struct exchange_message *out)
{
    const struct exchange_plan *plan = lead->plan;
    const bool ends = exchange_course_ends(lead->course);
    for (size_t i = 1; i < plan->config.count; i++) {
        struct exchange_notice *notice = &lead->notice[i];
        const bool behind =
            exchange_plan_is_server(plan, i) && notice->step < lead->course->committed;
        if (!notice->sending && (behind || (ends && !notice->last))) {
            notice->sending = true;
            *out = (struct exchange_message){.kind = EXCHANGE_COMMIT,
                                             .to = i,
                                             .step = lead->course->committed,
                                             .last = ends,
                                             .mark = lead->mark};
            return true;
        }
    }
    return false;
}

void exchange_lead_sent(struct exchange_lead *lead, const struct exchange_message *message)
{
    struct exchange_notice *notice = &lead->notice[message->to];
    ASSERT(notice->sending);
    notice->sending = false;
    notice->step = message->step;
    notice->last = message->last;
}
