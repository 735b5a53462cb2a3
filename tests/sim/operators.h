/* operators.h: the people who run the devices: they drain some, switch drained ones off, take
 * others away with a word before, and upgrade agents. One thread. */
#ifndef TESTS_SIM_OPERATORS_H
#define TESTS_SIM_OPERATORS_H

#include "tests/sim/world.h"

struct operators {
    bool drains[SIM_DEVICES_MAX];   /* the device shall be drained */
    bool switches[SIM_DEVICES_MAX]; /* off, as soon as it is */
    bool asking[SIM_DEVICES_MAX];   /* a call is under way */
    bool at_work;
};

int operators_new(struct world *world, struct err *err);
void operators_free(struct world *world);
/* Which version of the protocol each agent speaks. */
void operators_install(struct world *world);
/* Draw what they do, and begin. */
void operators_begin(struct world *world);
/* For stories: drain the device, or let it take work again. */
void operators_ask(struct world *world, size_t index, bool drain);
/* Every device shall take work again, and no agent is of an old version. */
void operators_end(struct world *world);

#endif
