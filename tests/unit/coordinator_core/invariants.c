/* The invariants. */
#include <string.h>

#include "tests/unit/coordinator_core/world.h"

#define LOSSES_EVERY 16 /* revisions of a job: what each loss costs takes long to say */

static bool active(const struct plan *plan)
{
    return plan && (plan->state == PLAN_PREPARING || plan->state == PLAN_RUNNING ||
                    plan->state == PLAN_STOPPING);
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
            bool left = plan->state == PLAN_STOPPING && plan->last_version > 0 &&
                        !id_equal(device->job.text, job->id.text);
            if (id_equal(plan->stage[s].device.text, device->id.text) && !left) {
                works++;
                assert_string_equal(device->job.text, job->id.text);
            }
        }
    }
    assert_int_equal(works, device->job.text[0] != '\0');
}

/* The open incident of a job is the one open row of it. */
static void check_incident(const struct world *world, const char *job)
{
    const struct incident *live = core_job_incident(world->core, job), *row = NULL;
    for (size_t i = 0; i < world->rows.incident_count; i++) {
        const struct incident *incident = &world->rows.incident[i];
        if (incident->state == INCIDENT_OPEN && id_equal(incident->job.text, job)) {
            assert_null(row);
            row = incident;
        }
    }
    assert_int_equal(live != NULL, row != NULL);
    assert_true(!row || id_equal(live->id.text, row->id.text));
    assert_true(!row || live->failures == row->failures);
}

/* A job's reported progress is consistent: no version is newer than the step, and a loss costs the
 * steps after the version that is left. */
static void check_progress(const struct world *world, const struct job *live)
{
    assert_true(live->version <= live->progress.step);
    assert_true(live->neighbor_version <= live->progress.step);
    struct replicas *replicas = world->replicas;
    if (live->revision % LOSSES_EVERY != 0) {
        return;
    }
    assert_true(core_replicas(world->core, live->id.text, replicas));
    assert_true(replicas->step >= live->progress.step);
    for (size_t i = 0; i < replicas->single_count + replicas->pair_count; i++) {
        const struct replica_loss *loss = i < replicas->single_count
                                              ? &replicas->single[i]
                                              : &replicas->pair[i - replicas->single_count];
        assert_int_equal(loss->steps_lost, replicas->step - loss->resume_version);
        assert_true(loss->steps_lost >= 0);
    }
}

/* Rows are the durable state: they equal the live state except its volatile fields. */
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
        assert_string_equal(row->job.text, live->job.text);
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
        assert_int_equal(row->neighbor_version, live->neighbor_version);
        assert_int_equal(row->stalled, live->stalled);
        assert_int_equal(row->line_count, live->line_count);
        assert_memory_equal(row->line, live->line, row->line_count * sizeof(row->line[0]));
        check_incident(world, row->id.text);
        check_progress(world, live);
        assert_true(row->version <= row->progress.step &&
                    row->neighbor_version <= row->progress.step);
        assert_int_equal(row->exact, live->exact);
        assert_string_equal(row->spec.model.sha256, live->spec.model.sha256);
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

static struct commit *commit_of(struct world *world, const char *job)
{
    for (size_t i = 0; i < world->commit_count; i++) {
        if (id_equal(world->commit[i].job.text, job)) {
            return &world->commit[i];
        }
    }
    assert_true(world->commit_count < sizeof(world->commit) / sizeof(world->commit[0]));
    struct commit *commit = &world->commit[world->commit_count++];
    *commit = (struct commit){0};
    memcpy(commit->job.text, job, ID_SIZE);
    return commit;
}

/* A version is committed to neighbors when two devices really hold every unit of it. */
static void check_commit(struct world *world, const struct job *job)
{
    struct commit *commit = commit_of(world, job->id.text);
    if (job->neighbor_version == 0) {
        commit->version = 0;
    }
    if (job->neighbor_version <= commit->version) {
        return;
    }
    for (size_t u = 0; u < world->model->unit_count; u++) {
        size_t copies = 0;
        for (size_t a = 0; a < world->agent_count; a++) {
            copies +=
                agent_holds(&world->agent[a], job->id.text, job->neighbor_version, (int64_t)u);
        }
        if (copies < 2) {
            fail_msg("version %lld of generation %lld is committed with %zu copies of unit %zu",
                     (long long)job->neighbor_version, (long long)job->generation, copies, u);
        }
    }
    commit->version = job->neighbor_version;
    commit->failures = 0;
    for (size_t a = 0; a < world->agent_count; a++) {
        commit->boots[a] = world->agent[a].boots;
    }
}

/* Then the loss of one device or of links does not lose it, unless the incident says that the wait
 * for one timed out. A device that has not reported its holdings to a new coordinator counts as
 * lost. After two failures the job starts from the center on purpose. */
static void check_start(struct world *world, const struct plan *plan)
{
    const struct commit *commit = commit_of(world, plan->job.text);
    const struct incident *incident = core_job_incident(world->core, plan->job.text);
    bool outlasted = incident && strstr(incident->message, "resumes from step");
    size_t failed = 0;
    for (size_t a = 0; a < world->agent_count; a++) {
        const struct agent *agent = &world->agent[a];
        const struct device *device = core_device(world->core, agent->id.text);
        bool there = device && (device->state == DEVICE_ONLINE || device->state == DEVICE_SUSPECT);
        failed += !there || agent->reported_life != world->lives || !agent->up ||
                  (agent->boots != commit->boots[a] && !agent->disk);
    }
    if (failed < 2 && commit->failures < 2 && !outlasted &&
        plan->resume_version < commit->version) {
        fail_msg(
            "generation %lld starts from %lld, %lld was committed and %zu devices failed since",
            (long long)plan->generation, (long long)plan->resume_version,
            (long long)commit->version, failed);
    }
}

/* No stage runs before all are ready: every stage of a running plan has reported ready. */
static void check_run(struct world *world, const struct plan *plan)
{
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct agent *agent = world_agent_of(world, plan->stage[s].device.text);
        assert_non_null(agent);
        assert_true(agent->heartbeat.generation == plan->generation &&
                    agent->heartbeat.phase >= PHASE_READY);
    }
}

void world_check_action(struct world *world, const struct action *action)
{
    const struct plan *plan = action->object;
    if (action->type == ACTION_PUBLISH && strcmp(action->event, "generation_failed") == 0 &&
        !strstr(action->text, "do not reach each other")) {
        for (size_t i = 0; i < world->rows.plan_count; i++) {
            if (id_equal(world->rows.plan[i].id.text, action->id)) {
                commit_of(world, world->rows.plan[i].job.text)->failures++;
            }
        }
    }
    if (action->type != ACTION_PERSIST) {
        return;
    }
    if (action->kind == OBJECT_JOB) {
        check_commit(world, action->object);
    } else if (action->kind == OBJECT_PLAN && plan->state == PLAN_RUNNING) {
        check_run(world, plan);
    } else if (action->kind == OBJECT_PLAN && plan->state == PLAN_PREPARING &&
               !world_plan(world, plan->job.text, plan->generation)) {
        check_start(world, plan);
    }
}
