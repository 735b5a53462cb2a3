/* needs.h: the requirements of a stage before it is ready: the data sets that it reads, its
 * neighbours, and the state of each of its units, from the source that the assignment names. Also
 * the code with which the device reports a missing requirement; this code decides who is charged
 * with the failure. Pure. */
#ifndef AGENT_CORE_NEEDS_H
#define AGENT_CORE_NEEDS_H

#include <stdbool.h>

#include "base/err.h"
#include "schema/assignment.h"

/* The first stage reads inputs, the last one labels. With a view both stages read the labels,
 * because labels determine the samples of the view. */
struct needs_data {
    bool inputs, labels;
    bool train, test; /* the sets; they may have the same content */
};
struct needs_data needs_data(const struct assignment_run *run);
/* List the devices that a stage of a pipeline exchanges tensors with. Return their count. */
#define NEEDS_NEIGHBOURS_MAX 2
size_t needs_neighbours(const struct assignment_run *run,
                        const struct peer *out[NEEDS_NEIGHBOURS_MAX]);
/* Return whether the stage copies its state while it trains, not only at a stop. */
bool needs_rounds(const struct assignment_run *run);

/* Check that each unit has its source, in order; else ERR_FORMAT. */
NODISCARD int needs_check_sources(const struct assignment_run *run, struct err *err);
/* Check, without trusting the coordinator, that no other device gets activations of training data
 * that must not leave this device. ERR_UNSUPPORTED: the data is local, but the device does not have
 * the whole model. */
NODISCARD int needs_check_local(const struct assignment_run *run, struct err *err);
/* Check that the hash is the one that the source names; else ERR_FORMAT. */
NODISCARD int needs_check_hash(const struct source *source, const char *sha256, struct err *err);
/* Return the code of the device_error for a unit that cannot be loaded from that kind of source. */
const char *needs_error_code(int from);

#endif
