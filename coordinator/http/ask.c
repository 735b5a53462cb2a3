#include "coordinator/http/ask.h"

#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"

bool ask_ready(struct coordinator *coordinator, struct http_exchange *exchange)
{
    bool full = planner_full(coordinator->planner);
    if (full) {
        answer_problem(exchange, PROBLEM_TOO_MANY,
                       "%d questions about plans wait for their answers already; retry",
                       PLANNER_QUESTIONS_MAX);
    }
    return !full;
}
