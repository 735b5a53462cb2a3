#include "coordinator/core/jobs/previews.h"

#include <math.h>

#include "coordinator/core/placement/strategy.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"

#define SAME 1e-9 /* relative rounding error between sums of the same times in another order */

void previews_name_device(const struct core *core, const struct plan_question *question,
                          const struct device_id *id, struct device_id *out, char name[NAME_SIZE])
{
    const struct what_if_device *assumed = question ? what_if_device(question, id->text) : NULL;
    const struct device_slot *device = slots_device(core, id->text);
    *out = assumed ? (struct device_id){{0}} : *id;
    text_set(name, NAME_SIZE, "%s", assumed ? assumed->name : device ? device->device.name : "");
}

static void fill_left_out(const struct core *core, const struct plan_question *question,
                          const struct planned *planned, struct job_preview *preview)
{
    preview->unbound = planned->unbound;
    preview->left_out_count = planned->left_out_count;
    for (size_t i = 0; i < planned->left_out_count; i++) {
        const struct plan_left_out *from = &planned->left_out[i];
        struct preview_left_out *to = &preview->left_out[i];
        to->reason = from->reason;
        to->step_seconds_with = from->step_seconds_with;
        previews_name_device(core, question, &from->device, &to->device, to->name);
    }
}

void previews_fill(const struct core *core, const struct plan_question *question,
                   const struct planned *planned, const struct model *model,
                   struct job_preview *preview)
{
    preview->stage_count = planned->stage_count;
    preview->predicted_step_seconds = planned->expected_seconds;
    preview->predicted_efficiency = planned->efficiency;
    preview->predicted_total_seconds = planned->expected_seconds * (double)preview->steps;
    planned->strategy->preview(planned, preview);
    fill_left_out(core, question, planned, preview);
    for (size_t s = 0; s < planned->stage_count; s++) {
        const struct plan_stage *from = &planned->stage[s];
        struct preview_stage *stage = &preview->stage[s];
        previews_name_device(core, question, &from->device, &stage->device, stage->name);
        stage->first = from->first;
        stage->end = from->end;
        stage->memory_bytes = from->memory_bytes;
        stage->memory = from->memory;
        stage->predicted_forward_seconds = from->predicted_forward_seconds;
        stage->predicted_backward_seconds = from->predicted_backward_seconds;
        stage->predicted_busy = from->predicted_busy;
        for (int64_t u = from->first; u < from->end; u++) {
            text_set(stage->unit[stage->unit_count++], NAME_SIZE, "%s", model->unit[u].name);
        }
    }
}

void previews_add_forecast(const struct event_forecast *forecast, struct job_preview *preview)
{
    preview->has_submodel = forecast->submodel != NULL;
    preview->has_servers = forecast->servers != NULL;
    if (forecast->submodel) {
        preview->submodel = *forecast->submodel;
    }
    if (forecast->servers) {
        preview->servers = *forecast->servers;
    }
}

int previews_fastest(const double *seconds, int count)
{
    double least = INFINITY;
    int fastest = 0;
    for (int way = 1; way < count; way++) {
        least = seconds[way] > 0 ? fmin(least, seconds[way]) : least;
    }
    for (int way = count - 1; way > 0 && isfinite(least); way--) {
        fastest = seconds[way] > 0 && seconds[way] <= least * (1 + SAME) ? way : fastest;
    }
    return fastest;
}

void core_plan_combination(const struct core *core, const struct plan_question *question,
                           const struct planned *planned, struct plan_combination *out)
{
    out->predicted_step_seconds = planned->expected_seconds;
    out->optimal = planned->optimal;
    out->gap = planned->gap;
    out->bottleneck = planned->bottleneck;
    out->stage_count = planned->stage_count;
    for (size_t s = 0; s < planned->stage_count; s++) {
        const struct plan_stage *from = &planned->stage[s];
        struct combination_stage *stage = &out->stage[s];
        previews_name_device(core, question, &from->device, &stage->device, stage->name);
        stage->first = from->first;
        stage->end = from->end;
        stage->in_flight = from->in_flight;
        stage->share_first = from->share_first;
        stage->share_end = from->share_end;
        stage->codec = from->codec;
        stage->memory_bytes = from->memory_bytes;
        stage->predicted_busy = from->predicted_busy;
    }
}
