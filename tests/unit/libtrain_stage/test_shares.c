/* A batch that workers share and servers update: the bits are those of one device, whoever computes
 * which micro-batches, whichever server keeps which units, and in whatever order blocks arrive. */
#include <stdlib.h>
#include <string.h>

#include "libtrain/stage/stage.h"
#include "tests/unit/libtrain_stage/law.h"

#define BATCH 8
#define STEPS 3
#define WORKERS_MAX 4
#define SERVERS_MAX 3
#define MICRO_BATCHES_TRIED 8

static const size_t tried[] = {1, 2, 4, 8};

static struct law_run run_of(size_t micro_batches)
{
    return (struct law_run){BATCH, micro_batches, STEPS, REDUCTION_TREE};
}

struct shared {
    const struct law *law;
    size_t workers, servers;
    struct train_stage *worker[WORKERS_MAX], *server[SERVERS_MAX];
    struct reduce_range share[WORKERS_MAX];
    double loss; /* of the last step */
};

/* A layer of a server's stage as a worker has it. */
static const struct train_layer *layer_of(const struct train_stage *worker,
                                          const struct train_layer *layer, size_t index)
{
    size_t count, same = 0;
    const struct train_layer *all = train_layers(worker, &count);
    for (size_t i = 0; i < count; i++) {
        if (all[i].unit == layer->unit && same++ == index) {
            return &all[i];
        }
    }
    fail_msg("a worker has all layers of unit %zu", layer->unit);
    return NULL;
}

/* Call each with a layer of the server and the worker's place of it. */
static void each_layer(const struct train_stage *server, const struct train_stage *worker,
                       void (*each)(void *arg, const struct train_layer *its, size_t first),
                       void *arg)
{
    size_t count, index = 0;
    const struct train_layer *layer = train_layers(server, &count);
    for (size_t i = 0; i < count; i++) {
        index = i > 0 && layer[i - 1].unit == layer[i].unit ? index + 1 : 0;
        const struct train_layer *mine = layer_of(worker, &layer[i], index);
        assert_int_equal(mine->count, layer[i].count);
        each(arg, &layer[i], mine->first);
    }
}

struct copy {
    const float *from;
    float *to;
};

static void pull(void *arg, const struct train_layer *its, size_t first)
{
    const struct copy *copy = arg;
    memcpy(copy->to + first, copy->from + its->first, its->count * sizeof(float));
}

static void push(void *arg, const struct train_layer *its, size_t first)
{
    const struct copy *copy = arg;
    memcpy(copy->to + its->first, copy->from + first, its->count * sizeof(float));
}

static size_t floats_of(const struct train_stage *stage)
{
    return (size_t)stage->arena->trained_floats;
}

/* A server adds the blocks in the order in which they arrive. */
static void add_blocks(struct shared *shared, size_t s, float *const *block,
                       const struct reduce_range *range, const size_t *order, size_t count)
{
    struct reduce_sum room[MICRO_BATCHES_TRIED];
    struct reduce_sums sums = {
        .count = shared->law->recipe.micro_batches, .sum = room, .capacity = MICRO_BATCHES_TRIED};
    struct train_stage *server = shared->server[s];
    struct reduce_sum sum = {{0, 0}, 0};
    for (size_t i = 0; i < count; i++) {
        size_t added;
        sum = (struct reduce_sum){range[order[i]], order[i]};
        while (reduce_put(&sums, &sum, &added)) {
            train_add(server, floats_of(server), block[added], block[sum.buffer]);
        }
    }
    assert_int_equal(sum.range.end - sum.range.first, sums.count);
    memcpy(train_gradient(server), block[sum.buffer], floats_of(server) * sizeof(float));
}

static void send_blocks(struct shared *shared, struct draws *draws)
{
    const size_t micro_batches = shared->law->recipe.micro_batches;
    struct reduce_range range[MICRO_BATCHES_TRIED];
    size_t owner[MICRO_BATCHES_TRIED], order[MICRO_BATCHES_TRIED], count = 0;
    for (size_t w = 0; w < shared->workers; w++) {
        struct reduce_range block[REDUCE_BLOCKS_MAX];
        const size_t blocks = reduce_blocks(micro_batches, shared->share[w], block);
        for (size_t i = 0; i < blocks; i++) {
            range[count] = block[i];
            owner[count++] = w;
        }
    }
    for (size_t s = 0; s < shared->servers; s++) {
        float *block[MICRO_BATCHES_TRIED];
        for (size_t i = 0; i < count; i++) {
            struct train_stage *worker = shared->worker[owner[i]];
            block[i] = calloc(floats_of(shared->server[s]) + 1, sizeof(float));
            assert_non_null(block[i]);
            const float *from = train_block(worker, range[i]);
            struct copy copy = {.from = from, .to = block[i]};
            assert_non_null(from);
            each_layer(shared->server[s], worker, push, &copy);
            order[i] = i;
        }
        for (size_t i = count; i > 1; i--) {
            const size_t k = draw_size(draws, 0, i - 1), swap = order[i - 1];
            order[i - 1] = order[k];
            order[k] = swap;
        }
        add_blocks(shared, s, block, range, order, count);
        for (size_t i = 0; i < count; i++) {
            free(block[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        train_block_release(shared->worker[owner[i]], range[i]);
    }
}

static void send_statistics(struct shared *shared)
{
    for (size_t w = 0; w < shared->workers; w++) {
        for (size_t m = shared->share[w].first; m < shared->share[w].end; m++) {
            for (size_t s = 0; s < shared->servers; s++) {
                struct train_stage *server = shared->server[s];
                for (size_t u = server->config.first; u < server->config.end; u++) {
                    size_t first, end, to, to_end;
                    train_statistics_of(shared->worker[w], u, &first, &end);
                    train_statistics_of(server, u, &to, &to_end);
                    assert_int_equal(end - first, to_end - to);
                    if (end > first) {
                        memcpy(train_statistics(server, m) + to,
                               train_statistics(shared->worker[w], m) + first,
                               (end - first) * sizeof(float));
                    }
                }
            }
        }
    }
}

/* A stage of all units takes the servers' state. */
static void load_snapshots(const struct shared *shared, struct train_stage *stage)
{
    struct err err = {0};
    for (size_t s = 0; s < shared->servers; s++) {
        struct train_stage *server = shared->server[s];
        for (size_t u = server->config.first; u < server->config.end; u++) {
            unsigned char *blob = unit_save(server, u);
            assert_ok(train_unit_load(stage, u, blob, train_unit_bytes(server, u), &err), &err);
            free(blob);
        }
    }
}

/* A worker evaluates with what it pulls from the servers: parameters and running statistics. */
static void evaluate_by_worker(const struct shared *shared, size_t w, double *loss,
                               uint64_t *correct)
{
    const struct law *law = shared->law;
    struct train_stage *worker = shared->worker[w];
    struct err err = {0};
    for (size_t s = 0; s < shared->servers; s++) {
        struct train_stage *server = shared->server[s];
        struct copy copy = {.from = train_parameters(server), .to = train_parameters(worker)};
        each_layer(server, worker, pull, &copy);
        for (size_t u = server->config.first; u < server->config.end; u++) {
            size_t first, end, to, to_end;
            train_statistics_of(server, u, &first, &end);
            train_statistics_of(worker, u, &to, &to_end);
            assert_int_equal(end - first, to_end - to);
            if (end > first) {
                memcpy(train_running(worker) + to, train_running(server) + first,
                       (end - first) * sizeof(float));
            }
        }
    }
    train_parameters_changed(worker);
    assert_ok(train_evaluate(worker, law->run.batch / law->recipe.micro_batches, law_inputs(law, 1),
                             NULL, law_labels(law, 1), loss, correct, &err),
              &err);
}

/* The same by a stage that loads the servers' snapshots. */
static void evaluate_by_snapshots(const struct shared *shared, double *loss, uint64_t *correct)
{
    const struct law *law = shared->law;
    struct train_stage *stage =
        law_tree_stage(law, 0, law->model->unit_count, 0, (struct reduce_range){0, 0}, 0);
    struct err err = {0};
    load_snapshots(shared, stage);
    assert_ok(train_evaluate(stage, law->run.batch / law->recipe.micro_batches, law_inputs(law, 1),
                             NULL, law_labels(law, 1), loss, correct, &err),
              &err);
    train_stage_free(&stage);
}

static void check_evaluation(const struct shared *shared)
{
    double expected = 0;
    uint64_t expected_correct = 0;
    evaluate_by_snapshots(shared, &expected, &expected_correct);
    for (size_t w = 0; w < shared->workers; w++) {
        double loss = 0;
        uint64_t correct = 0;
        evaluate_by_worker(shared, w, &loss, &correct);
        assert_true(loss == expected);
        assert_int_equal(correct, expected_correct);
    }
}

static void update(struct shared *shared, int64_t step)
{
    double squares = 0;
    struct err err = {0};
    const bool clips = shared->law->recipe.optimizer.clip_norm > 0;
    for (size_t s = shared->servers; clips && s-- > 0;) {
        assert_ok(train_sum_squares(shared->server[s], squares, &squares, &err), &err);
    }
    for (size_t s = 0; s < shared->servers; s++) {
        if (clips) {
            assert_ok(train_clip(shared->server[s], squares, &err), &err);
        }
        assert_ok(train_update(shared->server[s], step, shared->law->recipe.learning_rate, &err),
                  &err);
    }
}

static void share_step(struct shared *shared, int64_t step, struct draws *draws)
{
    double loss[MICRO_BATCHES_TRIED];
    for (size_t w = 0; w < shared->workers; w++) {
        for (size_t s = 0; s < shared->servers; s++) {
            struct copy copy = {.from = train_parameters(shared->server[s]),
                                .to = train_parameters(shared->worker[w])};
            each_layer(shared->server[s], shared->worker[w], pull, &copy);
        }
        train_parameters_changed(shared->worker[w]);
        for (size_t m = shared->share[w].first; m < shared->share[w].end; m++) {
            loss[m] = law_pass(shared->law, shared->worker[w], step, m);
        }
    }
    send_blocks(shared, draws);
    send_statistics(shared);
    update(shared, step);
    for (size_t w = 0; w < shared->workers; w++) {
        train_discard(shared->worker[w]);
    }
    shared->loss = 0;
    for (size_t m = 0; m < shared->law->recipe.micro_batches; m++) {
        shared->loss += loss[m];
    }
}

static struct train_stage *new_worker(const struct shared *shared, size_t w)
{
    struct train_stage_config config =
        law_tree_config(shared->law, shared->share[w], w % KERNEL_POOLS);
    config.worker = true;
    return law_stage_of(&config);
}

static void check_same(void *arg, const struct train_layer *its, size_t first)
{
    const struct copy *copy = arg;
    assert_memory_equal(copy->from + its->first, copy->to + first, its->count * sizeof(float));
}

/* Another worker takes over a share. */
static void replace_worker(struct shared *shared, size_t w)
{
    train_stage_free(&shared->worker[w]);
    shared->worker[w] = new_worker(shared, w);
    load_snapshots(shared, shared->worker[w]);
    for (size_t s = 0; s < shared->servers; s++) {
        struct copy copy = {.from = train_parameters(shared->server[s]),
                            .to = train_parameters(shared->worker[w])};
        each_layer(shared->server[s], shared->worker[w], check_same, &copy);
    }
}

static void check_servers(const struct shared *shared)
{
    const unsigned char *expected = shared->law->expected;
    for (size_t s = 0; s < shared->servers; s++) {
        struct train_stage *server = shared->server[s];
        for (size_t u = server->config.first; u < server->config.end; u++) {
            unsigned char *blob = unit_save(server, u);
            assert_memory_equal(blob, expected, train_unit_bytes(server, u));
            expected += train_unit_bytes(server, u);
            free(blob);
        }
    }
    assert_true(shared->loss == shared->law->expected_loss);
}

/* ends [workers], [servers]: one past the last micro-batch, and unit. */
static void check_shares(const struct law *law, const size_t *share_end, size_t workers,
                         const size_t *unit_end, size_t servers, struct draws *draws)
{
    struct shared shared = {.law = law, .workers = workers, .servers = servers};
    for (size_t w = 0; w < workers; w++) {
        shared.share[w] = (struct reduce_range){w == 0 ? 0 : share_end[w - 1], share_end[w]};
        shared.worker[w] = new_worker(&shared, w);
    }
    for (size_t s = 0; s < servers; s++) {
        shared.server[s] = law_tree_stage(law, s == 0 ? 0 : unit_end[s - 1], unit_end[s], 0,
                                          (struct reduce_range){0, 0}, s % KERNEL_POOLS);
    }
    for (int64_t step = 1; step <= STEPS; step++) {
        if (step > 1) {
            replace_worker(&shared, (size_t)step % workers);
        }
        share_step(&shared, step, draws);
        check_evaluation(&shared);
    }
    check_servers(&shared);
    for (size_t w = 0; w < workers; w++) {
        train_stage_free(&shared.worker[w]);
    }
    for (size_t s = 0; s < servers; s++) {
        train_stage_free(&shared.server[s]);
    }
}

static void every_split_of_eight_micro_batches_of_lenet5_gives_the_same_bits(void **state)
{
    struct law law = law_with(state, zoo_model("lenet5", 28, 28, 1), run_of(8), law_optimizers);
    const size_t units = law.model->unit_count;
    struct draws draws = draws_new(3);
    size_t splits = 0;
    for (uint64_t cuts = 0; cuts < 1u << 7; cuts++) {
        size_t share_end[8];
        const size_t workers = law_partition(cuts, 8, share_end);
        if (workers <= WORKERS_MAX) {
            const size_t middle = 1 + splits % (units - 1);
            const size_t unit_end[SERVERS_MAX][SERVERS_MAX] = {
                {units}, {middle, units}, {1, 2 + splits % (units - 2), units}};
            const size_t servers = 1 + splits % SERVERS_MAX;
            check_shares(&law, share_end, workers, unit_end[servers - 1], servers, &draws);
            splits++;
        }
    }
    assert_int_equal(splits, 64); /* 1 + 7 + 21 + 35 */
    law_done(&law);
}

static void random_splits_give_the_same_bits_with_every_op_and_optimizer(void **state)
{
    struct draws draws = draws_new(7);
    for (size_t i = 0; i < 3 * LAW_OPTIMIZERS; i++) {
        struct model *model =
            i % 3 == 0 ? good_model(law_everything, &(struct model_fit){{9, 11, 5}, DTYPE_U8, 7, 1})
            : i % 3 == 1
                ? good_model(law_sequence, &(struct model_fit){{37, 1, 1}, DTYPE_U8, 200, 37})
                : zoo_model("resnet8", 16, 16, 1);
        for (size_t unit = 0; i % 2 == 1 && unit + 1 < model->unit_count; unit++) {
            model->unit[unit].frozen = unit % 3 == 1;
        }
        struct law law =
            law_with(state, model, run_of(tried[1 + i % 3]), &law_optimizers[i % LAW_OPTIMIZERS]);
        const size_t units = law.model->unit_count, micro_batches = law.recipe.micro_batches;
        const size_t workers = draw_size(&draws, 1, micro_batches < 4 ? micro_batches : 4);
        size_t share_end[WORKERS_MAX], unit_end[SERVERS_MAX];
        for (size_t w = 0; w < workers; w++) {
            share_end[w] = w + 1 == workers ? micro_batches
                                            : draw_size(&draws, (w == 0 ? 0 : share_end[w - 1]) + 1,
                                                        micro_batches - (workers - 1 - w));
        }
        const size_t middle = draw_size(&draws, 1, units - 1);
        unit_end[0] = i % 2 ? middle : units;
        unit_end[1] = units;
        check_shares(&law, share_end, workers, unit_end, 1 + i % 2, &draws);
        law_done(&law);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_of_eight_micro_batches_of_lenet5_gives_the_same_bits),
        cmocka_unit_test(random_splits_give_the_same_bits_with_every_op_and_optimizer),
    };
    return cmocka_run_group_tests(tests, kernel_pools_setup, kernel_pools_teardown);
}
