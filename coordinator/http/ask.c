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

bool ask_forecast(struct coordinator *coordinator, struct http_exchange *exchange,
                  const struct forecast_request *request, const struct catalog_entry *target,
                  const char *pointer, struct forecasts *out)
{
    struct record_faults faults = {0};
    struct err err = {0};
    int rc = forecasts_begin(coordinator, request, target, out, &err);
    if (rc == ERR_INVALID) {
        record_fault(&faults, pointer, "%s", err.text);
        answer_faults(exchange, &faults);
    } else if (rc) {
        answer_err(exchange, &err);
    }
    return rc == 0;
}
