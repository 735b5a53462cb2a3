/* probe.h: measures the speed of this device: at its enrolment, before the first plan, and again
 * while it is idle. It runs in a child process (this program with PROBE_WORD as argument), so that
 * its memory is returned. */
#ifndef AGENT_RUNTIME_PROBE_H
#define AGENT_RUNTIME_PROBE_H

#include <stddef.h>

#include "base/err.h"
#include "schema/device.h"

/* The first argument that makes the program a probe. */
#define PROBE_WORD "internal-probe"

struct probe_request {
    size_t threads;
    double seconds;        /* approximate duration */
    double slowdown;       /* >= 1: speeds are divided by it */
    const char *directory; /* whose disk is measured; "": none */
};

#define PROBE_ENROLL_SECONDS 0.8
/* For an idle device: one period of a CPU quota (100 ms) for each of the two rates. */
#define PROBE_IDLE_SECONDS 0.2

/* A running child process. */
struct probe;
NODISCARD int probe_start(const struct probe_request *request, struct probe **out, struct err *err);
/* Return a descriptor that is readable when the result is available. */
int probe_fd(const struct probe *probe);
/* Take the result. ERR_STATE: there is none. */
NODISCARD int probe_take(struct probe **probe, struct device_probe *out, struct err *err);
/* End the probe; NULL is ignored. */
void probe_cancel(struct probe **probe);

/* Measure in a child; blocks for about a second. cancel_fd (a signalfd, or -1): readable to cancel.
 * ERR_CANCELLED. */
NODISCARD int probe_run(const struct probe_request *request, int cancel_fd,
                        struct device_probe *out, struct err *err);
/* Run as the child, with the arguments after PROBE_WORD. Writes the result to descriptor 1. */
NODISCARD int probe_child(int argc, char **argv, struct err *err);

#endif
