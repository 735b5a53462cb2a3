/* servers_digest.h: training by the strategy parameter_server without arithmetic: parameters,
 * gradients, statistics and sums of layers are digests. A sum is a mix that is neither commutative
 * nor associative, so a wrong order of addition shows, and so does a micro-batch that is missing,
 * counted twice or computed from two versions. A unit's state follows from the sums of its layers;
 * one without trained layers stays as it is. Pure. */
#ifndef TESTS_SIM_SERVERS_DIGEST_H
#define TESTS_SIM_SERVERS_DIGEST_H

#include "libtrain/model/model.h"
#include "libtrain/model/reduce.h"
#include "tests/sim/digest.h"

#define DIGEST_LAYERS_MAX 24
#define DIGEST_MICRO_BATCHES_MAX 32

/* The layers of a model. */
struct servers_layers {
    size_t units, count;
    size_t first[DIGEST_UNITS_MAX + 1]; /* of each unit; equal to the next one's: it has none */
    size_t unit[DIGEST_LAYERS_MAX];     /* of each layer */
    double bytes[DIGEST_LAYERS_MAX];    /* of its trained parameters */
};
void servers_layers_of(const struct model *model, struct servers_layers *out);

/* What a worker computes with. */
struct servers_arena {
    uint64_t parameter[DIGEST_LAYERS_MAX], statistic[DIGEST_LAYERS_MAX];
    uint64_t still[DIGEST_UNITS_MAX]; /* units without layers */
};
/* A layer's part of its unit's state. */
uint64_t servers_parameter(uint64_t state, size_t layer);
uint64_t servers_statistic(uint64_t state, size_t layer);

/* What a micro-batch leaves at a worker. */
struct servers_pass {
    uint64_t input[DIGEST_LAYERS_MAX]; /* of each layer */
    uint64_t gradient[DIGEST_LAYERS_MAX], statistic[DIGEST_LAYERS_MAX];
    uint64_t output; /* of the layers so far; after the last one the loss */
};
/* Layers [first, end), after those before them; input: of the first. */
void servers_forward(const struct servers_layers *layers, const struct servers_arena *arena,
                     uint64_t input, size_t first, size_t end, struct servers_pass *pass);
void servers_backward(const struct servers_layers *layers, const struct servers_arena *arena,
                      struct servers_pass *pass);
/* The sum of a layer's gradients over a node of the tree: pass[m] of micro-batch m. */
uint64_t servers_tree(const struct servers_pass *pass, size_t layer, struct reduce_range range);
uint64_t servers_evaluate(const struct servers_layers *layers, const struct servers_arena *arena,
                          uint64_t input);

/* What a step does to layers, for all micro-batches. */
struct servers_step {
    uint64_t sum[DIGEST_LAYERS_MAX];
    uint64_t statistic[DIGEST_MICRO_BATCHES_MAX][DIGEST_LAYERS_MAX];
};
/* Fill in the gradients and buffers of the units that the stage keeps, for digest_update. */
void servers_gather(const struct servers_layers *layers, const struct servers_step *step,
                    size_t micro_batches, struct digest_stage *stage);

/* The reference: struct run_row. */
void servers_train_step(struct digest_stage *stage, const struct reference_job *job, int64_t step);
uint64_t servers_test(const struct digest_stage *stage, const struct reference_job *job,
                      uint64_t input);

/* The data of a message, or of the answer to a request for parameters. */
struct servers_body {
    size_t written;                   /* layers from here on are there */
    uint64_t data[DIGEST_LAYERS_MAX]; /* parameters, or sums of gradients */
    uint64_t statistic[DIGEST_MICRO_BATCHES_MAX][DIGEST_LAYERS_MAX]; /* of parameters: [0] */
    uint64_t loss[DIGEST_MICRO_BATCHES_MAX];
    uint64_t number; /* a result, a sum of squares */
    int64_t last;    /* of an answer without parameters: the last version */
};

#endif
