#include "coordinator/core/generation/pace.h"

void pace_add(struct pace *pace, double seconds)
{
    if (pace->newest.seconds >= PACE_SPAN_SECONDS && pace->newest.steps >= PACE_SPAN_STEPS) {
        pace->before = pace->newest;
        pace->newest = (struct pace_span){0};
    }
    pace->newest.seconds += seconds;
    pace->newest.steps++;
}

double pace_mean(const struct pace *pace)
{
    const int64_t steps = pace->newest.steps + pace->before.steps;
    return steps > 0 ? (pace->newest.seconds + pace->before.seconds) / (double)steps : 0;
}
