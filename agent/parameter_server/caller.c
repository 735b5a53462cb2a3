#include "agent/parameter_server/caller.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/repeat.h"
#include "agent/parameter_server/member_parts.h"
#include "agent/parameter_server/message_kind.h"
#include "agent/peer/message.h"
#include "agent/peer/trust.h"
#include "agent/peer/ways.h"
#include "agent/runtime/thread.h"
#include "agent/runtime/trouble.h"
#include "base/buf.h"
#include "net/http_client.h"
#include "schema/problem.h"

#define MS_NS INT64_C(1000000)
#define REPLY_MAX 4096

struct carrier {
    struct callers *callers;
    size_t lane;
    struct http_client *client;
    struct buf reply;
    pthread_t thread;
    bool started;
};

struct callers {
    struct member *member; /* a reference */
    struct work_config config;
    struct plan_id plan;
    int64_t peer_ms;
    struct tls_client tls[STAGES_MAX];
    struct carrier *carrier; /* [count] */
    size_t count;
};

/* ---- one call ---- */

/* A message on its way. */
struct delivery {
    struct carrier *carrier;
    const struct exchange_message *message;
    struct member_view view;
    bool streams; /* its sums are computed meanwhile: its time says nothing of the link */
    char header[BODY_HEADER_MAX];
    size_t header_size; /* of a pull: 0 until its first bytes are there */
    size_t header_got;
    size_t at;   /* bytes of the body, without the header */
    size_t have; /* of a pull: of these, in the arena since an earlier try */
    struct body_note note;
    struct err err;
};

static struct member *member_in(const struct delivery *delivery)
{
    return delivery->carrier->callers->member;
}

/* ---- what is pushed ---- */

static ssize_t read_body(void *arg, void *out, size_t size)
{
    struct delivery *delivery = arg;
    const size_t bytes = body_bytes(&delivery->view.body);
    if (delivery->header_got < delivery->header_size) {
        const size_t left = delivery->header_size - delivery->header_got;
        const size_t count = size < left ? size : left;
        memcpy(out, delivery->header + delivery->header_got, count);
        delivery->header_got += count;
        return (ssize_t)count;
    }
    if (delivery->at == bytes) {
        return 0;
    }
    const struct member_piece piece = member_piece(&delivery->view, delivery->at);
    if (delivery->view.backward && piece.layer < delivery->view.end &&
        !member_wait_sums(member_in(delivery), delivery->message, piece.layer)) {
        return -1;
    }
    const size_t count = size < piece.size ? size : piece.size;
    memcpy(out, piece.data, count);
    delivery->at += count;
    return (ssize_t)count;
}

/* ---- what is pulled ---- */

static int take_header(struct delivery *delivery, const unsigned char **data, size_t *size)
{
    const size_t wanted = delivery->header_size > 0 ? delivery->header_size : 8;
    const size_t left = wanted - delivery->header_got;
    const size_t count = *size < left ? *size : left;
    memcpy(delivery->header + delivery->header_got, *data, count);
    delivery->header_got += count;
    *data += count;
    *size -= count;
    if (delivery->header_got < wanted) {
        return 0;
    }
    if (delivery->header_size > 0) {
        return body_read_header(delivery->header, delivery->header_size, &delivery->view.body,
                                &delivery->note, &delivery->err);
    }
    uint64_t bytes = 0;
    int rc = safetensors_header_bytes((const uint8_t *)delivery->header, &bytes, &delivery->err);
    if (rc == 0 && bytes > BODY_HEADER_MAX) {
        rc = err_set(&delivery->err, ERR_FORMAT, "a header of %" PRIu64 " bytes", bytes);
    }
    delivery->header_size = (size_t)bytes;
    return rc;
}

static bool header_is_whole(const struct delivery *delivery)
{
    return delivery->header_size > 0 && delivery->header_got == delivery->header_size;
}

/* Layers of which all bytes are in the arena may be used. */
static void tell_layers(struct delivery *delivery)
{
    const struct member_view *view = &delivery->view;
    const struct member_place *place = view->arena->place - view->arena->first;
    size_t end = view->first;
    while (end < view->end &&
           delivery->at >=
               (place[end].first + place[end].count - place[view->first].first) * sizeof(float)) {
        end++;
    }
    /* An evaluation needs the statistics, which come last. */
    const bool whole = delivery->at == body_bytes(&view->body);
    if (end > view->first && (whole || view->body.count[BODY_STATISTICS] == 0)) {
        member_pulled(member_in(delivery), delivery->message, end);
    }
}

static int write_answer(void *arg, const void *bytes, size_t size)
{
    struct delivery *delivery = arg;
    const unsigned char *data = bytes;
    const size_t all = body_bytes(&delivery->view.body);
    int rc = 0;
    while (rc == 0 && size > 0 && !header_is_whole(delivery)) {
        rc = take_header(delivery, &data, &size);
    }
    if (rc == 0 && size > (delivery->note.last ? 0 : all - delivery->at)) {
        rc = err_set(&delivery->err, ERR_FORMAT, "the answer continues after its tensors");
    }
    while (rc == 0 && size > 0) {
        const struct member_piece piece = member_piece(&delivery->view, delivery->at);
        const size_t count = size < piece.size ? size : piece.size;
        if (delivery->at + count > delivery->have) { /* else others may read it already */
            memcpy(piece.data, data, count);
        }
        delivery->at += count;
        data += count;
        size -= count;
    }
    if (rc == 0 && header_is_whole(delivery) && !delivery->note.last) {
        delivery->have = delivery->at > delivery->have ? delivery->at : delivery->have;
        tell_layers(delivery);
    }
    return rc;
}

/* ---- tries ---- */

static int describe(const struct delivery *delivery, const struct http_result *result,
                    enum repeat_kind kind, struct err *err)
{
    const struct carrier *carrier = delivery->carrier;
    char message[MESSAGE_SIZE];
    (void)problem_read(carrier->reply.data ? carrier->reply.data : "", carrier->reply.size,
                       message);
    return err_set(err, repeat_code(kind, result->status), "stage %zu answers %d %s",
                   delivery->message->to, result->status, message);
}

static int call_stage(struct carrier *carrier, size_t stage, const struct http_call *call,
                      struct http_result *result, struct err *err)
{
    const struct callers *callers = carrier->callers;
    const struct peer *peer = &callers->member->run->stage[stage].peer;
    const struct way_target target = {
        .device = &peer->device, .plan = &callers->plan, .relay_ticket = peer->relay_ticket};
    bool other; /* the next try follows anyway */
    return ways_call(callers->config.ways, &target, carrier->client, call, result, &other, err);
}

/* One try: the code of repeat.h. */
static int try_once(struct delivery *delivery, struct http_call *call, enum repeat_kind kind,
                    struct err *err)
{
    struct carrier *carrier = delivery->carrier;
    struct http_result result;
    const struct exchange_message *message = delivery->message;
    const bool pulls = message->kind == EXCHANGE_PARAMETERS;
    delivery->header_got = delivery->at = 0;
    if (pulls) {
        delivery->header_size = 0;
        delivery->note = (struct body_note){0};
    }
    int rc = call_stage(carrier, message->to, call, &result, err);
    if (rc != 0) {
        return delivery->err.code ? err_set(err, ERR_PROTOCOL, "%s", delivery->err.text) : rc;
    }
    /* Its step was discarded there. */
    const bool outdated = !pulls && result.status == 410;
    if (!outdated && repeat_code(kind, result.status) != 0) {
        return describe(delivery, &result, kind, err);
    }
    if (pulls && !delivery->note.last && delivery->at != body_bytes(&delivery->view.body)) {
        return err_set(err, ERR_NETWORK, "the answer of stage %zu ends early", message->to);
    }
    const double seconds = result.seconds - delivery->note.parked_seconds;
    if (!outdated && !delivery->note.last && !delivery->streams &&
        delivery->view.body.count[BODY_DATA] > 0) {
        member_add_link(carrier->callers->member, message,
                        (double)(delivery->header_size + delivery->at), seconds);
    }
    return 0;
}

/* A try has ended: note what it shows of the stage. */
static void take_try(struct carrier *carrier, size_t stage, struct repeat *repeat, int rc,
                     const struct err *why, struct repeat_next *next)
{
    const struct callers *callers = carrier->callers;
    const struct repeat_try tried = {
        .code = rc,
        .trouble = trouble_kind(rc, http_client_breakage(carrier->client)),
    };
    repeat_tried(repeat, &tried, next);
    troubles_note(callers->config.troubles, (enum trouble_source)(TROUBLE_STAGE + stage),
                  &callers->member->run->stage[stage].peer.device, next->news, tried.trouble, why);
}

static int call_until_answered(struct delivery *delivery, struct err *err)
{
    struct carrier *carrier = delivery->carrier;
    const struct callers *callers = carrier->callers;
    struct member *member = callers->member;
    const struct exchange_message *message = delivery->message;
    const struct assignment_run *run = member->run;
    const struct peer *peer = &run->stage[message->to].peer;
    const bool pulls = message->kind == EXCHANGE_PARAMETERS;
    const enum repeat_kind kind = pulls ? REPEAT_PULL : REPEAT_TENSOR;
    const struct message_path path =
        message_kind_path(peer->url, &run->job, run->generation, message);
    struct repeat repeat;
    struct repeat_next next;
    repeat_begin(&repeat, kind, callers->peer_ms);
    /* The rest of a stream follows as the backward pass goes on. */
    delivery->streams = message->kind == EXCHANGE_CONTRIBUTION && !member_has_sums(member, message);
    const int64_t stall_ms = delivery->streams && run->step_ms > callers->peer_ms
                                 ? run->step_ms
                                 : repeat_stall_ms(&repeat);
    struct http_call call = {
        .method = pulls ? "GET" : "PUT",
        .url = path.text,
        .bearer = peer->ticket,
        .tls = &callers->tls[message->to],
        .reply = &carrier->reply,
        .connect_timeout_ms = stall_ms,
        .stall_ms = stall_ms,
        .cancel = &member->cancel->flag,
    };
    if (pulls) {
        call.write = write_answer;
        call.write_arg = delivery;
    } else {
        const struct body_note note = {
            .last = message->last, .version = message->step, .mark = message->mark};
        delivery->header_size = body_write_header(&delivery->view.body, &note, delivery->header);
        call.content_type = "application/octet-stream";
        call.read = read_body;
        call.read_arg = delivery;
        call.body_size = delivery->header_size + body_bytes(&delivery->view.body);
    }
    while (member_wants(member, message)) {
        const int rc = try_once(delivery, &call, kind, err);
        take_try(carrier, message->to, &repeat, rc, err, &next);
        if (!next.again) {
            return rc;
        }
        if (cancel_wait(member->cancel, next.wait_ms * MS_NS)) {
            return err_set(err, ERR_CANCELLED, "cancelled");
        }
    }
    return err_set(err, ERR_STALE, "nobody wants it any more");
}

/* Check that the stage is reachable; any answer shows it. */
static void ask(struct carrier *carrier, size_t stage)
{
    const struct callers *callers = carrier->callers;
    struct member *member = callers->member;
    const struct assignment_run *run = member->run;
    const struct peer *peer = &run->stage[stage].peer;
    const struct message_path path = message_ping_path(peer->url, &run->job, run->generation);
    struct repeat repeat;
    struct repeat_next next;
    repeat_begin(&repeat, REPEAT_ALIVE, callers->peer_ms);
    const struct http_call call = {
        .method = "GET",
        .url = path.text,
        .bearer = peer->ticket,
        .tls = &callers->tls[stage],
        .reply = &carrier->reply,
        .connect_timeout_ms = repeat_stall_ms(&repeat),
        .stall_ms = repeat_stall_ms(&repeat),
        .cancel = &member->cancel->flag,
    };
    struct http_result result;
    struct err err = {0};
    do {
        const int rc = call_stage(carrier, stage, &call, &result, &err);
        take_try(carrier, stage, &repeat, rc, &err, &next);
    } while (next.again);
}

/* ---- the threads ---- */

#define OWN_WAIT_NS (2 * MS_NS) /* until this stage may be ready for its own message */

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
    /* A stop discards the step: a stream that waits for its sums breaks off. */
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
        if (!member_next_message(member, carrier->lane, REPEAT_IDLE_MS * MS_NS, &message)) {
            if (notices && !member_is_cancelled(member)) {
                ask(carrier, carrier->lane - MEMBER_NOTICES);
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
        http_client_free(&carrier->client);
        buf_done(&carrier->reply);
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
    buf_init(&carrier->reply, REPLY_MAX);
    int rc = http_client_new(&carrier->client, err);
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
    callers->peer_ms = config->run->peer_ms;
    int rc = 0;
    for (size_t s = 0; s < member->count; s++) {
        trust_peer(config->trust, member->run->stage[s].peer.public_key, &callers->tls[s]);
    }
    const size_t window = member->transfers ? transfers_window(member->transfers) : 0;
    for (size_t i = 0; rc == 0 && i < window; i++) {
        rc = start(callers, MEMBER_PULLS, err);
        rc = rc ? rc : start(callers, MEMBER_PUSHES, err);
    }
    for (size_t s = 0; rc == 0 && s < member->count; s++) {
        if (s != member->index && message_kind_notifies(member->run, s)) {
            rc = start(callers, MEMBER_NOTICES + s, err);
        }
    }
    *out = callers;
    return rc;
}
