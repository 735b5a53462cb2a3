/* probe.h: measures the speed of this device: for its enrolment, before the first plan, and again
 * while it is idle. It runs in a child process (this program again, with a word of its own), so
 * that its memory is returned. */
#ifndef AGENT_RUNTIME_PROBE_H
#define AGENT_RUNTIME_PROBE_H

#include <stddef.h>

#include "base/err.h"
#include "schema/device.h"

/* The first argument that makes the program a probe. */
#define PROBE_WORD "internal-probe"

struct probe_request {
    size_t threads;
    double seconds;        /* about how long it takes */
    double slowdown;       /* >= 1: speeds are divided by it */
    const char *directory; /* whose disk is measured; "": none */
};

#define PROBE_ENROLL_SECONDS 0.8
/* Of an idle device: a period of a CPU quota (100 ms) for each of the two rates. */
#define PROBE_IDLE_SECONDS 0.2

/* A child that measures. */
struct probe;
NODISCARD int probe_start(const struct probe_request *request, struct probe **out, struct err *err);
/* Readable when the result is there. */
int probe_fd(const struct probe *probe);
/* Take the result, or that there is none: ERR_STATE. */
NODISCARD int probe_take(struct probe **probe, struct device_probe *out, struct err *err);
/* End it, unless it is NULL. */
void probe_cancel(struct probe **probe);

/* Measure in a child; about a second. cancel_fd (a signalfd, or -1): readable to cancel.
 * ERR_CANCELLED. */
NODISCARD int probe_run(const struct probe_request *request, int cancel_fd,
                        struct device_probe *out, struct err *err);
/* The child: the arguments after PROBE_WORD. Writes the result to descriptor 1. */
NODISCARD int probe_child(int argc, char **argv, struct err *err);

#endif
