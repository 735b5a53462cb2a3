#include "agent/gossip/mix_routes.h"

#include <stdlib.h>
#include <string.h>

#include "agent/gossip/mixer.h"
#include "agent/peer/answers.h"
#include "agent/peer/receive.h"
#include "agent/peer/waiting.h"
#include "base/parse.h"

enum request_state { REQUEST_FREE, REQUEST_PARKED, REQUEST_SERVES };

/* One request of another group. */
struct request {
    struct mix_routes *routes;
    enum request_state state;
    struct http_exchange *exchange;
    struct work *work; /* a reference; it has a mixer */
    struct mix_xid xid;
    bool average;
    struct mixer_reply reply; /* SERVES */
};

struct mix_routes {
    struct access *access;
    struct request item[RECEIVES_MAX];
    struct waiting waiting; /* those that are PARKED */
};

/* ---- requests ---- */

static struct request *take_place(struct mix_routes *routes)
{
    for (size_t i = 0; i < RECEIVES_MAX; i++) {
        struct request *request = &routes->item[i];
        if (request->state == REQUEST_FREE) {
            *request = (struct request){.routes = routes};
            return request;
        }
    }
    return NULL;
}

static size_t place_of(const struct request *request)
{
    return (size_t)(request - request->routes->item);
}

static void give_back(struct request *request)
{
    waiting_end(&request->routes->waiting, place_of(request));
    request->state = REQUEST_FREE;
    request->exchange = NULL;
    work_release(&request->work);
}

/* "LIFE-COUNTER" */
static bool read_xid(struct http_exchange *exchange, struct mix_xid *out)
{
    const char *text = http_param(exchange, "xid");
    const char *dash = strchr(text, '-');
    char life[24];
    if (dash && (size_t)(dash - text) < sizeof(life)) {
        memcpy(life, text, (size_t)(dash - text));
        life[dash - text] = '\0';
        if (parse_i64(life, 0, INT64_MAX, &out->life, NULL) == 0 &&
            parse_i64(dash + 1, 1, INT64_MAX, &out->counter, NULL) == 0) {
            return true;
        }
    }
    answers_problem(exchange, 400, "invalid_parameter", "expected LIFE-COUNTER of a match");
    return false;
}

/* Find the group that the request addresses. NULL: a problem was answered. */
static struct work *find_group(struct mix_routes *routes, struct http_exchange *exchange,
                               struct mix_xid *xid)
{
    int64_t first = 0, end = 0;
    if (!read_xid(exchange, xid) || !answers_number(exchange, "first", &first) ||
        !answers_number(exchange, "end", &end)) {
        return NULL;
    }
    struct work *work AUTO(work_release) = answers_work(routes->access, exchange, NULL);
    if (!work) {
        return NULL;
    }
    if (!work->mixer) {
        answers_problem(exchange, 422, "unexpected", "this job is no group that mixes");
        return NULL;
    }
    if (first != 0 || end != (int64_t)keeper_model(work->keeper)->unit_count) {
        answers_problem(exchange, 422, "unexpected", "expected all units of the model");
        return NULL;
    }
    struct work *found = work;
    work = NULL;
    return found;
}

/* ---- answers ---- */

static ssize_t read_answer(void *arg, uint64_t offset, void *out, size_t size)
{
    struct request *request = arg;
    struct mixer_reply *reply = &request->reply;
    if (offset < reply->header->size) {
        const size_t left = reply->header->size - (size_t)offset;
        const size_t count = size < left ? size : left;
        memcpy(out, reply->header->data + offset, count);
        return (ssize_t)count;
    }
    const size_t at = (size_t)offset - reply->header->size;
    const size_t left = reply->bytes - at;
    const size_t count = size < left ? size : left;
    return mixer_read(request->work->mixer, reply, at, out, count) ? (ssize_t)count : -2;
}

static void end_answer(void *arg)
{
    struct request *request = arg;
    mixer_end_reply(request->work->mixer, &request->reply);
    give_back(request);
}

static void answer_problem(struct request *request, int status, const char *code,
                           const char *detail)
{
    struct http_exchange *exchange = request->exchange;
    give_back(request);
    answers_problem(exchange, status, code, detail);
}

/* Ask the mixer. false: the request waits. */
static bool try_answer(struct request *request)
{
    struct mixer *mixer = request->work->mixer;
    const double waited = waiting_seconds(&request->routes->waiting, place_of(request));
    if (mixer_is_cancelled(mixer)) {
        answer_problem(request, 503, "early", "this device ends that generation");
        return true;
    }
    switch (mixer_serve(mixer, request->xid, request->average, waited, &request->reply)) {
    case MIXING_PARK:
    case MIXING_LATER: return false;
    case MIXING_GONE:
        answer_problem(request, 410, "outdated", "the match has ended without it, or is over");
        return true;
    case MIXING_SERVE: break;
    }
    waiting_end(&request->routes->waiting, place_of(request));
    request->state = REQUEST_SERVES;
    const struct http_source source = {.read = read_answer, .done = end_answer, .arg = request};
    http_reply_stream(request->exchange, 200, "application/octet-stream",
                      request->reply.header->size + request->reply.bytes, &source);
    return true;
}

static void client_gone(void *arg)
{
    give_back(arg);
}

static void take(struct mix_routes *routes, struct http_exchange *exchange, bool average)
{
    struct mix_xid xid;
    struct work *work AUTO(work_release) = find_group(routes, exchange, &xid);
    if (!work) {
        return;
    }
    struct request *request = take_place(routes);
    if (!request) {
        answers_problem(exchange, 503, "too_many", "too many transfers at once");
        return;
    }
    request->exchange = exchange;
    request->work = work_retain(work);
    request->xid = xid;
    request->average = average;
    if (try_answer(request)) {
        return;
    }
    request->state = REQUEST_PARKED;
    waiting_begin(&routes->waiting, place_of(request), work->park_ms);
    http_on_end(exchange, client_gone, request);
}

static void take_copy(void *context, struct http_exchange *exchange)
{
    take(context, exchange, false);
}

static void take_average(void *context, struct http_exchange *exchange)
{
    take(context, exchange, true);
}

static void retry(void *arg)
{
    struct mix_routes *routes = arg;
    for (size_t i = 0; routes->waiting.count > 0 && i < RECEIVES_MAX; i++) {
        struct request *request = &routes->item[i];
        if (request->state != REQUEST_PARKED) {
            continue;
        }
        struct http_exchange *exchange = request->exchange;
        http_on_end(exchange, NULL, NULL);
        if (try_answer(request)) {
            continue;
        }
        if (waiting_is_over(&routes->waiting, i)) {
            answer_problem(request, 503, "not_yet", "it is not there yet");
        } else {
            http_on_end(exchange, client_gone, request);
        }
    }
}

static int timeout_ms(const void *arg)
{
    const struct mix_routes *routes = arg;
    return waiting_timeout_ms(&routes->waiting);
}

static const struct http_route route_table[] = {
    {.method = "GET",
     .pattern = "/peer/v1/{job}/{generation}/mixes/{xid}/{first}/{end}",
     .handle = take_copy},
    {.method = "GET",
     .pattern = "/peer/v1/{job}/{generation}/averages/{xid}/{first}/{end}",
     .handle = take_average},
};

int mix_routes_open(struct access *access, struct peer_routes *out, struct err *err)
{
    struct mix_routes *routes = calloc(1, sizeof(*routes));
    if (!routes) {
        return err_set(err, ERR_MEMORY, "requests of groups");
    }
    routes->access = access;
    *out = (struct peer_routes){.route = route_table,
                                .count = sizeof(route_table) / sizeof(route_table[0]),
                                .context = routes,
                                .retry = retry,
                                .timeout_ms = timeout_ms,
                                .free = free};
    return 0;
}
