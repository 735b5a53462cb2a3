#include "tests/unit/agent_core/exchange_net.h"

#include <string.h>

#define NO_DEVICE SIZE_MAX

uint64_t net_draw(struct exchange_net *net, uint64_t bound)
{
    return rng_below(&net->random, net->draws++, bound);
}

static bool is_server(const struct exchange_net *net, size_t index)
{
    return index < net->config.servers;
}

/* ---- the plan ---- */

/* Servers come first; a server may keep no layers, and have no share. */
static void draw_plan(struct exchange_net *net)
{
    const struct reference *job = net->job;
    struct exchange_config *config = &net->config;
    config->count = 1 + (size_t)net_draw(net, NET_DEVICES);
    config->servers = 1 + (size_t)net_draw(net, config->count < 3 ? config->count : 3);
    size_t end = 0;
    for (size_t i = 0; i + 1 < config->servers; i++) {
        end += (size_t)net_draw(net, job->layers - end + 1);
        config->layer_end[i] = end;
    }
    config->layer_end[config->servers - 1] = job->layers;
    size_t worker[NET_DEVICES], workers = 0;
    for (size_t i = 0; i < config->count; i++) {
        if (i >= config->servers || net_draw(net, 2) == 0) {
            worker[workers++] = i;
        }
    }
    workers += workers == 0 ? (worker[0] = 0, 1) : 0;
    size_t first = 0;
    for (size_t left = workers; left > 0; left--) {
        const size_t at = (size_t)net_draw(net, left);
        const size_t most = job->micro_batches - first - (left - 1);
        const size_t count = left == 1 ? most : 1 + (size_t)net_draw(net, most);
        net->share[worker[at]] = (struct reduce_range){first, first + count};
        struct reduce_range block[REDUCE_BLOCKS_MAX];
        const size_t blocks = reduce_blocks(job->micro_batches, net->share[worker[at]], block);
        for (size_t i = 0; i < blocks; i++) {
            net->block[config->blocks++] = (struct exchange_block){worker[at], block[i]};
        }
        first += count;
        worker[at] = worker[left - 1];
    }
    config->block = net->block;
    config->micro_batches = job->micro_batches;
}

void net_start(struct exchange_net *net, const struct reference *job, uint64_t seed,
               int64_t version, const struct early_stop *judged)
{
    memset(net, 0, sizeof(*net));
    net->job = job;
    net->random = rng_stream(seed, RNG_SIMULATION, 0, 0);
    net->lost = NO_DEVICE;
    net->config = (struct exchange_config){
        .resume_version = version,
        .total_steps = job->steps,
        .evaluate_every = job->evaluate_every,
        .evaluation_batches = job->tests,
        .clips_norm = job->clips,
        .judges = job->judges,
        .stop = job->stop,
        .judged = *judged,
        .round_every = {[REPLICA_NEIGHBOR] = 1 + (int64_t)net_draw(net, 2), [REPLICA_CENTER] = 3},
    };
    draw_plan(net);
    for (size_t i = 0; i < net->config.count; i++) {
        struct net_device *device = &net->device[i];
        struct err err = {0};
        net->config.index = i;
        assert_ok(exchange_new(&net->config, &device->exchange, &err), &err);
        device->alive = true;
        device->orders.run = net_draw(net, 2) == 0;
        exchange_follow(device->exchange, &device->orders);
        for (size_t k = 0; k < job->layers; k++) {
            const bool keeps = is_server(net, i) && k < net->config.layer_end[i] &&
                               (i == 0 || k >= net->config.layer_end[i - 1]);
            device->parameter_version[k] = device->statistic_version[k] = keeps ? version : -1;
            device->arena.parameter[k] = keeps ? job->state[version].parameter[k] : 0;
            device->arena.statistic[k] = keeps ? job->state[version].statistic[k] : 0;
        }
    }
}

void net_end(struct exchange_net *net)
{
    for (size_t i = 0; i < net->config.count; i++) {
        exchange_free(&net->device[i].exchange);
    }
}

/* ---- a device ---- */

/* Answers to parked requests. */
static void answer_parked(struct exchange_net *net, struct net_device *device)
{
    struct exchange_answer found;
    while (exchange_next_answer(device->exchange, &found)) {
        assert_true(found.handle > 0 && found.handle <= net->handles);
        assert_false(net->forgotten[found.handle]);
        net->answers[found.handle]++;
        assert_int_equal(net->answers[found.handle], 1);
        for (size_t i = 0; i < NET_REQUESTS; i++) {
            struct request *request = &net->request[i];
            if (request->state == REQUEST_PARKED && request->handle == found.handle) {
                if (found.verdict == EXCHANGE_SERVE) {
                    request->state = REQUEST_BODY;
                } else {
                    net_answer(net, request, found.verdict);
                }
            }
        }
    }
}

static void hand_out(struct exchange_net *net, struct net_device *device)
{
    struct exchange_message message;
    while (net_draw(net, 4) > 0 && exchange_next_message(device->exchange, &message)) {
        size_t i = 0;
        while (device->outgoing[i].used) {
            i++;
            assert_true(i < NET_OUTGOING);
        }
        device->outgoing[i] = (struct outgoing_message){.used = true, .message = message};
    }
}

static void move_outgoing(struct exchange_net *net, struct net_device *device)
{
    for (size_t i = 0; i < NET_OUTGOING; i++) {
        struct outgoing_message *outgoing = &device->outgoing[i];
        if (!outgoing->used) {
            continue;
        }
        if (!exchange_wants(device->exchange, &outgoing->message)) {
            if (outgoing->request) {
                net_leave(net, outgoing->request);
            }
            outgoing->used = false;
        } else if (!outgoing->request && net_draw(net, 2) == 0) {
            outgoing->request = net_request(net, &outgoing->message);
            outgoing->request->wanted = true;
        }
    }
}

static void draw_orders(struct exchange_net *net, struct net_device *device, bool stop)
{
    device->orders.run = device->orders.run || net_draw(net, 4) == 0;
    device->orders.stop = device->orders.stop || (stop && net_draw(net, 10) == 0);
    if (net_draw(net, 30) == 0) {
        device->orders.held = !device->orders.held && net_draw(net, 3) == 0;
        device->orders.away = net_draw(net, 3) == 0;
    }
    exchange_follow(device->exchange, &device->orders);
}

static void answer_rounds(struct exchange_net *net)
{
    struct heartbeat beat = {0};
    exchange_report(net->device[0].exchange, &beat);
    struct round round[REPLICA_KINDS] = {{.version = beat.round_neighbor},
                                         {.version = beat.round_center}};
    for (int kind = 0; kind < REPLICA_KINDS; kind++) {
        round[kind].state = net_draw(net, 2) == 0 ? ROUND_COMMITTED : ROUND_ABANDONED;
    }
    exchange_take_rounds(net->device[0].exchange, round);
}

/* ---- all of it ---- */

static void check_versions(const struct exchange_net *net)
{
    int64_t least = INT64_MAX, most = -1;
    for (size_t i = 0; i < net->config.servers; i++) {
        const int64_t version = exchange_version(net->device[i].exchange);
        least = version < least ? version : least;
        most = version > most ? version : most;
    }
    assert_true(most - least <= 1);
}

static void lose_worker(struct exchange_net *net)
{
    const struct exchange_config *config = &net->config;
    if (net->lost == NO_DEVICE && config->count > config->servers) {
        net->lost = config->servers + (size_t)net_draw(net, config->count - config->servers);
        net->device[net->lost].alive = false;
    }
}

static bool have_stopped(const struct exchange_net *net)
{
    for (size_t i = 0; i < net->config.count; i++) {
        if (net->device[i].alive && !net->device[i].stopped) {
            return false;
        }
    }
    return true;
}

static void check_stop(const struct exchange_net *net)
{
    const int64_t version = exchange_version(net->device[0].exchange);
    for (size_t i = 0; i < net->config.count; i++) {
        if (net->device[i].alive) {
            assert_int_equal(exchange_version(net->device[i].exchange), version);
        }
        if (is_server(net, i)) {
            assert_memory_equal(net->device[i].snapshot, net->device[0].snapshot,
                                sizeof(net->device[0].snapshot));
        }
    }
    for (uint64_t handle = 1; handle <= net->handles; handle++) {
        assert_int_equal(net->answers[handle], net->forgotten[handle] ? 0 : 1);
    }
}

/* The newest version of which each server has a snapshot. */
static int64_t newest_snapshot(const struct exchange_net *net)
{
    for (int64_t version = net->job->steps; version > net->config.resume_version; version--) {
        size_t kept = 0;
        for (size_t i = 0; i < net->config.servers; i++) {
            kept += net->device[i].snapshot[version] != 0;
        }
        if (kept == net->config.servers) {
            return version;
        }
    }
    return net->config.resume_version;
}

/* Once in a while a computation or a request takes long. */
static bool is_slow(struct exchange_net *net, uint64_t *pause)
{
    if (*pause == 0 && net_draw(net, 100) == 0) {
        *pause = net_draw(net, 200);
    }
    *pause -= *pause > 0;
    return *pause > 0;
}

static void play_turn(struct exchange_net *net, bool stop)
{
    for (size_t i = 0; i < net->config.count; i++) {
        struct net_device *device = &net->device[i];
        if (!device->alive) {
            continue;
        }
        if (net_draw(net, 8) == 0) {
            draw_orders(net, device, stop);
        }
        if (!is_slow(net, &device->pause)) {
            net_work(net, device);
        }
        answer_parked(net, device);
        hand_out(net, device);
        move_outgoing(net, device);
    }
    for (size_t i = 0; i < NET_REQUESTS; i++) {
        struct request *request = &net->request[i];
        if (request->state != REQUEST_NONE && !is_slow(net, &request->pause) &&
            net_draw(net, 3) > 0) {
            net_move(net, request);
            answer_parked(net, &net->device[request->message.to]);
        }
    }
    if (net_draw(net, 20) == 0) {
        answer_rounds(net);
    }
    check_versions(net);
}

/* A worker that was lost during the evaluation at the end of the job: the coordinator's deadline
 * for the stop passes. */
static bool cannot_end(const struct exchange_net *net)
{
    for (size_t i = 0; i < net->config.servers; i++) {
        if (net->lost == NO_DEVICE || net->job->tests == 0 ||
            exchange_version(net->device[i].exchange) < net->job->steps) {
            return false;
        }
    }
    return true;
}

int64_t net_play(struct exchange_net *net, const struct net_course *course,
                 struct early_stop *judged)
{
    for (uint64_t turn = 0; !net->failed && !have_stopped(net); turn++) {
        assert_true(turn < 200000);
        if (turn == course->lose_turn) {
            lose_worker(net);
        }
        play_turn(net, turn >= course->stop_turn || net->lost != NO_DEVICE);
        net->failed = turn == course->crash_turn || (turn > 5000 && cannot_end(net));
    }
    struct heartbeat beat = {0};
    exchange_report(net->device[0].exchange, &beat);
    *judged = beat.has_early_stop ? beat.early_stop : *judged;
    if (!net->failed) {
        check_stop(net);
    } else if (!cannot_end(net)) {
        return newest_snapshot(net);
    }
    return exchange_version(net->device[0].exchange);
}
