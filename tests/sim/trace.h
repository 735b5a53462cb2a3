/* trace.h: one line for each thing that happens, with virtual time and who it happened to: for
 * people who replay a seed and for stories, which assert it. One thread. */
#ifndef TESTS_SIM_TRACE_H
#define TESTS_SIM_TRACE_H

#include <stdio.h>

#include "base/buf.h"
#include "tests/sim/world.h"

struct trace {
    FILE *out;       /* NULL: into text */
    struct buf text; /* without times, so that stories do not depend on them */
};

void trace_write(const struct world *world, int actor, const char *format, ...) PRINTF_LIKE(3, 4);
#define TRACE(world, actor, ...) ((world)->trace ? trace_write(world, actor, __VA_ARGS__) : (void)0)

/* The name that users gave to the device or job of this id; the id itself when there is none. */
const char *trace_name(const struct world *world, const char *id);

#endif
