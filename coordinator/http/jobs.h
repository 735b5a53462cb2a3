/* jobs.h: the job that a path names: what the routes of jobs and of their records have in common. The loop's thread
 * only.
 */
#ifndef COORDINATOR_HTTP_JOBS_H
#define COORDINATOR_HTTP_JOBS_H

#include <stdbool.h>

#include "coordinator/coordinator.h"

/* Whether the job {id} of the path exists, living or ended: false when the problem was answered. */
bool job_exists(struct coordinator *coordinator, struct http_exchange *exchange);

#endif
