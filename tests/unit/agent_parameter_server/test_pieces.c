/* Where the data of messages is in a member. */
#include <stdlib.h>
#include <string.h>

#include "agent/parameter_server/member_loop.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"
#include "tests/unit/agent_parameter_server/party.h"

#define BLOCK 2 /* micro-batches of a worker's block */

static void check_walk(const struct member_view *view)
{
    const size_t bytes = body_bytes(&view->body);
    for (size_t at = 0; at < bytes;) {
        const struct member_piece piece = member_piece(view, at);
        assert_non_null(piece.data);
        assert_in_range(piece.size, 4, bytes - at);
        /* From the middle of a piece on it is the rest of that. */
        const struct member_piece rest = member_piece(view, at + 3);
        assert_ptr_equal(rest.data, (char *)piece.data + 3);
        assert_int_equal(rest.size, piece.size - 3);
        assert_int_equal(rest.layer, piece.layer);
        at += piece.size;
    }
}

static void sums_come_from_the_last_layer_to_the_first(void **state)
{
    (void)state;
    struct assignment_run *run = party_run(0, 1000);
    struct member *member = party_member(run, -1);
    const size_t statistics = party_statistics(member);
    size_t whole[PARTY_LAYERS];
    for (size_t first = 0; first < PARTY_LAYERS; first++) {
        for (size_t end = first + 1; end <= PARTY_LAYERS; end++) {
            const struct exchange_message sum = party_sum(2, 1, first, end);
            const struct member_view view = member_view(member, &sum, false);
            check_walk(&view);
            assert_int_equal(view.body.count[BODY_NUMBERS], first == 0 ? BLOCK : 0);
            assert_int_equal(view.body.count[BODY_STATISTICS], first == 0 ? BLOCK * statistics : 0);
            size_t at = view.body.count[BODY_NUMBERS] * sizeof(double), sum_bytes = 0;
            for (size_t layer = end; layer-- > first;) {
                const struct member_piece piece = member_piece(&view, at);
                assert_int_equal(piece.layer, layer);
                if (end == first + 1) {
                    whole[layer] = piece.size;
                }
                at += piece.size;
                sum_bytes += piece.size;
            }
            assert_int_equal(sum_bytes, view.body.count[BODY_DATA] * sizeof(float));
        }
    }
    /* Each layer's piece is where it is in the arena. */
    const struct exchange_message all = party_sum(1, 1, 0, PARTY_LAYERS);
    const struct member_view view = member_view(member, &all, false);
    size_t at = view.body.count[BODY_NUMBERS] * sizeof(double);
    size_t place = view.body.count[BODY_DATA] * sizeof(float);
    for (size_t layer = PARTY_LAYERS; layer-- > 0; at += whole[layer]) {
        place -= whole[layer];
        assert_ptr_equal(member_piece(&view, at).data, (char *)view.data + place);
    }
    assert_int_equal(place, 0);
    /* The first block's sum becomes the gradient. */
    assert_ptr_equal(view.data, train_gradient(keeper_train(member_work(member)->keeper)));
    /* Each micro-batch has its statistics. */
    for (size_t m = 0; m < BLOCK; m++) {
        const struct member_piece piece = member_piece(&view, at + m * statistics * sizeof(float));
        assert_ptr_equal(piece.data,
                         train_statistics(keeper_train(member_work(member)->keeper), m));
        assert_int_equal(piece.size, statistics * sizeof(float));
    }
    struct work *work = member_work(member);
    work_release(&work);
    free(run);
}

static void parameters_come_in_forward_order(void **state)
{
    (void)state;
    struct assignment_run *run = party_run(0, 1000);
    struct member *member = party_member(run, -1);
    struct train_stage *train = keeper_train(member_work(member)->keeper);
    struct exchange_message pull = {.kind = EXCHANGE_PARAMETERS, .from = 1, .end = PARTY_LAYERS};
    struct member_view view = member_view(member, &pull, true);
    check_walk(&view);
    assert_int_equal(view.body.count[BODY_STATISTICS], 0);
    assert_ptr_equal(member_piece(&view, 0).data, train_parameters(train));
    assert_int_equal(member_piece(&view, 0).size, body_bytes(&view.body));
    pull.statistics = true;
    view = member_view(member, &pull, true);
    check_walk(&view);
    const size_t statistics = party_statistics(member);
    assert_int_equal(view.body.count[BODY_STATISTICS], statistics);
    assert_ptr_equal(member_piece(&view, body_bytes(&view.body) - statistics * sizeof(float)).data,
                     train_running(train));
    pull.first = 1; /* without the unit that has some */
    view = member_view(member, &pull, true);
    check_walk(&view);
    assert_int_equal(view.body.count[BODY_STATISTICS], 0);
    struct work *work = member_work(member);
    work_release(&work);
    free(run);
}

static void a_worker_takes_parameters_where_it_computes_with_them(void **state)
{
    (void)state;
    struct assignment_run *run = party_run(1, 1000);
    struct member *member = party_member(run, -1);
    struct train_stage *train = keeper_worker(member_work(member)->keeper);
    const struct exchange_message pull = {
        .kind = EXCHANGE_PARAMETERS, .from = 1, .end = PARTY_LAYERS};
    const struct member_view view = member_view(member, &pull, false);
    assert_ptr_equal(member_piece(&view, 0).data, train_parameters(train));
    assert_int_equal(member_piece(&view, 0).size, body_bytes(&view.body));
    struct work *work = member_work(member);
    work_release(&work);
    free(run);
}

static void pulls_contain_trained_layers_only(void **state)
{
    (void)state;
    for (size_t frozen = 0; frozen <= 2; frozen++) {
        struct assignment_run *run = party_run(0, 1000);
        run->job_spec.freeze_count = frozen;
        struct member *member = party_member(run, -1);
        struct train_stage *train = keeper_train(member_work(member)->keeper);
        size_t count;
        const struct train_layer *layer = train_layers(train, &count);
        const struct exchange_message pull = {.kind = EXCHANGE_PARAMETERS, .from = 1, .end = count};
        const struct member_view view = member_view(member, &pull, true);
        size_t floats = 0;
        for (size_t l = 0; l < count; l++) {
            assert_true(layer[l].unit >= frozen);
            floats += layer[l].count;
        }
        assert_int_equal(count, PARTY_LAYERS - frozen); /* of both units */
        assert_int_equal(view.body.count[BODY_DATA], floats);
        struct work *work = member_work(member);
        work_release(&work);
        free(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_come_from_the_last_layer_to_the_first),
        cmocka_unit_test(parameters_come_in_forward_order),
        cmocka_unit_test(a_worker_takes_parameters_where_it_computes_with_them),
        cmocka_unit_test(pulls_contain_trained_layers_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
