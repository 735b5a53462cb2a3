#include "libtrain/kernels/kernel_table.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "libtrain/kernels/kernel_choice.h"
#include "libtrain/kernels/op_workspace.h"
#include "libtrain/kernels/winograd_plan.h"

#define NEAREST_MAX 1024 /* the most names that an unknown name is compared with */

static struct op *find_convolution(const struct model *model, const char *name)
{
    size_t unit = 0, index = 0;
    struct op *op = model_next_convolution(model, model->unit_count, &unit, &index);
    while (op && strcmp(op->name, name) != 0) {
        op = model_next_convolution(model, model->unit_count, &unit, &index);
    }
    return op;
}

static void unknown_op(const struct model *model, const char *name, struct record_faults *faults)
{
    const char *names[NEAREST_MAX];
    size_t count = 0, unit = 0, index = 0;
    struct op *op = model_next_convolution(model, model->unit_count, &unit, &index);
    for (; op && count < NEAREST_MAX;
         op = model_next_convolution(model, model->unit_count, &unit, &index)) {
        names[count++] = op->name;
    }
    const char *nearest = parse_nearest(name, names, count);
    if (nearest) {
        record_fault(faults, "/kernels", "the model has no convolution '%.96s'; did you mean '%s'?",
                     name, nearest);
    } else {
        record_fault(faults, "/kernels", "the model has no convolution '%.96s'", name);
    }
}

static void apply_row(struct model *model, const char *name, const json_t *value,
                      struct record_faults *faults)
{
    struct op *op = find_convolution(model, name);
    if (!op) {
        unknown_op(model, name, faults);
        return;
    }
    char pointer[RECORD_POINTER_MAX];
    (void)snprintf(pointer, sizeof(pointer), "/kernels/%s", op->name);
    struct kernel_choice choice = kernel_choice_of(op->kernels);
    if (record_read(&kernel_choice_record, value, pointer, &choice, faults, NULL) == 0 &&
        kernel_choice_fits(&choice, op, pointer, faults)) {
        op->kernels = kernel_choice_kernels(&choice);
    }
}

static size_t count_convolutions(const struct model *model)
{
    size_t count = 0, unit = 0, index = 0;
    while (model_next_convolution(model, model->unit_count, &unit, &index)) {
        count++;
    }
    return count;
}

/* Searching for the nearest name takes time. So a table with more ops than the model is rejected at
 * once, and reading stops when no further fault can be stored. */
static void apply_rows(struct model *model, json_t *table, struct record_faults *found)
{
    const size_t convolutions = count_convolutions(model);
    const char *name;
    json_t *value;
    if (json_object_size(table) > convolutions) {
        record_fault(found, "/kernels", "has %zu members; the model has %zu convolution%s",
                     json_object_size(table), convolutions, convolutions == 1 ? "" : "s");
        return;
    }
    json_object_foreach(table, name, value)
    {
        if (found->count == RECORD_FAULTS_MAX) {
            found->more = true;
            return;
        }
        apply_row(model, name, value, found);
    }
}

int kernel_table_apply(struct model *model, json_t *table, struct record_faults *faults,
                       struct err *err)
{
    struct record_faults found = {0};
    if (!table || json_is_null(table)) {
        return 0;
    }
    if (!json_is_object(table)) {
        record_fault(&found, "/kernels",
                     "expected null or an object with a member for each convolution");
    } else {
        apply_rows(model, table, &found);
    }
    if (found.count == 0) {
        return 0;
    }
    for (size_t i = 0; faults && i < found.count; i++) {
        record_fault(faults, found.fault[i].pointer, "%s", found.fault[i].message);
    }
    if (faults && found.more) {
        faults->more = true;
    }
    return err_set(err, ERR_INVALID, "%s: %s", found.fault[0].pointer, found.fault[0].message);
}

json_t *kernel_table_describe(const struct model *model, enum conv2d_backend backend)
{
    json_t *table = json_object();
    size_t unit = 0, index = 0;
    struct op *op = model_next_convolution(model, model->unit_count, &unit, &index);
    for (; table && op; op = model_next_convolution(model, model->unit_count, &unit, &index)) {
        struct conv2d_shape shape = op_conv2d_shape(op, 1);
        struct kernel_choice choice =
            kernel_choice_of(conv2d_kernels_resolve(op->kernels, &shape, backend));
        if (json_object_set_new(table, op->name, record_write(&kernel_choice_record, &choice)) !=
            0) {
            json_decref(table);
            table = NULL;
        }
    }
    return table;
}

bool kernel_table_needs_onednn(const struct model *model)
{
    size_t unit = 0, index = 0;
    struct op *op = model_next_convolution(model, model->unit_count, &unit, &index);
    for (; op; op = model_next_convolution(model, model->unit_count, &unit, &index)) {
        for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
            if (conv2d_kernel_is_onednn((enum conv2d_kernel)op->kernels.pass[pass])) {
                return true;
            }
        }
    }
    return false;
}

bool kernel_table_fills_channels(const struct model *model)
{
    size_t unit = 0, index = 0;
    struct op *op = model_next_convolution(model, model->unit_count, &unit, &index);
    for (; op; op = model_next_convolution(model, model->unit_count, &unit, &index)) {
        const struct conv2d_shape shape = op_conv2d_shape(op, 1);
        for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
            if (op->kernels.pass[pass] == CONV2D_WINOGRAD4 && !conv2d_is_winograd(&shape)) {
                return true;
            }
        }
    }
    return false;
}
