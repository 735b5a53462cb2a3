/* kernels.h: a stage's convolutions that oneDNN computes, in some pass or all: made after the plan,
 * bound to the arenas, freed with the stage. Private to libtrain/stage. */
#ifndef LIBTRAIN_STAGE_KERNELS_H
#define LIBTRAIN_STAGE_KERNELS_H

#include "libtrain/stage/stage.h"

/* Prepare what the arena's kernels name and raise the arena's and the stage's bytes to what they
 * need. ERR_INVALID for a kernel that this build or CPU does not have. */
NODISCARD int kernels_prepare(struct train_stage *stage, struct err *err);
/* With the arenas in place. */
NODISCARD int kernels_bind(struct train_stage *stage, struct err *err);
void kernels_free(struct train_stage *stage);

#endif
