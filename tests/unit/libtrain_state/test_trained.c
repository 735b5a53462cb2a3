/* The file of a trained model contains all that its use needs, and a file that does not fit a model
 * is rejected with the name of the difference. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/state/trained.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

#define PREFIX_BYTES 8

static const struct evaluation evaluation = {.micro_batch = 7};

static struct trained_file *write_and_read(const struct model *model)
{
    BUF_AUTO struct buf text;
    struct trained_file *file = NULL;
    struct err err = {0};
    buf_init(&text, SAFETENSORS_HEADER_MAX);
    assert_ok(trained_header(model, &evaluation, &text, &err), &err);
    assert_ok(trained_read(text.data, text.size, &file, &err), &err);
    return file;
}

/* A header with this text, which is JSON or is not. */
static int read_header(const char *json, struct trained_file **out, struct err *err)
{
    const size_t size = strlen(json);
    char *bytes = calloc(1, PREFIX_BYTES + size);
    assert_non_null(bytes);
    for (size_t i = 0; i < PREFIX_BYTES; i++) {
        bytes[i] = (char)(size >> (8 * i) & 0xFF);
    }
    memcpy(bytes + PREFIX_BYTES, json, size);
    int rc = trained_read(bytes, PREFIX_BYTES + size, out, err);
    free(bytes);
    return rc;
}

static void assert_same_model(const struct model *a, const struct model *b)
{
    json_auto_t *one = description_write(a);
    json_auto_t *two = description_write(b);
    assert_true(one && two && json_equal(one, two));
}

static void every_model_of_the_zoo_is_in_its_own_file(void **state)
{
    (void)state;
    for (size_t i = 0; zoo_name(i); i++) {
        struct model *model = usual_model(zoo_name(i));
        struct trained_file *file = write_and_read(model);
        struct err err = {0};
        assert_same_model(file->model, model);
        assert_int_equal(file->evaluation.micro_batch, 7);
        assert_ok(trained_check(file, model, &err), &err);
        trained_free(&file);
        model_free(&model);
    }
}

static void a_file_of_another_model_is_rejected_by_the_first_differing_tensor(void **state)
{
    (void)state;
    struct model *small = zoo_model("resnet8", 28, 28, 1);
    struct model *colour = zoo_model("resnet8", 32, 32, 3);
    struct model *other = zoo_model("mlp", 28, 28, 1);
    struct trained_file *file = write_and_read(small);
    struct err err = {0};
    assert_int_equal(trained_check(file, colour, &err), ERR_INVALID);
    assert_holds(err.text,
                 "tensor 'stem.0.weight' is 16 x 1 x 3 x 3 F32, the model's is 16 x 3 x 3 x 3 F32");
    assert_int_equal(trained_check(file, other, &err), ERR_INVALID);
    assert_holds(err.text, "is missing; 5 more tensors differ");
    file->header.tensor_count--;
    assert_int_equal(trained_check(file, small, &err), ERR_INVALID);
    assert_holds(err.text, "is missing");
    file->header.tensor_count += 2; /* after the last there is an empty one */
    memcpy(file->header.tensor[file->header.tensor_count - 1].name, "stranger", sizeof("stranger"));
    assert_int_equal(trained_check(file, small, &err), ERR_INVALID);
    assert_string_equal(err.text, "tensor 'stranger' is not part of the model");
    trained_free(&file);
    model_free(&small);
    model_free(&colour);
    model_free(&other);
}

static void a_file_without_a_description_is_read_without_a_model(void **state)
{
    (void)state;
    struct trained_file *file = NULL;
    struct err err = {0};
    assert_ok(read_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", &file,
                          &err),
              &err);
    assert_null(file->model);
    assert_int_equal(file->evaluation.micro_batch, EVALUATION_MICRO_BATCH);
    assert_int_equal(file->header.tensor_count, 1);
    trained_free(&file);
}

static void bytes_other_than_a_description_are_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *note, *part;
    } wrong[] = {
        {"", "what the file says of its model"},
        {"[]", "expected"},
        {"{}", "/model"},
        {"{\\\"model\\\":{}}", "/name"},
        {"{\\\"model\\\":{\\\"name\\\":\\\"m\\\",\\\"units\\\":[]}}", "/units"},
        {"{\\\"model\\\":{},\\\"evaluation\\\":{\\\"micro_batch\\\":0}}",
         "/evaluation/micro_batch"},
        {"{\\\"model\\\":{},\\\"evaluation\\\":{\\\"rotate\\\":1}}", "/evaluation/rotate"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct trained_file *file = NULL;
        struct err err = {0};
        char json[512];
        (void)snprintf(json, sizeof(json), "{\"__metadata__\":{\"paceline\":\"%s\"}}",
                       wrong[i].note);
        assert_int_not_equal(read_header(json, &file, &err), 0);
        assert_null(file);
        assert_holds(err.text, wrong[i].part);
    }
}

static void bytes_other_than_safetensors_are_rejected(void **state)
{
    (void)state;
    struct trained_file *file = NULL;
    struct err err = {0};
    assert_int_equal(read_header("PK\003\004", &file, &err), ERR_FORMAT);
    assert_int_equal(trained_read("", 0, &file, &err), ERR_FORMAT);
}

static void the_file_of_a_view_states_its_classes(void **state)
{
    (void)state;
    static const struct evaluation of_view = {
        .micro_batch = 7, .view = {.class = {3, 0, 7}, .class_count = 3, .negatives = 2}};
    BUF_AUTO struct buf text;
    struct trained_file *file = NULL;
    struct err err = {0};
    for (uint32_t outputs = 3; outputs <= 5; outputs++) {
        const struct model_fit fit = {{28, 28, 1}, DTYPE_U8, outputs, 1};
        struct model *model = good_model(zoo_text("mlp"), &fit);
        buf_init(&text, SAFETENSORS_HEADER_MAX);
        assert_ok(trained_header(model, &of_view, &text, &err), &err);
        int rc = trained_read(text.data, text.size, &file, &err);
        if (outputs == 4) {
            assert_ok(rc, &err);
            assert_int_equal(file->evaluation.view.class_count, 3);
            assert_int_equal(file->evaluation.view.class[2], 7);
            trained_free(&file);
        } else {
            assert_int_equal(rc, ERR_INVALID);
            assert_holds(err.text, "/evaluation/classes: 3 for a model of");
            assert_null(file);
        }
        buf_done(&text);
        model_free(&model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_of_the_zoo_is_in_its_own_file),
        cmocka_unit_test(a_file_of_another_model_is_rejected_by_the_first_differing_tensor),
        cmocka_unit_test(a_file_without_a_description_is_read_without_a_model),
        cmocka_unit_test(bytes_other_than_a_description_are_rejected),
        cmocka_unit_test(bytes_other_than_safetensors_are_rejected),
        cmocka_unit_test(the_file_of_a_view_states_its_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
