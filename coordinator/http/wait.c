#include "coordinator/http/wait.h"

#include "base/clock.h"
#include "coordinator/http/answer.h"

void wait_for_object(struct parked *parked, struct http_exchange *exchange, enum object_kind kind,
                     const char *id, parked_look_fn look)
{
    static const char *const allowed[] = {"after", "wait", NULL};
    int64_t after, wait_seconds;
    if (!answer_check_query(exchange, allowed) ||
        !answer_query_int(exchange, "after", 0, INT64_MAX, -1, &after) ||
        !answer_query_int(exchange, "wait", 0, WAIT_SECONDS_MAX, 0, &wait_seconds)) {
        return;
    }
    parked_wait(parked, exchange, kind, id, after, clock_now_ms() + wait_seconds * 1000, look);
}
