/* check_held_out.h: what must hold of averages that groups evaluate on the samples which their
 * devices hold out (docs/adr/0150). One thread. */
#ifndef TESTS_SIM_CHECK_HELD_OUT_H
#define TESTS_SIM_CHECK_HELD_OUT_H

#include "schema/mix_duty.h"
#include "tests/sim/check.h"
#include "tests/sim/run.h"

struct check_held_out;

int check_held_out_new(struct check_held_out **out, struct err *err);
void check_held_out_free(struct check_held_out **held);

/* A group has evaluated an average: once, on all that its device holds out. */
void check_evaluated(struct world *world, const struct run *run, struct mix_xid xid,
                     const struct mix_tests *tests);
/* The rows of a parent: figures are those of the device, and stay; those of an average are the mean
 * of all that its groups reported; no evaluation is cut short by a pause, or takes for ever. */
void check_held_out(struct world *world, const struct job *job, const struct parent *parent);

#endif
