/* Deleting what is stored, as the core decides it. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/coordinator_core/story.h"

static void delete (struct world *world, struct event_delete deletion)
{
    struct event event = {.type = EVENT_DELETE, .delete = deletion};
    world_send(world, &event);
}

static struct event_delete named(enum delete_kind kind, const char *id)
{
    struct event_delete deletion = {.kind = kind, .revision = 1};
    (void)snprintf(deletion.id, sizeof(deletion.id), "%s", id);
    if (kind == DELETE_JOB) {
        (void)snprintf(deletion.job.text, sizeof(deletion.job.text), "%s", id);
    }
    return deletion;
}

static void a_model_of_a_live_job_stays_until_its_end(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 20);
    struct event_delete deletion = named(DELETE_MODEL, WORLD_MODEL);
    delete (world, deletion);
    assert_int_equal(world->problem, PROBLEM_IN_USE);
    assert_holds(world->text, id);
    world_verb(world, id, JOB_CANCEL);
    world_settle(world);
    deletion.if_revision = 77;
    delete (world, deletion);
    assert_int_equal(world->problem, PROBLEM_REVISION_MISMATCH);
}

static void a_job_is_deleted_after_its_end(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_devices(world);
    story_run(world, id, 20);
    delete (world, named(DELETE_JOB, id));
    assert_int_equal(world->problem, PROBLEM_WRONG_STATE);
    world_verb(world, id, JOB_CANCEL);
    world_settle(world);
    delete (world, named(DELETE_JOB, id));
    assert_int_equal(world->status, 204);
    world_restart(world);
    assert_null(core_job(world->core, id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(a_model_of_a_live_job_stays_until_its_end),
        STORY(a_job_is_deleted_after_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
