/* course.h: the states that an asynchronous job must come to: replayed from its plans. A plan goes
 * on from the version that it resumes from, as an earlier plan left it. Pure. */
#ifndef TESTS_SIM_COURSE_H
#define TESTS_SIM_COURSE_H

#include "schema/job.h"
#include "tests/sim/digest.h"

struct course;

/* spec: borrowed; initial: [units], version 0. ERR_MEMORY. */
int course_new(const struct reference_job *job, const struct job_spec *spec,
               const uint64_t *initial, struct course **out, struct err *err);
void course_free(struct course **course);
/* A plan of the job is stored. Each counts once; after a restored backup numbers of generations
 * repeat. ERR_MEMORY. */
int course_add(struct course *course, const struct plan *plan, struct err *err);
/* A restored backup knows no plan after this one (NULL: none). Devices may still have their
 * states. */
void course_forget(struct course *course, const struct plan *newest);
/* Whether one of the plans comes to this state of the unit, or to this model. */
bool course_has_unit(const struct course *course, int64_t version, size_t unit, uint64_t digest);
bool course_has_model(const struct course *course, int64_t version, const char *sha256);

#endif
