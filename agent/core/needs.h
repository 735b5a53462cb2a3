/* needs.h: what a stage needs before it is ready: the data sets that it reads, its neighbours, and
 * the state of each of its units, from the source that the assignment names. Also the word with
 * which the device reports that it cannot have it, which decides who is charged with the failure.
 * Pure. */
#ifndef AGENT_CORE_NEEDS_H
#define AGENT_CORE_NEEDS_H

#include <stdbool.h>

#include "base/err.h"
#include "schema/assignment.h"

/* The first stage reads inputs, the last one labels. Labels tell the samples of a view: both stages
 * read them then. */
struct needs_data {
    bool inputs, labels;
    bool train, test; /* the sets; they may have the same content */
};
struct needs_data needs_data(const struct assignment_run *run);
/* List the devices that a stage of a pipeline exchanges tensors with. Return their count. */
#define NEEDS_NEIGHBOURS_MAX 2
size_t needs_neighbours(const struct assignment_run *run,
                        const struct peer *out[NEEDS_NEIGHBOURS_MAX]);
/* Whether the stage copies its state while it trains, not only at a stop. */
bool needs_rounds(const struct assignment_run *run);

/* ERR_FORMAT: not each unit has its source, in order. */
NODISCARD int needs_check_sources(const struct assignment_run *run, struct err *err);
/* ERR_UNSUPPORTED: the training data never leave this device, but other devices would get
 * activations of them: the device has not the whole model. Whatever a coordinator asks for. */
NODISCARD int needs_check_local(const struct assignment_run *run, struct err *err);
/* ERR_FORMAT: bytes of that hash are not what the source names. */
NODISCARD int needs_check_hash(const struct source *source, const char *sha256, struct err *err);
/* The code of a device_error for a unit that cannot be loaded from there. */
const char *needs_error_code(int from);

#endif
