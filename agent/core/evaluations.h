/* evaluations.h: the micro-batches of an evaluation: those of the test set, then those of the
 * hold-out of a view. No micro-batch has samples of both. Pure. */
#ifndef AGENT_CORE_EVALUATIONS_H
#define AGENT_CORE_EVALUATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/job.h"

/* Return the number of micro-batches of an evaluation; 0: no evaluation. */
size_t evaluations_batches(const struct job_spec *spec, const struct job_data *data,
                           size_t micro_batch);

/* The samples of a micro-batch: of the test set, or of the hold-out. */
struct evaluations_part {
    bool held;
    size_t first, count;
};
/* Return the samples of micro-batch `index`, below evaluations_batches. */
struct evaluations_part evaluations_part(const struct job_data *data, size_t micro_batch,
                                         size_t index);

#endif
