#include "libtrain/stage/laps.h"

#include <string.h>

struct laps laps_resume(const struct train_stage *stage, enum laps_pass pass)
{
    const struct train_clock *clock = &stage->config.clock;
    const bool forward = pass == LAPS_FORWARD;
    double *layer = forward ? clock->layer_forward_seconds : clock->layer_backward_seconds;
    return (struct laps){.stage = stage,
                         .unit = forward ? clock->forward_seconds : clock->backward_seconds,
                         .layer = stage->layer_count > 0 ? layer : NULL,
                         .began = clock->seconds ? clock->seconds(clock->arg) : 0};
}

struct laps laps_begin(const struct train_stage *stage, enum laps_pass pass)
{
    struct laps laps = laps_resume(stage, pass);
    if (stage->config.clock.seconds) {
        memset(laps.unit, 0, (stage->config.end - stage->config.first) * sizeof(laps.unit[0]));
        if (laps.layer) {
            memset(laps.layer, 0, stage->layer_count * sizeof(laps.layer[0]));
        }
    }
    return laps;
}

void laps_end(struct laps *laps, size_t g)
{
    const struct train_stage *stage = laps->stage;
    const struct train_clock *clock = &stage->config.clock;
    if (!clock->seconds) {
        return;
    }
    const double ended = clock->seconds(clock->arg);
    laps->unit[stage->arena->op[g].unit - stage->config.first] += ended - laps->began;
    if (laps->layer) {
        laps->layer[stage->op_layer[g]] += ended - laps->began;
    }
    laps->began = ended;
}

void laps_op(struct laps *laps, size_t g, size_t next)
{
    const struct train_stage *stage = laps->stage;
    const struct arena *arena = stage->arena;
    if (next >= arena->op_count || arena->op[g].unit != arena->op[next].unit ||
        (laps->layer && stage->op_layer[g] != stage->op_layer[next])) {
        laps_end(laps, g);
    }
}
