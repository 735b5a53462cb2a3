#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/utf8.h"
#include "libtrain/description/description_parts.h"
#include "libtrain/description/op_fields.h"
#include "libtrain/kernels/kernel_choice.h"

/* The unit being lowered: the forms of its tensors and the pointer for its faults. */
struct unit_state {
    struct lowering *lowering;
    struct unit *unit;
    const char *pointer; /* "/units/3" */
    struct tensor_form tensor[MODEL_UNIT_OPS_MAX + 1];
};

/* A chain within its unit. */
struct chain_place {
    const char *pointer; /* "/units/3/residual/body" */
    const char *prefix;  /* of op names: "block1.body" */
    enum op_part part;
    size_t branch;
};

/* JSON pointers into a unit and names of its ops. The description's limits keep them well below
 * these sizes. */
static void PRINTF_LIKE(3, 4) print(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out, size, format, arguments);
    va_end(arguments);
    ASSERT(length >= 0 && (size_t)length < size);
}

static void PRINTF_LIKE(3, 4)
    unit_fault(struct unit_state *state, const char *pointer, const char *format, ...)
{
    char text[RECORD_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    record_fault(state->lowering->faults, pointer, "unit '%s': %s", state->unit->name, text);
    state->lowering->broken = true;
}

/* Prefix the faults found since `from` with the unit's name, if it is known. */
static void name_faults(struct unit_state *state, size_t from)
{
    struct record_faults *faults = state->lowering->faults;
    for (size_t i = from; i < faults->count && state->unit->name[0]; i++) {
        struct record_fault found = faults->fault[i];
        char *message = faults->fault[i].message;
        int length = snprintf(message, RECORD_MESSAGE_MAX, "unit '%s': %s", state->unit->name,
                              found.message);
        if (length >= RECORD_MESSAGE_MAX) {
            utf8_mark_cut(message, RECORD_MESSAGE_MAX);
        }
    }
    state->lowering->broken = true;
}

static bool kernels_fit(struct unit_state *state, const struct op *op, const char *pointer)
{
    char member[RECORD_POINTER_MAX];
    struct kernel_choice choice = kernel_choice_of(op->kernels);
    size_t fault_count = state->lowering->faults->count;
    print(member, sizeof(member), "%s/kernels", pointer);
    if (!kernel_choice_fits(&choice, op, member, state->lowering->faults)) {
        name_faults(state, fault_count);
        return false;
    }
    return true;
}

/* Add an op whose fields and inputs are set; *output is its tensor. Does nothing in a broken
 * description. */
static void add_op(struct unit_state *state, const struct op *op, const char *pointer,
                   uint16_t *output)
{
    struct lowering *lowering = state->lowering;
    struct unit *unit = state->unit;
    if (lowering->broken) {
        return;
    }
    if (unit->op_count == MODEL_UNIT_OPS_MAX) {
        unit_fault(state, pointer,
                   "has more than %d ops, the joins of residual and branches included",
                   MODEL_UNIT_OPS_MAX);
        return;
    }
    struct op *added = &unit->op[unit->op_count];
    struct tensor_form input[MODEL_OP_INPUTS_MAX];
    struct err err = {0};
    *added = *op;
    for (size_t i = 0; i < op->input_count; i++) {
        input[i] = state->tensor[op->input[i]];
    }
    if (infer_op(added, input, &state->tensor[unit->op_count + 1], &err)) {
        unit_fault(state, pointer, "%s: %s%s", op_type_names[op->type], err.text,
                   lowering->assumption->note);
        return;
    }
    if (op->type == OP_CONV2D && !kernels_fit(state, added, pointer)) {
        return;
    }
    if (op->type == OP_EMBEDDING &&
        (lowering->model->input_scale != 1.0 || lowering->model->input_normalise.mean_count > 0)) {
        unit_fault(state, pointer,
                   "embedding: takes the stored numbers as they are: the input's scale must be 1%s",
                   lowering->model->input_normalise.mean_count > 0 ? ", without mean and std" : "");
        return;
    }
    lowering->activations += shape_elements(added->out);
    lowering->tensors += added->tensor_count;
    lowering->ops++;
    for (size_t i = 0; i < added->tensor_count; i++) {
        lowering->parameters += added->tensor[i].elements;
    }
    if (lowering->ops > MODEL_OPS_MAX) {
        unit_fault(state, pointer, "the model has more than %d ops up to here", MODEL_OPS_MAX);
    } else if (lowering->activations > MODEL_ACTIVATIONS_MAX) {
        unit_fault(state, pointer,
                   "the activations of one sample have more than %u elements up to here",
                   MODEL_ACTIVATIONS_MAX);
    } else if (lowering->parameters > MODEL_PARAMETERS_MAX) {
        unit_fault(state, pointer, "the parameters have more than %u elements up to here",
                   MODEL_PARAMETERS_MAX);
    } else if (lowering->tensors > MODEL_TENSORS_MAX) {
        unit_fault(state, pointer,
                   "there are more than %u tensors of parameters and buffers up to here",
                   MODEL_TENSORS_MAX);
    }
    *output = (uint16_t)++unit->op_count;
    lowering->assumption->op_count += !lowering->broken;
}

/* Lower a chain that starts at tensor `input`; *output is the tensor it ends with. */
static void lower_chain(struct unit_state *state, const struct chain *chain,
                        const struct chain_place *place, uint16_t input, uint16_t *output)
{
    bool inside = place->part != OP_PART_OPS && place->part != OP_PART_THEN;
    size_t number = 0;
    *output = input;
    for (size_t i = 0; i < chain->count; i++) {
        char pointer[RECORD_POINTER_MAX];
        struct op op;
        size_t fault_count = state->lowering->faults->count;
        print(pointer, sizeof(pointer), "%s/%zu", place->pointer, i);
        if (!op_fields_read(chain->op[i], pointer, state->lowering->classes, &op,
                            state->lowering->faults)) {
            name_faults(state, fault_count);
            continue;
        }
        /* A select has no number, so that the ops after it have the same names as without it. */
        if (op.type == OP_SELECT) {
            print(op.name, sizeof(op.name), "%s.%s", state->unit->name, op_type_names[op.type]);
        } else {
            print(op.name, sizeof(op.name), "%s.%zu", place->prefix, number++);
        }
        op.part = place->part;
        op.branch = (uint16_t)place->branch;
        op.input[0] = *output;
        op.input_count = 1;
        struct shape in = state->tensor[*output].shape;
        if (inside && op.type == OP_FLATTEN && (uint64_t)in.h * in.w > 1 &&
            !state->lowering->broken) {
            unit_fault(state, pointer,
                       "flatten: not inside a %s; put it into a unit of its own after this one",
                       place->part == OP_PART_BRANCH ? "branch" : "residual");
            continue;
        }
        add_op(state, &op, pointer, output);
    }
}

static void lower_named_chain(struct unit_state *state, const struct chain *chain,
                              const char *member, enum op_part part, uint16_t input,
                              uint16_t *output)
{
    char pointer[RECORD_POINTER_MAX];
    char prefix[MODEL_OP_NAME_MAX];
    print(pointer, sizeof(pointer), "%s/%s%s", state->pointer,
          part == OP_PART_BODY || part == OP_PART_SHORTCUT ? "residual/" : "", member);
    /* Ops of a plain chain are numbered without a part: "stem.0". */
    print(prefix, sizeof(prefix), "%s%s%s", state->unit->name, part == OP_PART_OPS ? "" : ".",
          part == OP_PART_OPS ? "" : member);
    lower_chain(state, chain, &(struct chain_place){pointer, prefix, part, 0}, input, output);
}

static void add_join(struct unit_state *state, enum op_type type, const char *member,
                     const uint16_t *input, size_t input_count, uint16_t *output)
{
    char pointer[RECORD_POINTER_MAX];
    print(pointer, sizeof(pointer), "%s/%s", state->pointer, member);
    struct op join = {.type = type, .part = OP_PART_JOIN, .input_count = input_count};
    memcpy(join.input, input, input_count * sizeof(input[0]));
    print(join.name, sizeof(join.name), "%s.%s", state->unit->name, op_type_names[type]);
    add_op(state, &join, pointer, output);
}

static void lower_residual(struct unit_state *state, const struct residual_fields *residual,
                           uint16_t *output)
{
    uint16_t ends[2];
    lower_named_chain(state, &residual->body, "body", OP_PART_BODY, 0, &ends[0]);
    lower_named_chain(state, &residual->shortcut, "shortcut", OP_PART_SHORTCUT, 0, &ends[1]);
    add_join(state, OP_ADD, "residual", ends, 2, output);
}

static void lower_branches(struct unit_state *state, const struct unit_fields *fields,
                           uint16_t *output)
{
    uint16_t ends[MODEL_OP_INPUTS_MAX];
    size_t empty = 0;
    for (size_t i = 0; i < fields->branch_count; i++) {
        char pointer[RECORD_POINTER_MAX];
        char prefix[MODEL_OP_NAME_MAX];
        print(pointer, sizeof(pointer), "%s/branches/%zu", state->pointer, i);
        print(prefix, sizeof(prefix), "%s.branches.%zu", state->unit->name, i);
        lower_chain(state, &fields->branch[i],
                    &(struct chain_place){pointer, prefix, OP_PART_BRANCH, i}, 0, &ends[i]);
        empty += fields->branch[i].count == 0;
        if (empty == 2 && fields->branch[i].count == 0) {
            unit_fault(state, pointer, "is the second empty branch; one may hand the input on");
        }
    }
    state->unit->branch_count = fields->branch_count;
    add_join(state, OP_CONCAT, "branches", ends, fields->branch_count, output);
}

static void lower_parts(struct unit_state *state, const struct unit_fields *fields)
{
    uint16_t output = 0;
    int forms = (fields->ops.count > 0) + fields->has_residual + (fields->branch_count > 0);
    if (forms != 1) {
        unit_fault(state, state->pointer, "needs exactly one of ops, residual and branches");
        return;
    }
    if (fields->ops.count > 0 && fields->then.count > 0) {
        unit_fault(state, state->pointer,
                   "then follows residual or branches; append its ops to ops");
    }
    if (fields->has_residual) {
        lower_residual(state, &fields->residual, &output);
    } else if (fields->branch_count > 0) {
        lower_branches(state, fields, &output);
    } else {
        lower_named_chain(state, &fields->ops, "ops", OP_PART_OPS, 0, &output);
    }
    lower_named_chain(state, &fields->then, "then", OP_PART_THEN, output, &output);
    if (!state->lowering->broken) {
        ASSERT(output == state->unit->op_count);
        state->unit->out = state->tensor[output].shape;
        state->lowering->form = state->tensor[output];
    }
}

bool description_valid_unit_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return name[0] != '\0' && name[strspn(name, letters)] == '\0';
}

static void check_name(struct unit_state *state, size_t index)
{
    const struct model *model = state->lowering->model;
    char pointer[RECORD_POINTER_MAX];
    print(pointer, sizeof(pointer), "%s/name", state->pointer);
    if (!description_valid_unit_name(state->unit->name)) {
        unit_fault(state, pointer, "a name has letters, digits, '_' and '-'");
    }
    for (size_t i = 0; i < index; i++) {
        if (strcmp(model->unit[i].name, state->unit->name) == 0) {
            unit_fault(state, pointer, "unit %zu has this name too", i);
            return;
        }
    }
}

void lower_unit(struct lowering *lowering, const json_t *value, size_t index)
{
    char pointer[RECORD_POINTER_MAX];
    struct unit *unit = &lowering->model->unit[index];
    struct unit_state state = {
        .lowering = lowering, .unit = unit, .pointer = pointer, .tensor[0] = lowering->form};
    struct unit_fields fields = {0};
    size_t fault_count = lowering->faults->count;
    print(pointer, sizeof(pointer), "/units/%zu", index);
    unit->op = calloc(MODEL_UNIT_OPS_MAX, sizeof(*unit->op));
    if (!unit->op) {
        lowering->out_of_memory = lowering->broken = true;
        return;
    }
    unit->in = lowering->form.shape;
    int rc = record_read(&unit_record, value, pointer, &fields, lowering->faults, NULL);
    memcpy(unit->name, fields.name, sizeof(unit->name));
    unit->frozen = fields.frozen;
    if (rc) {
        name_faults(&state, fault_count);
    } else {
        check_name(&state, index);
        lower_parts(&state, &fields);
    }
    record_done(&unit_record, &fields);
    if (unit->op_count > 0) {
        struct op *shrunk = realloc(unit->op, unit->op_count * sizeof(*unit->op));
        unit->op = shrunk ? shrunk : unit->op;
    }
}
