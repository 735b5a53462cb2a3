/* export.h: assembles the final model from the units' blobs in the center, on a worker thread: one
 * header, then the exported part of each blob. */
#ifndef COORDINATOR_CONTENT_EXPORT_H
#define COORDINATOR_CONTENT_EXPORT_H

#include <stdint.h>

#include "base/err.h"
#include "libtrain/state/trained.h"

struct coordinator;
struct job_spec;

/* Return the facts of a job's evaluation for the header of its model file. */
struct evaluation export_evaluation(const struct job_spec *spec);
/* Start assembling `version` of the job. The result, a success or an error, arrives as
 * EVENT_EXPORTED, unless the program ends first. Ignored if the job has ended. The loop's thread.
 * ERR_MEMORY. */
NODISCARD int export_start(struct coordinator *coordinator, const char *job_id, int64_t version,
                           struct err *err);

#endif
