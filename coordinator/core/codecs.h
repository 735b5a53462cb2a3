/* codecs.h: the codec of each link of a plan, from what the job wants and what both devices have.
 * Pure. */
#ifndef COORDINATOR_CORE_CODECS_H
#define COORDINATOR_CORE_CODECS_H

#include "libtrain/quant/codec.h"
#include "schema/device.h"
#include "schema/job.h"
#include "schema/plan.h"

/* The codecs that an agent has. */
enum codecs {
    CODECS_NO,    /* of protocol 1 */
    CODECS_PLAIN, /* built without zstd */
    CODECS_ALL,
};
enum codecs codecs_of_device(const struct device *device);

/* What the job wants, where both devices of a link have it. */
enum codec codecs_wanted(const struct job_spec *spec);
/* The wanted codec between two devices, as far as both have it. */
enum codec codecs_of_link(const struct job_spec *spec, enum codecs a, enum codecs b);
/* Whether a link of the plan has a codec: its steps are not exact. */
bool codecs_in_plan(const struct plan *plan);

#endif
