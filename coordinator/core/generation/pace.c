#include "coordinator/core/generation/pace.h"

static void add(struct pace_span *span, double seconds)
{
    span->seconds += seconds;
    span->steps++;
}

void pace_add(struct pace *pace, double seconds)
{
    if (pace->newest.seconds >= PACE_SPAN_SECONDS && pace->newest.steps >= PACE_SPAN_STEPS) {
        pace->before = pace->newest;
        pace->newest = (struct pace_span){0};
    }
    add(&pace->newest, seconds);
    if (pace->first_steps < PACE_FIRST_STEPS) {
        pace->first_steps++;
    } else {
        add(&pace->settled, seconds);
    }
}

double pace_mean(const struct pace *pace)
{
    const int64_t steps = pace->newest.steps + pace->before.steps;
    return steps > 0 ? (pace->newest.seconds + pace->before.seconds) / (double)steps : 0;
}

double pace_settled_mean(const struct pace *pace)
{
    return pace->settled.steps > 0 ? pace->settled.seconds / (double)pace->settled.steps : 0;
}
