#include "tests/unit/coordinator_core/one_job.h"

#include <stdio.h>
#include <stdlib.h>

#include "coordinator/core/generation/early_stops.h"
#include "tests/support/test.h"

struct one_job *one_job_new(int64_t epochs, const struct job_spec *spec)
{
    struct one_job *one = calloc(1, sizeof(*one));
    struct err err = {0};
    assert_non_null(one);
    assert_ok(core_new(&core_config_default, &one->core, &err), &err);
    one->actions.item = calloc(ACTIONS_MAX, sizeof(*one->actions.item));
    assert_non_null(one->actions.item);
    one->event.type = EVENT_TICK;
    one->core->actions = &one->actions;
    one->core->event = &one->event;
    one->job = table_add(&one->core->jobs, "job_1");
    struct job *job = &one->job->job;
    (void)snprintf(job->id.text, sizeof(job->id.text), "job_1");
    job->spec = job_spec_default;
    job->spec.batch = 10;
    job->spec.epochs = epochs;
    job->spec.evaluate_every_epochs = 1;
    (void)snprintf(job->spec.dataset_test, sizeof(job->spec.dataset_test), "test");
    job->spec.has_stop = spec->has_stop;
    job->spec.stop = spec->stop;
    job->spec.has_checkpoint = spec->has_checkpoint;
    job->spec.checkpoint = spec->checkpoint;
    job->data = (struct job_data){.train_samples = 100, .test_samples = 10};
    early_stops_init(one->job);
    return one;
}

void one_job_free(struct one_job *one)
{
    core_free(&one->core);
    free(one->actions.item);
    free(one);
}

size_t one_job_count(const struct one_job *one, enum action_type type)
{
    size_t count = 0;
    for (size_t i = 0; i < one->actions.count; i++) {
        count += one->actions.item[i].type == type;
    }
    return count;
}
