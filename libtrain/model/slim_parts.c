#include "libtrain/model/slim_parts.h"

#include <inttypes.h>
#include <string.h>

#include "base/assert.h"

#define ALIGNED_CHANNELS 4   /* limits between groups are multiples of this ... */
#define ALIGNED_GROUP_MIN 16 /* ... if some group has at least this many channels */
#define ROUNDING 1e-6 /* tolerance, so that a sum 0.1 + 0.2 + ... reaches the intended channel */

/* ---- ranges ---- */

/* Write the first channel of each group, then the number of channels. A width is a share: group k
 * begins at the channels times the sum of the widths before it, rounded down. */
static void find_limits(const struct slim_split *split, uint32_t channels,
                        uint32_t limit[SLIM_GROUPS_MAX + 1])
{
    bool aligned = false;
    double sum = 0;
    limit[0] = 0;
    for (size_t i = 0; i < split->group_count; i++) {
        sum += split->group[i].width;
        const double end = (double)channels * sum + ROUNDING;
        const bool last = i + 1 == split->group_count || end > channels;
        limit[i + 1] = last ? channels : (uint32_t)end;
        aligned = aligned || limit[i + 1] - limit[i] >= ALIGNED_GROUP_MIN;
    }
    for (size_t i = 0; aligned && i < split->group_count; i++) {
        limit[i] -= limit[i] % ALIGNED_CHANNELS;
    }
}

static struct slim_range range_of(const struct slim_split *split, uint32_t channels, size_t group)
{
    uint32_t limit[SLIM_GROUPS_MAX + 1];
    find_limits(split, channels, limit);
    return (struct slim_range){limit[group], limit[group + 1] - limit[group]};
}

size_t slim_ranges(const struct slim_split *split, const struct slim_channels *channels,
                   size_t group, struct slim_range out[SLIM_PARTS_MAX])
{
    uint32_t base = 0;
    if (channels->whole) {
        out[0] = (struct slim_range){0, channels->count};
        return 1;
    }
    for (size_t i = 0; i < channels->part_count; i++) {
        const struct slim_part *part = &channels->part[i];
        const struct slim_range range = range_of(split, part->channels, group);
        out[i] = (struct slim_range){base + range.first * part->each, range.count * part->each};
        base += part->channels * part->each;
    }
    return channels->part_count;
}

uint32_t slim_count(const struct slim_split *split, const struct slim_channels *channels,
                    size_t group)
{
    struct slim_range range[SLIM_PARTS_MAX];
    uint32_t count = 0;
    for (size_t i = 0, ranges = slim_ranges(split, channels, group, range); i < ranges; i++) {
        count += range[i].count;
    }
    return count;
}

/* ---- the numbers of the division ---- */

int slim_check_split(const struct slim_split *split, struct err *err)
{
    const struct model *target = split->target;
    double sum = 0;
    if (target->unit_count < 3 || split->stem < 1 || split->stem > target->unit_count - 2) {
        return err_set(err, ERR_INVALID,
                       "a stem of %zu units: from 1 to all but two of the model's %zu units",
                       split->stem, target->unit_count);
    }
    if (split->group_count > SLIM_GROUPS_MAX) {
        return err_set(err, ERR_INVALID, "%zu groups; at most %d", split->group_count,
                       SLIM_GROUPS_MAX);
    }
    for (size_t i = 0; i < split->group_count; i++) {
        const struct slim_group *group = &split->group[i];
        if (group->classes < 1 || group->classes > target->classes) {
            return err_set(err, ERR_INVALID,
                           "group %zu: %" PRIu32 " classes; from 1 to the model's %" PRIu32, i,
                           group->classes, target->classes);
        }
        if (!(group->width > 0 && group->width <= 1)) {
            return err_set(err, ERR_INVALID, "group %zu: a width of %g; above 0 to 1", i,
                           group->width);
        }
        sum += group->width;
    }
    if (split->group_count > 0 &&
        !(sum >= 1 - SLIM_WIDTH_TOLERANCE && sum <= 1 + SLIM_WIDTH_TOLERANCE)) {
        return err_set(err, ERR_INVALID, "the widths of the %zu groups add up to %g, not to 1",
                       split->group_count, sum);
    }
    return 0;
}

void slim_begin(const struct slim_split *split, struct slim_walk *walk)
{
    *walk = (struct slim_walk){
        .boundary = {.whole = true, .count = split->target->unit[split->stem].in.c, .area = 1},
        .least = UINT32_MAX,
        .narrow = split->group_count};
}

bool slim_is_head(const struct slim_split *split, size_t unit, size_t k)
{
    return unit + 1 == split->target->unit_count && k + 1 == split->target->unit[unit].op_count;
}

/* ---- one unit ---- */

/* The unit being divided. */
struct division {
    const struct slim_split *split;
    const struct unit *unit;
    size_t index;
    struct slim_walk *walk;
    struct slim_unit *out;
};

/* Divide `count` channels among the groups. */
static int divide(struct division *division, uint32_t count, struct slim_channels *out,
                  struct err *err)
{
    const struct slim_split *split = division->split;
    uint32_t limit[SLIM_GROUPS_MAX + 1];
    *out = (struct slim_channels){
        .count = count, .area = 1, .part_count = 1, .part = {{.channels = count, .each = 1}}};
    find_limits(split, count, limit);
    for (size_t i = 0; i < split->group_count; i++) {
        const uint32_t channels = limit[i + 1] - limit[i];
        if (channels < SLIM_CHANNELS_MIN) {
            division->walk->narrow = i;
            return err_set(err, ERR_INVALID,
                           "%" PRIu32 " channels are too few for %zu groups: group %zu would have "
                           "%" PRIu32 ", at least %d are needed",
                           count, split->group_count, i, channels, SLIM_CHANNELS_MIN);
        }
    }
    if (count < division->walk->least) {
        division->walk->least = count;
    }
    return 0;
}

/* Read input i of op k through a select if it is whole. */
static int select_input(struct division *division, size_t k, size_t i, struct err *err)
{
    const struct slim_channels *input = &division->out->tensor[division->unit->op[k].input[i]];
    struct slim_channels divided;
    if (!input->whole) {
        return 0;
    }
    division->out->select[k][i] = true;
    return divide(division, input->count, &divided, err);
}

struct slim_channels slim_input(const struct slim_unit *unit, const struct op *op, size_t k,
                                size_t i)
{
    const struct slim_channels *input = &unit->tensor[op->input[i]];
    if (!unit->select[k][i]) {
        return *input;
    }
    return (struct slim_channels){.count = input->count,
                                  .area = 1,
                                  .part_count = 1,
                                  .part = {{.channels = input->count, .each = 1}}};
}

static int divide_conv2d(struct division *division, size_t k, struct slim_channels *out,
                         struct err *err)
{
    const struct op *op = &division->unit->op[k];
    if (op->groups == 1) {
        return divide(division, op->out.c, out, err);
    }
    if (op->groups != op->in.c) {
        return err_set(err, ERR_INVALID,
                       "%" PRIu32 " groups for %" PRIu32
                       " channels; only 1 and one for each channel can be sliced",
                       op->groups, op->in.c);
    }
    int rc = select_input(division, k, 0, err);
    if (rc) {
        return rc;
    }
    const uint32_t each = op->out.c / op->in.c;
    *out = slim_input(division->out, op, k, 0);
    out->count = op->out.c;
    for (size_t i = 0; i < out->part_count; i++) {
        out->part[i].each *= each;
    }
    return 0;
}

static int divide_linear(struct division *division, size_t k, struct slim_channels *out,
                         struct err *err)
{
    const struct op *op = &division->unit->op[k];
    if (slim_is_head(division->split, division->index, k)) {
        *out = (struct slim_channels){.whole = true, .count = op->out.c, .area = 1};
        return 0;
    }
    return divide(division, op->out.c, out, err);
}

static int divide_batch_norm(struct division *division, size_t k, struct slim_channels *out,
                             struct err *err)
{
    int rc = select_input(division, k, 0, err);
    *out = slim_input(division->out, &division->unit->op[k], k, 0);
    return rc;
}

/* Set *whole if all inputs are whole. Otherwise read each whole input through a select. */
static int divide_inputs(struct division *division, size_t k, bool *whole, struct err *err)
{
    const struct op *op = &division->unit->op[k];
    int rc = 0;
    *whole = true;
    for (size_t i = 0; i < op->input_count; i++) {
        *whole = *whole && division->out->tensor[op->input[i]].whole;
    }
    for (size_t i = 0; i < op->input_count && !*whole && rc == 0; i++) {
        rc = select_input(division, k, i, err);
    }
    return rc;
}

static bool same_parts(const struct slim_channels *a, const struct slim_channels *b)
{
    bool same = a->part_count == b->part_count && a->area == b->area;
    for (size_t i = 0; same && i < a->part_count; i++) {
        same = a->part[i].channels == b->part[i].channels && a->part[i].each == b->part[i].each;
    }
    return same;
}

static int divide_add(struct division *division, size_t k, struct slim_channels *out,
                      struct err *err)
{
    const struct op *op = &division->unit->op[k];
    bool whole;
    int rc = divide_inputs(division, k, &whole, err);
    *out = slim_input(division->out, op, k, 0);
    for (size_t i = 1; i < op->input_count && rc == 0 && !whole; i++) {
        const struct slim_channels other = slim_input(division->out, op, k, i);
        if (!same_parts(out, &other)) {
            rc = err_set(err, ERR_INVALID,
                         "body and shortcut divide their channels differently (one of them comes "
                         "from branches)");
        }
    }
    return rc;
}

static int divide_concat(struct division *division, size_t k, struct slim_channels *out,
                         struct err *err)
{
    const struct op *op = &division->unit->op[k];
    bool whole;
    int rc = divide_inputs(division, k, &whole, err);
    *out = (struct slim_channels){.whole = whole, .count = op->out.c, .area = 1};
    for (size_t i = 0; i < op->input_count && rc == 0 && !whole; i++) {
        const struct slim_channels input = slim_input(division->out, op, k, i);
        if (out->part_count + input.part_count > SLIM_PARTS_MAX) {
            return err_set(err, ERR_INVALID,
                           "its branches have channels of more than %d branches of units before it",
                           SLIM_PARTS_MAX);
        }
        memcpy(out->part + out->part_count, input.part, input.part_count * sizeof(input.part[0]));
        out->part_count += input.part_count;
    }
    return rc;
}

static int divide_flatten(struct division *division, size_t k, struct slim_channels *out)
{
    const struct op *op = &division->unit->op[k];
    *out = slim_input(division->out, op, k, 0);
    if (out->whole) {
        out->count = op->out.c;
    } else if (op->in.h > 1 || op->in.w > 1) {
        out->area = op->in.h * op->in.w;
    }
    return 0;
}

static int divide_op(struct division *division, size_t k, struct slim_channels *out,
                     struct err *err)
{
    const struct op *op = &division->unit->op[k];
    switch (op->type) {
    case OP_CONV2D: return divide_conv2d(division, k, out, err);
    case OP_LINEAR: return divide_linear(division, k, out, err);
    case OP_BATCH_NORM: return divide_batch_norm(division, k, out, err);
    case OP_RELU:
    case OP_RELU6:
    case OP_GELU:
    case OP_SILU:
    case OP_MAX_POOL:
    case OP_AVG_POOL:
    case OP_GLOBAL_AVG_POOL:
    case OP_DROPOUT: *out = slim_input(division->out, op, k, 0); return 0;
    case OP_FLATTEN: return divide_flatten(division, k, out);
    case OP_ADD: return divide_add(division, k, out, err);
    case OP_CONCAT: return divide_concat(division, k, out, err);
    case OP_LAYER_NORM:
    case OP_EMBEDDING:
    case OP_POSITIONS:
    case OP_ATTENTION:
    case OP_SELECT: break;
    }
    return err_set(err, ERR_INVALID, "cannot be sliced; put it into the stem");
}

static int check_head(const struct model *target, const struct unit *unit, struct err *err)
{
    const struct op *last = &unit->op[unit->op_count - 1];
    if (target->positions > 1) {
        return err_set(err, ERR_INVALID,
                       "unit '%s': a label at each of %" PRIu32
                       " positions; only models with one label per sample can be sliced",
                       unit->name, target->positions);
    }
    if (last->type != OP_LINEAR || !last->bias) {
        return err_set(
            err, ERR_INVALID, "unit '%s': the last op must be a linear with a bias, not a %s%s",
            unit->name, op_type_names[last->type], last->type == OP_LINEAR ? " without one" : "");
    }
    return 0;
}

int slim_divide_unit(const struct slim_split *split, size_t unit, struct slim_walk *walk,
                     struct slim_unit *out, struct err *err)
{
    ASSERT(unit >= split->stem && unit < split->target->unit_count);
    const struct unit *from = &split->target->unit[unit];
    struct division division = {
        .split = split, .unit = from, .index = unit, .walk = walk, .out = out};
    int rc = unit + 1 == split->target->unit_count ? check_head(split->target, from, err) : 0;
    if (rc == 0 && from->frozen) {
        rc = err_set(err, ERR_INVALID, "unit '%s': is frozen; only units of the stem may be",
                     from->name);
    }
    memset(out->select, 0, sizeof(out->select));
    out->tensor[0] = walk->boundary;
    for (size_t k = 0; k < from->op_count && rc == 0; k++) {
        struct err fault = {0};
        rc = divide_op(&division, k, &out->tensor[k + 1], &fault);
        if (rc) {
            rc = err_set(err, rc, "unit '%s': %s: %s", from->name, op_type_names[from->op[k].type],
                         fault.text);
        }
    }
    if (rc == 0) {
        walk->boundary = out->tensor[from->op_count];
    }
    return rc;
}
