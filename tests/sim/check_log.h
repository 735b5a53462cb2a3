/* check_log.h: the law of the log of mixes (docs/adr/0144): the rows of a job with the records that
 * a live group carries determine every bit of that group, and the rows alone every average that is
 * stored. For check_gossip.c. */
#ifndef TESTS_SIM_CHECK_LOG_H
#define TESTS_SIM_CHECK_LOG_H

#include "schema/job.h"
#include "schema/submodel.h"
#include "tests/sim/world.h"

#define PARENTS_SEEN_MAX 64 /* a restored backup may lack one, which is submitted again */

struct check_log;

int check_log_new(struct check_log **out, struct err *err);
void check_log_free(struct check_log **log);
/* One more row. */
void check_log_note(struct check_log *log);
/* Look at the next commit. Until all parents were looked at. */
void check_log_due(struct check_log *log);
void check_log_done(struct check_log *log);
/* After a commit. Repeats the log if it is due. */
void check_log(struct world *world, struct check_log *log, const struct job *job,
               const struct parent *parent);

#endif
