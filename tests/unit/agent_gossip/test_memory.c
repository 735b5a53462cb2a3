/* The memory of a group is at most what the coordinator plans for it. */
#include "agent/gossip/mixer.h"
#include "libtrain/description/zoo.h"
#include "libtrain/model/cost.h"
#include "schema/mix_duty.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

static void no_group_takes_more_memory_than_is_planned(void **state)
{
    (void)state;
    for (size_t i = 0; zoo_name(i); i++) {
        struct model *model = usual_model(zoo_name(i));
        const uint64_t bytes = cost_state_bytes(model);
        for (int64_t groups = 2; groups <= GROUPS_MAX; groups++) {
            const struct mix_duty duty = {.groups = groups};
            const uint64_t planned = mix_memory((size_t)groups, bytes);
            const uint64_t taken = mixer_bytes(model, &duty);
            assert_true(taken >= mix_copies((size_t)groups) * bytes);
            assert_true(taken <= planned);
        }
        model_free(&model);
    }
}

static void only_small_copies_are_fetched_together(void **state)
{
    (void)state;
    assert_int_equal(mix_fetches(32, 1 << 20), 4);
    assert_int_equal(mix_fetches(6, 75000), 4);
    assert_int_equal(mix_fetches(4, 75000), 3);
    assert_int_equal(mix_fetches(2, 75000), 1);
    assert_int_equal(mix_fetches(32, 3 << 20), 2);
    assert_int_equal(mix_fetches(32, 5 << 20), 1);
    assert_int_equal(mix_fetches(32, UINT64_MAX), 1);
    assert_int_equal(mix_states(32, 5 << 20), mix_copies(32));
    assert_int_equal(mix_states(32, 3 << 20), mix_copies(32) + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_group_takes_more_memory_than_is_planned),
        cmocka_unit_test(only_small_copies_are_fetched_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
