/* build.h: the phase `prepare`. Builds the work of an assignment: maps its data, loads the state of
 * each unit from the source that the assignment names, and pings the peers. For an assignment that
 * measures kernels, it runs that measurement instead. Runs on the generation's thread. */
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
    double fetch_seconds; /* time to load all units */
};

/* Build the work and fill in config->data. Unreachable peers are reported to config->troubles. A
 * source of units may be unreachable for at most the assignment's peer_ms. *out must be zeroed;
 * call built_done also on failure. *code: on failure the code of the device_error ("disk", "data",
 * "peer", "snapshot", "format", "internal"), except where the error code already determines it
 * (ERR_MEMORY, ERR_FULL). ERR_CANCELLED. */
NODISCARD int build_work(const struct device_context *device, struct work_config *config,
                         struct cancel *cancel, struct built *out, const char **code,
                         struct err *err);
/* Measure the kernels of the stage's convolutions (kernel_text.h). Errors as of build_work. */
NODISCARD int build_kernels(const struct device_context *device, const struct assignment_run *run,
                            struct cancel *cancel, char kernels[KERNEL_TEXT_SIZE],
                            const char **code, struct err *err);
/* Wait for all peers of the work to answer a ping. */
NODISCARD int build_ping(const struct device_context *device, const struct assignment_run *run,
                         struct cancel *cancel, struct troubles *troubles, const char **code,
                         struct err *err);
void built_done(struct built *built);

#endif
