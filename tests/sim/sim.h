/* sim.h: one seed from its beginning to the end of its jobs. One thread. */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include "tests/sim/trace.h"
#include "tests/sim/world.h"

struct sim_result {
    size_t jobs, succeeded, failed, cancelled;
    size_t generations; /* of all jobs */
    int repeats;        /* the most generations in a row that failed alike and got no further */
    int64_t virtual_us;
    uint64_t events;
    char failure[512]; /* "": nothing was violated */
};

int sim_models_new(struct models *out, struct err *err);
void sim_models_free(struct models *models);

/* A world with everything in it and nothing begun. trace: NULL, or borrowed. */
int sim_open(struct world *world, uint64_t seed, const struct models *models, size_t devices,
             struct trace *trace, struct err *err);
void sim_close(struct world *world);
/* Start the coordinator and all devices. */
void sim_start(struct world *world);
/* Let time pass; ends early at a violation. */
void sim_pass(struct world *world, int64_t us);

/* Draw a scenario, live through it, and tell what came of it. */
int sim_run(uint64_t seed, const struct models *models, struct trace *trace, struct sim_result *out,
            struct err *err);

#endif
