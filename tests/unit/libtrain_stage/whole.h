/* whole.h: one stage for all units of a model, trained by SGD with momentum. Tests only. */
#ifndef TESTS_UNIT_LIBTRAIN_STAGE_WHOLE_H
#define TESTS_UNIT_LIBTRAIN_STAGE_WHOLE_H

#include "tests/unit/libtrain_stage/pipeline.h"

struct whole {
    struct model *model;
    struct train_stage *stage;
};

/* A stage with the initial state of every unit. state: the test's, with the pools. Takes the model.
 */
struct whole whole_of(void **state, struct model *model, size_t micro_batch);
/* The same, with its units timed. */
struct whole whole_timed(void **state, struct model *model, size_t micro_batch,
                         const struct train_clock *clock);
/* Of a model of the zoo, for samples of 28 x 28 bytes. */
struct whole whole_new(void **state, const char *name, size_t micro_batch);
void whole_done(struct whole *whole);

#endif
