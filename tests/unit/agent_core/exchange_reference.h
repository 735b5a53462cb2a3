/* exchange_reference.h: a job of the strategy parameter_server with digests in place of tensors,
 * and its course in one process. A sum is a mix that is neither commutative nor associative, so a
 * wrong order shows. For the tests of core/exchange. */
#ifndef TESTS_UNIT_AGENT_CORE_EXCHANGE_REFERENCE_H
#define TESTS_UNIT_AGENT_CORE_EXCHANGE_REFERENCE_H

#include <stdbool.h>

#include "libtrain/model/reduce.h"
#include "schema/early_stop.h"
#include "tests/support/test.h"

enum { REFERENCE_LAYERS = 6, REFERENCE_MICRO = 9, REFERENCE_STEPS = 10, REFERENCE_TESTS = 20 };

/* The state of a version, by layer. */
struct reference_state {
    uint64_t parameter[REFERENCE_LAYERS], statistic[REFERENCE_LAYERS];
};

/* What a micro-batch leaves, by layer. */
struct reference_pass {
    uint64_t activation[REFERENCE_LAYERS + 1];
    uint64_t gradient[REFERENCE_LAYERS], statistic[REFERENCE_LAYERS];
    uint64_t loss;
};

struct reference {
    size_t layers, micro_batches, tests;
    int64_t steps, evaluate_every;
    bool clips, judges;
    struct stop_rule stop;

    /* Its course. */
    struct reference_state state[REFERENCE_STEPS + 1]; /* by version */
    uint64_t loss[REFERENCE_STEPS + 1];                /* by step */
    uint64_t tested[REFERENCE_STEPS + 1];              /* by version; 0: not evaluated */
    int64_t last;                                      /* the version at which it ends, */
    struct early_stop judged;                          /* after these evaluations */
};

uint64_t reference_mix(uint64_t a, uint64_t b);
/* Forward through layers [first, end), after those before them. */
void reference_forward(const struct reference_state *state, int64_t step, size_t micro_batch,
                       size_t first, size_t end, struct reference_pass *pass);
/* After the forward pass through all layers. */
void reference_backward(const struct reference_state *state, size_t layers, size_t micro_batch,
                        struct reference_pass *pass);
/* The sum of a layer's gradients: pass[m] of micro-batch m. */
uint64_t reference_tree(const struct reference_pass *pass, size_t layer, struct reduce_range range);
/* The sum of squares of the layers before `layer`, of which those from there on have the sum
 * `norm`. */
uint64_t reference_norm(uint64_t norm, uint64_t sum);
uint64_t reference_update(uint64_t parameter, uint64_t sum, bool clips, uint64_t total);
/* A micro-batch of an evaluation. */
uint64_t reference_test(const struct reference_state *state, size_t layers, size_t micro_batch);
double reference_metric(uint64_t tested);

/* Fill in the course. */
void reference_run(struct reference *job);

#endif
