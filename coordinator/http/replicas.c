/* The cost of failures: the holders of a job's units. */
#include <stdlib.h>

#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/jobs.h"
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
    } else if (!job_answer_ended(coordinator, exchange, id)) {
        answer_problem(exchange, PROBLEM_WRONG_STATE,
                       "job '%s' holds no copies itself; ask for those of a part, whose ids are in "
                       "GET /v1/jobs/%s/groups",
                       id, id);
    }
    free(replicas);
}
