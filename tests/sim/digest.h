/* digest.h: training without arithmetic: the state of a unit is 64 bits that depend on everything
 * that the real state depends on, in the same order. A step done twice, left out, or computed from
 * two versions changes every later state. Pure. */
#ifndef TESTS_SIM_DIGEST_H
#define TESTS_SIM_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "schema/limits.h"

#define DIGEST_UNITS_MAX 32
#define DIGEST_SLOTS_MAX 32

/* Order matters. */
uint64_t digest_mix(uint64_t a, uint64_t b);
/* As a content hash, and back. */
void digest_text(uint64_t digest, char out[SHA256_SIZE]);
uint64_t digest_of_text(const char *sha256);
/* As a number that a metric can carry without loss. */
double digest_number(uint64_t digest);

/* Version 0 of a unit. */
uint64_t digest_initial(int64_t seed, size_t unit);
/* The same, of a job that starts from a checkpoint of this content. */
uint64_t digest_start(uint64_t checkpoint, size_t unit);
struct job_spec;
struct model;
/* Of the samples of a job. */
int64_t digest_samples_seed(const struct job_spec *spec);
/* The same of a job on data of a device. */
int64_t digest_local_seed(int64_t seed, const char *sha256);
/* A micro-batch of the training set, and of the test set. */
uint64_t digest_samples(int64_t seed, int64_t step, size_t micro_batch);
uint64_t digest_test_samples(int64_t seed, size_t micro_batch);

/* Units [first, end) of a model, at one version and on the way to the next. */
struct digest_stage {
    size_t first, end, units;
    bool clips;                          /* by the norm of all gradients */
    bool async;                          /* steps overlap, each is one micro-batch */
    size_t versions;                     /* async: of the state, for the steps in flight */
    int64_t aggregate_every;             /* async: updates; 0: never */
    int64_t version, restarted;          /* async: the newest, and that of the restart */
    bool still[DIGEST_UNITS_MAX];        /* units that no step changes */
    uint64_t state[DIGEST_UNITS_MAX];    /* parameters, optimizer state */
    uint64_t gradient[DIGEST_UNITS_MAX]; /* summed over the micro-batches so far */
    uint64_t running[DIGEST_UNITS_MAX];  /* buffers that forward passes update */
    uint64_t saved[DIGEST_SLOTS_MAX]
                  [DIGEST_UNITS_MAX + 1];              /* activations of micro-batches in flight */
    uint64_t used[DIGEST_SLOTS_MAX][DIGEST_UNITS_MAX]; /* the parameters of their forward passes */
    uint64_t ring[DIGEST_SLOTS_MAX][DIGEST_UNITS_MAX]; /* async: the newest versions, by number */
    uint64_t seen[DIGEST_SLOTS_MAX][DIGEST_UNITS_MAX]; /* async: the buffers after these */
    uint64_t loss;                                     /* of the step; last stage */
};

/* Async: every unit has its state of that version, and nothing is in flight. */
void digest_restart(struct digest_stage *stage, int64_t version);
/* step: async: decides which version is used (docs/adr/0076). */
uint64_t digest_forward(struct digest_stage *stage, size_t slot, int64_t step, uint64_t input);
/* `gradient`: from the next stage; ignored on the last one. */
uint64_t digest_backward(struct digest_stage *stage, size_t slot, uint64_t gradient);
/* For gradient clipping: the sum of the later stages plus the stage's own gradients, from the last
 * unit to the first. On stage 0 it is the total. */
uint64_t digest_sum(const struct digest_stage *stage, uint64_t later_stages);
/* `total`: ignored where gradients are not clipped. */
void digest_update(struct digest_stage *stage, int64_t step, uint64_t total);
/* The mean of the states of a unit: the oldest version comes first. */
uint64_t digest_mean(const uint64_t *state, size_t count);
/* Reads, and changes nothing. */
uint64_t digest_evaluate(const struct digest_stage *stage, uint64_t input);

/* What a job must come to: computed directly, on one device that nothing disturbs. */
struct reference {
    int64_t steps;
    size_t units;
    uint64_t *state;    /* [(steps + 1) * units] */
    double *loss;       /* [steps + 1] */
    double *evaluation; /* [steps + 1] */
};

/* What it is that is trained, and how. */
struct reference_job {
    int64_t seed, steps;
    int64_t samples_seed; /* which samples: those of a view differ */
    uint64_t checkpoint;  /* 0: none */
    size_t taken;         /* first units whose state at version 0 is that of the checkpoint */
    size_t units, micro_batches, test_batches;
    bool clips;
    const struct model *model; /* borrowed */
    /* All passes of a step, and an evaluation's of a micro-batch, on one device: struct run_row. */
    void (*train_step)(struct digest_stage *stage, const struct reference_job *job, int64_t step);
    uint64_t (*test)(const struct digest_stage *stage, const struct reference_job *job,
                     uint64_t input);
};

int reference_new(const struct reference_job *job, struct reference **out, struct err *err);
void reference_free(struct reference **reference);
uint64_t reference_unit(const struct reference *reference, int64_t version, size_t unit);
/* Of all units at a version: the exported model. */
uint64_t reference_model(const struct reference *reference, int64_t version);
/* The same of these states. */
uint64_t digest_model(const uint64_t *state, size_t units);

#endif
