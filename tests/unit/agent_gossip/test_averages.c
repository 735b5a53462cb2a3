/* Averages of groups over loopback, with real listeners and threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "libtrain/optim/mix.h"
#include "libtrain/state/trained.h"
#include "net/hash.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"
#include "tests/unit/agent_gossip/groups.h"

static struct groups groups;

static struct group *group_at(size_t index)
{
    return &groups.item[index];
}

/* The file of a model with that state, as an export writes it. */
static void write_model(struct group *group, float *state, struct buf *out)
{
    struct train_stage *train = keeper_train(group->work->keeper);
    const struct model *model = keeper_model(group->work->keeper);
    const struct evaluation evaluation = {.micro_batch = 4};
    struct err err = {0};
    float *scratch = malloc(train_scratch_floats(train) * sizeof(*scratch));
    assert_non_null(scratch);
    const struct train_state copy = {state, state + group->state.parameters,
                                     group->state.parameters, group->state.statistics};
    assert_ok(trained_header(model, &evaluation, out, &err), &err);
    for (size_t unit = 0; unit < TINY_UNITS; unit++) {
        size_t count = 0;
        const float *tensor;
        for (size_t i = 0;
             (tensor = train_state_tensor(train, &copy, unit, i, scratch, &count)) != NULL; i++) {
            assert_ok(buf_append(out, tensor, count * sizeof(float), &err), &err);
        }
    }
    free(scratch);
}

static void average_of(size_t count, const double *weight, float *const *copy, float *out)
{
    const float *states[GROUPS_MAX];
    for (size_t g = 0; g < count; g++) {
        states[g] = copy[g];
    }
    mix_average(states, count, weight, group_floats(group_at(0)), out);
}

static double query_number(const char *name)
{
    char part[64];
    (void)snprintf(part, sizeof(part), ";%s=", name);
    const char *at = strstr(groups.query, part);
    assert_non_null(at);
    return strtod(at + strlen(part), NULL);
}

static double distance(const struct group *group, const float *copy, const float *average)
{
    const size_t count = group->state.parameters;
    return sqrt(mix_squares(count, copy, average) / mix_squares(count, average, NULL));
}

/* The order to compute the average, and to give a copy for it. */
static void order_sum(size_t author, size_t count, const double *weight)
{
    size_t all[GROUPS_MAX];
    struct mix_order order = groups_order(MIX_AVERAGE, 5, 1);
    order.averages = true;
    for (size_t g = 0; g < count; g++) {
        all[g] = g;
        order.source[g].weight = weight ? weight[g] : 0;
    }
    group_order(group_at(author), order, all, count);
}

static int64_t lacks_of(struct group *group)
{
    struct heartbeat *report = group_report(group);
    const int64_t lacks = report->mix.has_lacks ? report->mix.lacks : -1;
    free(report);
    return lacks;
}

/* All give a copy, the last group first; each has another state afterwards. */
static void give_copies(size_t count, size_t author, bool early, float **copy, float **later)
{
    for (size_t g = count; g-- > 0;) {
        if (!(early && g == author)) {
            group_order(group_at(g), groups_order(MIX_AVERAGE, 5, 1), NULL, 0);
        }
        copy[g] = group_copy(group_at(g));
        if (early && count > 1) {
            /* It has not copied itself, or waits for the first copy of another group. */
            const bool copied = g < author;
            assert_int_equal(lacks_of(group_at(author)), copied ? 0 : -1);
        }
        group_boundary(group_at(g), 5);
        group_draw(group_at(g), 50 + g);
        later[g] = group_copy(group_at(g));
    }
}

/* The group `author` computes, evaluates and stores the average; others adopt it with later states.
 * early: its order is there before the others have copied, and after it has. */
static void check_average(size_t count, size_t author, const double *weight, bool early)
{
    float *copy[GROUPS_MAX], *later[GROUPS_MAX];
    groups_open_with(&groups, count, groups_tell_step);
    if (early) {
        order_sum(author, count, weight);
    }
    give_copies(count, author, early, copy, later);
    float *average = group_copy(group_at(0));
    average_of(count, weight, copy, average);
    struct group *computes = group_at(author);
    if (!early) {
        order_sum(author, count, weight);
    }
    group_wait(computes, MIXING_AVERAGES, MIX_FETCHED);
    assert_int_equal(lacks_of(computes), -1);
    assert_int_equal(groups.averages, 0); /* it is evaluated first */
    group_boundary(computes, 9);
    group_move(computes, 1, copy[author], average, later[author]);
    group_expect(computes, later[author]);
    assert_int_equal(groups_rate_step(computes->mixer), 105);
    assert_int_equal(groups.averages, 0); /* its records are not stored yet */
    groups_wait_averages(&groups, 1);

    BUF_AUTO struct buf file;
    buf_init(&file, SIZE_MAX / 2);
    write_model(computes, average, &file);
    char sha256[HASH_TEXT_SIZE];
    sha256_text(file.data, file.size, sha256);
    assert_int_equal(file.size, groups.file.size);
    assert_memory_equal(file.data, groups.file.data, file.size);
    assert_string_equal(sha256, groups.sha256);
    assert_holds(groups.query, "life=1;counter=5;test_loss=");
    assert_true(isfinite(query_number("test_loss")));
    assert_in_range((int)(query_number("test_accuracy") * TINY_TESTS + 0.5), 0, TINY_TESTS);
    const double apart = distance(computes, copy[author], average);
    struct heartbeat *told = group_report(computes);
    assert_true(told->mix.has_distance && fabs(told->mix.distance - apart) < 1e-12);
    free(told);

    for (size_t g = 0; g < count; g++) {
        if (g == author) {
            continue;
        }
        struct group *adopts = group_at(g);
        group_order(adopts, groups_order(MIX_ADOPT, 5, 1), &author, 1);
        group_wait(adopts, MIXING_AVERAGES, MIX_FETCHED);
        group_boundary(adopts, 11);
        group_move(adopts, 1, copy[g], average, later[g]);
        group_expect(adopts, later[g]);
        struct heartbeat *report = group_report(adopts);
        assert_true(report->mix.has_distance);
        assert_true(fabs(report->mix.distance - distance(adopts, copy[g], average)) < 1e-12);
        assert_true(report->mix.record_count >= 1); /* its own; that of the average is stored */
        free(report);
    }
    for (size_t g = 0; g < count; g++) {
        free(copy[g]);
        free(later[g]);
    }
    free(average);
    groups_close(&groups);
}

static void an_average_is_evaluated_stored_and_adopted(void **state)
{
    (void)state;
    static const double weight[] = {0.5, 0.25, 0.25};
    check_average(3, 1, NULL, false);
    check_average(3, 0, weight, false);
    check_average(2, 1, NULL, false);
    check_average(1, 0, NULL, false);
}

static void copies_for_an_average_come_in_any_order(void **state)
{
    (void)state;
    static const double weight[] = {0.5, 0.25, 0.25};
    for (size_t author = 0; author < 3; author++) {
        check_average(3, author, weight, true);
    }
    check_average(2, 0, NULL, true);
    check_average(1, 0, NULL, true);
}

/* Its own request for a copy is still open, and is answered after that. */
static void a_group_that_still_computes_an_average_adopts_that_of_another(void **state)
{
    (void)state;
    static const size_t two[] = {0, 1}, second[] = {1};
    groups_open(&groups, 3);
    struct group *a = group_at(0), *b = group_at(1), *c = group_at(2);
    float *copy[] = {group_copy(a), group_copy(b)};
    float *average = group_copy(a);
    average_of(2, NULL, copy, average);
    order_sum(0, 3, NULL);
    group_order(b, groups_order(MIX_AVERAGE, 5, 1), NULL, 0);
    group_boundary(a, 5);
    group_boundary(b, 5);
    struct mix_order sum = groups_order(MIX_AVERAGE, 5, 1);
    sum.averages = true;
    group_order(b, sum, two, 2);
    group_wait(b, MIXING_AVERAGES, MIX_FETCHED);
    group_boundary(b, 6);
    group_order(a, groups_order(MIX_ADOPT, 5, 1), second, 1);
    group_wait(a, MIXING_AVERAGES, MIX_FETCHED);
    group_order(c, groups_order(MIX_AVERAGE, 5, 1), NULL, 0);
    group_boundary(c, 5);
    float *later = group_copy(a);
    group_boundary(a, 6);
    group_move(a, 1, copy[0], average, later);
    group_expect(a, later);
    for (size_t i = 0; i < 2; i++) {
        free(copy[i]);
    }
    free(average);
    free(later);
    groups_close(&groups);
}

/* What was copied for the pair before the average is not applied after it. */
static void a_pair_that_is_open_at_an_average_is_together_after_it(void **state)
{
    (void)state;
    static const size_t first[] = {0};
    groups_open(&groups, 2);
    struct group *a = group_at(0), *b = group_at(1);
    group_order(b, groups_order(MIX_PAIR, 4, 0.5), first, 1);
    group_boundary(b, 4);
    group_wait(b, MIXING_PAIRS, MIX_COPIED); /* the other group does not know it yet */
    order_sum(0, 2, NULL);
    group_order(b, groups_order(MIX_AVERAGE, 5, 1), NULL, 0);
    group_boundary(a, 5);
    group_boundary(b, 5);
    group_wait(b, MIXING_PAIRS, MIX_EXPIRED);
    group_wait(a, MIXING_AVERAGES, MIX_FETCHED);
    group_boundary(a, 5);
    group_order(b, groups_order(MIX_ADOPT, 5, 1), first, 1);
    group_wait(b, MIXING_AVERAGES, MIX_FETCHED);
    group_boundary(b, 5);
    float *of_a = group_copy(a), *of_b = group_copy(b);
    const double size = mix_squares(a->state.parameters, of_a, NULL);
    assert_true(mix_squares(a->state.parameters, of_a, of_b) <= 1e-12 * size);
    free(of_a);
    free(of_b);
    groups_close(&groups);
}

static void a_group_whose_own_copy_is_not_finite_computes_no_average(void **state)
{
    (void)state;
    groups_open(&groups, 2);
    struct group *group = group_at(0);
    group->state.parameter[3] = INFINITY;
    order_sum(0, 2, NULL);
    group_boundary(group, 5);
    group_wait(group, MIXING_AVERAGES, MIX_REJECTED);
    struct heartbeat *report = group_report(group);
    assert_int_equal(report->mix.record_count, 0);
    assert_true(report->mix.has_lacks && report->mix.lacks == 0);
    free(report);
    groups_close(&groups);
}

/* A group need not evaluate itself. */
static void evaluate_never(struct assignment_run *run)
{
    groups_tell_step(run);
    run->job_spec.evaluate_every_epochs = 0;
}

static void the_test_loss_of_an_average_is_that_of_its_state(void **state)
{
    (void)state;
    static const size_t own[] = {0};
    groups_open_with(&groups, 1, evaluate_never);
    struct group *group = group_at(0);
    /* What a job of one device with that state evaluates. */
    struct train_stage *train = keeper_train(group->work->keeper);
    double loss = 0;
    uint64_t correct = 0;
    struct err err = {0};
    for (size_t at = 0; at < TINY_TESTS; at += 4) {
        const size_t count = TINY_TESTS - at < 4 ? TINY_TESTS - at : 4;
        int32_t label[4];
        memcpy(label, tiny_job()->test.labels + at * sizeof(int32_t), count * sizeof(int32_t));
        assert_ok(train_evaluate(train, count, tiny_job()->test.inputs + at * TINY_SAMPLE_BYTES,
                                 NULL, label, &loss, &correct, &err),
                  &err);
    }
    struct mix_order order = groups_order(MIX_AVERAGE, 2, 0); /* stored only */
    order.averages = true;
    group_order(group, order, own, 1);
    group_boundary(group, 1);
    group_draw(group, 99);
    float *later = group_copy(group);
    group_wait(group, MIXING_AVERAGES, MIX_FETCHED);
    group_boundary(group, 2);
    group_expect(group, later);
    groups_wait_averages(&groups, 1);
    assert_true(fabs(query_number("test_loss") - loss / TINY_TESTS) < 1e-12);
    assert_true(fabs(query_number("test_accuracy") - (double)correct / TINY_TESTS) < 1e-12);
    assert_int_equal(groups_rate_step(group->mixer), 3); /* it has not moved */
    free(later);
    groups_close(&groups);
}

static void probe_copies(struct assignment_run *run)
{
    groups_tell_step(run);
    run->mix.probes = true;
}

/* Of its copy, whatever the group does until it reports. */
static void a_copy_for_an_average_is_probed_on_samples_of_all_groups(void **state)
{
    (void)state;
    groups_open_with(&groups, 1, probe_copies);
    struct group *group = group_at(0);
    struct train_stage *train = keeper_train(group->work->keeper);
    const struct tiny_data *data = &tiny_job()->train;
    const struct rng_stream stream = rng_stream((uint64_t)tiny_spec().seed, RNG_DRAWN, 0, 0);
    double loss = 0;
    uint64_t correct = 0;
    struct err err = {0};
    for (size_t i = 0; i < MIX_PROBE_SAMPLES; i += 4) { /* micro-batches of the tiny job */
        unsigned char input[4 * TINY_SAMPLE_BYTES];
        int32_t label[4];
        for (size_t k = 0; k < 4; k++) {
            const size_t sample = (size_t)rng_below(&stream, i + k, TINY_SAMPLES);
            memcpy(input + k * TINY_SAMPLE_BYTES, data->inputs + sample * TINY_SAMPLE_BYTES,
                   TINY_SAMPLE_BYTES);
            memcpy(&label[k], data->labels + sample * sizeof(label[k]), sizeof(label[k]));
        }
        assert_ok(train_evaluate(train, 4, input, NULL, label, &loss, &correct, &err), &err);
    }
    const struct mix_order order = groups_order(MIX_AVERAGE, 2, 1);
    group_order(group, order, NULL, 0);
    struct heartbeat *report = group_report(group);
    assert_false(report->mix.has_loss);
    free(report);
    group_boundary(group, 1);
    group_draw(group, 99);
    report = group_report(group);
    assert_true(report->mix.has_loss);
    assert_true(fabs(report->mix.loss - loss / MIX_PROBE_SAMPLES) < 1e-12);
    free(report);
    groups_close(&groups);
}

static void an_average_is_sent_until_the_coordinator_has_it(void **state)
{
    (void)state;
    static const size_t own[] = {0};
    groups_open_with(&groups, 1, groups_tell_step);
    struct group *group = group_at(0);
    groups.status = 503;
    struct mix_order order = groups_order(MIX_AVERAGE, 2, 0);
    order.averages = true;
    group_order(group, order, own, 1);
    group_boundary(group, 1);
    group_wait(group, MIXING_AVERAGES, MIX_FETCHED);
    group_boundary(group, 2);
    groups_wait_averages(&groups, 2);
    (void)pthread_mutex_lock(&groups.lock);
    groups.status = 409; /* it has one by now */
    const size_t sent = groups.averages;
    (void)pthread_mutex_unlock(&groups.lock);
    groups_wait_averages(&groups, sent + 1);
    group_cancel(group); /* the threads have ended: nothing more is sent */
    assert_true(groups.averages <= sent + 2);
    groups_close(&groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_average_is_evaluated_stored_and_adopted),
        cmocka_unit_test(copies_for_an_average_come_in_any_order),
        cmocka_unit_test(a_group_that_still_computes_an_average_adopts_that_of_another),
        cmocka_unit_test(a_pair_that_is_open_at_an_average_is_together_after_it),
        cmocka_unit_test(a_group_whose_own_copy_is_not_finite_computes_no_average),
        cmocka_unit_test(the_test_loss_of_an_average_is_that_of_its_state),
        cmocka_unit_test(a_copy_for_an_average_is_probed_on_samples_of_all_groups),
        cmocka_unit_test(an_average_is_sent_until_the_coordinator_has_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
