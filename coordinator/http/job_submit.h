/* job_submit.h: submits a job; shared by the routes that make one. The loop's thread only. */
#ifndef COORDINATOR_HTTP_JOB_SUBMIT_H
#define COORDINATOR_HTTP_JOB_SUBMIT_H

#include <stdbool.h>

#include "base/json.h"
#include "coordinator/coordinator.h"

/* Read the common parts of such a request: ?dry_run=, the idempotency key and the body, which the
 * caller owns. false: a problem, or the stored answer, was sent. */
bool job_submit_begin(struct coordinator *coordinator, struct http_exchange *exchange, bool *dry,
                      struct turn_extra *extra, json_t **body);
/* Submit the job of a job_spec (dry: only plan it) and answer, now or later. */
void job_submit(struct coordinator *coordinator, struct http_exchange *exchange, bool dry,
                struct turn_extra *extra, const json_t *body);

#endif
