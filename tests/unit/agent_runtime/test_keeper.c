/* A keeper with a worker beside its units: each unit's state goes into every stage that has it. */
#include <stdlib.h>
#include <string.h>

#include "agent/runtime/keeper.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"

static struct keeper *make(size_t first, size_t end, bool worker, const struct job_spec *spec)
{
    struct keeper_config config = {
        .first = first, .end = end, .spec = spec, .versions = 1, .threads = 1, .slowdown = 1};
    struct model *model = tiny_model();
    struct keeper *keeper = NULL;
    struct err err = {0};
    if (worker) {
        config.worker_share.end = 2;
    }
    assert_ok(keeper_new(&config, &model, &keeper, &err), &err);
    assert_null(model);
    return keeper;
}

static struct job_spec servers_spec(void)
{
    struct job_spec spec = tiny_spec();
    spec.strategy = STRATEGY_PARAMETER_SERVER;
    return spec;
}

/* The floats of the parameters of a stage. */
static size_t floats_of(const struct train_stage *stage)
{
    size_t count;
    const struct train_layer *layer = train_layers(stage, &count);
    return count == 0 ? 0 : layer[count - 1].first + layer[count - 1].count;
}

static void keepers_have_the_stages_that_they_need(void **state)
{
    (void)state;
    const struct job_spec spec = servers_spec();
    struct keeper *server = make(0, 3, false, &spec);
    struct keeper *worker = make(TINY_UNITS, TINY_UNITS, true, &spec);
    struct keeper *both = make(1, 3, true, &spec);
    assert_non_null(keeper_train(server));
    assert_null(keeper_worker(server));
    assert_null(keeper_train(worker));
    assert_non_null(keeper_worker(worker));
    assert_non_null(keeper_train(both));
    assert_non_null(keeper_worker(both));
    assert_ptr_not_equal(keeper_config(both)->spec, &spec);
    keeper_free(&server);
    keeper_free(&worker);
    keeper_free(&both);
}

static void a_unit_goes_into_every_stage_that_has_it(void **state)
{
    (void)state;
    struct job_spec spec = servers_spec();
    struct keeper *all = make(0, TINY_UNITS, false, &spec);
    spec.seed++; /* what is not loaded would be other numbers */
    struct keeper *both = make(1, 4, true, &spec);
    struct err err = {0};
    for (size_t unit = 0; unit < TINY_UNITS; unit++) {
        assert_ok(keeper_load_unit(all, unit, NULL, 0, &err), &err);
        const size_t size = keeper_unit_bytes(all, unit);
        assert_int_equal(keeper_unit_bytes(both, unit), size);
        char *blob = malloc(size), *saved = malloc(size);
        assert_true(blob && saved);
        keeper_save_unit(all, unit, blob);
        assert_ok(keeper_load_unit(both, unit, blob, size, &err), &err);
        if (unit >= 1 && unit < 4) {
            keeper_save_unit(both, unit, saved);
            assert_memory_equal(saved, blob, size);
        }
        assert_int_equal(keeper_load_unit(both, unit, blob, size - 1, &err), ERR_FORMAT);
        free(blob);
        free(saved);
    }
    const size_t floats = floats_of(keeper_train(all));
    assert_int_equal(floats_of(keeper_worker(both)), floats);
    assert_memory_equal(train_parameters(keeper_worker(both)), train_parameters(keeper_train(all)),
                        floats * sizeof(float));
    keeper_free(&all);
    keeper_free(&both);
}

static void the_same_seed_gives_both_stages_the_same_unit(void **state)
{
    (void)state;
    const struct job_spec spec = servers_spec();
    struct keeper *both = make(0, TINY_UNITS, true, &spec);
    struct err err = {0};
    for (size_t unit = 0; unit < TINY_UNITS; unit++) {
        assert_ok(keeper_load_unit(both, unit, NULL, 0, &err), &err);
    }
    const size_t bytes = floats_of(keeper_worker(both)) * sizeof(float);
    assert_memory_equal(train_parameters(keeper_worker(both)), train_parameters(keeper_train(both)),
                        bytes);
    /* Loading leaves the server's gradient zero: sums are added to it. */
    const float *gradient = train_gradient(keeper_train(both));
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        assert_true(gradient[i] == 0);
    }
    keeper_free(&both);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keepers_have_the_stages_that_they_need),
        cmocka_unit_test(a_unit_goes_into_every_stage_that_has_it),
        cmocka_unit_test(the_same_seed_gives_both_stages_the_same_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
