#include "tests/unit/libtrain_stage/whole.h"

struct whole whole_of(void **state, struct model *model, size_t micro_batch)
{
    return whole_timed(state, model, micro_batch, &(struct train_clock){0});
}

struct whole whole_timed(void **state, struct model *model, size_t micro_batch,
                         const struct train_clock *clock)
{
    const struct kernel_pools *pools = *state;
    struct whole whole = {.model = model};
    struct err err = {0};
    const struct train_stage_config config = {.model = whole.model,
                                              .end = whole.model->unit_count,
                                              .micro_batch = micro_batch,
                                              .micro_batches = 1,
                                              .in_flight = 1,
                                              .optimizer = {.type = OPTIMIZER_SGD, .momentum = 0.9},
                                              .seed = 3,
                                              .pool = pools->pool[0],
                                              .clock = *clock};
    assert_ok(train_stage_new(&config, &whole.stage, &err), &err);
    for (size_t unit = 0; unit < whole.model->unit_count; unit++) {
        train_unit_initialise(whole.stage, unit);
    }
    return whole;
}

struct whole whole_new(void **state, const char *name, size_t micro_batch)
{
    return whole_of(state, zoo_model(name, 28, 28, 1), micro_batch);
}

void whole_done(struct whole *whole)
{
    train_stage_free(&whole->stage);
    model_free(&whole->model);
}
