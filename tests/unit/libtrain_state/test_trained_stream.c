/* The file of a trained model is judged as its bytes arrive: in pieces of any size, the same file
 * passes, and one of another model, of another length, or with a number that is not finite fails.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/state/trained_stream.h"
#include "tests/support/test.h"
#include "tests/unit/libtrain_description/model_support.h"

static const struct evaluation evaluation = {.micro_batch = 7};

/* A file of ones. *data: where its numbers begin. */
static void write_file(const struct model *model, const struct evaluation *states, struct buf *out,
                       size_t *data)
{
    struct trained_file *file = NULL;
    struct err err = {0};
    buf_init(out, 64 << 20);
    assert_ok(trained_header(model, states, out, &err), &err);
    assert_ok(trained_read(out->data, out->size, &file, &err), &err);
    *data = out->size;
    for (uint64_t i = 0; i < file->header.data_bytes / sizeof(float); i++) {
        assert_ok(buf_append(out, &(float){1}, sizeof(float), &err), &err);
    }
    trained_free(&file);
}

static int judge(const struct model *model, const struct buf *file, size_t size, size_t piece,
                 struct err *err)
{
    struct trained_stream stream;
    int rc = 0;
    trained_stream_init(&stream);
    for (size_t at = 0; rc == 0 && at < size; at += piece) {
        const size_t part = size - at < piece ? size - at : piece;
        rc = trained_stream_take(&stream, model, &evaluation, file->data + at, part, err);
    }
    rc = rc ? rc : trained_stream_end(&stream, err);
    trained_stream_done(&stream);
    return rc;
}

static void a_file_passes_in_pieces_of_any_size(void **state)
{
    (void)state;
    static const size_t piece[] = {1, 3, 7, 4096, 1 << 20};
    BUF_AUTO struct buf file;
    size_t data;
    struct model *model = usual_model("lenet5");
    write_file(model, &evaluation, &file, &data);
    for (size_t i = 0; i < sizeof(piece) / sizeof(piece[0]); i++) {
        struct err err = {0};
        assert_ok(judge(model, &file, file.size, piece[i], &err), &err);
    }
    model_free(&model);
}

static void a_number_that_is_not_finite_is_found_wherever_a_piece_ends(void **state)
{
    (void)state;
    static const float wrong[] = {NAN, -NAN, INFINITY, -INFINITY};
    BUF_AUTO struct buf file;
    size_t data;
    struct model *model = usual_model("mlp");
    write_file(model, &evaluation, &file, &data);
    const size_t last = (file.size - data) / sizeof(float) - 1;
    for (size_t i = 0; i < 4; i++) {
        const size_t place = i == 0 ? 0 : i == 3 ? last : 1000 * i;
        char *number = file.data + data + place * sizeof(float), words[64];
        memcpy(number, &wrong[i], sizeof(float));
        (void)snprintf(words, sizeof(words), "number %zu of the file is not finite", place);
        for (size_t piece = 5; piece < 5000; piece *= 7) {
            struct err err = {0};
            assert_int_equal(judge(model, &file, file.size, piece, &err), ERR_INVALID);
            assert_string_equal(err.text, words);
        }
        memcpy(number, &(float){1}, sizeof(float));
    }
    model_free(&model);
}

static void a_file_with_bytes_too_few_or_too_many_is_rejected(void **state)
{
    (void)state;
    BUF_AUTO struct buf file;
    size_t data;
    struct err err = {0};
    struct model *model = usual_model("mlp");
    write_file(model, &evaluation, &file, &data);
    assert_int_equal(judge(model, &file, 0, 100, &err), ERR_FORMAT);
    assert_string_equal(err.text, "the file ends before its header does");
    assert_int_equal(judge(model, &file, data - 1, 100, &err), ERR_FORMAT);
    assert_int_equal(judge(model, &file, data, 100, &err), ERR_FORMAT);
    assert_int_equal(judge(model, &file, file.size - 1, 100, &err), ERR_FORMAT);
    assert_holds(err.text, "its header describes");
    assert_ok(buf_append(&file, "", 1, &err), &err);
    assert_int_equal(judge(model, &file, file.size, 100, &err), ERR_FORMAT);
    assert_string_equal(err.text, "the file is longer than its header describes");
    model_free(&model);
}

/* One of the same tensors, too. */
static void a_file_of_another_model_or_evaluation_is_rejected(void **state)
{
    (void)state;
    static const struct evaluation other = {.micro_batch = 8};
    BUF_AUTO struct buf file;
    size_t data;
    struct err err = {0};
    struct model *model = usual_model("mlp"), *deep = usual_model("lenet5");
    write_file(deep, &evaluation, &file, &data);
    assert_int_equal(judge(model, &file, file.size, 4096, &err), ERR_INVALID);
    assert_holds(err.text, "tensor '");
    buf_done(&file);
    write_file(model, &other, &file, &data);
    assert_int_equal(judge(model, &file, file.size, 4096, &err), ERR_INVALID);
    assert_string_equal(err.text, "the file states another evaluation than the job's");
    buf_done(&file);
    write_file(model, &evaluation, &file, &data);
    model->input_scale *= 2;
    assert_int_equal(judge(model, &file, file.size, 4096, &err), ERR_INVALID);
    assert_string_equal(err.text, "the file describes another model than the job's");
    model_free(&model);
    model_free(&deep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_passes_in_pieces_of_any_size),
        cmocka_unit_test(a_number_that_is_not_finite_is_found_wherever_a_piece_ends),
        cmocka_unit_test(a_file_with_bytes_too_few_or_too_many_is_rejected),
        cmocka_unit_test(a_file_of_another_model_or_evaluation_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
