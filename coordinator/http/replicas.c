/* The cost of failures: the holders of a job's units, and its plan without some devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
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
    if (job_answer_ended(coordinator, exchange, question.job.text)) {
        return;
    }
    struct event event = {.type = EVENT_PLAN_QUESTION, .plan_question = {.question = &question}};
    turn_event(coordinator->turn, &event, exchange, &extra);
}
