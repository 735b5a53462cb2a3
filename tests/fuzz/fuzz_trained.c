/* The header of a model's file: an accepted one with a description is written again with the same
 * content. */
#include <string.h>

#include "base/assert.h"
#include "libtrain/state/trained.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_file(const struct trained_file *file)
{
    BUF_AUTO struct buf text;
    BUF_AUTO struct buf again;
    struct trained_file *second = NULL;
    struct err err = {0};
    buf_init(&text, SAFETENSORS_HEADER_MAX);
    buf_init(&again, SAFETENSORS_HEADER_MAX);
    const int rc = trained_check(file, file->model, &err);
    ASSERT(rc == err.code);
    ASSERT(trained_header(file->model, &file->evaluation, &text, &err) == 0);
    ASSERT(trained_read(text.data, text.size, &second, &err) == 0);
    ASSERT(trained_check(second, file->model, &err) == 0);
    ASSERT(trained_header(second->model, &second->evaluation, &again, &err) == 0);
    ASSERT(text.size == again.size && memcmp(text.data, again.data, text.size) == 0);
    trained_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trained_file *file = NULL;
    struct err err = {0};
    const int rc = trained_read(data, size, &file, &err);
    ASSERT(rc == err.code && (rc == 0) == (file != NULL));
    if (rc == 0 && file->model) {
        check_file(file);
    }
    trained_free(&file);
    return 0;
}
