#include "agent/parameter_server/routes.h"

#include <stdlib.h>
#include <string.h>

#include "agent/parameter_server/member.h"
#include "agent/parameter_server/message_kind.h"
#include "agent/parameter_server/parameter_server_work.h"
#include "agent/peer/answers.h"
#include "agent/peer/header.h"
#include "agent/peer/receive.h"
#include "agent/peer/waiting.h"

/* The state of a request and the destination of its body. */
enum request_state {
    REQUEST_FREE,
    REQUEST_TAKES,    /* into the member's buffer */
    REQUEST_DISCARDS, /* none: it has already arrived, or a newer connection brings it */
    REQUEST_BROKEN,   /* none: it does not match its path */
    REQUEST_PARKED,   /* a pull that waits */
    REQUEST_SERVES,   /* a pull that is answered */
};

/* One request of another stage. Its place is the handle of a parked pull. */
struct request {
    struct exchange_routes *routes;
    enum request_state state;
    struct http_exchange *exchange;
    struct work *work; /* a reference */
    struct exchange_message message;
    struct exchange_claim claim;
    enum exchange_verdict verdict; /* the answer to a discarded body */
    struct member_view view;
    struct header header;
    size_t at; /* received bytes of the body */
    struct body_note note;
    struct err err;
    const char *why; /* BROKEN: static text, or err's */
};
_Static_assert(MEMBER_PULLS_MAX == RECEIVES_MAX, "each connection may park a pull");

struct exchange_routes {
    struct access *access;
    struct request item[RECEIVES_MAX];
    struct waiting waiting; /* those that are PARKED */
};

/* ---- requests ---- */

static struct member *member_in(const struct request *request)
{
    return member_of(request->work);
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

static struct request *take_place(struct exchange_routes *routes)
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

static bool read_size(struct http_exchange *exchange, const char *name, size_t *out)
{
    int64_t number;
    if (!answers_number(exchange, name, &number)) {
        return false;
    }
    *out = (size_t)number;
    return true;
}

/* Find the member that the request addresses, and the stage that sent it. NULL: a problem was
 * answered. */
static struct work *find_member(struct exchange_routes *routes, struct http_exchange *exchange,
                                struct exchange_message *message)
{
    struct device_id caller;
    struct work *work AUTO(work_release) = answers_work(routes->access, exchange, &caller);
    if (!work) {
        return NULL;
    }
    const bool fits = work->row == &parameter_server_work;
    message->from = fits ? member_stage_of(member_of(work), caller.text) : 0;
    message->to = fits ? member_index(member_of(work)) : 0;
    if (!fits || message->from >= STAGES_MAX) {
        answers_problem(exchange, 422, "unexpected", "this device has no stages that call it so");
        return NULL;
    }
    struct work *found = work;
    work = NULL;
    return found;
}

static void answer_verdict(struct http_exchange *exchange, enum exchange_verdict verdict)
{
    switch (verdict) {
    case EXCHANGE_TAKE:
    case EXCHANGE_SERVE:
    case EXCHANGE_PARK:
    case EXCHANGE_LAST:
    case EXCHANGE_STORED: http_reply(exchange, 204, NULL, NULL, 0); break;
    case EXCHANGE_NOT_YET:
        answers_problem(exchange, 503, "not_yet", "this stage is not ready for it yet");
        break;
    case EXCHANGE_OUTDATED:
        answers_problem(exchange, 410, "outdated", "its step is over, or a repeat has replaced it");
        break;
    case EXCHANGE_REFUSE:
        answers_problem(exchange, 422, "unexpected", "it is not in the plan of this generation");
        break;
    }
}

/* ---- bodies ---- */

static bool read_message(struct http_exchange *exchange, struct exchange_message *message)
{
    size_t index = 0;
    if (!answers_number(exchange, "step", &message->step) ||
        !read_size(exchange, "index", &index) || !read_size(exchange, "first", &message->first) ||
        !read_size(exchange, "end", &message->end)) {
        return false;
    }
    if (!message_kind_find(http_param(exchange, "kind"), message)) {
        answers_problem(exchange, 400, "invalid_parameter",
                        "expected contribution, done, result, commit, norm or norm_total");
        return false;
    }
    message->block = message->kind == EXCHANGE_RESULT ? 0 : index;
    message->micro_batch = message->kind == EXCHANGE_RESULT ? index : 0;
    return true;
}

static bool length_fits(const struct request *request, int64_t length)
{
    const uint64_t bytes = body_bytes(&request->view.body);
    return length >= 0 && (uint64_t)length > bytes && (uint64_t)length <= bytes + BODY_HEADER_MAX;
}

static void drop_claim(struct request *request)
{
    if (request->state == REQUEST_TAKES && request->message.kind != EXCHANGE_COMMIT) {
        member_abandon(member_in(request), &request->message, &request->claim);
    }
}

static bool open_request(void *context, struct http_exchange *exchange, void **state)
{
    struct exchange_routes *routes = context;
    struct exchange_message message = {0};
    if (!read_message(exchange, &message)) {
        return false;
    }
    struct work *work AUTO(work_release) = find_member(routes, exchange, &message);
    if (!work) {
        return false;
    }
    struct request *request = take_place(routes);
    if (!request) {
        answers_problem(exchange, 503, "too_many", "too many transfers at once");
        return false;
    }
    request->message = message;
    request->verdict = message.kind == EXCHANGE_COMMIT
                           ? EXCHANGE_TAKE
                           : member_offer(member_of(work), &message, &request->claim);
    if (request->verdict != EXCHANGE_TAKE && request->verdict != EXCHANGE_STORED) {
        answer_verdict(exchange, request->verdict);
        return false;
    }
    request->exchange = exchange;
    request->work = work_retain(work);
    request->state = request->verdict == EXCHANGE_TAKE ? REQUEST_TAKES : REQUEST_DISCARDS;
    request->view = member_view(member_of(work), &message, false);
    if (!length_fits(request, http_content_length(exchange))) {
        drop_claim(request);
        give_back(request);
        answers_problem(exchange, 422, "invalid_blob",
                        "the length of the body does not match the path");
        return false;
    }
    *state = request;
    return true;
}

static void spoil(struct request *request, const char *why)
{
    request->why = why;
    drop_claim(request);
    request->state = REQUEST_BROKEN;
}

/* Take header bytes; returns how many. */
static size_t take_header(struct request *request, const char *data, size_t size)
{
    size_t taken;
    int rc = header_take(&request->header, BODY_HEADER_MAX, data, size, &taken, &request->err);
    if (rc == 0 && header_is_whole(&request->header)) {
        rc = body_read_header(request->header.text, request->header.size, &request->view.body,
                              &request->note, &request->err);
        if (rc == 0 && request->note.last && request->message.kind != EXCHANGE_COMMIT) {
            rc = err_set(&request->err, ERR_FORMAT, "only a commit ends the generation");
        }
    }
    if (rc != 0) {
        spoil(request, request->err.text);
    }
    return taken;
}

static size_t take_data(struct request *request, const char *data, size_t size)
{
    if (size > body_bytes(&request->view.body) - request->at) {
        spoil(request, "the body continues after its tensors");
        return size;
    }
    if (!member_holds(member_in(request), &request->message, &request->claim)) {
        request->verdict = EXCHANGE_NOT_YET;
        request->state = REQUEST_DISCARDS;
        return size;
    }
    member_moved(member_in(request), size);
    for (size_t got = 0; got < size;) {
        const struct member_piece piece = member_piece(&request->view, request->at);
        const size_t count = piece.size < size - got ? piece.size : size - got;
        memcpy(piece.data, data + got, count);
        request->at += count;
        got += count;
    }
    return size;
}

static size_t write_request(void *state, const void *data, size_t size)
{
    struct request *request = state;
    if (request->state != REQUEST_TAKES) {
        return size;
    }
    return header_is_whole(&request->header) ? take_data(request, data, size)
                                             : take_header(request, data, size);
}

static void finish_request(void *state)
{
    struct request *request = state;
    struct member *member = member_in(request);
    if (request->state == REQUEST_TAKES &&
        (!header_is_whole(&request->header) || request->at != body_bytes(&request->view.body))) {
        spoil(request, "the body ends early");
    }
    if (request->state == REQUEST_TAKES && !member_is_finite(&request->view)) {
        spoil(request, "a number or a statistic is not finite");
    }
    if (request->state == REQUEST_TAKES && request->message.kind == EXCHANGE_COMMIT) {
        request->message.last = request->note.last;
        request->message.mark = request->note.mark;
        request->verdict = member_commit(member, &request->message);
    } else if (request->state == REQUEST_TAKES) {
        request->verdict = member_received(member, &request->message, &request->claim);
    }
    if (request->state == REQUEST_BROKEN) {
        answers_problem(request->exchange, 422, "invalid_blob", request->why);
    } else {
        answer_verdict(request->exchange, request->verdict);
    }
    give_back(request);
}

static void abort_request(void *state)
{
    struct request *request = state;
    drop_claim(request);
    give_back(request);
}

static const struct http_sink sink = {
    .open = open_request, .write = write_request, .finish = finish_request, .abort = abort_request};

/* ---- pulls ---- */

/* Returns -2 if an update has begun; the client then repeats the request. */
static ssize_t read_answer(void *arg, uint64_t offset, void *out, size_t size)
{
    struct request *request = arg;
    if (offset < request->header.size) {
        const size_t left = request->header.size - (size_t)offset;
        const size_t count = size < left ? size : left;
        memcpy(out, request->header.text + offset, count);
        return (ssize_t)count;
    }
    const size_t at = (size_t)offset - request->header.size;
    const size_t left = body_bytes(&request->view.body) - at;
    const size_t count = size < left ? size : left;
    return member_serve(member_in(request), &request->message, &request->view, at, out, count)
               ? (ssize_t)count
               : -2;
}

static void end_answer(void *arg)
{
    give_back(arg);
}

/* Reply to a pull; the request ends with the reply. */
static void answer_pull(struct request *request, enum exchange_verdict verdict)
{
    static const struct body nothing = {{0}};
    struct http_exchange *exchange = request->exchange;
    const bool last = verdict == EXCHANGE_LAST;
    const struct body_note note = {
        .last = last,
        .version = last ? member_last(member_in(request)) : request->message.step,
        .parked_seconds = waiting_seconds(&request->routes->waiting, place_of(request))};
    http_on_end(exchange, NULL, NULL);
    waiting_end(&request->routes->waiting, place_of(request));
    request->state = REQUEST_SERVES;
    if (verdict != EXCHANGE_SERVE && !last) {
        give_back(request);
        answer_verdict(exchange, verdict);
        return;
    }
    if (last) {
        request->view.body = nothing;
    }
    request->header.size = body_write_header(&request->view.body, &note, request->header.text);
    const struct http_source source = {.read = read_answer, .done = end_answer, .arg = request};
    http_reply_stream(exchange, 200, "application/octet-stream",
                      request->header.size + body_bytes(&request->view.body), &source);
}

static void client_gone(void *arg)
{
    struct request *request = arg;
    member_forget(member_in(request), place_of(request));
    give_back(request);
}

static bool read_pull(struct http_exchange *exchange, struct exchange_message *message)
{
    const char *statistics = http_query(exchange, "statistics");
    message->kind = EXCHANGE_PARAMETERS;
    message->statistics = statistics && strcmp(statistics, "1") == 0;
    return answers_number(exchange, "version", &message->step) &&
           read_size(exchange, "first", &message->first) &&
           read_size(exchange, "end", &message->end);
}

static void take_pull(void *context, struct http_exchange *exchange)
{
    struct exchange_routes *routes = context;
    struct exchange_message message = {0};
    if (!read_pull(exchange, &message)) {
        return;
    }
    struct work *work AUTO(work_release) = find_member(routes, exchange, &message);
    if (!work) {
        return;
    }
    struct request *request = take_place(routes);
    if (!request) {
        answers_problem(exchange, 503, "too_many", "too many transfers at once");
        return;
    }
    struct member *member = member_of(work);
    const enum exchange_verdict verdict = member_pull(member, &message, place_of(request));
    if (verdict == EXCHANGE_REFUSE) {
        answer_verdict(exchange, verdict);
        return;
    }
    request->exchange = exchange;
    request->work = work_retain(work);
    request->message = message;
    request->view = member_view(member, &message, true);
    request->state = REQUEST_SERVES;
    if (verdict != EXCHANGE_PARK) {
        answer_pull(request, verdict);
        return;
    }
    request->state = REQUEST_PARKED;
    waiting_begin(&routes->waiting, place_of(request), work->park_ms);
    http_on_end(exchange, client_gone, request);
}

static void retry(void *arg)
{
    struct exchange_routes *routes = arg;
    for (size_t i = 0; routes->waiting.count > 0 && i < RECEIVES_MAX; i++) {
        struct request *request = &routes->item[i];
        enum exchange_verdict verdict;
        if (request->state != REQUEST_PARKED) {
            continue;
        }
        if (member_answered(member_in(request), i, &verdict)) {
            answer_pull(request, verdict);
        } else if (waiting_is_over(&routes->waiting, i) ||
                   member_is_cancelled(member_in(request))) {
            member_forget(member_in(request), i);
            answer_pull(request, EXCHANGE_NOT_YET);
        }
    }
}

static int timeout_ms(const void *arg)
{
    const struct exchange_routes *routes = arg;
    return waiting_timeout_ms(&routes->waiting);
}

static const struct http_route route_table[] = {
    {.method = "GET",
     .pattern = "/peer/v1/{job}/{generation}/parameters/{version}/{first}/{end}",
     .handle = take_pull},
    {.method = "PUT",
     .pattern = "/peer/v1/{job}/{generation}/exchange/{kind}/{step}/{index}/{first}/{end}",
     .sink = &sink,
     .body_bytes_min = 1}, /* a stream may wait for other answers (caller.c) */
};

int exchange_routes_open(struct access *access, struct peer_routes *out, struct err *err)
{
    struct exchange_routes *routes = calloc(1, sizeof(*routes));
    if (!routes) {
        return err_set(err, ERR_MEMORY, "requests of stages");
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
