#include "coordinator/http/wait.h"

#include "base/clock.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"

/* Read ?after= and ?wait=. false: a problem was sent. */
static bool read_wait(struct http_exchange *exchange, int64_t *after, int64_t *deadline_ms)
{
    int64_t wait_seconds;
    if (!answer_query_int(exchange, "after", 0, INT64_MAX, -1, after) ||
        !answer_query_int(exchange, "wait", 0, WAIT_SECONDS_MAX, 0, &wait_seconds)) {
        return false;
    }
    *deadline_ms = clock_now_ms() + wait_seconds * 1000;
    return true;
}

void wait_for_object(struct parked *parked, struct http_exchange *exchange, enum object_kind kind,
                     const char *id, parked_look_fn look)
{
    static const char *const allowed[] = {"after", "wait", NULL};
    int64_t after, deadline_ms;
    if (answer_check_query(exchange, allowed) && read_wait(exchange, &after, &deadline_ms)) {
        parked_wait(parked, exchange, kind, id, after, deadline_ms, look);
    }
}

void wait_for_list(struct coordinator *coordinator, struct http_exchange *exchange,
                   enum object_kind kind, const struct list_form *form, parked_look_fn look)
{
    struct list list;
    int64_t after, deadline_ms;
    /* Report faults of the query before the wait. */
    if (!list_begin(exchange, form, &list)) {
        return;
    }
    list_drop(&list);
    if (read_wait(exchange, &after, &deadline_ms)) {
        parked_wait(coordinator->edge->parked, exchange, kind, PARKED_LIST, after, deadline_ms,
                    look);
    }
}

bool wait_list_is_new(const struct coordinator *coordinator, enum object_kind kind, int64_t after,
                      bool last)
{
    return last || after != edge_list_revision(coordinator->edge, kind);
}
