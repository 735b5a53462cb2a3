/* strategy_rules.h: the rules of each strategy about jobs, their models and assignments, as one
 * table by enum job_strategy. Checks add faults; ERR_INVALID when there is one, and err names the
 * first. */
#ifndef SCHEMA_STRATEGY_RULES_H
#define SCHEMA_STRATEGY_RULES_H

#include "schema/assignment.h"
#include "schema/job.h"

/* Return whether the devices of a job, or of its parts, form a pipeline: then the job accepts the
 * fields of pipelines. */
bool strategy_rules_pipelines(const struct job_spec *spec);
/* Check the fields by the rules of all strategies: each rejects its options in jobs of others. */
NODISCARD int strategy_rules_job(const struct job_spec *spec, struct record_faults *faults,
                                 struct err *err);
/* Check the options that name units of the job's model, or numbers of units. */
NODISCARD int strategy_rules_model(const struct job_spec *spec, const struct model *model,
                                   struct record_faults *faults, struct err *err);
/* Check the stage of an assignment, and the other stages that it calls. */
NODISCARD int strategy_rules_assignment(const struct assignment_run *run, struct err *err);

#endif
