#include "tests/unit/agent_core/exchange_net.h"

/* ---- a request ---- */

struct request *net_request(struct exchange_net *net, const struct exchange_message *message)
{
    for (size_t i = 0; i < NET_REQUESTS; i++) {
        if (net->request[i].state == REQUEST_NONE) {
            net->request[i] = (struct request){.state = REQUEST_QUEUED, .message = *message};
            return &net->request[i];
        }
    }
    assert_true(false);
    return NULL;
}

static struct outgoing_message *outgoing_of(struct exchange_net *net, const struct request *request)
{
    struct net_device *from = &net->device[request->message.from];
    for (size_t i = 0; i < NET_OUTGOING; i++) {
        if (from->outgoing[i].used && from->outgoing[i].request == request) {
            return &from->outgoing[i];
        }
    }
    return NULL;
}

/* Its sender no longer listens. */
void net_leave(struct exchange_net *net, struct request *request)
{
    if (request->wanted) {
        outgoing_of(net, request)->request = NULL;
        request->wanted = false;
    }
}

/* It is lost, or over. */
static void drop(struct exchange_net *net, struct request *request)
{
    net_leave(net, request);
    request->state = REQUEST_NONE;
}

void net_answer(struct exchange_net *net, struct request *request, enum exchange_verdict verdict)
{
    assert_int_not_equal(verdict, EXCHANGE_REFUSE);
    request->verdict = verdict;
    request->last = exchange_last(net->device[request->message.to].exchange);
    request->state = REQUEST_ANSWERED;
    if (request->late && request->message.kind != EXCHANGE_PARAMETERS) {
        assert_true(verdict == EXCHANGE_STORED || verdict == EXCHANGE_OUTDATED);
    }
    if (!request->wanted) {
        drop(net, request);
    }
}

/* ---- its data ---- */

/* The sender's data of a layer of a contribution. */
static void read_layer(struct exchange_net *net, struct request *request, size_t layer)
{
    const struct net_device *from = &net->device[request->message.from];
    const struct reduce_range block = net->block[request->message.block].range;
    if (request->late) {
        return;
    }
    request->data[layer] = from->sum[request->message.block][layer];
    for (size_t m = block.first; m < block.end; m++) {
        request->statistic[m][layer] = from->pass[m].statistic[layer];
    }
}

static void write_layer(struct exchange_net *net, const struct request *request, size_t layer)
{
    const struct exchange_message *message = &request->message;
    struct net_device *to = &net->device[message->to];
    const struct reduce_range block = net->block[message->block].range;
    int64_t *step = &to->block_step[message->block][layer];
    assert_true(*step == 0 || *step == message->step);
    *step = message->step;
    to->block[message->block][layer] = request->data[layer];
    for (size_t m = block.first; m < block.end; m++) {
        to->statistic[m][layer] = request->statistic[m][layer];
    }
}

/* Once more of a contribution, from its top; true: all of it has arrived. */
static bool move_contribution(struct exchange_net *net, struct request *request)
{
    const struct exchange_message *message = &request->message;
    const struct net_device *from = &net->device[message->from];
    const size_t sendable =
        request->late ? message->first : exchange_sendable(from->exchange, message);
    if (request->layer > sendable) {
        request->layer--;
        read_layer(net, request, request->layer);
        write_layer(net, request, request->layer);
    }
    if (request->layer > message->first) {
        return false;
    }
    struct net_device *lead = &net->device[0];
    const struct reduce_range share = net->share[message->from];
    for (size_t m = share.first; message->done && m < share.end; m++) {
        lead->loss[m] = from->pass[m].loss;
    }
    return true;
}

static void move_number(struct exchange_net *net, const struct request *request)
{
    const struct exchange_message *message = &request->message;
    const struct net_device *from = &net->device[message->from];
    struct net_device *to = &net->device[message->to];
    if (message->kind == EXCHANGE_RESULT) {
        to->tested[message->micro_batch] = from->result[message->buffer];
    } else if (message->kind == EXCHANGE_NORM) {
        to->norm_in = from->norm_out;
    } else {
        to->total_in = from->total_out;
    }
}

/* One more layer of parameters; true: that was the last one. */
static bool move_parameters(struct exchange_net *net, struct request *request)
{
    const struct exchange_message *message = &request->message;
    const struct net_device *server = &net->device[message->to];
    struct net_device *worker = &net->device[message->from];
    const size_t layer = request->layer++;
    const struct reference_state *expected = &net->job->state[message->step];
    assert_int_equal(server->arena.parameter[layer], expected->parameter[layer]);
    assert_int_equal(server->arena.statistic[layer], expected->statistic[layer]);
    if (!request->wanted) {
        return request->layer == message->end;
    }
    if (server != worker) {
        worker->arena.parameter[layer] = server->arena.parameter[layer];
        worker->parameter_version[layer] = message->step;
        if (message->statistics) {
            worker->arena.statistic[layer] = server->arena.statistic[layer];
            worker->statistic_version[layer] = message->step;
        }
    }
    if (request->layer < message->end && net_draw(net, 2) == 0) {
        exchange_pulled(worker->exchange, message, request->layer);
    }
    return request->layer == message->end;
}

/* ---- a request's way ---- */

static void arrive_pull(struct exchange_net *net, struct request *request)
{
    struct exchange *server = net->device[request->message.to].exchange;
    assert_true(net->handles + 1 < NET_HANDLES);
    request->handle = ++net->handles;
    request->layer = request->message.first;
    const enum exchange_verdict verdict = exchange_pull(server, &request->message, request->handle);
    if (verdict == EXCHANGE_PARK) {
        request->state = REQUEST_PARKED;
        return;
    }
    net->forgotten[request->handle] = true; /* it never was parked */
    if (verdict == EXCHANGE_SERVE) {
        request->state = REQUEST_BODY;
    } else {
        net_answer(net, request, verdict);
    }
}

static void arrive(struct exchange_net *net, struct request *request)
{
    struct exchange *to = net->device[request->message.to].exchange;
    if (request->message.kind == EXCHANGE_PARAMETERS) {
        arrive_pull(net, request);
        return;
    }
    if (request->message.kind == EXCHANGE_COMMIT) {
        net_answer(net, request, exchange_commit(to, &request->message));
        return;
    }
    const enum exchange_verdict verdict = exchange_offer(to, &request->message, &request->claim);
    if (verdict != EXCHANGE_TAKE) {
        net_answer(net, request, verdict);
        return;
    }
    assert_false(request->late);
    request->state = REQUEST_BODY;
    request->layer = request->message.end;
}

static void go_on_serving(struct exchange_net *net, struct request *request)
{
    const struct exchange *server = net->device[request->message.to].exchange;
    const bool serves = exchange_serves(server, &request->message);
    assert_true(serves || !request->wanted);
    if (!serves || net_draw(net, 20) == 0) {
        drop(net, request);
    } else if (move_parameters(net, request)) {
        net_answer(net, request, EXCHANGE_SERVE);
    }
}

static void go_on_sending(struct exchange_net *net, struct request *request)
{
    const struct exchange_message *message = &request->message;
    struct exchange *to = net->device[message->to].exchange;
    if (!exchange_holds(to, message, &request->claim)) {
        drop(net, request);
        return;
    }
    if (net_draw(net, 20) == 0) {
        if (net_draw(net, 2) == 0) {
            exchange_abandon(to, message, &request->claim);
            drop(net, request);
        } else {
            net_leave(net, request); /* the connection lives on, its sender begins another one */
        }
        return;
    }
    bool whole = true;
    if (message->kind == EXCHANGE_CONTRIBUTION) {
        whole = move_contribution(net, request);
    } else {
        move_number(net, request);
    }
    if (whole) {
        net_answer(net, request, exchange_received(to, message, &request->claim));
    }
}

/* Deliver it once more some time later, after all. */
static void keep_late(struct exchange_net *net, const struct request *request)
{
    size_t used = 0;
    for (size_t i = 0; i < NET_REQUESTS; i++) {
        used += net->request[i].state != REQUEST_NONE;
    }
    if (used < NET_REQUESTS / 2) {
        struct request *late = net_request(net, &request->message);
        *late = *request;
        late->state = REQUEST_QUEUED;
        late->wanted = false;
        late->late = true;
    }
}

/* The sender has its answer. */
static void hear(struct exchange_net *net, struct request *request)
{
    const struct exchange_message *message = &request->message;
    struct outgoing_message *outgoing = outgoing_of(net, request);
    struct exchange *from = net->device[message->from].exchange;
    const bool again =
        request->verdict == EXCHANGE_NOT_YET ||
        (message->kind == EXCHANGE_PARAMETERS && request->verdict == EXCHANGE_OUTDATED);
    if (again) {
        drop(net, request);
        return;
    }
    if (message->kind == EXCHANGE_PARAMETERS && request->verdict == EXCHANGE_LAST) {
        assert_true(exchange_ended(from, message, request->last));
    } else if (message->kind == EXCHANGE_PARAMETERS) {
        exchange_pulled(from, message, message->end);
    } else {
        exchange_sent(from, message);
    }
    outgoing->used = false;
    outgoing->request = NULL;
    request->wanted = false;
    if (net_draw(net, 4) == 0) {
        keep_late(net, request);
    }
    drop(net, request);
}

void net_move(struct exchange_net *net, struct request *request)
{
    const struct exchange_message *message = &request->message;
    const bool reaches = net->device[message->to].alive && net->device[message->from].alive;
    if (!reaches) {
        drop(net, request);
        return;
    }
    switch (request->state) {
    case REQUEST_NONE: break;
    case REQUEST_QUEUED:
        if (!request->late && net_draw(net, 8) == 0) {
            drop(net, request);
        } else if (!request->late || net_draw(net, 40) == 0) {
            arrive(net, request);
        }
        break;
    case REQUEST_BODY:
        if (message->kind == EXCHANGE_PARAMETERS) {
            go_on_serving(net, request);
        } else {
            go_on_sending(net, request);
        }
        break;
    case REQUEST_PARKED:
        if (net_draw(net, 60) == 0) {
            net_leave(net, request); /* a timeout at the sender, which asks again */
        } else if (net_draw(net, 60) == 0) {
            exchange_forget(net->device[message->to].exchange, request->handle);
            net->forgotten[request->handle] = true;
            drop(net, request);
        }
        break;
    case REQUEST_ANSWERED:
        if (!request->wanted || net_draw(net, 8) == 0) {
            drop(net, request);
        } else {
            hear(net, request);
        }
        break;
    }
}
