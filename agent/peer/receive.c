#include "agent/peer/receive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/repeat.h"
#include "agent/peer/answers.h"
#include "agent/peer/header.h"
#include "agent/peer/message.h"
#include "base/assert.h"
#include "base/clock.h"

/* The destination of a body. */
enum receive_state {
    RECEIVE_BROKEN, /* none: the body does not match its path; see `err` */
    RECEIVE_PARKED, /* its slot is in use */
    RECEIVE_SLOT,
    RECEIVE_MARK,      /* no data */
    RECEIVE_DUPLICATE, /* none: the tensor has already arrived */
    RECEIVE_REPLACED,  /* none: a newer connection carries the same tensor */
};

struct receive {
    struct receive_pool *pool;
    struct receive *next_free;
    struct http_exchange *exchange;
    struct work *work;
    struct transfer transfer;
    struct work_expected expected;
    enum receive_state state;
    struct slot_claim claim;
    int64_t deadline_ms; /* PARKED */
    unsigned char *slot;
    struct header header;
    size_t data_got;
    size_t data_size; /* by the header */
    struct message_note note;
    const char *why; /* BROKEN: static text, or err's */
    struct err err;
};

struct receive_pool {
    struct access *access;
    struct receive item[RECEIVES_MAX];
    struct receive *first_free;
    size_t parked;
};

int receive_pool_new(struct access *access, struct receive_pool **out, struct err *err)
{
    struct receive_pool *pool = calloc(1, sizeof(*pool));
    if (!pool) {
        return err_set(err, ERR_MEMORY, "receivers");
    }
    pool->access = access;
    for (size_t i = RECEIVES_MAX; i > 0; i--) {
        pool->item[i - 1].pool = pool;
        pool->item[i - 1].next_free = pool->first_free;
        pool->first_free = &pool->item[i - 1];
    }
    *out = pool;
    return 0;
}

void receive_pool_free(struct receive_pool **pool)
{
    free(*pool);
    *pool = NULL;
}

/* ---- slots ---- */

static void set_state(struct receive *receive, enum receive_state state)
{
    receive->pool->parked -= receive->state == RECEIVE_PARKED;
    receive->pool->parked += state == RECEIVE_PARKED;
    receive->state = state;
}

/* Ask for the slot. May be repeated. */
static void offer(struct receive *receive)
{
    void *slot = NULL;
    struct work *work = receive->work;
    switch (work->row->tensors->offer(work, &receive->transfer, &receive->claim, &slot)) {
    case TRANSFER_TAKE:
        receive->slot = slot;
        set_state(receive, RECEIVE_SLOT);
        break;
    case TRANSFER_MARK: set_state(receive, RECEIVE_MARK); break;
    case TRANSFER_DUPLICATE: set_state(receive, RECEIVE_DUPLICATE); break;
    case TRANSFER_FULL: set_state(receive, RECEIVE_PARKED); break;
    case TRANSFER_REFUSE:
        set_state(receive, RECEIVE_BROKEN);
        receive->why = "the stage does not expect this tensor";
        break;
    }
}

static void abandon(struct receive *receive)
{
    struct work *work = receive->work;
    work->row->tensors->abandon(work, &receive->transfer, &receive->claim);
}

static bool holds(struct receive *receive)
{
    struct work *work = receive->work;
    return work->row->tensors->holds(work, &receive->transfer, &receive->claim);
}

static void give_back(struct receive *receive)
{
    set_state(receive, RECEIVE_BROKEN);
    work_release(&receive->work);
    receive->exchange = NULL;
    receive->next_free = receive->pool->first_free;
    receive->pool->first_free = receive;
}

/* ---- the request ---- */

static bool read_kind(struct http_exchange *exchange, enum transfer_kind *out)
{
    if (transfer_find(http_param(exchange, "kind"), out)) {
        return true;
    }
    answers_problem(exchange, 400, "invalid_parameter",
                    "expected activation, gradient, evaluation, norm, norm_total or judged");
    return false;
}

static bool read_path(struct http_exchange *exchange, struct transfer *transfer, int64_t *boundary)
{
    int64_t micro_batch = 0;
    if (!answers_number(exchange, "step", &transfer->step) ||
        !answers_number(exchange, "micro_batch", &micro_batch) ||
        !answers_number(exchange, "boundary", boundary) || !read_kind(exchange, &transfer->kind)) {
        return false;
    }
    transfer->micro_batch = (size_t)micro_batch;
    return true;
}

static bool check_size(struct http_exchange *exchange, const struct work_tensor *expected)
{
    const int64_t length = http_content_length(exchange);
    if (length < 0) {
        answers_problem(exchange, 411, "length_required", "a Content-Length is required");
        return false;
    }
    const uint64_t most = message_data_bytes(expected);
    const uint64_t least = expected->codec == CODEC_NONE ? most : 0;
    if ((uint64_t)length <= least || (uint64_t)length > most + MESSAGE_HEADER_MAX) {
        answers_problem(exchange, 422, "invalid_blob",
                        "the length of the body does not match the tensor");
        return false;
    }
    return true;
}

static bool open_receive(void *context, struct http_exchange *exchange, void **state)
{
    struct receive_pool *pool = context;
    struct transfer transfer = {0};
    int64_t boundary = 0;
    if (!read_path(exchange, &transfer, &boundary)) {
        return false;
    }
    struct work *work AUTO(work_release) = answers_work(pool->access, exchange, NULL);
    if (!work) {
        return false;
    }
    struct work_expected expected;
    if (!work->row->tensors) {
        answers_problem(exchange, 422, "unexpected", "this device takes no tensors of boundaries");
        return false;
    }
    work->row->tensors->expect(work, &transfer, &expected);
    struct receive *receive = pool->first_free;
    if ((size_t)boundary != expected.boundary || !receive) {
        answers_problem(exchange, receive ? 422 : 503, receive ? "unexpected" : "too_many",
                        receive ? "the path names a stage boundary that this device does not have"
                                : "too many transfers at once");
        return false;
    }
    pool->first_free = receive->next_free;
    receive->exchange = exchange;
    receive->work = work_retain(work);
    receive->transfer = transfer;
    receive->expected = expected;
    receive->header.size = receive->header.got = receive->data_got = receive->data_size = 0;
    receive->note = (struct message_note){0};
    receive->deadline_ms =
        clock_now_ms() + (work->park_ms > 0 ? work->park_ms : REPEAT_PARK_MS_MAX);
    offer(receive);
    if (receive->state == RECEIVE_BROKEN) {
        answers_problem(exchange, 422, "unexpected", receive->why);
        give_back(receive);
        return false;
    }
    if (!check_size(exchange, &expected.tensor)) {
        if (receive->state == RECEIVE_SLOT) {
            abandon(receive);
        }
        give_back(receive);
        return false;
    }
    *state = receive;
    return true;
}

/* ---- the body ---- */

static void spoil(struct receive *receive, const char *why)
{
    receive->why = why;
    if (receive->state == RECEIVE_SLOT) {
        abandon(receive);
    }
    set_state(receive, RECEIVE_BROKEN);
}

/* Take header bytes; returns how many. */
static size_t take_header(struct receive *receive, const char *data, size_t size)
{
    size_t taken;
    int rc = header_take(&receive->header, MESSAGE_HEADER_MAX, data, size, &taken, &receive->err);
    if (rc == 0 && header_is_whole(&receive->header)) {
        rc = message_read_header(receive->header.text, receive->header.size,
                                 &receive->expected.tensor, &receive->note, &receive->err);
        receive->claim.mark = receive->note.mark;
        receive->data_size = receive->expected.decoder
                                 ? receive->note.coded_bytes
                                 : message_data_bytes(&receive->expected.tensor);
    }
    if (rc != 0) {
        spoil(receive, receive->err.text);
    }
    return taken;
}

/* Begin to fill the decoder's buffer. A neighbour sends one tensor at a time, so it will repeat the
 * data that an older connection has put there. */
static void take_decoder(struct receive *receive)
{
    for (size_t i = 0; i < RECEIVES_MAX; i++) {
        struct receive *other = &receive->pool->item[i];
        if (other != receive && other->state == RECEIVE_SLOT &&
            other->expected.decoder == receive->expected.decoder && other->data_got > 0) {
            abandon(other);
            set_state(other, RECEIVE_REPLACED);
        }
    }
}

static size_t take_data(struct receive *receive, const char *data, size_t size)
{
    const size_t left = receive->data_size - receive->data_got;
    if (size > left) {
        spoil(receive, "the body continues after the tensor");
        return size;
    }
    if (!holds(receive)) {
        set_state(receive, RECEIVE_REPLACED);
        return size;
    }
    if (receive->expected.decoder && receive->data_got == 0) {
        take_decoder(receive);
    }
    unsigned char *to =
        receive->expected.decoder ? coder_buffer(receive->expected.decoder) : receive->slot;
    memcpy(to + receive->data_got, data, size);
    receive->data_got += size;
    return size;
}

static size_t write_receive(void *state, const void *data, size_t size)
{
    struct receive *receive = state;
    if (receive->state == RECEIVE_PARKED) {
        offer(receive);
    }
    switch (receive->state) {
    case RECEIVE_PARKED:
        if (clock_now_ms() >= receive->deadline_ms) {
            answers_problem(receive->exchange, 503, "no_room", "its slot is still in use");
        }
        return 0;
    case RECEIVE_MARK:
        if (header_is_whole(&receive->header)) {
            spoil(receive, "the body continues after the tensor");
            return size;
        }
        return take_header(receive, data, size);
    case RECEIVE_SLOT:
        return header_is_whole(&receive->header) ? take_data(receive, data, size)
                                                 : take_header(receive, data, size);
    case RECEIVE_DUPLICATE:
    case RECEIVE_REPLACED:
    case RECEIVE_BROKEN: return size;
    }
    return size;
}

/* Return why a complete body does not match its path; NULL: it matches. */
static const char *find_fault(const struct receive *receive)
{
    if (!header_is_whole(&receive->header) || receive->data_got != receive->data_size) {
        return "the tensor ends early";
    }
    return receive->note.last == (receive->state == RECEIVE_MARK)
               ? NULL
               : "the mark and the path disagree";
}

/* Fill the slot from a coded body. */
static void decode(struct receive *receive)
{
    const struct work_tensor *tensor = &receive->expected.tensor;
    if (!holds(receive)) {
        set_state(receive, RECEIVE_REPLACED);
        return;
    }
    if (coder_decode(receive->expected.decoder, receive->data_size, (float *)(void *)receive->slot,
                     tensor->samples * shape_elements(tensor->shape), &receive->err) != 0) {
        spoil(receive, receive->err.text);
    }
}

static void finish_receive(void *state)
{
    struct receive *receive = state;
    struct http_exchange *exchange = receive->exchange;
    if (receive->state == RECEIVE_SLOT || receive->state == RECEIVE_MARK) {
        const char *fault = find_fault(receive);
        if (fault) {
            spoil(receive, fault);
        }
    }
    if (receive->state == RECEIVE_SLOT && receive->expected.decoder) {
        decode(receive);
    }
    if (receive->state == RECEIVE_MARK) {
        receive->work->row->tensors->mark(receive->work, receive->transfer.step);
    } else if (receive->state == RECEIVE_SLOT &&
               !receive->work->row->tensors->received(receive->work, &receive->transfer,
                                                      &receive->claim)) {
        set_state(receive, RECEIVE_REPLACED);
    }
    if (receive->state == RECEIVE_BROKEN) {
        answers_problem(exchange, 422, "invalid_blob", receive->why);
    } else if (receive->state == RECEIVE_REPLACED || receive->state == RECEIVE_PARKED) {
        answers_problem(exchange, 503, "no_room", "a newer connection sends the same tensor");
    } else {
        http_reply(exchange, 204, NULL, NULL, 0);
    }
    give_back(receive);
}

static void abort_receive(void *state)
{
    struct receive *receive = state;
    spoil(receive, "the connection broke");
    give_back(receive);
}

const struct http_sink receive_sink = {
    .open = open_receive, .write = write_receive, .finish = finish_receive, .abort = abort_receive};

/* ---- waiting ---- */

void receive_retry(struct receive_pool *pool)
{
    for (size_t i = 0; pool->parked > 0 && i < RECEIVES_MAX; i++) {
        if (pool->item[i].state == RECEIVE_PARKED) {
            http_exchange_continue(pool->item[i].exchange);
        }
    }
}

int receive_timeout_ms(const struct receive_pool *pool)
{
    if (pool->parked == 0) {
        return -1;
    }
    int64_t first_ms = INT64_MAX;
    for (size_t i = 0; i < RECEIVES_MAX; i++) {
        const struct receive *receive = &pool->item[i];
        if (receive->state == RECEIVE_PARKED && receive->deadline_ms < first_ms) {
            first_ms = receive->deadline_ms;
        }
    }
    const int64_t left_ms = first_ms - clock_now_ms();
    return left_ms < 0 ? 0 : left_ms > REPEAT_PARK_MS_MAX ? REPEAT_PARK_MS_MAX : (int)left_ms;
}
