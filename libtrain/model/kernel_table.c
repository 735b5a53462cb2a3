#include "libtrain/model/kernel_table.h"

#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "libtrain/model/op_workspace.h"

#define NEAREST_MAX 1024 /* names of convolutions that a misspelled one is compared with */

/* ---- one op ---- */

#define MEMBER_PASS(pass, name)                                                                    \
    MEMBER_ENUM(struct kernel_choice, kernel[pass], name, FIELD_SKIP_EMPTY, conv2d_kernel_names)
static const struct field choice_fields[] = {
    MEMBER_PASS(CONV2D_FORWARD, "forward"),
    MEMBER_PASS(CONV2D_BACKWARD_DATA, "backward_data"),
    MEMBER_PASS(CONV2D_BACKWARD_WEIGHTS, "backward_weights"),
};
const struct record kernel_choice_record = RECORD(struct kernel_choice, "kernels", choice_fields);

struct kernel_choice kernel_choice_of(struct conv2d_kernels kernels)
{
    struct kernel_choice choice;
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        choice.kernel[pass] = kernels.pass[pass];
    }
    return choice;
}

struct conv2d_kernels kernel_choice_kernels(const struct kernel_choice *choice)
{
    struct conv2d_kernels kernels;
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        kernels.pass[pass] = (uint8_t)choice->kernel[pass];
    }
    return kernels;
}

bool kernel_choice_fits(const struct kernel_choice *choice, const struct op *op,
                        const char *pointer, struct record_faults *faults)
{
    struct conv2d_shape shape = op_conv2d_shape(op, 1);
    bool fits = true;
    for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
        if (!conv2d_kernel_can((enum conv2d_kernel)choice->kernel[pass], &shape,
                               (enum conv2d_pass)pass)) {
            char member[RECORD_POINTER_MAX];
            (void)snprintf(member, sizeof(member), "%.130s/%s", pointer, conv2d_pass_names[pass]);
            record_fault(faults, member,
                         "'%s' cannot do %zu x %zu, stride %zu x %zu, padding %zu x %zu, %zu "
                         "groups, %zu to %zu"
                         " channels on %zu x %zu",
                         conv2d_kernel_names[choice->kernel[pass]], shape.KH, shape.KW, shape.SH,
                         shape.SW, shape.PH, shape.PW, shape.G, shape.C, shape.O, shape.H, shape.W);
            fits = false;
        }
    }
    return fits;
}

/* ---- the table ---- */

struct op *convolution_next(const struct model *model, size_t end, size_t *unit, size_t *op)
{
    for (; *unit < end; (*unit)++, *op = 0) {
        while (*op < model->unit[*unit].op_count) {
            struct op *candidate = &model->unit[*unit].op[(*op)++];
            if (candidate->type == OP_CONV2D) {
                return candidate;
            }
        }
    }
    return NULL;
}

static struct op *find_convolution(const struct model *model, const char *name)
{
    size_t unit = 0, index = 0;
    struct op *op = convolution_next(model, model->unit_count, &unit, &index);
    while (op && strcmp(op->name, name) != 0) {
        op = convolution_next(model, model->unit_count, &unit, &index);
    }
    return op;
}

static void unknown_op(const struct model *model, const char *name, struct record_faults *faults)
{
    const char *names[NEAREST_MAX];
    size_t count = 0, unit = 0, index = 0;
    struct op *op = convolution_next(model, model->unit_count, &unit, &index);
    for (; op && count < NEAREST_MAX;
         op = convolution_next(model, model->unit_count, &unit, &index)) {
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
    while (convolution_next(model, model->unit_count, &unit, &index)) {
        count++;
    }
    return count;
}

/* What an unknown name is compared with takes time: no table names more ops than there are, and who
 * has got as many faults as are told need not wait for others. */
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
    struct op *op = convolution_next(model, model->unit_count, &unit, &index);
    for (; table && op; op = convolution_next(model, model->unit_count, &unit, &index)) {
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
    struct op *op = convolution_next(model, model->unit_count, &unit, &index);
    for (; op; op = convolution_next(model, model->unit_count, &unit, &index)) {
        for (size_t pass = 0; pass < CONV2D_PASSES; pass++) {
            if (conv2d_kernel_is_onednn((enum conv2d_kernel)op->kernels.pass[pass])) {
                return true;
            }
        }
    }
    return false;
}
