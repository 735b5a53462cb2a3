#include "agent/peer/waiting.h"

#include "agent/core/repeat.h"
#include "base/clock.h"

void waiting_begin(struct waiting *waiting, size_t at, int64_t park_ms)
{
    waiting->count += !waiting->request[at].waits;
    waiting->request[at] = (struct waiting_request){
        .waits = true,
        .began_seconds = clock_now_seconds(),
        .deadline_ms = clock_now_ms() + (park_ms > 0 ? park_ms : REPEAT_PARK_MS_MAX)};
}

void waiting_end(struct waiting *waiting, size_t at)
{
    waiting->count -= waiting->request[at].waits;
    waiting->request[at].waits = false;
}

double waiting_seconds(const struct waiting *waiting, size_t at)
{
    const struct waiting_request *request = &waiting->request[at];
    return request->waits ? clock_now_seconds() - request->began_seconds : 0;
}

bool waiting_is_over(const struct waiting *waiting, size_t at)
{
    return clock_now_ms() >= waiting->request[at].deadline_ms;
}

int waiting_timeout_ms(const struct waiting *waiting)
{
    int64_t first_ms = INT64_MAX;
    for (size_t i = 0; waiting->count > 0 && i < RECEIVES_MAX; i++) {
        const struct waiting_request *request = &waiting->request[i];
        if (request->waits && request->deadline_ms < first_ms) {
            first_ms = request->deadline_ms;
        }
    }
    if (first_ms == INT64_MAX) {
        return -1;
    }
    const int64_t left_ms = first_ms - clock_now_ms();
    return left_ms < 0 ? 0 : left_ms > REPEAT_PARK_MS_MAX ? REPEAT_PARK_MS_MAX : (int)left_ms;
}
