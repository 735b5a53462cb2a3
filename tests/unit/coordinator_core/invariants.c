/* What always holds. */
#include <string.h>

#include "tests/unit/coordinator_core/world.h"

static bool active(const struct plan *plan)
{
    return plan && (plan->state == PLAN_PREPARING || plan->state == PLAN_RUNNING || plan->state == PLAN_STOPPING);
}

/* A device works in one plan at most, and its row says in which. */
static void check_device(const struct world *world, const struct device *device)
{
    int works = 0;
    for (size_t j = 0; j < core_job_count(world->core); j++) {
        const struct job *job = core_job_at(world->core, j);
        const struct plan *plan = core_job_plan(world->core, job->id.text);
        for (size_t s = 0; active(plan) && s < plan->stage_count; s++) {
            /* One whose units are all in the center may have left. */
            bool left =
                plan->state == PLAN_STOPPING && plan->last_version > 0 && strcmp(device->job, job->id.text) != 0;
            if (strcmp(plan->stage[s].device.text, device->id.text) == 0 && !left) {
                works++;
                assert_string_equal(device->job, job->id.text);
            }
        }
    }
    assert_int_equal(works, device->job[0] != '\0');
}

/* Rows are the durable state: they equal what is alive, but for what is volatile. */
void world_check(const struct world *world)
{
    const struct rows *rows = &world->rows;
    assert_int_equal(rows->device_count, core_device_count(world->core));
    for (size_t i = 0; i < rows->device_count; i++) {
        const struct device *row = &rows->device[i], *live = core_device(world->core, row->id.text);
        assert_non_null(live);
        assert_int_equal(row->state, live->state);
        assert_int_equal(row->revision, live->revision);
        assert_int_equal(row->cordoned, live->cordoned);
        assert_string_equal(row->job, live->job);
        assert_string_equal(row->boot, live->boot);
        assert_string_equal(row->address, live->address);
        check_device(world, live);
    }
    size_t alive = 0;
    for (size_t i = 0; i < rows->job_count; i++) {
        const struct job *row = &rows->job[i], *live = core_job(world->core, row->id.text);
        assert_int_equal(live == NULL, job_state_ended(row->state));
        if (!live) {
            continue;
        }
        alive++;
        assert_int_equal(row->state, live->state);
        assert_string_equal(row->state_reason, live->state_reason);
        assert_string_equal(row->message, live->message);
        assert_int_equal(row->generation, live->generation);
        assert_int_equal(row->version, live->version);
        assert_int_equal(row->exact, live->exact);
        assert_string_equal(row->numeric_class, live->numeric_class);
        assert_true(row->revision <= live->revision);
        const struct plan *plan = core_job_plan(world->core, row->id.text);
        const struct plan *stored = plan ? world_plan(world, row->id.text, plan->generation) : NULL;
        assert_int_equal(plan != NULL, row->generation > 0);
        if (plan) {
            assert_non_null(stored);
            assert_int_equal(plan->state, stored->state);
            assert_int_equal(plan->resume_version, stored->resume_version);
            assert_int_equal(plan->last_version, stored->last_version);
            assert_int_equal(plan->generation, row->generation);
            assert_int_equal(plan->stage_count, stored->stage_count);
        }
    }
    assert_int_equal(alive, core_job_count(world->core));
}

/* Nobody runs before all are ready: a plan that runs was reported ready by every stage. */
void world_check_action(const struct world *world, const struct action *action)
{
    const struct plan *plan = action->object;
    if (action->type != ACTION_PERSIST || action->kind != OBJECT_PLAN || plan->state != PLAN_RUNNING) {
        return;
    }
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct agent *agent = world_agent_of(world, plan->stage[s].device.text);
        assert_non_null(agent);
        assert_true(agent->heartbeat.generation == plan->generation && agent->heartbeat.phase >= PHASE_READY);
    }
}
