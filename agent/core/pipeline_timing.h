/* pipeline_timing.h: maps the tasks and waits of a pipeline's stage to the kinds of timing.h.
 * Pure. */
#ifndef AGENT_CORE_PIPELINE_TIMING_H
#define AGENT_CORE_PIPELINE_TIMING_H

#include "agent/core/pipeline_task.h"
#include "agent/core/timing.h"

static inline enum timing_work pipeline_timed_as(enum pipeline_work work)
{
    static const enum timing_work timed[] = {
        [PIPELINE_WAIT] = TIMING_OTHER,        [PIPELINE_FORWARD] = TIMING_FORWARD,
        [PIPELINE_BACKWARD] = TIMING_BACKWARD, [PIPELINE_SUM] = TIMING_SUM,
        [PIPELINE_TOTAL] = TIMING_OTHER,       [PIPELINE_UPDATE] = TIMING_UPDATE,
        [PIPELINE_EVALUATE] = TIMING_EVALUATE, [PIPELINE_JUDGE] = TIMING_OTHER,
        [PIPELINE_LAST] = TIMING_OTHER,        [PIPELINE_STOP] = TIMING_OTHER,
    };
    return timed[work];
}

static inline enum timing_share pipeline_share_of(enum pipeline_wait wait)
{
    static const enum timing_share shares[] = {
        [PIPELINE_WAITS_FOR_ORDERS] = TIMING_SHARES,
        [PIPELINE_WAITS_FOR_INPUT] = TIMING_INPUT,
        [PIPELINE_WAITS_FOR_GRADIENT] = TIMING_GRADIENT,
        [PIPELINE_WAITS_FOR_ROOM] = TIMING_ROOM,
    };
    return shares[wait];
}

#endif
