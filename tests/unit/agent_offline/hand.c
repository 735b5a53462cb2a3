#include "tests/unit/agent_offline/hand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/offline/model_file.h"
#include "libtrain/optim/mix.h"
#include "schema/job_check.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"

void hand_world_open(struct hand_world *world, const char *directory)
{
    struct err err = {0};
    const struct test_path data = test_path_in(directory, "a");
    char place[TEST_PATH_MAX + 2];
    (void)snprintf(place, sizeof(place), "a=%s", data.text);
    const struct local_places places = {.dataset = {.item = {place}, .count = 1}};
    memset(world, 0, sizeof(*world));
    assert_ok(local_job_read_gossip(test_path_in(directory, "job.json").text, &world->spec, &err),
              &err);
    for (int g = 0; g < 2; g++) {
        assert_ok(local_job_read(test_path_in(directory, g ? "group1.json" : "group0.json").text,
                                 &world->group[g], &err),
                  &err);
    }
    world->spec.dataset_test[0] = '\0';
    assert_ok(local_job_data_open(&places, &world->spec, &world->data, &err), &err);
    assert_ok(local_model_open(&world->spec, &world->data, "", 1, &world->model, &err), &err);
    assert_ok(train_pool_new(1, &world->pool, &err), &err);
}

void hand_world_close(struct hand_world *world)
{
    train_pool_free(&world->pool);
    local_model_close(&world->model);
    local_job_data_done(&world->data);
    record_done(&job_spec_record, &world->spec);
    record_done(&job_spec_record, &world->group[0]);
    record_done(&job_spec_record, &world->group[1]);
}

struct hand hand_begin(struct hand_world *world, size_t group, int64_t rate_step)
{
    struct hand hand = {.world = world, .rate_step = rate_step};
    const struct train_stage_config config = {
        .model = world->model.model,
        .end = TINY_UNITS,
        .micro_batch = 4,
        .micro_batches = 4,
        .in_flight = 1,
        .optimizer = world->spec.optimizer,
        .seed = (uint64_t)world->spec.seed,
        .pool = world->pool,
    };
    struct err err = {0};
    assert_ok(train_stage_new(&config, &hand.stage, &err), &err);
    for (size_t unit = 0; unit < TINY_UNITS; unit++) {
        train_unit_initialise(hand.stage, unit);
    }
    assert_ok(train_sampler_new_view(&world->group[group].view, data_labels(world->data.train),
                                     TINY_SAMPLES, 16, (uint64_t)world->spec.seed, &hand.sampler,
                                     &err),
              &err);
    return hand;
}

void hand_end(struct hand *hand)
{
    train_stage_free(&hand->stage);
    train_sampler_free(&hand->sampler);
}

void hand_train(struct hand *hand, int64_t until)
{
    const struct hand_world *world = hand->world;
    const unsigned char *inputs = data_inputs(world->data.train);
    const unsigned char *labels = data_labels(world->data.train);
    struct err err = {0};
    while (hand->version < until) {
        const int64_t step = ++hand->version;
        const uint32_t *sample = train_sampler_batch(hand->sampler, step);
        for (size_t m = 0; m < 4; m++) {
            unsigned char input[4 * TINY_SAMPLE_BYTES];
            int32_t label[4];
            double loss = 0;
            for (size_t i = 0; i < 4; i++) {
                const size_t at = sample[4 * m + i];
                memcpy(input + i * TINY_SAMPLE_BYTES, inputs + at * TINY_SAMPLE_BYTES,
                       TINY_SAMPLE_BYTES);
                memcpy(&label[i], labels + at * sizeof(label[i]), sizeof(label[i]));
            }
            assert_ok(train_forward(hand->stage, 0, (struct train_position){step, m}, input, NULL,
                                    label, &loss, &err),
                      &err);
            train_backward(hand->stage, 0, NULL, NULL);
        }
        double squares = 0;
        const double rate = learning_rate_at(&world->spec.learning_rate, hand->rate_step, 12);
        assert_ok(train_sum_squares(hand->stage, 0, &squares, &err), &err);
        assert_ok(train_clip(hand->stage, squares, &err), &err);
        assert_ok(train_update(hand->stage, step, rate, &err), &err);
    }
}

struct hand_copy hand_copy(const struct hand *hand)
{
    const struct train_state state = train_state(hand->stage);
    struct hand_copy copy = {calloc(state.parameters, sizeof(float)),
                             calloc(state.statistics, sizeof(float))};
    assert_true(copy.parameter && copy.statistic && state.statistics > 0);
    memcpy(copy.parameter, state.parameter, state.parameters * sizeof(float));
    memcpy(copy.statistic, state.statistic, state.statistics * sizeof(float));
    return copy;
}

void hand_drop(struct hand_copy *copy)
{
    free(copy->parameter);
    free(copy->statistic);
}

void hand_move(struct hand *hand, double alpha, const struct hand_copy *own,
               const struct hand_copy *peer, int64_t rate_step)
{
    const struct train_state state = train_state(hand->stage);
    mix_parameters(state.parameters, alpha, own->parameter, peer->parameter, state.parameter);
    mix_statistics(state.statistics, alpha, peer->statistic, state.statistic);
    train_state_changed(hand->stage);
    hand->rate_step = rate_step;
}

struct hand_copy hand_average(const struct hand *hand, const struct hand_copy *a,
                              const struct hand_copy *b, const double *weight)
{
    const struct train_state state = train_state(hand->stage);
    struct hand_copy average = hand_copy(hand);
    const float *parameter[] = {a->parameter, b->parameter};
    const float *statistic[] = {a->statistic, b->statistic};
    mix_average(parameter, 2, weight, state.parameters, average.parameter);
    mix_average(statistic, 2, weight, state.statistics, average.statistic);
    return average;
}

static void put(struct hand *hand, const struct hand_copy *copy)
{
    const struct train_state state = train_state(hand->stage);
    memcpy(state.parameter, copy->parameter, state.parameters * sizeof(float));
    memcpy(state.statistic, copy->statistic, state.statistics * sizeof(float));
    train_state_changed(hand->stage);
}

static int export_unit(void *of, size_t unit, train_write_fn write, void *arg, struct err *err)
{
    return train_unit_export(of, unit, write, arg, err);
}

void hand_write(struct hand *hand, const struct hand_copy *average, const char *directory,
                const char *name)
{
    const struct model_source source = {.export_unit = export_unit, .of = hand->stage};
    const struct evaluation evaluation = {.micro_batch = 4};
    char sha256[HASH_TEXT_SIZE];
    struct err err = {0};
    put(hand, average);
    assert_ok(model_file_write(test_path_in(directory, name).text, hand->world->model.model,
                               &source, &evaluation, sha256, &err),
              &err);
}
