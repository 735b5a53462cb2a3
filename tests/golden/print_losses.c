/* print_losses DESCRIPTION H W C SEED BATCH STEPS RATE MOMENTUM FILE: train a model and print the
 * loss of every step, a line each. FILE: for each step BATCH samples of H x W x C bytes, after
 * them for each step BATCH labels (int32, below 10). For the script that lays the losses beside
 * PyTorch's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "libtrain/description/description.h"
#include "libtrain/train.h"

#define FILE_BYTES_MAX (1u << 30)
#define CLASSES 10

struct plan {
    const char *description;
    struct shape input;
    uint64_t seed;
    size_t batch, steps;
    double rate, momentum;
    const char *data;
};

static int parse(const struct plan *plan, struct model **out, struct err *err)
{
    const struct model_fit fit = {plan->input, DTYPE_U8, CLASSES, 1};
    BUF_AUTO struct buf text;
    json_t *description = NULL;
    buf_init(&text, MODEL_DESCRIPTION_BYTES_MAX);
    int rc = file_read(plan->description, &text, err);
    rc = rc ? rc : json_parse(text.data, text.size, &description, err);
    rc = rc ? rc : description_parse(description, &fit, out, NULL, err);
    json_decref(description);
    return rc;
}

static int train(const struct plan *plan, struct train_stage *stage, const char *data,
                 struct err *err)
{
    size_t samples = plan->batch * shape_elements(plan->input);
    const char *inputs = data;
    const char *labels = data + plan->steps * samples;
    int32_t *batch_labels = calloc(plan->batch, sizeof(*batch_labels));
    int rc = batch_labels ? 0 : err_set(err, ERR_MEMORY, "out of memory");
    for (size_t step = 0; step < plan->steps && rc == 0; step++) {
        struct train_position position = {.step = (int64_t)step + 1};
        double loss = 0.0;
        memcpy(batch_labels, labels + step * plan->batch * sizeof(int32_t),
               plan->batch * sizeof(int32_t));
        rc = train_forward(stage, 0, position, inputs + step * samples, NULL, batch_labels, &loss,
                           err);
        if (rc == 0) {
            train_backward(stage, 0, NULL, NULL);
            rc = train_update(stage, position.step, plan->rate, err);
            printf("%.9g\n", loss / (double)plan->batch);
        }
    }
    free(batch_labels);
    return rc;
}

static int run(const struct plan *plan, struct err *err)
{
    struct model *model AUTO(model_free) = NULL;
    struct train_pool *pool AUTO(train_pool_free) = NULL;
    struct train_stage *stage AUTO(train_stage_free) = NULL;
    BUF_AUTO struct buf data;
    buf_init(&data, FILE_BYTES_MAX);
    int rc = parse(plan, &model, err);
    rc = rc ? rc : file_read(plan->data, &data, err);
    rc = rc ? rc : train_pool_new(1, &pool, err);
    if (rc) {
        return rc;
    }
    size_t expected = plan->steps * plan->batch * (shape_elements(plan->input) + sizeof(int32_t));
    if (data.size != expected) {
        return err_set(err, ERR_INVALID, "'%s' has %zu bytes, not %zu", plan->data, data.size,
                       expected);
    }
    const struct train_stage_config config = {
        .model = model,
        .end = model->unit_count,
        .micro_batch = plan->batch,
        .micro_batches = 1,
        .in_flight = 1,
        .optimizer = {.type = OPTIMIZER_SGD, .momentum = plan->momentum},
        .seed = plan->seed,
        .pool = pool};
    rc = train_stage_new(&config, &stage, err);
    for (size_t unit = 0; rc == 0 && unit < model->unit_count; unit++) {
        train_unit_initialise(stage, unit);
    }
    return rc ? rc : train(plan, stage, data.data, err);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    if (argc != 11) {
        fprintf(stderr,
                "usage: print_losses DESCRIPTION H W C SEED BATCH STEPS RATE MOMENTUM FILE\n");
        return 2;
    }
    const struct plan plan = {.description = argv[1],
                              .input = {(uint32_t)strtoul(argv[2], NULL, 10),
                                        (uint32_t)strtoul(argv[3], NULL, 10),
                                        (uint32_t)strtoul(argv[4], NULL, 10)},
                              .seed = strtoull(argv[5], NULL, 10),
                              .batch = strtoul(argv[6], NULL, 10),
                              .steps = strtoul(argv[7], NULL, 10),
                              .rate = strtod(argv[8], NULL),
                              .momentum = strtod(argv[9], NULL),
                              .data = argv[10]};
    if (run(&plan, &err) != 0) {
        fprintf(stderr, "print_losses: %s\n", err.text);
        return 1;
    }
    return 0;
}
