/* What must hold of measured kernels, which decide bits. */
#include <inttypes.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"

void check_kernels(struct world *world, const struct run *run)
{
    struct check *check = world->check;
    const struct assignment_run *desired = run->desired;
    const size_t at = check_known(check, desired->job.text);
    const struct plan *plan = rows_plan(&world->coordinator->rows, desired->job.text);
    if (at == check->known_count || !plan || !id_equal(plan->id.text, desired->plan.text)) {
        return; /* a device that has not heard of the newest plan yet */
    }
    const char *model = desired->job_spec.model.sha256;
    if (desired->resume_version == 0) {
        memcpy(check->known[at].model, model, SHA256_SIZE);
    } else if (strcmp(check->known[at].model, model) != 0 &&
               strcmp(check->known[at].model_put_back, model) != 0) {
        check_fail(world, "%s trains generation %" PRId64 " with other kernels than it began with",
                   run->agent->name, desired->generation);
    }
    if (desired->tune) {
        check_fail(world, "%s trains where it shall measure", run->agent->name);
    }
}

void check_kernels_put_back(struct world *world, size_t known, const struct job *job)
{
    char *model = world->check->known[known].model_put_back;
    memset(model, 0, SHA256_SIZE);
    if (job && (job->version > 0 || job->neighbor_version > 0)) {
        memcpy(model, job->spec.model.sha256, SHA256_SIZE);
    }
}
