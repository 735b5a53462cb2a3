#include "tests/unit/agent_core/exchange_net.h"

static size_t index_of(const struct exchange_net *net, const struct net_device *device)
{
    return (size_t)(device - net->device);
}

static size_t first_layer(const struct exchange_net *net, size_t index)
{
    return index == 0 ? 0 : net->config.layer_end[index - 1];
}

/* ---- segments ---- */

/* Any segments of the layers that span no two servers. */
static size_t draw_segments(struct exchange_net *net, size_t *end)
{
    size_t count = 0;
    for (size_t i = 1; i <= net->job->layers; i++) {
        bool cut = net_draw(net, 2) == 0;
        for (size_t k = 0; k < net->config.servers; k++) {
            cut = cut || net->config.layer_end[k] == i;
        }
        if (cut) {
            end[count++] = i;
        }
    }
    return count;
}

static void choose_segments(struct exchange_net *net, struct net_device *device)
{
    size_t pull[REFERENCE_LAYERS], push[REDUCE_BLOCKS_MAX][REFERENCE_LAYERS];
    struct exchange_segments segments = {
        .pull = {pull, draw_segments(net, pull)},
        .window = 1 + (size_t)net_draw(net, 3),
        .streams = net_draw(net, 3) == 0,
    };
    for (size_t b = 0; b < REDUCE_BLOCKS_MAX; b++) {
        segments.push[b] = (struct exchange_requests){push[b], draw_segments(net, push[b])};
    }
    struct err err = {0};
    assert_ok(exchange_begin(device->exchange, &segments, &err), &err);
}

/* ---- the worker ---- */

static void assert_version(const struct net_device *device, int64_t version, size_t end)
{
    for (size_t i = 0; i < end; i++) {
        assert_int_equal(device->parameter_version[i], version);
        if (device->task.work == EXCHANGE_EVALUATE) {
            assert_int_equal(device->statistic_version[i], version);
        }
    }
}

/* One more layer; true: that was the last one. */
static bool go_backward(struct exchange_net *net, struct net_device *device)
{
    const struct exchange_task *task = &device->task;
    const struct reduce_range block = net->block[task->block].range;
    if (device->layer == net->job->layers) {
        reference_backward(&device->arena, net->job->layers, task->micro_batch,
                           &device->pass[task->micro_batch]);
    }
    device->layer--;
    if (task->block_ends) {
        device->sum[task->block][device->layer] =
            reference_tree(device->pass, device->layer, block);
        if (net_draw(net, 3) > 0) {
            exchange_summed(device->exchange, device->layer);
        }
    }
    return device->layer == 0;
}

/* ---- the server ---- */

static void assert_step(const struct exchange_net *net, const struct net_device *device,
                        size_t block, int64_t step)
{
    const size_t index = index_of(net, device);
    for (size_t i = first_layer(net, index); i < net->config.layer_end[index]; i++) {
        assert_int_equal(device->block_step[block][i], step);
    }
}

static void add(struct exchange_net *net, struct net_device *device)
{
    const struct exchange_task *task = &device->task;
    const size_t index = index_of(net, device);
    assert_step(net, device, task->block, task->step);
    assert_step(net, device, task->right, task->step);
    for (size_t i = first_layer(net, index); i < net->config.layer_end[index]; i++) {
        device->block[task->block][i] =
            reference_mix(device->block[task->block][i], device->block[task->right][i]);
    }
}

static void add_squares(struct exchange_net *net, struct net_device *device)
{
    const size_t index = index_of(net, device);
    uint64_t norm = index + 1 == net->config.servers ? 0 : device->norm_in;
    for (size_t i = net->config.layer_end[index]; i-- > first_layer(net, index);) {
        norm = reference_norm(norm, device->block[0][i]);
    }
    device->norm_out = norm;
    if (index == 0) {
        device->total_in = device->total_out = norm;
    }
}

/* Whoever reads parameters while they are updated sees nonsense. */
static void begin_update(const struct exchange_net *net, struct net_device *device)
{
    const size_t index = index_of(net, device);
    device->before = device->arena;
    for (size_t i = first_layer(net, index); i < net->config.layer_end[index]; i++) {
        device->arena.parameter[i] = device->arena.statistic[i] = 0;
    }
}

/* The step is that of the reference, on every server: every block is in it, in the right order. */
static void update(struct exchange_net *net, struct net_device *device)
{
    const struct reference *job = net->job;
    const struct exchange_task *task = &device->task;
    const size_t index = index_of(net, device);
    assert_step(net, device, 0,
                net->config.layer_end[index] > first_layer(net, index) ? task->step : 0);
    for (size_t i = first_layer(net, index); i < net->config.layer_end[index]; i++) {
        device->arena.parameter[i] = reference_update(
            device->before.parameter[i], device->block[0][i], job->clips, device->total_in);
        device->arena.statistic[i] = device->before.statistic[i];
        for (size_t m = 0; m < job->micro_batches; m++) {
            device->arena.statistic[i] =
                reference_mix(device->arena.statistic[i], device->statistic[m][i]);
        }
        device->parameter_version[i] = device->statistic_version[i] = task->step;
        assert_int_equal(device->arena.parameter[i], job->state[task->step].parameter[i]);
        assert_int_equal(device->arena.statistic[i], job->state[task->step].statistic[i]);
        for (size_t b = 0; b < net->config.blocks; b++) {
            device->block_step[b][i] = 0;
        }
    }
    device->snapshot[task->step] = task->mark.kinds;
    if (index == 0) {
        struct heartbeat beat = {0};
        exchange_report(device->exchange, &beat);
        assert_true(beat.round_neighbor != task->step ||
                    (task->mark.kinds & REPLICA_MARK(REPLICA_NEIGHBOR)) != 0);
        uint64_t loss = 0;
        for (size_t m = 0; m < job->micro_batches; m++) {
            loss = reference_mix(loss, device->loss[m]);
        }
        assert_int_equal(loss, job->loss[task->step]);
    }
}

static void add_results(struct exchange_net *net, struct net_device *device)
{
    uint64_t tested = 0;
    for (size_t i = 0; i < net->job->tests; i++) {
        tested = reference_mix(tested, device->tested[i]);
    }
    assert_int_equal(tested, net->job->tested[device->task.step]);
    device->task.value = reference_metric(tested);
}

/* ---- tasks ---- */

static void begin(struct exchange_net *net, struct net_device *device)
{
    const struct exchange_task *task = &device->task;
    switch (task->work) {
    case EXCHANGE_FORWARD: assert_version(device, task->step - 1, task->end); break;
    case EXCHANGE_BACKWARD:
        assert_version(device, task->step - 1, net->job->layers);
        device->layer = net->job->layers;
        break;
    case EXCHANGE_EVALUATE: assert_version(device, task->step, net->job->layers); break;
    case EXCHANGE_UPDATE: begin_update(net, device); break;
    case EXCHANGE_WAIT:
    case EXCHANGE_BEGIN:
    case EXCHANGE_ADD:
    case EXCHANGE_SUM:
    case EXCHANGE_TOTAL:
    case EXCHANGE_JUDGE:
    case EXCHANGE_STOP: break;
    }
}

/* false: there is more of it. */
static bool finish(struct exchange_net *net, struct net_device *device)
{
    const struct exchange_task *task = &device->task;
    switch (task->work) {
    case EXCHANGE_WAIT: break;
    case EXCHANGE_BEGIN: choose_segments(net, device); break;
    case EXCHANGE_FORWARD:
        assert_version(device, task->step - 1, task->end);
        reference_forward(&device->arena, task->step, task->micro_batch, task->first, task->end,
                          &device->pass[task->micro_batch]);
        break;
    case EXCHANGE_BACKWARD:
        assert_version(device, task->step - 1, net->job->layers);
        return go_backward(net, device);
    case EXCHANGE_EVALUATE:
        assert_version(device, task->step, net->job->layers);
        device->result[task->buffer] =
            reference_test(&device->arena, net->job->layers, task->micro_batch);
        break;
    case EXCHANGE_ADD: add(net, device); break;
    case EXCHANGE_SUM: add_squares(net, device); break;
    case EXCHANGE_TOTAL: device->total_out = device->total_in; break;
    case EXCHANGE_UPDATE: update(net, device); break;
    case EXCHANGE_JUDGE: add_results(net, device); break;
    case EXCHANGE_STOP: device->stopped = true; break;
    }
    return true;
}

void net_work(struct exchange_net *net, struct net_device *device)
{
    if (!device->busy) {
        device->busy = exchange_next(device->exchange, &device->task) != EXCHANGE_WAIT;
        if (device->busy) {
            begin(net, device);
        }
    } else if (net_draw(net, 3) > 0 && finish(net, device)) {
        device->busy = false;
        exchange_done(device->exchange, &device->task);
    }
}
