#include "tests/unit/agent_core/pipeline_steps.h"

struct pipeline *make(const struct pipeline_config *config)
{
    struct pipeline *pipeline = NULL;
    struct err err = {0};
    assert_ok(pipeline_new(config, &pipeline, &err), &err);
    return pipeline;
}

enum transfer_verdict offer(struct pipeline *pipeline, enum transfer_kind kind, int64_t step,
                            size_t micro_batch, struct slot_claim *claim)
{
    struct transfer transfer = {kind, step, micro_batch};
    struct slot_claim ignored;
    return pipeline_offer(pipeline, &transfer, claim ? claim : &ignored);
}

void deliver(struct pipeline *pipeline, enum transfer_kind kind, int64_t step, size_t micro_batch)
{
    struct transfer transfer = {kind, step, micro_batch};
    struct slot_claim claim;
    assert_int_equal(pipeline_offer(pipeline, &transfer, &claim), TRANSFER_TAKE);
    assert_true(pipeline_received(pipeline, &transfer, &claim));
}

void do_work(struct pipeline *pipeline, enum pipeline_work work, size_t micro_batch)
{
    struct pipeline_task task;
    assert_int_equal(pipeline_next(pipeline, &task), work);
    assert_int_equal(task.micro_batch, micro_batch);
    pipeline_done(pipeline, &task);
}

void expect_wait(struct pipeline *pipeline)
{
    struct pipeline_task task;
    assert_int_equal(pipeline_next(pipeline, &task), PIPELINE_WAIT);
}
