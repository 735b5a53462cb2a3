/* jobs.h: finds the job that a request names; shared by the routes of jobs and of their records.
 * The loop's thread only. */
#ifndef COORDINATOR_HTTP_JOBS_H
#define COORDINATOR_HTTP_JOBS_H

#include <stdbool.h>

#include "coordinator/coordinator.h"

/* Whether the job exists, living or ended: false when the problem was answered. */
bool job_exists(struct coordinator *coordinator, struct http_exchange *exchange, const char *id);
/* A job that has ended is a row, not in the core: the core cannot say "wrong state" of it. True if
 * that, or unknown_job, was answered. */
bool job_answer_ended(struct coordinator *coordinator, struct http_exchange *exchange,
                      const char *id);
/* The job, live or ended, with the members of the live one; owned by the caller (record_done,
 * free). NULL: a problem was answered. */
struct job *job_load(struct coordinator *coordinator, struct http_exchange *exchange,
                     const char *id);
/* Read the plan of a generation of the job. false: a problem was answered. */
bool job_read_plan(struct coordinator *coordinator, struct http_exchange *exchange, const char *id,
                   int64_t generation, struct plan *out);
/* Answer with an object as its row has it, or with `unknown`. */
void row_answer(struct coordinator *coordinator, struct http_exchange *exchange,
                enum state_table table, const char *id, enum problem_code unknown);

#endif
