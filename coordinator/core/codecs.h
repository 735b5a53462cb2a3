/* codecs.h: the codec of each link of a plan, from what the job wants and what both devices have.
 * Pure. */
#ifndef COORDINATOR_CORE_CODECS_H
#define COORDINATOR_CORE_CODECS_H

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

/* The codec that the job names, for links whose devices both have it; CODEC_NONE for AUTO. */
enum codec codecs_wanted(const struct job_spec *spec);
/* The codecs that the planner chooses from for COMPRESSION_AUTO, the widest first. */
#define CODECS_AUTO 3
extern const enum codec codecs_auto[CODECS_AUTO];
/* A narrower one must make the step this much faster. */
#define CODECS_AUTO_GAIN 0.05
/* What a codec costs. */
struct partition_codec codecs_cost(enum codec codec);
/* The wanted codec, or that of the planner, between two devices, as far as both have it. */
enum codec codecs_of_link(enum codec wanted, enum codecs a, enum codecs b);
/* Whether a link of the plan has a codec: its steps are not exact. */
bool codecs_in_plan(const struct plan *plan);

#endif
