#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/model/recipe.h"
#include "schema/model_view.h"

/* fit NULL: the description is complete. */
static struct model_view *view_of(const char *text, const struct model_fit *fit)
{
    struct err err = {0};
    json_auto_t *description = NULL;
    assert_ok(json_parse(text, strlen(text), &description, &err), &err);
    struct model *model = NULL;
    assert_ok(description_parse(description, fit, &model, NULL, &err), &err);
    struct model_view *view = calloc(1, sizeof(*view));
    assert_non_null(view);
    struct model_row row = {.revision = 3};
    (void)snprintf(row.name, sizeof(row.name), "%s", model->name);
    memset(row.sha256, 'a', sizeof(row.sha256) - 1);
    assert_ok(model_view_make(model, &row, fit != NULL, view, &err), &err);
    model_free(&model);
    return view;
}

static void a_chain_of_linear_units_is_counted_by_hand(void **state)
{
    (void)state;
    struct model_view *view = view_of(
        "{\"name\": \"tiny\", \"input\": {\"shape\": [4, 4, 3], \"dtype\": \"uint8\", \"scale\": "
        "1}, \"units\": ["
        "{\"name\": \"hidden\", \"ops\": [{\"type\": \"flatten\"}, {\"type\": \"linear\", "
        "\"units\": 5}]},"
        "{\"name\": \"head\", \"ops\": [{\"type\": \"linear\", \"units\": 2, \"bias\": false}]}],"
        "\"loss\": {\"type\": \"softmax_cross_entropy\"}}",
        NULL);
    assert_string_equal(view->row.name, "tiny");
    assert_int_equal(view->unit_count, 2);
    assert_int_equal(view->height * view->width * view->channels, 48);
    assert_string_equal(view->dtype, "U8");
    assert_int_equal(view->classes, 2);
    assert_string_equal(view->unit[0].name, "hidden");
    assert_int_equal(view->unit[0].parameters, 48 * 5 + 5);
    assert_int_equal(view->unit[0].parameter_bytes, 4 * (48 * 5 + 5));
    assert_int_equal(view->unit[0].output_bytes, 4 * 5);
    assert_int_equal(view->unit[0].channels, 5);
    assert_int_equal(view->unit[1].parameters, 5 * 2);
    assert_int_equal(view->parameters, 48 * 5 + 5 + 5 * 2);
    assert_true(view->forward_flops >= 2.0 * (48 * 5 + 5 * 2));
    free(view);
}

static void every_model_of_the_zoo_can_be_shown(void **state)
{
    (void)state;
    const char *name;
    for (size_t i = 0; (name = zoo_name(i)) != NULL; i++) {
        struct model_view *view = view_of(zoo_text(name), zoo_fit(name));
        assert_string_equal(view->row.name, name);
        assert_true(view->assumed);
        assert_true(view->unit_count > 1 && view->parameters > 0 && view->backward_flops > 0);
        assert_true(view->sgd_learning_rate == learning_rate_default(name, OPTIMIZER_SGD));
        json_auto_t *written = record_write(&model_view_record, view);
        assert_int_equal(json_array_size(json_object_get(written, "units")), view->unit_count);
        free(view);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_of_linear_units_is_counted_by_hand),
        cmocka_unit_test(every_model_of_the_zoo_can_be_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
