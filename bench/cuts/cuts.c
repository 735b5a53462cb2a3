#include "bench/cuts/cuts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/rng.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/train.h"

#define SIDE 32
#define CHANNELS 3
#define PIXELS (SIDE * SIDE)
#define IMAGE_BYTES (PIXELS * CHANNELS)
#define STAGES 3

/* One past the last unit of each stage of resnet8: the boundaries with most values. */
static const size_t ends[STAGES] = {2, 3, 5};

struct cuts {
    struct cuts_config config;
    struct model *model;
    struct train_pool *pool;
    struct train_sampler *sampler;
    size_t sampled; /* images that the sampler is for */
    struct train_stage *stage[STAGES];
    size_t values[STAGES]; /* of a micro-batch after a stage */
    float *activation[STAGES], *gradient[STAGES];
    struct coder *forward[STAGES], *backward[STAGES];
    unsigned char *input; /* of a micro-batch */
    int32_t *label;
    int64_t step;
};

/* ---- images ---- */

static int take_room(size_t count, struct cuts_images *out, struct err *err)
{
    out->count = count;
    out->input = malloc(count * IMAGE_BYTES);
    out->label = malloc(count * sizeof(*out->label));
    return out->input && out->label ? 0 : err_set(err, ERR_MEMORY, "%zu images", count);
}

int cuts_read(const char *path, size_t most, struct cuts_images *out, struct err *err)
{
    FILE *file = fopen(path, "rbe");
    if (!file) {
        return err_set(err, ERR_IO, "open '%s' failed", path);
    }
    int rc = take_room(most, out, err);
    unsigned char record[1 + IMAGE_BYTES];
    size_t count = 0;
    while (rc == 0 && count < most && fread(record, sizeof(record), 1, file) == 1) {
        out->label[count] = record[0];
        for (size_t i = 0; i < IMAGE_BYTES; i++) { /* colour by colour to pixel by pixel */
            out->input[count * IMAGE_BYTES + i % PIXELS * CHANNELS + i / PIXELS] = record[1 + i];
        }
        count++;
    }
    (void)fclose(file);
    out->count = count;
    return rc || count > 0 ? rc : err_set(err, ERR_FORMAT, "'%s' has no images", path);
}

int cuts_draw(size_t count, uint64_t seed, struct cuts_images *out, struct err *err)
{
    const struct rng_stream stream = rng_stream(seed, RNG_SIMULATION, 0, 0);
    int rc = take_room(count, out, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        out->label[i] = (int32_t)(i % CUTS_CLASSES);
        for (size_t k = 0; k < IMAGE_BYTES; k++) {
            const size_t period = 2 + i % CUTS_CLASSES;
            const uint64_t noise = rng_below(&stream, i * IMAGE_BYTES + k, 128);
            out->input[i * IMAGE_BYTES + k] =
                (unsigned char)(noise + (k / CHANNELS % period < period / 2 ? 127 : 0));
        }
    }
    return rc;
}

void cuts_images_free(struct cuts_images *images)
{
    free(images->input);
    free(images->label);
}

/* ---- the stages ---- */

static int make_model(struct cuts *cuts, struct err *err)
{
    const char *text = zoo_text("resnet8");
    const struct model_fit fit = {.input = {.h = SIDE, .w = SIDE, .c = CHANNELS},
                                  .dtype = DTYPE_U8,
                                  .classes = CUTS_CLASSES,
                                  .positions = 1};
    json_t *description = NULL;
    int rc = json_parse(text, strlen(text), &description, err);
    rc = rc ? rc : description_parse(description, &fit, &cuts->model, NULL, err);
    json_decref(description);
    return rc;
}

static int make_stage(struct cuts *cuts, size_t s, struct err *err)
{
    const struct cuts_config *config = &cuts->config;
    const size_t samples = config->batch / config->micro_batches;
    const struct train_stage_config stage = {
        .model = cuts->model,
        .first = s == 0 ? 0 : ends[s - 1],
        .end = ends[s],
        .micro_batch = samples,
        .micro_batches = config->micro_batches,
        .in_flight = 1,
        .optimizer = {.type = OPTIMIZER_SGD, .momentum = 0.9, .weight_decay = 0.0005},
        .seed = config->seed,
        .pool = cuts->pool};
    int rc = train_stage_new(&stage, &cuts->stage[s], err);
    cuts->values[s] = samples * shape_elements(cuts->model->unit[ends[s] - 1].out);
    cuts->activation[s] = malloc(cuts->values[s] * sizeof(float));
    cuts->gradient[s] = malloc(cuts->values[s] * sizeof(float));
    if (rc == 0 && (!cuts->activation[s] || !cuts->gradient[s])) {
        rc = err_set(err, ERR_MEMORY, "tensors of stage %zu", s);
    }
    for (size_t u = stage.first; rc == 0 && u < stage.end; u++) {
        train_unit_initialise(cuts->stage[s], u);
    }
    rc = rc || config->activation == CODEC_NONE
             ? rc
             : coder_new(config->activation, cuts->values[s], &cuts->forward[s], err);
    return rc || config->gradient == CODEC_NONE
               ? rc
               : coder_new(config->gradient, cuts->values[s], &cuts->backward[s], err);
}

int cuts_new(const struct cuts_config *config, struct cuts **out, struct err *err)
{
    struct cuts *cuts = calloc(1, sizeof(*cuts));
    const size_t samples = config->batch / config->micro_batches;
    if (!cuts) {
        return err_set(err, ERR_MEMORY, "stages");
    }
    cuts->config = *config;
    cuts->input = malloc(samples * IMAGE_BYTES);
    cuts->label = malloc(samples * sizeof(*cuts->label));
    int rc = cuts->input && cuts->label ? 0 : err_set(err, ERR_MEMORY, "a micro-batch");
    rc = rc ? rc : make_model(cuts, err);
    rc = rc ? rc : train_pool_new(1, &cuts->pool, err);
    for (size_t s = 0; rc == 0 && s < STAGES; s++) {
        rc = make_stage(cuts, s, err);
    }
    if (rc) {
        cuts_free(&cuts);
        return rc;
    }
    *out = cuts;
    return 0;
}

void cuts_free(struct cuts **cuts)
{
    struct cuts *old = *cuts;
    for (size_t s = 0; s < STAGES; s++) {
        train_stage_free(&old->stage[s]);
        free(old->activation[s]);
        free(old->gradient[s]);
        coder_free(&old->forward[s]);
        coder_free(&old->backward[s]);
    }
    train_sampler_free(&old->sampler);
    train_pool_free(&old->pool);
    model_free(&old->model);
    free(old->input);
    free(old->label);
    free(old);
    *cuts = NULL;
}

/* ---- training ---- */

/* A tensor crosses a boundary: in place, as the receiver decodes it. */
static int cross(const struct cuts *cuts, struct coder *coder, enum coder_data data, float *x,
                 size_t n, struct err *err)
{
    if (cuts->config.look) {
        cuts->config.look(cuts->config.arg, data, x, n);
    }
    return coder ? coder_decode(coder, coder_encode(coder, data, x, n), x, n, err) : 0;
}

static void load(struct cuts *cuts, const struct cuts_images *images, const uint32_t *sample,
                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const size_t from = sample ? sample[i] : i;
        memcpy(cuts->input + i * IMAGE_BYTES, images->input + from * IMAGE_BYTES, IMAGE_BYTES);
        cuts->label[i] = images->label[from];
    }
}

static int pass(struct cuts *cuts, size_t micro_batch, double *loss, struct err *err)
{
    const struct train_position position = {cuts->step + 1, micro_batch};
    double sum = 0;
    int rc = 0;
    for (size_t s = 0; rc == 0 && s < STAGES; s++) {
        const bool last = s + 1 == STAGES;
        const void *input = s == 0 ? (const void *)cuts->input : cuts->activation[s - 1];
        rc = train_forward(cuts->stage[s], 0, position, input, last ? NULL : cuts->activation[s],
                           last ? cuts->label : NULL, last ? &sum : NULL, err);
        if (rc == 0 && !last) {
            rc = cross(cuts, cuts->forward[s], CODER_ACTIVATION, cuts->activation[s],
                       cuts->values[s], err);
        }
    }
    for (size_t s = STAGES; rc == 0 && s > 0; s--) {
        train_backward(cuts->stage[s - 1], 0, s == STAGES ? NULL : cuts->gradient[s - 1],
                       s == 1 ? NULL : cuts->gradient[s - 2]);
        if (s > 1) {
            rc = cross(cuts, cuts->backward[s - 2], CODER_GRADIENT, cuts->gradient[s - 2],
                       cuts->values[s - 2], err);
        }
    }
    *loss += sum;
    return rc;
}

static int train_step(struct cuts *cuts, const struct cuts_images *images, double *loss,
                      struct err *err)
{
    const struct cuts_config *config = &cuts->config;
    const struct learning_rate rate = {
        .type = LEARNING_RATE_COSINE, .value = 0.05, .warmup_steps = 100};
    const size_t samples = config->batch / config->micro_batches;
    const uint32_t *sample = train_sampler_batch(cuts->sampler, cuts->step + 1);
    int rc = 0;
    *loss = 0;
    for (size_t m = 0; rc == 0 && m < config->micro_batches; m++) {
        load(cuts, images, sample + m * samples, samples);
        rc = pass(cuts, m, loss, err);
    }
    cuts->step++;
    for (size_t s = 0; rc == 0 && s < STAGES; s++) {
        rc = train_update(cuts->stage[s], cuts->step,
                          learning_rate_at(&rate, cuts->step, config->steps), err);
    }
    *loss /= (double)config->batch;
    return rc;
}

int cuts_train(struct cuts *cuts, const struct cuts_images *images, int64_t steps, double *loss,
               struct err *err)
{
    int rc = 0;
    if (cuts->sampled != images->count) {
        train_sampler_free(&cuts->sampler);
        rc = train_sampler_new(images->count, cuts->config.batch, cuts->config.seed, &cuts->sampler,
                               err);
        cuts->sampled = images->count;
    }
    for (int64_t i = 0; rc == 0 && i < steps && cuts->step < cuts->config.steps; i++) {
        rc = train_step(cuts, images, loss, err);
    }
    return rc;
}

int cuts_test(struct cuts *cuts, const struct cuts_images *images, double *accuracy,
              struct err *err)
{
    const size_t samples = cuts->config.batch / cuts->config.micro_batches;
    double loss = 0;
    uint64_t correct = 0;
    int rc = 0;
    for (size_t first = 0; rc == 0 && first < images->count; first += samples) {
        const size_t left = images->count - first;
        const size_t count = left < samples ? left : samples;
        const struct cuts_images part = {.input = images->input + first * IMAGE_BYTES,
                                         .label = images->label + first};
        load(cuts, &part, NULL, count);
        for (size_t s = 0; rc == 0 && s < STAGES; s++) {
            const bool last = s + 1 == STAGES;
            rc = train_evaluate(cuts->stage[s], count,
                                s == 0 ? (const void *)cuts->input : cuts->activation[s - 1],
                                last ? NULL : cuts->activation[s], last ? cuts->label : NULL,
                                last ? &loss : NULL, last ? &correct : NULL, err);
        }
    }
    *accuracy = (double)correct / (double)images->count;
    return rc;
}
