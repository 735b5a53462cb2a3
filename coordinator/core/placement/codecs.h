/* codecs.h: the codec of each link of a plan, from the request of the job and the codecs of both
 * devices. Pure. */
#ifndef COORDINATOR_CORE_PLACEMENT_CODECS_H
#define COORDINATOR_CORE_PLACEMENT_CODECS_H

#include "coordinator/plan/partition.h"
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

/* Return the codec that the job names, for links whose devices both have it; CODEC_NONE for AUTO.
 */
enum codec codecs_wanted(const struct job_spec *spec);
/* The codecs that the planner chooses from for COMPRESSION_AUTO, the widest first. */
#define CODECS_AUTO 3
extern const enum codec codecs_auto[CODECS_AUTO];
/* A narrower codec must make the step faster by at least this share. */
#define CODECS_AUTO_GAIN 0.05
/* Return the cost of a codec. */
struct partition_codec codecs_cost(enum codec codec);
/* Return the wanted codec, or the planner's, for a link between two devices, as far as both have
 * it. */
enum codec codecs_of_link(enum codec wanted, enum codecs a, enum codecs b);
/* Return whether a link of the plan has a codec. The steps of such a plan are not exact. */
bool codecs_in_plan(const struct plan *plan);

#endif
