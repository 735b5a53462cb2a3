/* jobs.h: finds the job that a request names; shared by the routes of jobs and of their records.
 * The loop's thread only. */
#ifndef COORDINATOR_HTTP_JOBS_H
#define COORDINATOR_HTTP_JOBS_H

#include <stdbool.h>

#include "coordinator/coordinator.h"

/* Check that the job exists, live or ended. false: a problem was sent. */
bool job_exists(struct coordinator *coordinator, struct http_exchange *exchange, const char *id);
/* Answer for a job that the core does not have: wrong_state if it has ended, which only its row
 * shows, else unknown_job. Returns whether a problem was sent. */
bool job_answer_ended(struct coordinator *coordinator, struct http_exchange *exchange,
                      const char *id);
/* Return the job, live or ended, including the volatile members of a live one; the caller owns it
 * (record_done, free). NULL: a problem was sent. */
struct job *job_load(struct coordinator *coordinator, struct http_exchange *exchange,
                     const char *id);
/* Return the parts of a job that consists of groups, live or ended; the caller owns them (free).
 * NULL: a problem was sent. */
struct parent *job_parent_load(struct coordinator *coordinator, struct http_exchange *exchange,
                               const char *id);
/* Read the plan of a generation of the job. false: a problem was sent. */
bool job_read_plan(struct coordinator *coordinator, struct http_exchange *exchange, const char *id,
                   int64_t generation, struct plan *out);
/* Answer with the object in a row or, without a row, with `unknown`. */
void row_answer(struct coordinator *coordinator, struct http_exchange *exchange,
                enum state_table table, const char *id, enum problem_code unknown);

#endif
