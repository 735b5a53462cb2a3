/* An uploaded checkpoint as a whole file: its header, and the tensors for the units of a small
 * model. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "libtrain/description/description.h"
#include "libtrain/state/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct file {
    const uint8_t *data;
    size_t size;
};

static int read_file(void *arg, uint64_t offset, void *out, size_t size, struct err *err)
{
    const struct file *file = arg;
    if (offset > file->size || size > file->size - offset) {
        return err_set(err, ERR_FORMAT, "the file ends");
    }
    memcpy(out, file->data + offset, size);
    return 0;
}

static struct model *small_model(void)
{
    static const char text[] =
        "{\"name\":\"m\",\"input\":{\"shape\":[1,1,3],\"dtype\":\"float32\"},\"units\":["
        "{\"name\":\"a\",\"ops\":[{\"type\":\"linear\",\"units\":2},{\"type\":\"batch_norm\"}]},"
        "{\"name\":\"b\",\"ops\":[{\"type\":\"linear\",\"units\":2}]}]}";
    json_auto_t *description = NULL;
    struct model *model = NULL;
    ASSERT(json_parse(text, strlen(text), &description, NULL) == 0);
    ASSERT(description_parse(description, NULL, &model, NULL, NULL) == 0);
    return model;
}

static void take_unit(struct checkpoint_file *file, const struct model *model, size_t unit)
{
    static const struct optimizer momentum = {.type = OPTIMIZER_SGD, .momentum = 0.9};
    struct state_layout *layout = NULL;
    struct err err = {0};
    ASSERT(state_layout_new(model, unit, &momentum, &layout, &err) == 0);
    void *blob = malloc((size_t)layout->blob_bytes);
    ASSERT(blob);
    int checked = checkpoint_check_unit(file, model, unit, &err);
    int read = checkpoint_read_unit(file, model, unit, layout, blob, &err);
    ASSERT(checked == 0 ? read == 0 || read == ERR_FORMAT
                        : read != 0); /* a file truncated in its data */
    ASSERT(read != 0 || memcmp(blob, layout->header_text, (size_t)layout->header.data_offset) == 0);
    free(blob);
    state_layout_free(&layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct file bytes = {.data = data, .size = size};
    struct checkpoint_file *file = NULL;
    struct err err = {0};
    if (checkpoint_file_open(read_file, &bytes, &file, &err) != 0) {
        ASSERT(!file && err.code != 0);
        return 0;
    }
    ASSERT(checkpoint_file_bytes(file) >= 10);
    struct model *model = small_model();
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        take_unit(file, model, unit);
    }
    model_free(&model);
    checkpoint_file_close(&file);
    return 0;
}
