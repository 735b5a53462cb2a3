/* The cost of failures: the holders of a job's units, and its plan without some devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/ask.h"
#include "coordinator/http/jobs.h"
#include "coordinator/http/replay.h"
#include "coordinator/http/routes.h"
#include "schema/replicas.h"

void serve_replicas(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    struct coordinator *coordinator = context;
    const char *id = http_param(exchange, "id");
    if (!answer_check_query(exchange, allowed)) {
        return;
    }
    struct replicas *replicas = calloc(1, sizeof(*replicas)); /* too large for a stack */
    if (!replicas) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
        return;
    }
    if (core_replicas(coordinator->core, id, replicas)) {
        answer_record(exchange, 200, &replicas_record, replicas);
    } else {
        (void)job_answer_ended(coordinator, exchange, id);
    }
    free(replicas);
}

static void check_devices(struct coordinator *coordinator, const struct plan_question *question,
                          struct record_faults *faults)
{
    for (size_t i = 0; i < question->without_count; i++) {
        const char *id = question->without[i].text;
        if (!core_device(coordinator->core, id)) {
            char pointer[RECORD_POINTER_MAX];
            snprintf(pointer, sizeof(pointer), "/without/%zu", i);
            record_fault(faults, pointer, "no device '%.40s'", id);
        }
    }
}

/* A question about a live job, while it waits for its turn and its answer. */
struct asked {
    struct planner_question question; /* first */
    struct coordinator *coordinator;
    struct http_exchange *exchange; /* NULL: the client has disconnected */
    struct plan_question asked;
};

static void asked_client_gone(void *arg)
{
    struct asked *asked = arg;
    asked->exchange = NULL;
}

/* The core answers, in a turn. Look for the key again: another request may have used it
 * meanwhile. */
static void asked_answer(struct asked *asked, const struct event_planned *planned)
{
    struct turn_extra extra = {0};
    struct event event = {.type = EVENT_PLAN_QUESTION,
                          .plan_question = {.question = &asked->asked, .planned = planned}};
    if (asked->exchange) {
        http_on_end(asked->exchange, NULL, NULL);
    }
    if (asked->exchange && planned &&
        !job_answer_ended(asked->coordinator, asked->exchange, asked->asked.job.text) &&
        replay_check(asked->coordinator, asked->exchange, &extra)) {
        turn_event(asked->coordinator->turn, &event, asked->exchange, &extra);
    }
    free(asked);
}

static void asked_done(struct planner_question *question, const struct event_planned *planned)
{
    asked_answer((struct asked *)question, planned);
}

static bool asked_fill(struct planner_question *question, struct planning *planning)
{
    struct asked *asked = (struct asked *)question;
    bool fills =
        asked->exchange && core_plan_question(asked->coordinator->core, &asked->asked, planning);
    if (!fills) {
        const struct event_planned none = {.code = ERR_STATE};
        asked_answer(asked, &none); /* the job has ended, which is the answer */
    }
    return fills;
}

void serve_plan_question(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    struct coordinator *coordinator = context;
    struct plan_question question = {0};
    struct turn_extra extra = {0};
    struct record_faults faults = {0};
    if (!answer_check_query(exchange, allowed) || !replay_check(coordinator, exchange, &extra) ||
        !answer_read_body(exchange, &plan_question_record, false, &question)) {
        return;
    }
    check_devices(coordinator, &question, &faults);
    if (faults.count > 0) {
        answer_faults(exchange, &faults);
        return;
    }
    if (job_answer_ended(coordinator, exchange, question.job.text) ||
        !ask_ready(coordinator, exchange)) {
        return;
    }
    struct asked *asked = calloc(1, sizeof(*asked));
    if (!asked) {
        answer_problem(exchange, PROBLEM_INTERNAL, "out of memory");
        return;
    }
    *asked = (struct asked){.question = {.fill = asked_fill, .done = asked_done},
                            .coordinator = coordinator,
                            .exchange = exchange,
                            .asked = question};
    http_on_end(exchange, asked_client_gone, asked);
    planner_take(coordinator->planner, &asked->question);
}
