#include "libtrain/model/slim.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/model/slim_parts.h"

#define NAME_SUFFIX "-slice"

/* ---- one op ---- */

static void set_dim(struct op_tensor *tensor, size_t index, uint32_t size)
{
    tensor->elements = tensor->elements / tensor->dim[index] * size;
    tensor->dim[index] = size;
}

static void narrow_tensors(struct op *op)
{
    for (size_t i = 0; i < op->tensor_count; i++) {
        set_dim(&op->tensor[i], 0, op->out.c);
        if (op->type == OP_LINEAR && op->tensor[i].rank > 1) {
            set_dim(&op->tensor[i], 1, op->in.c);
        } else if (op->type == OP_CONV2D && op->tensor[i].rank > 1) {
            set_dim(&op->tensor[i], 1, op->in.c / op->groups);
        }
    }
}

/* Return a group's narrow copy of op k. Its inputs are numbered as in the target. */
static struct op narrow_op(const struct slim_split *split, const struct unit *unit, size_t index,
                           const struct slim_unit *divided, size_t k, size_t group)
{
    struct op op = unit->op[k];
    const struct slim_channels in = slim_input(divided, &op, k, 0);
    const struct slim_channels *out = &divided->tensor[k + 1];
    const bool head = slim_is_head(split, index, k);
    const bool depthwise = op.type == OP_CONV2D && op.groups > 1;
    const uint32_t channels = slim_count(split, &in, group);
    op.in.c = channels * in.area;
    op.out.c = head ? split->group[group].classes + 1 : slim_count(split, out, group) * out->area;
    op.groups = depthwise ? op.in.c : op.groups;
    op.kernels = (struct conv2d_kernels){{0}};
    if (op.type == OP_LINEAR && !in.whole) {
        op.flat_from.c = channels;
    }
    narrow_tensors(&op);
    return op;
}

/* Return the select of the group's channels of input i of op k. The input is whole. */
static struct op select_op(const struct slim_split *split, const struct unit *unit,
                           const struct slim_unit *divided, size_t k, size_t i, size_t group)
{
    const struct op *reader = &unit->op[k];
    const struct slim_channels input = slim_input(divided, reader, k, i);
    struct slim_range range[SLIM_PARTS_MAX];
    const size_t ranges = slim_ranges(split, &input, group, range);
    const uint16_t from = reader->input[i];
    ASSERT(ranges == 1);
    struct op op = {.type = OP_SELECT,
                    .part = reader->part,
                    .branch = reader->branch,
                    .in = from == 0 ? unit->in : unit->op[from - 1].out,
                    .input_count = 1,
                    .first = range[0].first};
    op.out = (struct shape){op.in.h, op.in.w, range[0].count};
    if (reader->type == OP_ADD) {
        op.part = i == 0 ? OP_PART_BODY : OP_PART_SHORTCUT;
    } else if (reader->type == OP_CONCAT) {
        op.part = OP_PART_BRANCH;
        op.branch = (uint16_t)i;
    }
    return op;
}

/* ---- one unit ---- */

/* A unit of a group's model under construction. Its ops have the order of the description's reader:
 * chain by chain, each chain with its selects. */
struct narrowing {
    const struct slim_split *split;
    const struct unit *from;
    const struct slim_unit *divided;
    size_t index, group;
    struct unit *unit;                       /* unit->op has room for MODEL_UNIT_OPS_MAX */
    uint16_t tensor[MODEL_UNIT_OPS_MAX + 1]; /* number in the unit, by the target's tensor */
    uint16_t selected[MODEL_OP_INPUTS_MAX];  /* numbers of the join's inputs, after selects */
    size_t chains;                           /* inputs of the join whose chain is complete */
    bool full;
};

/* Returns the number of the op's tensor. */
static uint16_t append_op(struct narrowing *narrowing, const struct op *op)
{
    struct unit *unit = narrowing->unit;
    if (unit->op_count == MODEL_UNIT_OPS_MAX) {
        narrowing->full = true;
        return 0;
    }
    unit->op[unit->op_count] = *op;
    return (uint16_t)++unit->op_count;
}

static uint16_t append_select(struct narrowing *narrowing, size_t k, size_t i)
{
    const struct op *reader = &narrowing->from->op[k];
    struct op op =
        select_op(narrowing->split, narrowing->from, narrowing->divided, k, i, narrowing->group);
    op.input[0] = narrowing->tensor[reader->input[i]];
    const int length = snprintf(op.name, sizeof(op.name), "%s.%s", narrowing->from->name,
                                op_type_names[OP_SELECT]);
    ASSERT(length > 0 && (size_t)length < sizeof(op.name));
    return append_op(narrowing, &op);
}

static size_t chain_of(const struct op *op)
{
    return op->part == OP_PART_SHORTCUT ? 1 : op->part == OP_PART_BRANCH ? op->branch : 0;
}

/* The join of the unit, or op_count. */
static size_t find_join(const struct unit *unit)
{
    size_t k = 0;
    while (k < unit->op_count && unit->op[k].part != OP_PART_JOIN) {
        k++;
    }
    return k;
}

/* Complete the chains before number `end`. They are inputs of the join at op k. */
static void end_chains(struct narrowing *narrowing, size_t k, size_t end)
{
    for (; narrowing->chains < end; narrowing->chains++) {
        const size_t i = narrowing->chains;
        narrowing->selected[i] = narrowing->divided->select[k][i]
                                     ? append_select(narrowing, k, i)
                                     : narrowing->tensor[narrowing->from->op[k].input[i]];
    }
}

static void narrow_ops(struct narrowing *narrowing)
{
    const struct unit *from = narrowing->from;
    const size_t join = find_join(from);
    for (size_t k = 0; k < from->op_count && !narrowing->full; k++) {
        struct op op = narrow_op(narrowing->split, from, narrowing->index, narrowing->divided, k,
                                 narrowing->group);
        if (join < from->op_count && k <= join) {
            end_chains(narrowing, join, k == join ? op.input_count : chain_of(&op));
        }
        if (k == join) {
            memcpy(op.input, narrowing->selected, op.input_count * sizeof(op.input[0]));
        } else {
            op.input[0] = narrowing->divided->select[k][0] ? append_select(narrowing, k, 0)
                                                           : narrowing->tensor[op.input[0]];
        }
        narrowing->tensor[k + 1] = append_op(narrowing, &op);
    }
}

/* Derive a group's unit from a divided unit of the target. The caller owns `unit->op`. */
static int narrow_unit(const struct slim_split *split, size_t index,
                       const struct slim_unit *divided, size_t group, struct unit *unit,
                       struct err *err)
{
    const struct unit *from = &split->target->unit[index];
    struct op *op = unit->op;
    *unit = *from;
    unit->op = op;
    unit->op_count = 0;
    struct narrowing narrowing = {.split = split,
                                  .from = from,
                                  .divided = divided,
                                  .index = index,
                                  .group = group,
                                  .unit = unit};
    narrow_ops(&narrowing);
    if (narrowing.full) {
        return err_set(err, ERR_INVALID, "unit '%s': has more than %d ops with its selects",
                       from->name, MODEL_UNIT_OPS_MAX);
    }
    unit->in.c = slim_count(split, &divided->tensor[0], group) * divided->tensor[0].area;
    unit->out = unit->op[unit->op_count - 1].out;
    return 0;
}

/* ---- the whole ---- */

/* Called for each unit after the stem; groups share `divided`. */
typedef int (*unit_fn)(void *arg, size_t unit, const struct slim_unit *divided, struct err *err);

static int walk_units(const struct slim_split *split, unit_fn visit, void *arg,
                      struct slim_walk *walk, struct err *err)
{
    struct slim_unit divided;
    int rc = slim_check_split(split, err);
    if (rc) {
        return rc;
    }
    slim_begin(split, walk);
    for (size_t unit = split->stem; unit < split->target->unit_count && rc == 0; unit++) {
        rc = slim_divide_unit(split, unit, walk, &divided, err);
        rc = rc || !visit ? rc : visit(arg, unit, &divided, err);
    }
    if (rc == 0 && walk->least == UINT32_MAX) {
        return err_set(err, ERR_INVALID, "the units after the stem have no channels to divide");
    }
    return rc;
}

int slim_check_group(const struct slim_split *split, size_t *group, struct err *err)
{
    struct slim_walk walk = {.narrow = split->group_count};
    int rc = split->group_count < 1 ? err_set(err, ERR_INVALID, "no groups")
                                    : walk_units(split, NULL, NULL, &walk, err);
    *group = walk.narrow;
    return rc;
}

int slim_check(const struct slim_split *split, struct err *err)
{
    size_t group;
    return slim_check_group(split, &group, err);
}

int slim_least_channels(const struct model *target, size_t stem, uint32_t *least, struct err *err)
{
    const struct slim_split split = {.target = target, .stem = stem};
    struct slim_walk walk;
    int rc = walk_units(&split, NULL, NULL, &walk, err);
    if (rc == 0) {
        *least = walk.least;
    }
    return rc;
}

/* ---- a group's model ---- */

struct derivation {
    const struct slim_split *split;
    size_t group;
    struct model *model;
};

static int copy_ops(const struct unit *from, struct unit *to, size_t capacity, struct err *err)
{
    *to = *from;
    to->op = calloc(capacity, sizeof(*to->op));
    if (!to->op) {
        to->op_count = 0;
        return err_set(err, ERR_MEMORY, "no memory for the ops of unit '%s'", from->name);
    }
    memcpy(to->op, from->op, from->op_count * sizeof(*to->op));
    return 0;
}

static int derive_unit(void *arg, size_t index, const struct slim_unit *divided, struct err *err)
{
    struct derivation *derivation = arg;
    struct unit *unit = &derivation->model->unit[index];
    int rc = copy_ops(&derivation->split->target->unit[index], unit, MODEL_UNIT_OPS_MAX, err);
    rc = rc ? rc : narrow_unit(derivation->split, index, divided, derivation->group, unit, err);
    if (rc == 0) {
        struct op *shrunk = realloc(unit->op, unit->op_count * sizeof(*unit->op));
        unit->op = shrunk ? shrunk : unit->op;
    }
    return rc;
}

static int check_ops(const struct model *model, struct err *err)
{
    size_t ops = 0;
    for (size_t i = 0; i < model->unit_count; i++) {
        ops += model->unit[i].op_count;
    }
    return ops <= MODEL_OPS_MAX
               ? 0
               : err_set(err, ERR_INVALID, "the model has more than %d ops with its selects",
                         MODEL_OPS_MAX);
}

int slim_derive(const struct slim_split *split, size_t group, struct model **out, struct err *err)
{
    ASSERT(group < split->group_count);
    const struct model *target = split->target;
    struct model *model AUTO(model_free) = calloc(1, sizeof(*model));
    struct derivation derivation = {.split = split, .group = group, .model = model};
    struct slim_walk walk;
    int rc = slim_check_split(split, err);
    if (rc) {
        return rc;
    }
    if (model) {
        *model = *target;
        model->class_names = (struct name_list){0};
        model->unit = calloc(target->unit_count, sizeof(*model->unit));
    }
    if (!model || !model->unit) {
        return err_set(err, ERR_MEMORY, "no memory for a model of %zu units", target->unit_count);
    }
    (void)snprintf(model->name, sizeof(model->name), "%.*s" NAME_SUFFIX,
                   (int)(sizeof(model->name) - sizeof(NAME_SUFFIX)), target->name);
    for (size_t i = 0; i < split->stem && rc == 0; i++) {
        rc = copy_ops(&target->unit[i], &model->unit[i], target->unit[i].op_count, err);
        model->unit[i].frozen = true;
    }
    rc = rc ? rc : walk_units(split, derive_unit, &derivation, &walk, err);
    if (rc) {
        return rc;
    }
    rc = check_ops(model, err);
    if (rc) {
        return rc;
    }
    model->classes = split->group[group].classes + 1;
    *out = model;
    derivation.model = model = NULL;
    return 0;
}

/* ---- its cost ---- */

struct visiting {
    const struct slim_split *split;
    size_t group;
    bool trains; /* a preceding unit of the slice has trained parameters */
    slim_unit_fn visit;
    void *arg;
};

static int visit_unit(void *arg, size_t index, const struct slim_unit *divided, struct err *err)
{
    struct visiting *visiting = arg;
    struct op op[MODEL_UNIT_OPS_MAX];
    struct unit unit = {.op = op};
    struct unit_cost cost = {0};
    int rc = narrow_unit(visiting->split, index, divided, visiting->group, &unit, err);
    if (rc) {
        return rc;
    }
    cost_count_unit(&unit, visiting->trains, sizeof(float), &cost);
    visiting->visit(visiting->arg, index, &unit, &cost);
    visiting->trains = visiting->trains || cost.trained_bytes > 0;
    return 0;
}

int slim_visit(const struct slim_split *split, size_t group, slim_unit_fn visit, void *arg,
               struct err *err)
{
    ASSERT(group < split->group_count);
    struct visiting visiting = {.split = split, .group = group, .visit = visit, .arg = arg};
    struct slim_walk walk;
    return walk_units(split, visit_unit, &visiting, &walk, err);
}

static void add_cost(void *arg, size_t index, const struct unit *unit, const struct unit_cost *cost)
{
    struct slim_cost *sum = arg;
    (void)index;
    (void)unit;
    sum->forward_flops += cost->forward_flops;
    sum->backward_flops += cost->backward_flops;
    sum->parameter_bytes += cost->parameter_bytes;
    sum->trained_bytes += cost->trained_bytes;
}

int slim_cost(const struct slim_split *split, size_t group, struct slim_cost *out, struct err *err)
{
    struct slim_cost sum = {0};
    int rc = slim_visit(split, group, add_cost, &sum, err);
    for (size_t i = 0; i < split->stem && rc == 0; i++) {
        struct unit_cost cost;
        cost_count_unit(&split->target->unit[i], false, sizeof(float), &cost);
        sum.stem_flops += cost.forward_flops;
        sum.parameter_bytes += cost.parameter_bytes;
    }
    if (rc == 0) {
        *out = sum;
    }
    return rc;
}
