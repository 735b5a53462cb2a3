#include "agent/core/call_timer.h"

#include "schema/limits.h"

#define WAIT_MS_FIRST 250
#define RETRY_MS_MIN 100
#define ANSWER_MS_MIN 1000

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

/* Return wait_ms, changed randomly by up to a quarter. */
static int64_t jittered(struct call_pace *pace, int64_t wait_ms)
{
    const int64_t span = wait_ms / 2 + 1;
    return wait_ms - wait_ms / 4 + (int64_t)rng_below(&pace->jitter, pace->draws++, (uint64_t)span);
}

int64_t call_timer_connect_ms(const struct call_pace *pace)
{
    return clamp(pace->interval_ms / 2 * 3, ANSWER_MS_MIN, CALL_ANSWER_MS_MAX);
}

int64_t call_timer_answer_ms(const struct call_timer *call, const struct call_pace *pace)
{
    int64_t ms = call_timer_connect_ms(pace);
    for (unsigned i = 0; i < call->failures && ms < CALL_ANSWER_MS_MAX; i++) {
        ms *= 2;
    }
    return ms < CALL_ANSWER_MS_MAX ? ms : CALL_ANSWER_MS_MAX;
}

int64_t call_timer_first_wait_ms(struct call_pace *pace)
{
    return jittered(pace, WAIT_MS_FIRST);
}

void call_timer_fail(struct call_timer *call, struct call_pace *pace, int64_t now_ms,
                     int64_t retry_after_ms, bool at_once)
{
    /* Even with the jitter, no wait is longer than the interval. */
    const int64_t most_ms = clamp(pace->interval_ms, RETRY_MS_MIN, CALL_RETRY_MS_MAX) / 5 * 4;
    int64_t wait_ms = WAIT_MS_FIRST;
    for (unsigned i = 0; i < call->failures && wait_ms < most_ms; i++) {
        wait_ms *= 2;
    }
    if (wait_ms > most_ms) {
        wait_ms = most_ms;
    }
    call->put_off = retry_after_ms > wait_ms;
    if (call->put_off) {
        wait_ms = retry_after_ms;
    }
    const bool now = at_once && call->failures == 0 && !call->put_off;
    call->failures++;
    call->due_ms = now ? now_ms : now_ms + jittered(pace, wait_ms);
}

void call_timer_end_wait(struct call_timer *call, int64_t now_ms)
{
    if (call->failures == 0 || call->put_off) {
        return;
    }
    call->failures = 0;
    if (call->due_ms != NEVER && call->due_ms > now_ms) {
        call->due_ms = now_ms;
    }
}

enum session_failure call_failure(int status, enum problem_code code)
{
    if (code == PROBLEM_UNKNOWN_DEVICE) {
        return FAILURE_UNKNOWN;
    }
    if (code == PROBLEM_STALE_BOOT) {
        return FAILURE_STALE_BOOT;
    }
    return status == 429 || status >= 500 ? FAILURE_NETWORK : FAILURE_REFUSED;
}
