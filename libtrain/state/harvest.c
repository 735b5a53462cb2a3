#include "libtrain/state/harvest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/elementary.h"
#include "libtrain/model/slim_parts.h"
#include "libtrain/state/state.h"

static const struct optimizer no_optimizer = {.type = OPTIMIZER_SGD};

double harvest_prior(double negatives, uint64_t own, uint64_t others)
{
    return negatives > 0 && own > 0 && others > 0
               ? elementary_log(negatives * (double)own / (double)others)
               : 0;
}

/* ---- the tensors of one unit ---- */

/* A unit's snapshot blob with its layout; only the exported part is used. */
struct piece {
    struct state_layout *layout;
    unsigned char *blob;
};

static void piece_free(struct piece *piece)
{
    state_layout_free(&piece->layout);
    free(piece->blob);
    piece->blob = NULL;
}

/* Allocate a piece filled with zeros. */
static int piece_new(const struct model *model, size_t unit, struct piece *piece, struct err *err)
{
    int rc = state_layout_new(model, unit, &no_optimizer, &piece->layout, err);
    piece->blob = rc ? NULL : calloc(1, (size_t)piece->layout->blob_bytes);
    return rc || piece->blob
               ? rc
               : err_set(err, ERR_MEMORY, "no memory for unit '%s' of %" PRIu64 " bytes",
                         model->unit[unit].name, piece->layout->blob_bytes);
}

static int piece_read(struct checkpoint_file *file, const struct model *model, size_t unit,
                      struct piece *piece, struct err *err)
{
    int rc = piece_new(model, unit, piece, err);
    return rc ? rc : checkpoint_read_unit(file, model, unit, piece->layout, piece->blob, err);
}

static unsigned char *piece_data(const struct piece *piece)
{
    return piece->blob + piece->layout->header.data_offset;
}

/* The floats of exported tensor i. The data is aligned: its offset is a multiple of 64. */
static float *piece_floats(const struct piece *piece, size_t i)
{
    return (float *)(void *)(piece_data(piece) + piece->layout->header.tensor[i].begin);
}

/* ---- an assembly ---- */

struct assembly {
    const struct harvest *harvest;
    const struct model *target;
    struct model *model[SLIM_GROUPS_MAX]; /* of the groups with a checkpoint, else NULL */
    uint32_t *replicas;                   /* [classes] groups with a checkpoint of each class */
    struct slim_walk walk;
    struct slim_unit divided; /* the current unit after the stem */
};

static void assembly_done(struct assembly *assembly)
{
    for (size_t i = 0; i < SLIM_GROUPS_MAX; i++) {
        model_free(&assembly->model[i]);
    }
    free(assembly->replicas);
}

/* ---- checks ---- */

static int check_classes(const struct assembly *assembly, size_t group, struct err *err)
{
    const struct harvest *harvest = assembly->harvest;
    const uint32_t *class = harvest->group[group].classes;
    for (uint32_t i = 0; i < harvest->split.group[group].classes; i++) {
        if (class[i] >= assembly->target->classes) {
            return err_set(err, ERR_INVALID, "class %" PRIu32 "; the model has %" PRIu32 " outputs",
                           class[i], assembly -> target -> classes);
        }
        for (uint32_t k = 0; k < i; k++) {
            if (class[k] == class[i]) {
                return err_set(err, ERR_INVALID, "class %" PRIu32 " occurs twice", class[i]);
            }
        }
    }
    return 0;
}

static bool same_extent(struct extent a, struct extent b)
{
    return a.h == b.h && a.w == b.w;
}

static bool same_op(const struct op *a, const struct op *b)
{
    bool same = a->type == b->type && a->input_count == b->input_count &&
                shape_equal(a->in, b->in) && shape_equal(a->out, b->out) &&
                same_extent(a->kernel, b->kernel) && same_extent(a->stride, b->stride) &&
                same_extent(a->padding, b->padding) && a->groups == b->groups &&
                a->first == b->first && a->ceil_mode == b->ceil_mode && a->bias == b->bias &&
                !(a->epsilon < b->epsilon) && !(a->epsilon > b->epsilon);
    for (size_t i = 0; same && i < a->input_count; i++) {
        same = a->input[i] == b->input[i];
    }
    return same;
}

static bool same_unit(const struct unit *a, const struct unit *b)
{
    bool same = strcmp(a->name, b->name) == 0 && a->op_count == b->op_count;
    for (size_t k = 0; same && k < a->op_count; k++) {
        same = same_op(&a->op[k], &b->op[k]);
    }
    return same;
}

/* Compare the file's own description, if it has one, with the group's model. */
static int check_description(const struct assembly *assembly, size_t group, struct err *err)
{
    const struct harvest_group *from = &assembly->harvest->group[group];
    const struct name_list *names = &assembly->target->class_names;
    const struct model *ours = assembly->model[group];
    struct model *theirs AUTO(model_free) = NULL;
    int rc = checkpoint_file_model(from->file, &theirs, err);
    if (rc || !theirs) {
        return rc;
    }
    if (theirs->unit_count != ours->unit_count) {
        return err_set(err, ERR_INVALID, "the file's model has %zu units, the slice has %zu",
                       theirs->unit_count, ours->unit_count);
    }
    for (size_t i = 0; i < ours->unit_count; i++) {
        if (!same_unit(&theirs->unit[i], &ours->unit[i])) {
            return err_set(err, ERR_INVALID, "unit '%s': the file is of another slice or model",
                           ours->unit[i].name);
        }
    }
    for (uint32_t i = 0; i + 1 < ours->classes && i < theirs->class_names.count; i++) {
        const uint32_t class = from->classes[i];
        if (class < names->count && strcmp(theirs->class_names.item[i], names->item[class]) != 0) {
            return err_set(err, ERR_INVALID,
                           "the file's output %" PRIu32 " is class '%.64s', expected '%.64s'", i,
                           theirs->class_names.item[i], names->item[class]);
        }
    }
    return 0;
}

/* Check that the file has the units [0, end) of the model, trained with the same input. */
static int check_file(const struct checkpoint_file *file, const struct model *model, size_t end,
                      struct err *err)
{
    const bool taken[MODEL_UNITS_MAX] = {true};
    int rc = checkpoint_check_samples(file, model, taken, err);
    for (size_t unit = 0; unit < end && rc == 0; unit++) {
        rc = checkpoint_check_unit(file, model, unit, err);
    }
    return rc;
}

static int check_group(struct assembly *assembly, size_t group, struct err *err)
{
    const struct harvest *harvest = assembly->harvest;
    struct checkpoint_file *file = harvest->group[group].file;
    int rc = check_classes(assembly, group, err);
    if (rc || !file) {
        return rc;
    }
    for (uint32_t i = 0; i < harvest->split.group[group].classes; i++) {
        assembly->replicas[harvest->group[group].classes[i]]++;
    }
    rc = slim_derive(&harvest->split, group, &assembly->model[group], err);
    rc = rc ? rc : check_description(assembly, group, err);
    return rc ? rc : check_file(file, assembly->model[group], assembly->target->unit_count, err);
}

static int assembly_init(struct assembly *assembly, const struct harvest *harvest, struct err *err)
{
    const struct slim_split *split = &harvest->split;
    *assembly = (struct assembly){.harvest = harvest, .target = split->target};
    int rc = slim_check(split, err);
    if (rc) {
        return rc;
    }
    assembly->replicas = calloc(split->target->classes, sizeof(*assembly->replicas));
    if (!assembly->replicas) {
        return err_set(err, ERR_MEMORY, "no memory for %" PRIu32 " classes",
                       split->target->classes);
    }
    rc = check_file(harvest->stem, split->target, split->stem, err);
    if (rc) {
        return err_wrap(err, "stem");
    }
    for (size_t i = 0; i < split->group_count; i++) {
        rc = check_group(assembly, i, err);
        if (rc) {
            return err_wrap(err, "group %zu", i);
        }
    }
    slim_begin(split, &assembly->walk);
    return 0;
}

int harvest_check(const struct harvest *harvest, struct err *err)
{
    struct assembly assembly AUTO(assembly_done) = {0};
    return assembly_init(&assembly, harvest, err);
}

/* ---- the stem ---- */

/* Read a unit of the stem into `piece`, and compare it with the units of the groups. */
static int take_stem_unit(const struct assembly *assembly, size_t unit, struct piece *piece,
                          struct err *err)
{
    const struct harvest *harvest = assembly->harvest;
    int rc = piece_read(harvest->stem, assembly->target, unit, piece, err);
    if (rc) {
        return err_wrap(err, "stem");
    }
    for (size_t i = 0; i < harvest->split.group_count && rc == 0; i++) {
        struct piece own AUTO(piece_free) = {0};
        if (!harvest->group[i].file) {
            continue;
        }
        rc = piece_read(harvest->group[i].file, assembly->model[i], unit, &own, err);
        if (rc) {
            return err_wrap(err, "group %zu", i);
        }
        ASSERT(own.layout->export_bytes == piece->layout->export_bytes);
        if (memcmp(piece_data(&own), piece_data(piece), (size_t)piece->layout->export_bytes) != 0) {
            rc = err_set(err, ERR_INVALID,
                         "group %zu: unit '%s' differs from the stem's checkpoint: the group was "
                         "trained with another stem",
                         i, assembly->target->unit[unit].name);
        }
    }
    return rc;
}

/* ---- the slices ---- */

/* A group's columns in a row of a weight of the target. */
struct columns {
    struct slim_range range[SLIM_PARTS_MAX];
    size_t ranges;
    size_t inner;  /* floats of a column */
    size_t stride; /* floats of a row of the target */
};

static struct columns columns_of(const struct assembly *assembly, const struct op *op, size_t k,
                                 size_t tensor, size_t group)
{
    const struct op_tensor *weight = &op->tensor[tensor];
    struct columns columns = {.range = {{0, 1}}, .ranges = 1, .inner = 1, .stride = 1};
    if (weight->rank == 1) {
        return columns;
    }
    columns.stride = weight->elements / weight->dim[0];
    const struct slim_channels in = slim_input(&assembly->divided, op, k, 0);
    columns.inner = op->type == OP_LINEAR ? in.area : (size_t)op->kernel.h * op->kernel.w;
    if (op->type == OP_LINEAR || op->groups == 1) {
        columns.ranges = slim_ranges(&assembly->harvest->split, &in, group, columns.range);
    }
    return columns;
}

/* Copy a tensor of a group's unit to the group's channels of the target's tensor. */
static void copy_slice(const struct assembly *assembly, const struct op *op, size_t k,
                       size_t tensor, size_t group, const float *from, float *to)
{
    const struct columns columns = columns_of(assembly, op, k, tensor, group);
    struct slim_range row[SLIM_PARTS_MAX];
    const size_t rows =
        slim_ranges(&assembly->harvest->split, &assembly->divided.tensor[k + 1], group, row);
    for (size_t r = 0; r < rows; r++) {
        for (size_t o = row[r].first; o < (size_t)row[r].first + row[r].count; o++) {
            for (size_t i = 0; i < columns.ranges; i++) {
                const size_t count = columns.range[i].count * columns.inner;
                memcpy(to + o * columns.stride + columns.range[i].first * columns.inner, from,
                       count * sizeof(float));
                from += count;
            }
        }
    }
}

/* Add a group's head to the target's head: the row of each class minus the row of "other". */
static void fold_head(const struct assembly *assembly, const struct op *op, size_t k, size_t tensor,
                      size_t group, const float *from, float *to)
{
    const struct harvest_group *own = &assembly->harvest->group[group];
    const struct columns columns = columns_of(assembly, op, k, tensor, group);
    const uint32_t classes = assembly->harvest->split.group[group].classes;
    const double prior = op->tensor[tensor].rank == 1 ? own->prior : 0;
    size_t width = 0;
    for (size_t i = 0; i < columns.ranges; i++) {
        width += columns.range[i].count * columns.inner;
    }
    const float *other = from + classes * width;
    for (uint32_t c = 0; c < classes; c++) {
        const double replicas = assembly->replicas[own->classes[c]];
        float *row = to + own->classes[c] * columns.stride;
        size_t at = 0;
        for (size_t i = 0; i < columns.ranges; i++) {
            float *column = row + columns.range[i].first * columns.inner;
            for (size_t x = 0; x < columns.range[i].count * columns.inner; x++, at++) {
                const double score = (double)from[c * width + at] - (double)other[at] + prior;
                column[x] += (float)(score / replicas);
            }
        }
    }
}

static void take_slice(const struct assembly *assembly, size_t unit, size_t group,
                       const struct piece *slice, struct piece *piece)
{
    const struct unit *from = &assembly->target->unit[unit];
    ASSERT(slice->layout->export_count == piece->layout->export_count);
    for (size_t i = 0; i < piece->layout->export_count; i++) {
        const size_t k = piece->layout->source[i].op;
        const bool head = slim_is_head(&assembly->harvest->split, unit, k);
        (head ? fold_head : copy_slice)(assembly, &from->op[k], k, piece->layout->source[i].tensor,
                                        group, piece_floats(slice, i), piece_floats(piece, i));
    }
}

/* Fill the values that no group provides: running variances, and biases of missing classes. */
static void fill_rest(const struct assembly *assembly, size_t unit, const struct piece *piece)
{
    const struct unit *from = &assembly->target->unit[unit];
    for (size_t i = 0; i < piece->layout->export_count; i++) {
        const struct state_source *source = &piece->layout->source[i];
        const struct op_tensor *tensor = &from->op[source->op].tensor[source->tensor];
        const bool head = slim_is_head(&assembly->harvest->split, unit, source->op);
        const bool variance = strcmp(tensor->suffix, "running_var") == 0;
        float *value = piece_floats(piece, i);
        for (size_t x = 0; x < tensor->elements && variance; x++) {
            value[x] = 1;
        }
        for (size_t x = 0; x < tensor->elements && head && tensor->rank == 1; x++) {
            value[x] = assembly->replicas[x] == 0 ? assembly->harvest->missing : 0;
        }
    }
}

static int take_sliced_unit(struct assembly *assembly, size_t unit, struct piece *piece,
                            struct err *err)
{
    const struct harvest *harvest = assembly->harvest;
    int rc = piece_new(assembly->target, unit, piece, err);
    rc =
        rc ? rc : slim_divide_unit(&harvest->split, unit, &assembly->walk, &assembly->divided, err);
    if (rc) {
        return rc;
    }
    fill_rest(assembly, unit, piece);
    for (size_t i = 0; i < harvest->split.group_count && rc == 0; i++) {
        struct piece slice AUTO(piece_free) = {0};
        if (!harvest->group[i].file) {
            continue;
        }
        rc = piece_read(harvest->group[i].file, assembly->model[i], unit, &slice, err);
        if (rc) {
            return err_wrap(err, "group %zu", i);
        }
        take_slice(assembly, unit, i, &slice, piece);
    }
    return rc;
}

/* ---- the file ---- */

static int write_header(const struct model *target, const struct evaluation *evaluation,
                        harvest_write_fn write, void *arg, struct err *err)
{
    BUF_AUTO struct buf header;
    buf_init(&header, SAFETENSORS_HEADER_MAX);
    int rc = trained_header(target, evaluation, &header, err);
    return rc ? rc : write(arg, header.data, header.size, err);
}

static int write_piece(const struct piece *piece, harvest_write_fn write, void *arg,
                       struct err *err)
{
    const size_t bytes = (size_t)piece->layout->export_bytes;
    return bytes == 0 ? 0 : write(arg, piece_data(piece), bytes, err);
}

int harvest_write(const struct harvest *harvest, harvest_write_fn write, void *arg, struct err *err)
{
    struct assembly assembly AUTO(assembly_done) = {0};
    const struct model *target = harvest->split.target;
    int rc = assembly_init(&assembly, harvest, err);
    rc = rc ? rc : write_header(target, &harvest->evaluation, write, arg, err);
    for (size_t unit = 0; unit < target->unit_count && rc == 0; unit++) {
        struct piece piece AUTO(piece_free) = {0};
        rc = unit < harvest->split.stem ? take_stem_unit(&assembly, unit, &piece, err)
                                        : take_sliced_unit(&assembly, unit, &piece, err);
        rc = rc ? rc : write_piece(&piece, write, arg, err);
    }
    return rc;
}

/* ---- missing classes ---- */

static void drop_rows(const struct op *head, const bool *missing, const struct piece *piece)
{
    const size_t tensors = piece->layout->export_count;
    float *weight = piece_floats(piece, tensors - 2);
    float *bias = piece_floats(piece, tensors - 1);
    for (size_t c = 0; c < head->out.c; c++) {
        if (missing[c]) {
            memset(weight + c * head->in.c, 0, head->in.c * sizeof(float));
            bias[c] = HARVEST_NEVER;
        }
    }
}

int harvest_drop_classes(const struct model *target, const bool *missing,
                         struct checkpoint_file *file, const struct evaluation *evaluation,
                         harvest_write_fn write, void *arg, struct err *err)
{
    const struct unit *last = &target->unit[target->unit_count - 1];
    const struct op *head = &last->op[last->op_count - 1];
    ASSERT(head->type == OP_LINEAR && head->bias);
    int rc = check_file(file, target, target->unit_count, err);
    rc = rc ? rc : write_header(target, evaluation, write, arg, err);
    for (size_t unit = 0; unit < target->unit_count && rc == 0; unit++) {
        struct piece piece AUTO(piece_free) = {0};
        rc = piece_read(file, target, unit, &piece, err);
        if (rc == 0 && unit + 1 == target->unit_count) {
            drop_rows(head, missing, &piece);
        }
        rc = rc ? rc : write_piece(&piece, write, arg, err);
    }
    return rc;
}
