#include "agent/core/repeat.h"

#include "base/err.h"

#define STALL_MS 10000 /* of the coordinator */
#define PATIENCE_MS 60000
#define FOREVER INT64_MAX

static const struct kind {
    int64_t first_ms, most_ms; /* waits between tries, doubled each time; 0: no retry */
    bool of_peer;              /* the peer's answers and failures are reported */
    bool forgives;             /* ignores the first broken connection in a row */
    bool source;               /* gone if unreachable for peer_ms: others may have the unit */
    bool only;                 /* the only source: if unreachable, wait for it */
    int64_t patience_ms;       /* longest time without progress */
} kinds[REPEAT_KINDS] = {
    [REPEAT_TENSOR] = {5, 250, .of_peer = true, .forgives = true, .patience_ms = FOREVER},
    [REPEAT_ALIVE] = {.of_peer = true, .forgives = true},
    [REPEAT_REPLICA] = {.of_peer = true, .forgives = true},
    [REPEAT_CONTENT] = {20, 1000, .only = true, .patience_ms = PATIENCE_MS},
    [REPEAT_SNAPSHOT] = {20, 1000, .of_peer = true, .source = true, .patience_ms = PATIENCE_MS},
    [REPEAT_PULL] = {5, 250, .of_peer = true, .forgives = true, .patience_ms = FOREVER},
    [REPEAT_MIX] = {5, 250, .of_peer = true, .forgives = true, .patience_ms = FOREVER},
    [REPEAT_PING] = {20, 1000, .of_peer = true, .patience_ms = PATIENCE_MS},
};

void repeat_begin(struct repeat *repeat, enum repeat_kind kind, int64_t peer_ms)
{
    *repeat = (struct repeat){.kind = kind, .peer_ms = peer_ms, .wait_ms = kinds[kind].first_ms};
}

int64_t repeat_stall_ms(const struct repeat *repeat)
{
    return kinds[repeat->kind].of_peer ? repeat->peer_ms : STALL_MS;
}

int64_t repeat_park_ms(int64_t peer_ms)
{
    return peer_ms / 2 < REPEAT_PARK_MS_MAX ? peer_ms / 2 : REPEAT_PARK_MS_MAX;
}

int repeat_code(enum repeat_kind kind, int status)
{
    if (kind == REPEAT_ALIVE) {
        return 0; /* any answer shows that the neighbour is alive */
    }
    if (kind == REPEAT_TENSOR) {
        return status == 204   ? 0
               : status == 409 ? ERR_STALE
               : status == 503 ? ERR_STATE
                               : ERR_PROTOCOL;
    }
    if (status >= 200 && status < 300) {
        return 0;
    }
    if (kind == REPEAT_PULL) {
        return status == 410 || status == 503 ? ERR_STATE
               : status == 409                ? ERR_STALE
                                              : ERR_PROTOCOL;
    }
    if (kind == REPEAT_MIX && (status == 403 || status == 410)) {
        return status == 403 ? ERR_STATE : ERR_NOT_FOUND;
    }
    if (status == 429 || status >= 500) {
        return ERR_STATE;
    }
    if (status == 401 || status == 403 || status == 409) {
        return ERR_STALE;
    }
    return status == 404 ? ERR_NOT_FOUND : ERR_PROTOCOL;
}

static bool is_over(const struct repeat *repeat, const struct repeat_try *tried, bool broken)
{
    const struct kind *kind = &kinds[repeat->kind];
    if (kind->most_ms == 0) {
        return true;
    }
    const int64_t patience_ms = kind->source && broken ? repeat->peer_ms
                                : kind->only && broken ? FOREVER
                                                       : kind->patience_ms;
    return patience_ms != FOREVER && tried->now_ms - repeat->failing_since_ms > patience_ms;
}

/* A fault of this device: the call may never have reached the peer. */
static bool is_own_fault(int code)
{
    return code == ERR_MEMORY || code == ERR_IO || code == ERR_INVALID;
}

void repeat_tried(struct repeat *repeat, const struct repeat_try *tried, struct repeat_next *next)
{
    const struct kind *kind = &kinds[repeat->kind];
    const bool broken = tried->code == ERR_NETWORK || tried->code == ERR_TIMEOUT;
    *next = (struct repeat_next){.wait_ms = repeat->wait_ms};
    if (tried->code == ERR_CANCELLED) {
        return;
    }
    if (!repeat->failing || tried->moved) {
        repeat->failing = true;
        repeat->failing_since_ms = tried->began_ms;
    }
    repeat->failures = broken ? repeat->failures + 1 : 0;
    const bool forgiven =
        broken && kind->forgives && tried->trouble == PEER_BROKEN && repeat->failures == 1;
    if (kind->of_peer && !forgiven) {
        next->news = broken                      ? REPEAT_IN_TROUBLE
                     : is_own_fault(tried->code) ? REPEAT_NOTHING
                                                 : REPEAT_ANSWERED;
    }
    if (forgiven) {
        next->again = true;
        next->wait_ms = 0;
    } else {
        next->again = (broken || tried->code == ERR_STATE) && !is_over(repeat, tried, broken);
    }
    if (next->again) {
        repeat->wait_ms = 2 * repeat->wait_ms < kind->most_ms ? 2 * repeat->wait_ms : kind->most_ms;
    }
}
