/* laps.h: the times of a pass by unit and by layer (train_clock). Without a clock nothing is read
 * or written. Private to libtrain/stage. */
#ifndef LIBTRAIN_STAGE_LAPS_H
#define LIBTRAIN_STAGE_LAPS_H

#include "libtrain/stage/stage.h"

enum laps_pass { LAPS_FORWARD, LAPS_BACKWARD };

/* A part of a pass at work. */
struct laps {
    const struct train_stage *stage;
    double *unit;  /* [end - first] */
    double *layer; /* [layer_count]; NULL: not timed */
    double began;  /* the lap under way */
};

/* Start the first lap of a pass, with all times zero; of a later part, which adds to them. */
struct laps laps_begin(const struct train_stage *stage, enum laps_pass pass);
struct laps laps_resume(const struct train_stage *stage, enum laps_pass pass);
/* Op g has been computed, and `next` follows it in this pass (outside of the stage's ops: none).
 * End the lap if that is of another unit or a timed layer. */
void laps_op(struct laps *laps, size_t g, size_t next);
/* End the lap with op g. */
void laps_end(struct laps *laps, size_t g);

#endif
