/* kernels.h: the convolutions of a stage that oneDNN computes, in some or all passes: created after
 * the memory plan, bound to the arenas, freed with the stage. Private to libtrain/stage. */
#ifndef LIBTRAIN_STAGE_KERNELS_H
#define LIBTRAIN_STAGE_KERNELS_H

#include "libtrain/stage/stage.h"

/* Prepare the kernels that the plan names, and raise the byte counts of the plan and the stage to
 * the library's needs. ERR_INVALID for a kernel that this build or CPU does not have. */
NODISCARD int kernels_prepare(struct train_stage *stage, struct err *err);
/* Bind them to the allocated arenas. */
NODISCARD int kernels_bind(struct train_stage *stage, struct err *err);
void kernels_free(struct train_stage *stage);

#endif
