/* build.h: the phase `prepare`. Makes the work of an assignment: maps its data, loads each unit's
 * state from the source that the assignment names, and pings the peers; or measures kernels. Runs
 * on the generation's thread. */
#ifndef AGENT_BUILD_H
#define AGENT_BUILD_H

#include "agent/device.h"
#include "agent/runtime/cancel.h"
#include "agent/runtime/data.h"
#include "agent/runtime/work.h"
#include "agent/runtime/trouble.h"
#include "libtrain/kernels/kernel_text.h"
#include "schema/assignment.h"

struct built {
    struct data *train, *test; /* test may be the same as train, or NULL */
    struct work *work;
    int64_t bytes_moved;  /* snapshots fetched from other devices */
    double fetch_seconds; /* it took to load all units */
};

/* Unreachable peers are reported to config->troubles; a source of units may be unreachable for the
 * assignment's peer_ms. Fills in config->data. *out must be zeroed; call built_done also on
 * failure. *code: on failure the word of a device_error ("disk", "data", "peer", "snapshot",
 * "format", "internal"), unless the error itself says it (ERR_MEMORY, ERR_FULL). ERR_CANCELLED. */
NODISCARD int build_work(const struct device_context *device, struct work_config *config,
                         struct cancel *cancel, struct built *out, const char **code,
                         struct err *err);
/* Measure the kernels of the stage's convolutions instead (kernel_text.h). The same errors. */
NODISCARD int build_kernels(const struct device_context *device, const struct assignment_run *run,
                            struct cancel *cancel, char kernels[KERNEL_TEXT_SIZE],
                            const char **code, struct err *err);
/* Wait for all peers of the work to answer a ping. */
NODISCARD int build_ping(const struct device_context *device, const struct assignment_run *run,
                         struct cancel *cancel, struct troubles *troubles, const char **code,
                         struct err *err);
void built_done(struct built *built);

#endif
