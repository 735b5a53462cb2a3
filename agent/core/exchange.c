#include "agent/core/exchange.h"

#include <stdlib.h>

#include "agent/core/exchange_lead.h"
#include "agent/core/exchange_pulls.h"
#include "agent/core/exchange_server.h"
#include "agent/core/exchange_worker.h"
#include "base/assert.h"

struct exchange {
    struct exchange_plan plan;
    struct exchange_course course;
    struct exchange_server
        server; /* of a server; a stage that keeps no units has one that does nothing */
    struct exchange_lead lead;     /* idle on stages other than 0 */
    struct exchange_worker worker; /* idle on a stage that is not a worker */
    struct exchange_pulls pulls;
    struct orders orders;
    bool working; /* a task was given and is not done */
    bool stopped;
    enum exchange_wait waits;
};

/* ---- life ---- */

static int make_parts(struct exchange *exchange, const struct exchange_config *config,
                      struct err *err)
{
    int rc = exchange_plan_init(&exchange->plan, config, err);
    if (rc != 0) {
        return rc;
    }
    exchange->course = (struct exchange_course){.version = config->resume_version,
                                                .committed = config->resume_version,
                                                .stop_version = INT64_MAX};
    rc = exchange_server_init(&exchange->server, &exchange->plan, &exchange->course, err);
    if (rc == 0) {
        rc = exchange_lead_init(&exchange->lead, &exchange->plan, &exchange->course, err);
    }
    if (rc == 0) {
        rc = exchange_worker_init(&exchange->worker, &exchange->plan, &exchange->course, err);
    }
    if (rc == 0) {
        rc = exchange_pulls_init(&exchange->pulls, &exchange->plan, &exchange->course, err);
    }
    return rc;
}

static bool leads(const struct exchange *exchange)
{
    return exchange_plan_is_lead(&exchange->plan);
}

static bool serves(const struct exchange *exchange)
{
    return exchange_plan_is_server(&exchange->plan, exchange->plan.config.index);
}

/* Let the parts react to a change. */
static void settle(struct exchange *exchange)
{
    if (leads(exchange)) {
        exchange_lead_settle(&exchange->lead, &exchange->server, exchange->orders.held);
    }
}

int exchange_new(const struct exchange_config *config, struct exchange **out, struct err *err)
{
    struct exchange *exchange = calloc(1, sizeof(*exchange));
    if (!exchange) {
        return err_set(err, ERR_MEMORY, "exchange");
    }
    int rc = make_parts(exchange, config, err);
    if (rc != 0) {
        exchange_free(&exchange);
        return err_wrap(err, "exchange");
    }
    settle(exchange);
    *out = exchange;
    return 0;
}

void exchange_free(struct exchange **exchange)
{
    if (*exchange) {
        exchange_pulls_done(&(*exchange)->pulls);
        exchange_worker_done(&(*exchange)->worker);
        exchange_lead_done(&(*exchange)->lead);
        exchange_server_done(&(*exchange)->server);
        exchange_plan_done(&(*exchange)->plan);
        free(*exchange);
        *exchange = NULL;
    }
}

/* ---- requests of other stages ---- */

enum exchange_verdict exchange_offer(struct exchange *exchange,
                                     const struct exchange_message *message,
                                     struct exchange_claim *claim)
{
    ASSERT(message->kind != EXCHANGE_PARAMETERS && message->kind != EXCHANGE_COMMIT);
    if (!exchange_plan_expects(&exchange->plan, message)) {
        return EXCHANGE_REFUSE;
    }
    return message->kind == EXCHANGE_RESULT
               ? exchange_lead_offer(&exchange->lead, message, claim)
               : exchange_server_offer(&exchange->server, message, claim);
}

bool exchange_holds(const struct exchange *exchange, const struct exchange_message *message,
                    const struct exchange_claim *claim)
{
    return message->kind == EXCHANGE_RESULT
               ? exchange_lead_holds(&exchange->lead, message, claim)
               : exchange_server_holds(&exchange->server, message, claim);
}

enum exchange_verdict exchange_received(struct exchange *exchange,
                                        const struct exchange_message *message,
                                        const struct exchange_claim *claim)
{
    enum exchange_verdict verdict = EXCHANGE_STORED;
    if (!exchange_holds(exchange, message, claim)) {
        return EXCHANGE_NOT_YET;
    }
    if (message->kind == EXCHANGE_RESULT) {
        exchange_lead_fill(&exchange->lead, message, true);
    } else {
        verdict = exchange_server_receive(&exchange->server, message);
    }
    settle(exchange);
    return verdict;
}

void exchange_abandon(struct exchange *exchange, const struct exchange_message *message,
                      const struct exchange_claim *claim)
{
    if (!exchange_holds(exchange, message, claim)) {
        return;
    }
    if (message->kind == EXCHANGE_RESULT) {
        exchange_lead_fill(&exchange->lead, message, false);
    } else {
        exchange_server_abandon(&exchange->server, message);
    }
}

/* Of the commits, a worker without units is notified only of the last one, so the `done` of the
 * newest step that it may have sent can still be under way. */
static bool end_at(struct exchange *exchange, int64_t version)
{
    struct exchange_course *course = &exchange->course;
    if (exchange_course_ends(course)) {
        return version == course->stop_version;
    }
    const bool possible =
        version >= course->version && version <= exchange_worker_done_step(&exchange->worker);
    if (possible) {
        course->stop_version = version;
    }
    return possible;
}

enum exchange_verdict exchange_commit(struct exchange *exchange,
                                      const struct exchange_message *message)
{
    ASSERT(message->kind == EXCHANGE_COMMIT);
    if (!exchange_plan_expects(&exchange->plan, message)) {
        return EXCHANGE_REFUSE;
    }
    if (serves(exchange)) {
        return exchange_server_commit(&exchange->server, message);
    }
    return end_at(exchange, message->step) ? EXCHANGE_STORED : EXCHANGE_REFUSE;
}

static struct exchange_pulls_state pulls_state(const struct exchange *exchange)
{
    return (struct exchange_pulls_state){.open = exchange->orders.run && !exchange->orders.held,
                                         .updating = exchange->server.updating};
}

enum exchange_verdict exchange_pull(struct exchange *exchange,
                                    const struct exchange_message *message, uint64_t handle)
{
    ASSERT(message->kind == EXCHANGE_PARAMETERS);
    if (!exchange_plan_expects(&exchange->plan, message)) {
        return EXCHANGE_REFUSE;
    }
    const struct exchange_pulls_state state = pulls_state(exchange);
    return exchange_pulls_ask(&exchange->pulls, &state, message, handle);
}

bool exchange_next_answer(struct exchange *exchange, struct exchange_answer *out)
{
    const struct exchange_pulls_state state = pulls_state(exchange);
    return exchange_pulls_answer(&exchange->pulls, &state, out);
}

void exchange_forget(struct exchange *exchange, uint64_t handle)
{
    exchange_pulls_forget(&exchange->pulls, handle);
}

bool exchange_serves(const struct exchange *exchange, const struct exchange_message *message)
{
    return message->step == exchange->course.version && !exchange->server.updating;
}

/* ---- requests to other stages ---- */

bool exchange_next_message(struct exchange *exchange, struct exchange_message *out)
{
    if (!exchange->orders.run) {
        return false;
    }
    return (leads(exchange) && exchange_lead_message(&exchange->lead, out)) ||
           exchange_server_message(&exchange->server, out) ||
           exchange_worker_message(&exchange->worker, out);
}

bool exchange_wants(const struct exchange *exchange, const struct exchange_message *message)
{
    const bool of_worker = message->kind == EXCHANGE_PARAMETERS ||
                           message->kind == EXCHANGE_CONTRIBUTION ||
                           message->kind == EXCHANGE_RESULT;
    return !of_worker || !exchange_course_ends(&exchange->course);
}

size_t exchange_sendable(const struct exchange *exchange, const struct exchange_message *message)
{
    return exchange_worker_sendable(&exchange->worker, message);
}

bool exchange_withholds(const struct exchange *exchange, const struct exchange_message *message)
{
    return exchange_worker_withholds(&exchange->worker, message);
}

void exchange_pulled(struct exchange *exchange, const struct exchange_message *message, size_t end)
{
    if (!serves(exchange) && message->step > exchange->course.version) {
        exchange->course.version = message->step;
    }
    exchange_worker_pulled(&exchange->worker, message, end);
}

bool exchange_ended(struct exchange *exchange, const struct exchange_message *message,
                    int64_t version)
{
    /* The lead notifies servers of the end. */
    return version <= message->step && (serves(exchange) || end_at(exchange, version));
}

void exchange_sent(struct exchange *exchange, const struct exchange_message *message)
{
    if (message->kind == EXCHANGE_COMMIT) {
        exchange_lead_sent(&exchange->lead, message);
        settle(exchange);
    } else if (message->kind == EXCHANGE_NORM || message->kind == EXCHANGE_NORM_TOTAL) {
        exchange_server_sent(&exchange->server, message);
    } else {
        exchange_worker_sent(&exchange->worker, message);
    }
}

/* ---- control ---- */

void exchange_follow(struct exchange *exchange, const struct orders *orders)
{
    exchange->orders = *orders;
    exchange->lead.rounds.away = orders->away;
    exchange->lead.stop_asked = exchange->lead.stop_asked || orders->stop;
    settle(exchange);
}

void exchange_take_rounds(struct exchange *exchange, const struct round round[REPLICA_KINDS])
{
    rounds_take(&exchange->lead.rounds, round);
}

void exchange_report(const struct exchange *exchange, struct heartbeat *out)
{
    rounds_report(&exchange->lead.rounds, out);
    out->unevaluated = exchange->lead.unevaluated;
    out->has_early_stop = exchange->lead.judged.version > 0;
    out->early_stop = exchange->lead.judged;
}

/* ---- work ---- */

static bool find_task(struct exchange *exchange, struct exchange_task *task)
{
    const struct exchange_course *course = &exchange->course;
    if (exchange_course_ends(course) &&
        (!serves(exchange) || course->version == course->stop_version)) {
        *task = (struct exchange_task){.work = EXCHANGE_STOP, .step = course->stop_version};
        return true;
    }
    if (serves(exchange) && exchange_server_next(&exchange->server, task, &exchange->waits)) {
        return true;
    }
    if (leads(exchange) && exchange_lead_next(&exchange->lead, task)) {
        return true;
    }
    enum exchange_wait why;
    if (exchange_course_ends(course)) {
        return false;
    }
    const bool found = exchange_worker_next(&exchange->worker, exchange->orders.held, task, &why);
    if (!serves(exchange) || why != EXCHANGE_WAITS_FOR_BLOCKS) {
        exchange->waits = why;
    }
    return found;
}

enum exchange_work exchange_next(struct exchange *exchange, struct exchange_task *task)
{
    ASSERT(!exchange->working);
    const bool may_work = exchange->orders.run && !exchange->stopped;
    exchange->waits = EXCHANGE_WAITS_FOR_ORDERS;
    if (!may_work || !find_task(exchange, task)) {
        *task = (struct exchange_task){.work = EXCHANGE_WAIT};
        return EXCHANGE_WAIT;
    }
    exchange->working = true;
    exchange_server_begin(&exchange->server, task);
    return task->work;
}

enum exchange_wait exchange_waits(const struct exchange *exchange)
{
    return exchange->waits;
}

int exchange_begin(struct exchange *exchange, const struct exchange_segments *segments,
                   struct err *err)
{
    ASSERT(exchange->working);
    return exchange_worker_begin(&exchange->worker, segments, err);
}

void exchange_summed(struct exchange *exchange, size_t layer)
{
    ASSERT(exchange->working);
    exchange_worker_summed(&exchange->worker, layer);
}

void exchange_done(struct exchange *exchange, const struct exchange_task *task)
{
    ASSERT(exchange->working);
    exchange->working = false;
    exchange_server_end(&exchange->server, task);
    if (leads(exchange)) {
        exchange_lead_end(&exchange->lead, task);
    }
    exchange_worker_end(&exchange->worker, task);
    if (task->work == EXCHANGE_STOP) {
        exchange->course.version = task->step;
        exchange->stopped = true;
    }
    settle(exchange);
}

int64_t exchange_version(const struct exchange *exchange)
{
    return exchange->course.version;
}

int64_t exchange_last(const struct exchange *exchange)
{
    return exchange->course.stop_version;
}

bool exchange_stopped(const struct exchange *exchange)
{
    return exchange->stopped;
}
