/* offers.h: data sets that devices offer and that never leave them (schema/offer.h). What a device
 * has may change between two starts of its agent, and samples may be appended at any time. Of no
 * draw. One thread. */
#ifndef TESTS_SIM_OFFERS_H
#define TESTS_SIM_OFFERS_H

#include "schema/device.h"
#include "tests/sim/agent.h"
#include "tests/sim/users.h"

/* Whether a job of the world trains on data that stay on devices. */
bool offers_used(const struct world *world);
/* What the device offers in its present life. */
void offers_fill(const struct world *world, const struct agent *agent, struct enroll_request *out);
/* Look for samples that were appended. Return whether there are some. */
bool offers_append(const struct world *world, struct agent *agent);
/* Whether these are its data, or their first samples. */
bool offers_has(const struct world *world, const struct agent *agent,
                const struct local_train *local, int64_t samples);
/* Let the job train on what devices offer. After users_mix. */
void offers_use(struct user_job *job);
/* The same for a job of sub-models, whose joint phase trains on the uploaded data set. */
void offers_divide(struct user_job *job);

#endif
