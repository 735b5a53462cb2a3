/* probe.h: measures the speed of this device for its enrolment, before the first plan. It runs in a
 * child process (this program again, with a word of its own), so that its memory is returned. */
#ifndef AGENT_RUNTIME_PROBE_H
#define AGENT_RUNTIME_PROBE_H

#include <stddef.h>

#include "base/err.h"
#include "schema/device.h"

/* The first argument that makes the program a probe. */
#define PROBE_WORD "internal-probe"

struct probe_request {
    size_t threads;
    double slowdown;       /* >= 1: speeds are divided by it */
    const char *directory; /* whose disk is measured */
};

/* Measure in a child; about a second. cancel_fd (a signalfd, or -1): readable to cancel.
 * ERR_CANCELLED. */
NODISCARD int probe_run(const struct probe_request *request, int cancel_fd,
                        struct device_probe *out, struct err *err);
/* The child: the arguments after PROBE_WORD. Writes the result to descriptor 1. */
NODISCARD int probe_child(int argc, char **argv, struct err *err);

#endif
