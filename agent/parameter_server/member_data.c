/* The memory of the data of messages on a device. */
#include <math.h>
#include <string.h>

#include "agent/parameter_server/member_parts.h"

static size_t statistics_of(const struct member_view *view)
{
    size_t floats = 0;
    for (size_t l = view->first; l < view->end; l++) {
        floats += view->arena->place[l - view->arena->first].statistics_count;
    }
    return floats;
}

static void set_layers(struct member_view *view, const struct member_arena *arena, float *data,
                       const struct exchange_message *message)
{
    view->first = message->first;
    view->end = message->end;
    if (message->first < message->end) {
        const struct member_place *first = &arena->place[message->first - arena->first];
        const struct member_place *last = &arena->place[message->end - 1 - arena->first];
        view->arena = arena;
        view->data = data;
        view->body.count[BODY_DATA] = last->first + last->count - first->first;
    }
}

static void view_contribution(struct member *member, const struct exchange_message *message,
                              bool outgoing, struct member_view *view)
{
    const struct reduce_range block = member->block[message->block].range;
    float *sum =
        outgoing ? (float *)(uintptr_t)member->pushed[message->block] : member->sum[message->block];
    set_layers(view, outgoing ? &member->whole : &member->kept, sum, message);
    view->backward = true;
    view->micro_batches = block;
    view->body.count[BODY_STATISTICS] =
        view->arena ? (block.end - block.first) * statistics_of(view) : 0;
    if (message->done) {
        /* `done` comes with the last block of the sender's share. */
        size_t first = message->block;
        while (first > 0 && member->block[first - 1].stage == message->from) {
            first--;
        }
        const size_t share = member->block[first].range.first;
        view->numbers = outgoing ? member->own_losses : member->losses + share;
        view->body.count[BODY_NUMBERS] = block.end - share;
    }
}

struct member_view member_view(struct member *member, const struct exchange_message *message,
                               bool outgoing)
{
    struct member_view view = {0};
    const struct member_arena *arena = outgoing ? &member->kept : &member->whole;
    switch (message->kind) {
    case EXCHANGE_CONTRIBUTION: view_contribution(member, message, outgoing, &view); break;
    case EXCHANGE_PARAMETERS:
        set_layers(&view, arena, arena->parameters, message);
        view.running = true;
        view.body.count[BODY_STATISTICS] = message->statistics ? statistics_of(&view) : 0;
        break;
    case EXCHANGE_RESULT:
        view.numbers = outgoing ? member->own_results + message->buffer * member->numbers
                                : member->results + message->micro_batch * member->numbers;
        view.body.count[BODY_NUMBERS] = member->numbers;
        break;
    case EXCHANGE_NORM:
        view.numbers = outgoing ? &member->norm_out : &member->norm_in;
        view.body.count[BODY_NUMBERS] = 1;
        break;
    case EXCHANGE_NORM_TOTAL:
        view.numbers = outgoing ? &member->total_out : &member->total_in;
        view.body.count[BODY_NUMBERS] = 1;
        break;
    case EXCHANGE_COMMIT: break;
    }
    return view;
}

static struct member_piece data_piece(const struct member_view *view, size_t offset)
{
    const struct member_place *place = view->arena->place - view->arena->first;
    struct member_piece piece = {.layer = view->end};
    if (!view->backward) {
        const size_t bytes = view->body.count[BODY_DATA] * sizeof(float);
        piece.data = (char *)(view->data + place[view->first].first) + offset;
        piece.size = bytes - offset;
        return piece;
    }
    size_t layer = view->end - 1;
    while (offset >= place[layer].count * sizeof(float)) {
        offset -= place[layer].count * sizeof(float);
        layer--;
    }
    piece.layer = layer;
    piece.data = (char *)(view->data + place[layer].first) + offset;
    piece.size = place[layer].count * sizeof(float) - offset;
    return piece;
}

static struct member_piece statistics_piece(const struct member_view *view, size_t offset)
{
    const struct member_place *place = view->arena->place - view->arena->first;
    struct train_stage *train = view->arena->train;
    float *base;
    if (view->running) {
        base = train_running(train);
    } else {
        const size_t each = statistics_of(view) * sizeof(float);
        base = train_statistics(train, view->micro_batches.first + offset / each);
        offset %= each;
    }
    size_t layer = view->first;
    while (offset >= place[layer].statistics_count * sizeof(float)) {
        offset -= place[layer].statistics_count * sizeof(float);
        layer++;
    }
    return (struct member_piece){.layer = view->end,
                                 .data = (char *)(base + place[layer].statistics_first) + offset,
                                 .size = place[layer].statistics_count * sizeof(float) - offset};
}

struct member_piece member_piece(const struct member_view *view, size_t offset)
{
    const size_t numbers = view->body.count[BODY_NUMBERS] * sizeof(double);
    const size_t data = view->body.count[BODY_DATA] * sizeof(float);
    if (offset < numbers) {
        return (struct member_piece){
            .layer = view->end, .data = (char *)view->numbers + offset, .size = numbers - offset};
    }
    offset -= numbers;
    return offset < data ? data_piece(view, offset) : statistics_piece(view, offset - data);
}

bool member_is_finite(const struct member_view *view)
{
    const size_t bytes = body_bytes(&view->body);
    bool finite = true;
    for (size_t i = 0; i < view->body.count[BODY_NUMBERS]; i++) {
        finite = finite && isfinite(view->numbers[i]);
    }
    for (size_t at = bytes - view->body.count[BODY_STATISTICS] * sizeof(float); at < bytes;) {
        const struct member_piece piece = member_piece(view, at);
        const float *value = piece.data;
        for (size_t i = 0; i < piece.size / sizeof(*value); i++) {
            finite = finite && isfinite(value[i]);
        }
        at += piece.size;
    }
    return finite;
}

void member_copy(const struct member_view *from, const struct member_view *to)
{
    const size_t bytes = body_bytes(&to->body);
    for (size_t at = 0; at < bytes;) {
        const struct member_piece source = member_piece(from, at);
        const struct member_piece target = member_piece(to, at);
        const size_t count = source.size < target.size ? source.size : target.size;
        memcpy(target.data, source.data, count);
        at += count;
    }
}
