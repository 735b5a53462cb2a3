/* call_timer.h: when a kind of call to the coordinator is due, how long it may take, and how long a
 * failed one waits.
 *
 * A failed call is retried at least as often as a heartbeat is due, so no device loses its lease by
 * waiting: a lease is at least three heartbeats. The jitter keeps many agents from calling together
 * after a restart of the coordinator. Pure. */
#ifndef AGENT_CORE_CALL_TIMER_H
#define AGENT_CORE_CALL_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/session_events.h"
#include "base/rng.h"
#include "schema/problem.h"

#define NEVER INT64_MAX
#define CALL_ANSWER_MS_MAX 10000

struct call_timer {
    bool under_way;
    int64_t due_ms;    /* NEVER: no call is wanted */
    unsigned failures; /* in a row */
    bool put_off;      /* the coordinator set the wait (Retry-After) */
};

/* Shared by the calls of a session. */
struct call_pace {
    struct rng_stream jitter;
    uint64_t draws;
    int64_t interval_ms; /* of heartbeats */
};

/* Return the timeout for the coordinator to accept a connection. */
int64_t call_timer_connect_ms(const struct call_pace *pace);
/* Return the timeout for its answer. It is short enough to abandon a dead connection before the
 * lease ends, and doubles at each retry for a slow coordinator. */
int64_t call_timer_answer_ms(const struct call_timer *call, const struct call_pace *pace);
/* Return the first wait, jittered. */
int64_t call_timer_first_wait_ms(struct call_pace *pace);
/* Note that the call failed, and set due_ms. retry_after_ms: the coordinator's, or 0. at_once:
 * after the first failure in a row, wait only if the coordinator asks for it. */
void call_timer_fail(struct call_timer *call, struct call_pace *pace, int64_t now_ms,
                     int64_t retry_after_ms, bool at_once);
/* End the wait because the coordinator answers again, unless the coordinator itself asked for the
 * wait. */
void call_timer_end_wait(struct call_timer *call, int64_t now_ms);

/* Classify an answer other than 2xx. */
enum session_failure call_failure(int status, enum problem_code code);

#endif
