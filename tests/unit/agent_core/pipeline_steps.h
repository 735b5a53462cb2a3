/* pipeline_steps.h: a stage's protocol driven step by step: for the tests of core/pipeline. */
#ifndef TESTS_UNIT_AGENT_CORE_PIPELINE_STEPS_H
#define TESTS_UNIT_AGENT_CORE_PIPELINE_STEPS_H

#include "agent/core/pipeline.h"
#include "tests/support/test.h"

struct pipeline *make(const struct pipeline_config *config);
/* claim NULL: of no interest. */
enum transfer_verdict offer(struct pipeline *pipeline, enum transfer_kind kind, int64_t step,
                            size_t micro_batch, struct slot_claim *claim);
/* It is taken, and arrives whole. */
void deliver(struct pipeline *pipeline, enum transfer_kind kind, int64_t step, size_t micro_batch);
/* The next task is this one, and is done. */
void do_work(struct pipeline *pipeline, enum pipeline_work work, size_t micro_batch);
void expect_wait(struct pipeline *pipeline);

#endif
