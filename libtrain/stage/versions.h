/* versions.h: the versions of the trained parameters that a stage keeps, in a ring. An update reads
 * the latest version and writes the next one over the oldest. Private to libtrain/stage. */
#ifndef LIBTRAIN_STAGE_VERSIONS_H
#define LIBTRAIN_STAGE_VERSIONS_H

#include "libtrain/stage/stage.h"

/* Allocate the ring; its arrays lie in the allocated arenas. ERR_INVALID for a config that needs
 * more versions than it keeps; ERR_MEMORY. */
NODISCARD int versions_init(struct train_stage *stage, struct err *err);

struct stage_version *versions_latest(const struct train_stage *stage);
/* The version that forward and backward of `step` use. */
const struct stage_version *versions_of_step(const struct train_stage *stage, int64_t step);
/* The memory of the next version: that of the latest if only one is kept, else of the oldest. */
struct stage_version *versions_next(const struct train_stage *stage);
/* The next version, whose trained parameters were written, is the latest: `step`. Averages it if
 * the config asks for that. */
void versions_advance(struct train_stage *stage, int64_t step);

/* The running statistics that forward of `step` reads and advances; call it once per forward. */
float *versions_begin_running(const struct train_stage *stage, int64_t step);
/* The same after that forward. */
float *versions_running(const struct train_stage *stage, int64_t step);

#endif
