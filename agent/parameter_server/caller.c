#include "agent/parameter_server/caller.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/parameter_server/member_parts.h"
#include "agent/parameter_server/message_kind.h"
#include "agent/peer/header.h"
#include "agent/peer/message.h"
#include "agent/peer/reach.h"
#include "agent/runtime/thread.h"
#include "base/clock.h"

struct carrier {
    struct callers *callers;
    size_t lane;
    struct reach_caller caller;
    pthread_t thread;
    bool started;
};

struct callers {
    struct member *member; /* a reference */
    struct work_config config;
    struct plan_id plan;
    struct reach reach[STAGES_MAX];
    struct carrier *carrier; /* [count] */
    size_t count;
};

/* ---- one call ---- */

/* A message on its way. */
struct delivery {
    struct carrier *carrier;
    const struct exchange_message *message;
    struct member_view view;
    struct http_call call;
    bool streams;            /* sums are computed during it: no measurement of the link */
    struct header header;    /* of the sent or received body */
    size_t at;               /* bytes of the body, without the header */
    size_t have;             /* pull: of these, bytes in the arena since an earlier try */
    double began_seconds;    /* of the current try, */
    double answered_seconds; /* and when its answer began to arrive; 0: not yet */
    struct body_note note;
    struct err err;
};

static struct member *member_in(const struct delivery *delivery)
{
    return delivery->carrier->callers->member;
}

static const struct reach *reach_of(const struct delivery *delivery)
{
    return &delivery->carrier->callers->reach[delivery->message->to];
}

static enum repeat_kind kind_of(const struct exchange_message *message)
{
    return message->kind == EXCHANGE_PARAMETERS ? REPEAT_PULL : REPEAT_TENSOR;
}

/* ---- what is pushed ---- */

/* Wait until bytes of a piece may be sent. Returns how many; 0: no more. While the end of the last
 * layer is withheld, single bytes keep the connection open. */
static size_t sendable(const struct delivery *delivery, const struct member_piece *piece)
{
    enum member_sums sums = MEMBER_SUMS_READY;
    if (!delivery->view.backward || piece->layer >= delivery->view.end) {
        return piece->size;
    }
    do {
        sums = member_wait_sums(member_in(delivery), delivery->message, piece->layer);
    } while (sums == MEMBER_SUMS_WITHHELD && piece->size == 1);
    return sums == MEMBER_SUMS_UNWANTED ? 0 : sums == MEMBER_SUMS_WITHHELD ? 1 : piece->size;
}

static ssize_t read_body(void *arg, void *out, size_t size)
{
    struct delivery *delivery = arg;
    const size_t bytes = body_bytes(&delivery->view.body);
    if (delivery->header.got < delivery->header.size) {
        const size_t left = delivery->header.size - delivery->header.got;
        const size_t count = size < left ? size : left;
        memcpy(out, delivery->header.text + delivery->header.got, count);
        delivery->header.got += count;
        return (ssize_t)count;
    }
    if (delivery->at == bytes) {
        return 0;
    }
    const struct member_piece piece = member_piece(&delivery->view, delivery->at);
    const size_t most = sendable(delivery, &piece);
    const size_t count = size < most ? size : most;
    memcpy(out, piece.data, count);
    delivery->at += count;
    return most > 0 ? (ssize_t)count : -1;
}

/* ---- what is pulled ---- */

/* Parameters of another version would silently change the bits of the step. */
static int check_version(const struct delivery *delivery, struct err *err)
{
    const struct exchange_message *message = delivery->message;
    const struct body_note *note = &delivery->note;
    if (note->last || note->version == message->step) {
        return 0;
    }
    if (note->version == BODY_NO_VERSION) {
        return err_set(err, ERR_PROTOCOL, "stage %zu does not state the version of its parameters",
                       message->to);
    }
    return err_set(err, ERR_PROTOCOL,
                   "stage %zu answers with version %" PRId64 " to a request for version %" PRId64,
                   message->to, note->version, message->step);
}

static int take_header(struct delivery *delivery, const void *data, size_t size, size_t *taken)
{
    int rc = header_take(&delivery->header, BODY_HEADER_MAX, data, size, taken, &delivery->err);
    if (rc != 0 || !header_is_whole(&delivery->header)) {
        return rc;
    }
    rc = body_read_header(delivery->header.text, delivery->header.size, &delivery->view.body,
                          &delivery->note, &delivery->err);
    rc = rc ? rc : check_version(delivery, &delivery->err);
    if (rc == 0 && delivery->message->first == 0) {
        member_pull_began(member_in(delivery),
                          delivery->began_seconds + delivery->note.parked_seconds);
    }
    return rc;
}

/* Announce the layers whose bytes are all in the arena; they may be used. */
static void tell_layers(struct delivery *delivery)
{
    const struct member_view *view = &delivery->view;
    /* An evaluation needs the statistics, which come last. */
    const bool parts = delivery->message->streams && view->body.count[BODY_STATISTICS] == 0;
    if (!parts && delivery->at < body_bytes(&view->body)) {
        return;
    }
    const struct member_place *place = view->arena->place - view->arena->first;
    size_t end = view->first;
    while (end < view->end &&
           delivery->at >=
               (place[end].first + place[end].count - place[view->first].first) * sizeof(float)) {
        end++;
    }
    if (end > view->first) {
        member_pulled(member_in(delivery), delivery->message, end);
    }
}

static int write_answer(void *arg, const void *bytes, size_t size)
{
    struct delivery *delivery = arg;
    const unsigned char *data = bytes;
    const size_t all = body_bytes(&delivery->view.body);
    int rc = 0;
    if (delivery->answered_seconds == 0) {
        delivery->answered_seconds = clock_now_seconds();
    }
    if (!header_is_whole(&delivery->header)) {
        size_t taken;
        rc = take_header(delivery, data, size, &taken);
        data += taken;
        size -= taken;
    }
    if (rc == 0 && size > (delivery->note.last ? 0 : all - delivery->at)) {
        rc = err_set(&delivery->err, ERR_FORMAT, "the answer continues after its tensors");
    }
    while (rc == 0 && size > 0) {
        const struct member_piece piece = member_piece(&delivery->view, delivery->at);
        const size_t count = size < piece.size ? size : piece.size;
        if (delivery->at + count > delivery->have) { /* else others may already read it */
            memcpy(piece.data, data, count);
        }
        delivery->at += count;
        data += count;
        size -= count;
    }
    if (rc == 0 && header_is_whole(&delivery->header) && !delivery->note.last) {
        if (delivery->at > delivery->have) {
            member_moved(member_in(delivery), delivery->at - delivery->have);
            delivery->have = delivery->at;
        }
        tell_layers(delivery);
    }
    return rc;
}

/* ---- tries ---- */

/* One try: the code of repeat.h. */
static int try_once(void *arg, struct err *err)
{
    struct delivery *delivery = arg;
    const struct exchange_message *message = delivery->message;
    const struct reach *reach = reach_of(delivery);
    struct reach_caller *caller = &delivery->carrier->caller;
    const bool pulls = message->kind == EXCHANGE_PARAMETERS;
    struct http_result result;
    delivery->header.got = delivery->at = 0;
    if (pulls) {
        delivery->header.size = 0;
        delivery->note = (struct body_note){0};
        delivery->answered_seconds = 0;
    }
    delivery->began_seconds = clock_now_seconds();
    int rc = reach_try(reach, caller, &delivery->call, &result, err);
    if (rc != 0) {
        return delivery->err.code ? err_set(err, ERR_PROTOCOL, "%s", delivery->err.text) : rc;
    }
    /* The receiver has discarded the step. */
    const bool outdated = !pulls && result.status == 410;
    rc = outdated ? 0 : reach_judge(reach, caller, kind_of(message), result.status, err);
    if (rc != 0) {
        return rc;
    }
    if (pulls && !delivery->note.last && delivery->at != body_bytes(&delivery->view.body)) {
        return err_set(err, ERR_NETWORK, "the answer of stage %zu ends early", message->to);
    }
    if (!outdated && !delivery->note.last && !delivery->streams &&
        delivery->view.body.count[BODY_DATA] > 0) {
        const struct member_transfer transfer = {
            .bytes = (double)(delivery->header.size + delivery->at),
            .seconds = result.seconds - delivery->note.parked_seconds,
            .parked = delivery->note.parked_seconds > 0,
            .answer_seconds = clock_now_seconds() - delivery->answered_seconds};
        member_add_link(member_in(delivery), message, &transfer);
    }
    return 0;
}

static bool wanted(void *arg)
{
    const struct delivery *delivery = arg;
    return member_wants(member_in(delivery), delivery->message);
}

static int call_until_answered(struct delivery *delivery, struct err *err)
{
    const struct exchange_message *message = delivery->message;
    const struct reach *reach = reach_of(delivery);
    struct reach_caller *caller = &delivery->carrier->caller;
    const int64_t step_ms = member_in(delivery)->run->step_ms;
    const bool pulls = message->kind == EXCHANGE_PARAMETERS;
    const struct message_path path = message_kind_path(reach->config.peer->url, reach->config.job,
                                                       reach->config.generation, message);
    struct repeat repeat;
    repeat_begin(&repeat, kind_of(message), reach->config.peer_ms);
    /* The remaining layers of a stream follow during the backward pass. */
    delivery->streams =
        message->kind == EXCHANGE_CONTRIBUTION && !member_has_sums(member_in(delivery), message);
    const int64_t stall_ms =
        delivery->streams && step_ms > reach->config.peer_ms ? step_ms : repeat_stall_ms(&repeat);
    struct http_call *call = &delivery->call;
    *call = reach_call(reach, caller, pulls ? "GET" : "PUT", path.text, stall_ms);
    if (pulls) {
        call->write = write_answer;
        call->write_arg = delivery;
    } else {
        const struct body_note note = {.last = message->last,
                                       .version = message->last ? message->step : BODY_NO_VERSION,
                                       .mark = message->mark};
        delivery->header.size =
            body_write_header(&delivery->view.body, &note, delivery->header.text);
        call->content_type = "application/octet-stream";
        call->read = read_body;
        call->read_arg = delivery;
        call->body_size = delivery->header.size + body_bytes(&delivery->view.body);
    }
    const struct reach_tries tries = {.once = try_once, .wanted = wanted, .arg = delivery};
    return reach_repeat(reach, caller, &repeat, &tries, err);
}

/* ---- the threads ---- */

#define OWN_WAIT_NS (2 * NS_PER_MS) /* between tries to deliver a message to this stage itself */

static int deliver_own(struct member *member, const struct exchange_message *message,
                       struct err *err)
{
    bool done = false;
    int rc = 0;
    while (rc == 0 && !done && member_wants(member, message)) {
        rc = member_deliver(member, message, &done, err);
        if (rc == 0 && !done && cancel_wait(member->cancel, OWN_WAIT_NS)) {
            rc = err_set(err, ERR_CANCELLED, "cancelled");
        }
    }
    return rc;
}

static int deliver(struct carrier *carrier, const struct exchange_message *message, struct err *err)
{
    struct member *member = carrier->callers->member;
    if (message->to == member->index) {
        return deliver_own(member, message, err);
    }
    struct delivery delivery = {
        .carrier = carrier,
        .message = message,
        .view = member_view(member, message, message->kind != EXCHANGE_PARAMETERS)};
    int rc = call_until_answered(&delivery, err);
    /* A stop discards the step, so a stream that waits for its sums ends early; that is not an
     * error. */
    if (rc != 0 && !member_is_cancelled(member) && !member_wants(member, message)) {
        return 0;
    }
    if (rc == 0 && delivery.note.last && message->kind == EXCHANGE_PARAMETERS) {
        return member_ended(member, message, delivery.note.version, err);
    }
    if (rc == 0 && message->kind != EXCHANGE_PARAMETERS) {
        member_sent(member, message);
    }
    return rc;
}

static void *carry(void *arg)
{
    struct carrier *carrier = arg;
    struct callers *callers = carrier->callers;
    struct member *member = callers->member;
    const bool notices = carrier->lane >= MEMBER_NOTICES;
    struct exchange_message message;
    thread_set_name(carrier->lane == MEMBER_PULLS    ? "pull"
                    : carrier->lane == MEMBER_PUSHES ? "push"
                                                     : "notify");
    while (!member_is_cancelled(member)) {
        struct err err = {0};
        if (!member_next_message(member, carrier->lane, REPEAT_IDLE_MS * NS_PER_MS, &message)) {
            if (notices && !member_is_cancelled(member)) {
                reach_ask(&callers->reach[carrier->lane - MEMBER_NOTICES], &carrier->caller);
            }
            continue;
        }
        const int rc = deliver(carrier, &message, &err);
        if (rc == 0) {
            continue;
        }
        if (rc != ERR_STALE && !member_is_cancelled(member)) {
            callers->config.failed(callers->config.arg, &err);
            member_cancel(member);
        }
        break;
    }
    return NULL;
}

void callers_free(struct callers **pointer)
{
    struct callers *callers = *pointer;
    if (!callers) {
        return;
    }
    for (size_t i = 0; i < callers->count; i++) {
        struct carrier *carrier = &callers->carrier[i];
        if (carrier->started) {
            (void)pthread_join(carrier->thread, NULL);
        }
        reach_caller_done(&carrier->caller);
    }
    struct work *work = member_work(callers->member);
    work_release(&work);
    free(callers->carrier);
    free(callers);
    *pointer = NULL;
}

static int start(struct callers *callers, size_t lane, struct err *err)
{
    struct carrier *carrier = &callers->carrier[callers->count++];
    carrier->callers = callers;
    carrier->lane = lane;
    int rc = reach_caller_init(&carrier->caller, err);
    rc = rc ? rc : thread_start(&carrier->thread, carry, carrier, err);
    carrier->started = rc == 0;
    return rc;
}

int callers_start(struct member *member, const struct work_config *config, struct callers **out,
                  struct err *err)
{
    struct callers *callers = calloc(1, sizeof(*callers));
    if (callers) {
        callers->carrier = calloc(2 * EXCHANGE_WINDOW_MAX + STAGES_MAX, sizeof(*callers->carrier));
    }
    if (!callers || !callers->carrier) {
        free(callers);
        return err_set(err, ERR_MEMORY, "callers");
    }
    callers->member = member_of(work_retain(member_work(member)));
    callers->config = *config;
    callers->plan = config->run->plan;
    int rc = 0;
    for (size_t s = 0; s < member->count; s++) {
        const struct reach_config reach = {
            .peer = &member->run->stage[s].peer,
            .plan = &callers->plan,
            .job = &member->run->job,
            .generation = member->run->generation,
            .ways = config->ways,
            .trust = config->trust,
            .troubles = config->troubles,
            .source = (enum trouble_source)(TROUBLE_STAGE + s),
            .cancel = member->cancel,
            .peer_ms = config->run->peer_ms,
        };
        reach_init(&callers->reach[s], &reach);
    }
    const size_t window = member->transfers ? transfers_window(member->transfers) : 0;
    for (size_t i = 0; rc == 0 && i < window; i++) {
        rc = start(callers, MEMBER_PULLS, err);
        rc = rc ? rc : start(callers, MEMBER_PUSHES, err);
    }
    for (size_t s = 0; rc == 0 && s < member->count; s++) {
        if (message_kind_notifies(member->run, s)) {
            rc = start(callers, MEMBER_NOTICES + s, err);
        }
    }
    *out = callers;
    return rc;
}
