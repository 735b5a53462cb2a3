/* layers.h: the layers of a stage (train.h). Private to libtrain/stage. */
#ifndef LIBTRAIN_STAGE_LAYERS_H
#define LIBTRAIN_STAGE_LAYERS_H

#include "libtrain/stage/stage.h"

/* The units are described. ERR_MEMORY. */
NODISCARD int layers_init(struct train_stage *stage, struct err *err);

#endif
