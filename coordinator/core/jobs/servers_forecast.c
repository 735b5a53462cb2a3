#include "coordinator/core/jobs/servers_forecast.h"

#include "coordinator/core/jobs/previews.h"
#include "coordinator/core/state/planning.h"

static double step_seconds_of(const struct event_planned *answer)
{
    return answer->code ? 0 : answer->planned->expected_seconds;
}

void servers_forecast_own(const struct job_spec *spec, const struct event_planned *answer,
                          struct servers_preview *out)
{
    const struct planned_transfers *transfers = &answer->planned->transfers;
    out->transfers = spec->parameter_server.transfers;
    out->step_seconds = step_seconds_of(answer);
    if (answer->code == 0) {
        out->transfers = (int)transfers->chosen;
        out->optimal_seconds = transfers->optimal_seconds;
        out->whole_seconds = transfers->whole_seconds;
        out->layer_seconds = transfers->layer_seconds;
        out->layer_window_seconds = transfers->layer_window_seconds;
    }
}

void servers_forecast_pipeline(const struct event_planned *answer, struct servers_preview *out)
{
    out->pipeline_seconds = step_seconds_of(answer);
}

void servers_forecast_single(const struct core *core, const struct plan_question *question,
                             const struct event_planned *answer, struct servers_preview *out)
{
    out->single_seconds = step_seconds_of(answer);
    if (answer->code == 0) {
        previews_name_device(core, question, &answer->planned->stage[0].device, &out->single_device,
                             out->single_name);
    }
    const double seconds[] = {[SERVERS_WAY_SINGLE] = out->single_seconds,
                              [SERVERS_WAY_PIPELINE] = out->pipeline_seconds,
                              [SERVERS_WAY_PARAMETER_SERVER] = out->step_seconds};
    out->fastest = previews_fastest(seconds, sizeof(seconds) / sizeof(seconds[0]));
}
