/* A model description: one that is accepted can be described, read back, counted and laid out. */
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "libtrain/description/description.h"
#include "libtrain/memory/memory.h"
#include "libtrain/model/cost.h"
#include "libtrain/state/state.h"
#include "libtrain/state/trained.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void describe(const struct model *model, struct buf *out)
{
    struct err err = {0};
    json_t *value = description_write(model);
    ASSERT(value && json_write(value, out, &err) == 0);
    json_decref(value);
}

static struct model *read_back(const struct buf *text)
{
    json_t *value = NULL;
    struct model *model = NULL;
    struct err err = {0};
    ASSERT(json_parse(text->data, text->size, &value, &err) == 0);
    ASSERT(description_parse(value, NULL, &model, NULL, &err) == 0);
    json_decref(value);
    return model;
}

/* Stages are planned for every device: the whole model as one, and its second half. */
static void check_memory(const struct model *model, const struct optimizer *optimizer)
{
    for (int variant = 0; variant < 8; variant++) {
        struct memory_request request = {.first = variant & 4 ? model->unit_count / 2 : 0,
                                         .end = model->unit_count,
                                         .micro_batch = 3,
                                         .in_flight = 2,
                                         .threads = 2,
                                         .recompute = variant & 1 ? RECOMPUTE_UNIT : RECOMPUTE_NONE,
                                         .backend = variant & 2 ? CONV2D_BACKEND_ONEDNN
                                                                : CONV2D_BACKEND_OWN};
        struct memory_bytes bytes;
        struct memory_growth growth;
        struct err err = {0};
        ASSERT(memory_of_stage(model, optimizer, &request, &bytes, &err) == 0);
        ASSERT(memory_of_range(model, optimizer, &request, &growth, &err) == 0);
        ASSERT(bytes.total == growth.base + growth.per_thread + growth.per_micro_batch);
    }
}

static void check_model(const struct model *model)
{
    static const struct optimizer momentum = {.type = OPTIMIZER_SGD, .momentum = 0.9};
    static struct unit_cost cost[MODEL_UNITS_MAX];
    BUF_AUTO struct buf text;
    BUF_AUTO struct buf again;
    BUF_AUTO struct buf header;
    struct err err = {0};
    buf_init(&text, 8 << 20);
    buf_init(&again, 8 << 20);
    buf_init(&header, SAFETENSORS_HEADER_MAX);
    describe(model, &text);
    struct model *second = read_back(&text);
    describe(second, &again);
    ASSERT(text.size == again.size && memcmp(text.data, again.data, text.size) == 0);
    model_free(&second);

    uint64_t export_bytes = 0;
    cost_count(model, cost);
    for (size_t i = 0; i < model->unit_count; i++) {
        struct state_layout *layout = NULL;
        ASSERT(cost[i].forward_flops >= 0 && cost[i].backward_flops >= 0);
        ASSERT(state_layout_new(model, i, &momentum, &layout, &err) == 0);
        ASSERT(layout->export_bytes == cost[i].parameter_bytes + cost[i].buffer_bytes);
        export_bytes += layout->export_bytes;
        state_layout_free(&layout);
    }
    check_memory(model, &momentum);
    ASSERT(export_bytes <= (uint64_t)MODEL_PARAMETERS_MAX * 4);
    static const struct evaluation evaluation = {.micro_batch = EVALUATION_MICRO_BATCH};
    struct trained_file *file = NULL;
    ASSERT(trained_header(model, &evaluation, &header, &err) == 0);
    ASSERT(trained_read(header.data, header.size, &file, &err) == 0);
    ASSERT(file->model && trained_check(file, model, &err) == 0);
    trained_free(&file);
}

/* A model that can be divided gives models that are read back as they were made. */
static void check_slices(const struct model *model)
{
    const struct slim_group group[] = {{model->classes, 0.4}, {1, 0.6}};
    for (size_t stem = 1; stem + 2 <= model->unit_count && stem < 4; stem++) {
        const struct slim_split split = {model, stem, group, 2};
        struct err err = {0};
        uint32_t least;
        ASSERT(slim_least_channels(model, stem, &least, &err) != 0 || least > 0);
        for (size_t i = 0; i < 2 && slim_check(&split, &err) == 0; i++) {
            BUF_AUTO struct buf text;
            BUF_AUTO struct buf again;
            struct slim_cost cost;
            buf_init(&text, 8 << 20);
            buf_init(&again, 8 << 20);
            ASSERT(slim_cost(&split, i, &cost, &err) == 0 && cost.forward_flops > 0);
            ASSERT(description_write_slice(&split, i, &text, &err) == 0);
            struct model *second = read_back(&text);
            describe(second, &again);
            ASSERT(text.size == again.size && memcmp(text.data, again.data, text.size) == 0);
            model_free(&second);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct model_fit fit = {{28, 28, 1}, DTYPE_U8, 10, 1};
    json_t *value = NULL;
    if (size > MODEL_DESCRIPTION_BYTES_MAX || json_parse((const char *)data, size, &value, NULL)) {
        return 0;
    }
    for (int with_fit = 0; with_fit < 2; with_fit++) {
        struct model *model = NULL;
        struct record_faults faults = {0};
        struct err err = {0};
        int rc = description_parse(value, with_fit ? &fit : NULL, &model, &faults, &err);
        ASSERT(rc == err.code && (rc == 0) == (faults.count == 0));
        if (rc == 0) {
            check_model(model);
            check_slices(model);
        }
        model_free(&model);
    }
    json_decref(value);
    return 0;
}
