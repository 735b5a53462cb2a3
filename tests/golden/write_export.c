/* write_export NAME H W C SEED FILE: the exported file of a model of the zoo in its initial state,
 * as the coordinator assembles it from snapshots. For the test that loads it into PyTorch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/state/state.h"
#include "libtrain/state/trained.h"
#include "libtrain/train.h"

#define FILE_BYTES_MAX (256u << 20)

static int parse(const char *name, char **size, struct model **out, struct err *err)
{
    struct model_fit fit = {{(uint32_t)strtoul(size[0], NULL, 10),
                             (uint32_t)strtoul(size[1], NULL, 10),
                             (uint32_t)strtoul(size[2], NULL, 10)},
                            DTYPE_U8,
                            10,
                            1};
    if (fit.input.w == 1 && fit.input.c == 1) { /* text: the label of a byte is the next one */
        fit.classes = 256;
        fit.positions = fit.input.h;
    }
    const char *text = zoo_text(name);
    json_t *description = NULL;
    if (!text) {
        return err_set(err, ERR_NOT_FOUND, "no model '%s' in the zoo", name);
    }
    int rc = json_parse(text, strlen(text), &description, err);
    rc = rc ? rc : description_parse(description, &fit, out, NULL, err);
    json_decref(description);
    return rc;
}

/* The header, then each unit's exported part. */
static int append_units(const struct model *model, struct train_stage *stage, struct buf *out,
                        struct err *err)
{
    const struct optimizer optimizer = {.type = OPTIMIZER_SGD, .momentum = 0.9};
    const struct evaluation evaluation = {.micro_batch = EVALUATION_MICRO_BATCH};
    int rc = trained_header(model, &evaluation, out, err);
    for (size_t unit = 0; unit < model->unit_count && rc == 0; unit++) {
        struct state_layout *layout AUTO(state_layout_free) = NULL;
        rc = state_layout_new(model, unit, &optimizer, &layout, err);
        char *blob = rc ? NULL : malloc(train_unit_bytes(stage, unit));
        if (rc == 0 && !blob) {
            rc = err_set(err, ERR_MEMORY, "out of memory");
        }
        if (rc == 0) {
            train_unit_initialise(stage, unit);
            train_unit_save(stage, unit, blob);
            rc = buf_append(out, blob + layout->header.data_offset, (size_t)layout->export_bytes,
                            err);
        }
        free(blob);
    }
    return rc;
}

static int run(char **argv, struct err *err)
{
    struct model *model AUTO(model_free) = NULL;
    struct train_pool *pool AUTO(train_pool_free) = NULL;
    struct train_stage *stage AUTO(train_stage_free) = NULL;
    BUF_AUTO struct buf file;
    buf_init(&file, FILE_BYTES_MAX);
    int rc = parse(argv[1], argv + 2, &model, err);
    rc = rc ? rc : train_pool_new(1, &pool, err);
    if (rc) {
        return rc;
    }
    const struct train_stage_config config = {.model = model,
                                              .end = model->unit_count,
                                              .micro_batch = 1,
                                              .micro_batches = 1,
                                              .in_flight = 1,
                                              .optimizer = {.type = OPTIMIZER_SGD, .momentum = 0.9},
                                              .seed = strtoull(argv[5], NULL, 10),
                                              .pool = pool};
    rc = train_stage_new(&config, &stage, err);
    rc = rc ? rc : append_units(model, stage, &file, err);
    return rc ? rc : file_write_atomic(argv[6], file.data, file.size, 0644, err);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    if (argc != 7) {
        fprintf(stderr, "usage: write_export NAME H W C SEED FILE\n");
        return 2;
    }
    if (run(argv, &err) != 0) {
        fprintf(stderr, "write_export: %s\n", err.text);
        return 1;
    }
    return 0;
}
