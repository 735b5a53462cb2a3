#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "libtrain/backend/denormal.h"
#include "libtrain/ops/join.h"
#include "libtrain/ops/softmax_cross_entropy.h"
#include "libtrain/stage/laps.h"
#include "libtrain/stage/op_table.h"
#include "libtrain/stage/reduction.h"
#include "libtrain/stage/versions.h"

/* The addresses of the plan's areas in this call. */
struct areas {
    unsigned char *slot;
    unsigned char *workspace;
    const struct stage_version *version;
    float *buffer;
    const float *input; /* the caller's, like the next two */
    const float *output_gradient;
    float *input_gradient;
};

static float *writable(const struct areas *areas, struct arena_place place)
{
    switch (place.area) {
    case ARENA_SLOT: return (float *)(areas->slot + place.offset);
    case ARENA_WORKSPACE: return (float *)(areas->workspace + place.offset);
    case ARENA_INPUT_GRADIENT: return areas->input_gradient;
    case ARENA_NOWHERE:
    case ARENA_STAGE_INPUT:
    case ARENA_OUTPUT_GRADIENT: break;
    }
    return NULL;
}

static const float *readable(const struct areas *areas, struct arena_place place)
{
    switch (place.area) {
    case ARENA_STAGE_INPUT: return areas->input;
    case ARENA_OUTPUT_GRADIENT: return areas->output_gradient;
    case ARENA_NOWHERE:
    case ARENA_SLOT:
    case ARENA_WORKSPACE:
    case ARENA_INPUT_GRADIENT: break;
    }
    return writable(areas, place);
}

enum pass { PASS_FORWARD, PASS_EVALUATE, PASS_AGAIN, PASS_BACKWARD };

static const struct arena_io *io_of(const struct arena_op *plan, enum pass pass)
{
    switch (pass) {
    case PASS_FORWARD: return &plan->forward;
    case PASS_EVALUATE: return &plan->evaluate;
    case PASS_AGAIN:
    case PASS_BACKWARD: break;
    }
    return &plan->backward;
}

static struct op_call call_of(const struct train_stage *stage, const struct areas *areas,
                              const struct arena_op *plan, enum pass pass)
{
    const struct op *op = plan->op;
    struct op_call call = {.plan = plan,
                           .op = op,
                           .compute = &stage->compute,
                           .onednn = stage->onednn_conv2d[plan - stage->arena->op],
                           .contents = areas->version->contents,
                           .seed = stage->config.seed,
                           .micro_batch = stage->config.micro_batch,
                           .N = stage->config.micro_batch};
    const struct arena_io *io = io_of(plan, pass);
    for (size_t i = 0; i < op->input_count; i++) {
        call.input[i] = readable(areas, io->input[i]);
    }
    call.output = writable(areas, io->output);
    call.saved = writable(areas, io->saved);
    float *parameters = plan->frozen ? stage->parameter : areas->version->trained;
    for (size_t t = 0; t < op->tensor_count; t++) {
        bool parameter = op->tensor[t].role == TENSOR_PARAMETER;
        call.tensor[t] = (parameter ? parameters : areas->buffer) + plan->tensor[t];
        call.gradient[t] = parameter && !plan->frozen ? stage->gradient + plan->tensor[t] : NULL;
    }
    if (pass == PASS_BACKWARD) {
        call.output_gradient = readable(areas, plan->output_gradient);
        for (size_t i = 0; i < op->input_count; i++) {
            call.input_gradient[i] = writable(areas, plan->input_gradient[i]);
        }
    }
    return call;
}

/* Provide the stage's input as the first op reads it. Stored samples are scaled to floats and
 * normalised. */
static void enter(const struct train_stage *stage, struct areas *areas, struct arena_place place,
                  size_t count, const void *input)
{
    const struct arena *arena = stage->arena;
    if (!arena->scale_input) {
        areas->input = input;
        return;
    }
    const struct model *model = stage_model(stage);
    const struct compute *compute = &stage->compute;
    const struct normalise *normalise = &model->input_normalise;
    const bool bytes = model->input_dtype == DTYPE_U8;
    size_t elements = count * shape_elements(model->input);
    float *to = writable(areas, place);
    if (normalise->mean_count > 0 && bytes) {
        normalise_bytes(compute, elements, model->input_scale, normalise, input, to);
    } else if (normalise->mean_count > 0) {
        normalise_floats(compute, elements, model->input_scale, normalise, input, to);
    } else if (bytes) {
        scale_bytes(compute, elements, (float)model->input_scale, input, to);
    } else {
        scale_floats(compute, elements, (float)model->input_scale, input, to);
    }
}

static int check_labels(const struct train_stage *stage, size_t count, const int32_t *labels,
                        struct err *err)
{
    uint32_t classes = stage_model(stage)->classes;
    size_t positions = stage_model(stage)->positions;
    for (size_t n = 0; n < count * positions; n++) {
        if (labels[n] < 0 || (uint32_t)labels[n] >= classes) {
            return err_set(err, ERR_INVALID,
                           "sample %zu of the micro-batch has label %" PRId32 ": expected 0 to %u",
                           n / positions, labels[n], classes - 1);
        }
    }
    return 0;
}

/* Check stored token numbers: whole and below the embedding's rows. */
static int check_tokens(const struct train_stage *stage, const struct op *op, size_t count,
                        const void *input, struct err *err)
{
    const struct model *model = stage_model(stage);
    size_t elements = shape_elements(model->input);
    float rows = (float)op->rows;
    if (model->input_dtype == DTYPE_U8 && op->rows > UINT8_MAX) {
        return 0;
    }
    for (size_t i = 0; i < count * elements; i++) {
        float token = model->input_dtype == DTYPE_U8 ? (float)((const uint8_t *)input)[i]
                                                     : ((const float *)input)[i];
        if (!(token >= 0.0f && token < rows && token == (float)(uint32_t)token)) {
            return err_set(
                err, ERR_INVALID,
                "sample %zu of the micro-batch has token %g: '%s' takes whole numbers from 0 to %u",
                i / elements, (double)token, op->name, op->rows - 1);
        }
    }
    return 0;
}

/* Check input from outside: token numbers of the first stage, labels of the last (NULL: none). */
static int check_samples(const struct train_stage *stage, size_t count, const void *input,
                         const int32_t *labels, struct err *err)
{
    int rc = 0;
    for (size_t g = 0; g < stage->arena->op_count && rc == 0; g++) {
        const struct op *op = stage->arena->op[g].op;
        rc = op->type == OP_EMBEDDING ? check_tokens(stage, op, count, input, err) : 0;
    }
    return rc || !labels ? rc : check_labels(stage, count, labels, err);
}

static size_t output_bytes(const struct train_stage *stage, size_t count)
{
    return count * shape_elements(stage_model(stage)->unit[stage->config.end - 1].out) *
           sizeof(float);
}

static size_t input_bytes(const struct train_stage *stage)
{
    return stage->config.micro_batch *
           shape_elements(stage_model(stage)->unit[stage->config.first].in) * sizeof(float);
}

static unsigned char *slot_memory(const struct train_stage *stage, size_t slot)
{
    return stage->activation ? stage->activation + slot * stage->arena->slot_bytes : NULL;
}

/* Prepare the running statistics of a slot's micro-batch before its forward pass. statistics_of
 * returns them afterwards. */
static float *begin_statistics(const struct train_stage *stage, size_t slot)
{
    const struct train_position *position = &stage->slot[slot].position;
    return stage->config.reduction == REDUCTION_TREE
               ? reduction_begin(stage, position->micro_batch)
               : versions_begin_running(stage, position->step);
}

static float *statistics_of(const struct train_stage *stage, size_t slot)
{
    const struct train_position *position = &stage->slot[slot].position;
    return stage->config.reduction == REDUCTION_TREE
               ? reduction_statistics(stage, position->micro_batch)
               : versions_running(stage, position->step);
}

/* The areas of a micro-batch whose forward has begun. */
static struct areas areas_of(const struct train_stage *stage, size_t slot)
{
    return (struct areas){.slot = slot_memory(stage, slot),
                          .workspace = stage->workspace,
                          .version = versions_of_step(stage, stage->slot[slot].position.step),
                          .buffer = statistics_of(stage, slot),
                          .input = stage->slot[slot].input};
}

int train_forward_begin(struct train_stage *stage, size_t slot, struct train_position position,
                        const void *input, const int32_t *labels, struct err *err)
{
    const size_t samples = stage->config.micro_batch;
    ASSERT(slot < stage->config.in_flight && position.step >= 1 &&
           position.micro_batch < stage->config.micro_batches);
    ASSERT(!stage->forward.begun && (labels || !stage_is_last(stage)));
    int refused = check_samples(stage, samples, input, labels, err);
    if (refused) {
        return refused;
    }
    stage->slot[slot] = (struct stage_slot){.position = position, .input = input, .labels = labels};
    stage->forward = (struct stage_forward){.begun = true, .slot = slot};
    uint64_t mode = denormal_flush();
    (void)begin_statistics(stage, slot);
    struct areas areas = areas_of(stage, slot);
    struct laps laps = laps_begin(stage, LAPS_FORWARD);
    enter(stage, &areas, stage->arena->input, samples, input);
    laps_end(&laps, 0);
    denormal_restore(mode);
    return 0;
}

/* Run the ops from the next one up to `end`. */
static struct laps forward_ops(struct train_stage *stage, const struct areas *areas, size_t end)
{
    const struct arena *arena = stage->arena;
    struct laps laps = laps_resume(stage, LAPS_FORWARD);
    for (size_t g = stage->forward.op; g < end; g++) {
        if (arena->op[g].fusion != ARENA_DONE_BEFORE) {
            struct op_call call = call_of(stage, areas, &arena->op[g], PASS_FORWARD);
            call.position = stage->slot[stage->forward.slot].position;
            op_functions(call.plan).forward(&call);
        }
        laps_op(&laps, g, g + 1 < end ? g + 1 : SIZE_MAX);
    }
    stage->forward.op = end;
    return laps;
}

void train_forward_layers(struct train_stage *stage, size_t end)
{
    ASSERT(stage->forward.begun && end <= stage->layer_count);
    struct areas areas = areas_of(stage, stage->forward.slot);
    size_t g = stage->forward.op;
    while (g < stage->arena->op_count && stage->op_layer[g] < end) {
        g++;
    }
    uint64_t mode = denormal_flush();
    (void)forward_ops(stage, &areas, g);
    denormal_restore(mode);
}

static int loss_of(struct train_stage *stage, const struct areas *areas, const float *scores,
                   double *out, struct err *err)
{
    const struct model *model = stage_model(stage);
    const struct train_stage_config *config = &stage->config;
    const struct stage_slot *slot = &stage->slot[stage->forward.slot];
    double labels_per_sample = (double)model->positions;
    double batch = (double)config->micro_batch * (double)config->micro_batches * labels_per_sample;
    double loss =
        softmax_cross_entropy(&stage->compute, config->micro_batch * model->positions,
                              model->classes, scores, slot->labels, model->label_smoothing,
                              1.0 / batch, writable(areas, stage->arena->output_gradient));
    if (!isfinite(loss)) {
        return err_set(err, ERR_DIVERGED, "the loss of step %" PRId64 " is not finite",
                       slot->position.step);
    }
    *out = loss / labels_per_sample;
    return 0;
}

int train_forward_end(struct train_stage *stage, float *output, double *loss_sum, struct err *err)
{
    const struct arena *arena = stage->arena;
    const bool last = stage_is_last(stage);
    ASSERT(stage->forward.begun && (last ? loss_sum != NULL : output != NULL));
    struct areas areas = areas_of(stage, stage->forward.slot);
    uint64_t mode = denormal_flush();
    int rc = 0;
    struct laps laps = forward_ops(stage, &areas, arena->op_count);
    const float *result = readable(&areas, arena->output);
    if (last) {
        rc = loss_of(stage, &areas, result, loss_sum, err);
        if (rc == 0 && stage->config.reduction == REDUCTION_TREE) {
            const size_t slot = stage->forward.slot;
            rc = reduction_check_statistics(stage, stage->slot[slot].position.micro_batch, err);
        }
    } else {
        memcpy(output, result, output_bytes(stage, stage->config.micro_batch));
    }
    laps_end(&laps, arena->op_count - 1);
    denormal_restore(mode);
    stage->forward.begun = false;
    return rc;
}

const double *train_losses(const struct train_stage *stage)
{
    return stage->compute.shared; /* where softmax_cross_entropy leaves them */
}

int train_forward(struct train_stage *stage, size_t slot, struct train_position position,
                  const void *input, float *output, const int32_t *labels, double *loss_sum,
                  struct err *err)
{
    int rc = train_forward_begin(stage, slot, position, input, labels, err);
    return rc ? rc : train_forward_end(stage, output, loss_sum, err);
}

/* Recompute the activations that the backward pass of the stage's unit `unit` reads and the forward
 * pass did not keep (RECOMPUTE_UNIT). */
static void forward_again(const struct train_stage *stage, size_t slot, struct areas *areas,
                          size_t unit)
{
    const struct arena *arena = stage->arena;
    if (unit == 0 && arena->scale_again) {
        enter(stage, areas, arena->again_input, stage->config.micro_batch, stage->slot[slot].input);
    }
    for (size_t g = stage->first_op[unit]; g < stage->first_op[unit + 1]; g++) {
        if (!arena->op[g].again || arena->op[g].fusion == ARENA_DONE_BEFORE) {
            continue;
        }
        struct op_call call = call_of(stage, areas, &arena->op[g], PASS_AGAIN);
        call.position = stage->slot[slot].position;
        op_functions(call.plan).again(&call);
    }
}

/* Whether the backward of op g completes the gradient of its layer. */
static bool begins_layer(const struct train_stage *stage, size_t g)
{
    return stage->layer_count > 0 && (g == 0 || stage->op_layer[g - 1] != stage->op_layer[g]);
}

void train_backward(struct train_stage *stage, size_t slot, const float *output_gradient,
                    float *input_gradient)
{
    const struct arena *arena = stage->arena;
    ASSERT(slot < stage->config.in_flight && !stage->forward.begun);
    ASSERT(stage_is_last(stage) || output_gradient);
    ASSERT(stage->config.first == 0 || input_gradient);
    struct areas areas = areas_of(stage, slot);
    areas.output_gradient = output_gradient;
    areas.input_gradient = input_gradient;
    uint64_t mode = denormal_flush();
    const bool tree = stage->config.reduction == REDUCTION_TREE;
    if (tree) {
        reduction_open(stage, stage->slot[slot].position.micro_batch);
    }
    struct laps laps = laps_begin(stage, LAPS_BACKWARD);
    if (input_gradient && !arena->hands_back) {
        memset(input_gradient, 0, input_bytes(stage));
    }
    for (size_t unit = stage->config.end - stage->config.first; unit-- > 0;) {
        forward_again(stage, slot, &areas, unit);
        for (size_t g = stage->first_op[unit + 1]; g-- > stage->first_op[unit];) {
            if (arena->op[g].output_gradient.area != ARENA_NOWHERE &&
                arena->op[g].fusion != ARENA_DONE_BEFORE) {
                struct op_call call = call_of(stage, &areas, &arena->op[g], PASS_BACKWARD);
                call.position = stage->slot[slot].position;
                op_functions(call.plan).backward(&call);
            }
            if (tree && begins_layer(stage, g)) {
                reduction_add(stage, stage->op_layer[g]);
            }
            laps_op(&laps, g, g - 1);
        }
    }
    if (tree) {
        reduction_close(stage);
    }
    denormal_restore(mode);
}

/* Count the samples or positions whose label has the highest score. Among equal scores, the first
 * class counts as the highest. */
static uint64_t count_correct(const struct train_stage *stage, size_t count, const float *scores,
                              const int32_t *labels)
{
    size_t classes = stage_model(stage)->classes;
    uint64_t correct = 0;
    for (size_t n = 0; n < count; n++) {
        size_t best = 0;
        for (size_t c = 1; c < classes; c++) {
            best = scores[n * classes + c] > scores[n * classes + best] ? c : best;
        }
        correct += best == (size_t)labels[n];
    }
    return correct;
}

static int evaluate(struct train_stage *stage, size_t count, const void *input, float *output,
                    const int32_t *labels, double *loss_sum, uint64_t *correct, struct err *err)
{
    const struct arena *arena = stage->arena;
    struct areas areas = {
        .workspace = stage->workspace, .version = versions_latest(stage), .buffer = stage->buffer};
    enter(stage, &areas, arena->evaluate_input, count, input);
    for (size_t g = 0; g < arena->op_count; g++) {
        if (arena->op[g].fusion == ARENA_DONE_BEFORE) {
            continue;
        }
        struct op_call call = call_of(stage, &areas, &arena->op[g], PASS_EVALUATE);
        call.N = count;
        op_functions(call.plan).evaluate(&call);
    }
    const float *result = readable(&areas, arena->evaluate_output);
    if (output) {
        memcpy(output, result, output_bytes(stage, count));
    }
    if (!labels) {
        return 0;
    }
    const struct model *model = stage_model(stage);
    size_t rows = count * model->positions;
    double loss = softmax_cross_entropy(&stage->compute, rows, model->classes, result, labels,
                                        model->label_smoothing, 0.0, NULL);
    if (!isfinite(loss)) {
        return err_set(err, ERR_DIVERGED, "the loss of an evaluation is not finite");
    }
    *loss_sum += loss / (double)model->positions;
    *correct += count_correct(stage, rows, result, labels);
    return 0;
}

int train_evaluate(struct train_stage *stage, size_t count, const void *input, float *output,
                   const int32_t *labels, double *loss_sum, uint64_t *correct, struct err *err)
{
    ASSERT(count >= 1 && count <= stage->config.micro_batch && !stage->forward.begun);
    ASSERT(labels ? stage_is_last(stage) && loss_sum && correct : output != NULL);
    int refused = check_samples(stage, count, input, labels, err);
    if (refused) {
        return refused;
    }
    uint64_t mode = denormal_flush();
    int rc = evaluate(stage, count, input, output, labels, loss_sum, correct, err);
    denormal_restore(mode);
    return rc;
}
