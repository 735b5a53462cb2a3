#include "tests/sim/trace.h"

#include <stdarg.h>

#include "base/assert.h"
#include "tests/sim/coordinator.h"

#define LINE_MAX_BYTES 512

const char *trace_name(const struct world *world, const char *id)
{
    const struct rows *rows = &world->coordinator->rows;
    for (size_t i = 0; i < rows->device_count; i++) {
        if (id_equal(rows->device[i].id.text, id)) {
            return rows->device[i].name;
        }
    }
    for (size_t i = 0; i < rows->job_count; i++) {
        if (id_equal(rows->job[i].id.text, id)) {
            return rows->job[i].spec.name;
        }
    }
    return id;
}

void trace_write(const struct world *world, int actor, const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    struct trace *trace = world->trace;
    const char *who = actor == ACTOR_NONE ? "world" : world->actor[actor].label;
    if (trace->out) {
        (void)fprintf(trace->out, "%10.3f %-7s %s\n", (double)world->now_us / 1000, who, line);
        return;
    }
    struct err err = {0};
    const int rc = buf_printf(&trace->text, &err, "%s: %s\n", who, line);
    ASSERT(rc == 0);
}
