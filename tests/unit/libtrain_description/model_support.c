#include "tests/unit/libtrain_description/model_support.h"

#include <string.h>

#include "base/json.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "tests/support/test.h"

json_t *read_json(const char *text)
{
    json_t *value = NULL;
    struct err err = {0};
    assert_ok(json_parse(text, strlen(text), &value, &err), &err);
    return value;
}

int parse_model(const char *text, const struct model_fit *fit, struct model **out,
                struct record_faults *faults, struct err *err)
{
    json_t *value = read_json(text);
    int rc = description_parse(value, fit, out, faults, err);
    json_decref(value);
    return rc;
}

struct model *good_model(const char *text, const struct model_fit *fit)
{
    struct model *model = NULL;
    struct err err = {0};
    assert_ok(parse_model(text, fit, &model, NULL, &err), &err);
    return model;
}

struct model *zoo_model(const char *name, uint32_t h, uint32_t w, uint32_t c)
{
    const char *text = zoo_text(name);
    assert_non_null(text);
    struct model_fit fit = {{h, w, c}, DTYPE_U8, 10, 1};
    if (strstr(text, "embedding")) {
        fit = (struct model_fit){{h, 1, 1}, DTYPE_U8, 256, h};
    }
    return good_model(text, &fit);
}

/* Branches of the stem and of branches, depthwise convolutions, a residual, a flatten. */
static const char branched[] =
    "{\"name\": \"branched\", \"units\": [{\"name\": \"stem\", \"ops\": [{\"type\": "
    "\"conv2d\", \"filters\": 24, \"kernel\": 3, \"padding\": 1}, {\"type\": \"relu\"}]}, "
    "{\"name\": \"mix\", \"branches\": [[], [{\"type\": \"conv2d\", \"filters\": 20, "
    "\"kernel\": 3, \"padding\": 1}, {\"type\": \"batch_norm\"}, {\"type\": \"relu\"}], "
    "[{\"type\": \"conv2d\", \"filters\": 24, \"kernel\": 3, \"padding\": 1, \"groups\": "
    "24}, {\"type\": \"conv2d\", \"filters\": 33, \"kernel\": 3, \"padding\": 1}]], "
    "\"then\": [{\"type\": \"batch_norm\"}, {\"type\": \"relu\"}]}, {\"name\": \"again\", "
    "\"branches\": [[{\"type\": \"max_pool\", \"kernel\": 3, \"stride\": 1, \"padding\": "
    "1}], [{\"type\": \"conv2d\", \"filters\": 40, \"kernel\": 3, \"padding\": 1}]]}, "
    "{\"name\": \"sum\", \"residual\": {\"body\": [{\"type\": \"conv2d\", \"filters\": 117, "
    "\"kernel\": 3, \"padding\": 1, \"groups\": 117}, {\"type\": \"relu\"}]}}, {\"name\": "
    "\"flat\", \"ops\": [{\"type\": \"max_pool\", \"kernel\": 2}, {\"type\": \"flatten\"}, "
    "{\"type\": \"dropout\"}, {\"type\": \"linear\", \"units\": 50}, {\"type\": \"silu\"}]}, "
    "{\"name\": \"head\", \"ops\": [{\"type\": \"linear\", \"units\": \"classes\"}]}]}";

struct model *branched_model(void)
{
    return good_model(branched, &(struct model_fit){{12, 10, 3}, DTYPE_U8, 10, 1});
}

struct model *usual_model(const char *name)
{
    const struct model_fit *fit = zoo_fit(name);
    assert_non_null(fit);
    return good_model(zoo_text(name), fit);
}

void assert_fault(const char *text, const struct model_fit *fit, const char *pointer,
                  const char *part)
{
    struct model *model = NULL;
    struct record_faults faults = {0};
    struct err err = {0};
    assert_int_equal(parse_model(text, fit, &model, &faults, &err), ERR_INVALID);
    assert_null(model);
    assert_true(faults.count > 0);
    assert_int_equal(err.code, ERR_INVALID);
    for (size_t i = 0; i < faults.count; i++) {
        if (strcmp(faults.fault[i].pointer, pointer) == 0 &&
            strstr(faults.fault[i].message, part)) {
            return;
        }
    }
    for (size_t i = 0; i < faults.count; i++) {
        print_error("found: %s: %s\n", faults.fault[i].pointer, faults.fault[i].message);
    }
    fail_msg("no fault at '%s' that holds \"%s\"", pointer, part);
}

const struct op *find_op(const struct model *model, const char *name)
{
    for (size_t i = 0; i < model->unit_count; i++) {
        for (size_t k = 0; k < model->unit[i].op_count; k++) {
            if (strcmp(model->unit[i].op[k].name, name) == 0) {
                return &model->unit[i].op[k];
            }
        }
    }
    fail_msg("no op '%s'", name);
    return NULL;
}
