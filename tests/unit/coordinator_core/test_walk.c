/* Random walks: users submit, pause, resume, replan and cancel, agents beat, train, die, return and fall silent, the
 * coordinator dies and returns; one seed draws it all. After every event the world checks what must always hold. When
 * the faults stop, every job ends within a bound of virtual time, and those that succeed have the right state. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "tests/unit/coordinator_core/story.h"

#define JOBS 4

struct walk {
    struct world *world;
    struct rng_stream stream;
    uint64_t index;
    char job[JOBS][ID_SIZE];
    size_t job_count;
    int64_t silent_until[WORLD_AGENTS];
    /* Out of 1000, drawn by the seed. */
    uint64_t crash, silence, loss, restart, verb, error;
};

static uint64_t draw(struct walk *walk, uint64_t bound)
{
    return rng_below(&walk->stream, walk->index++, bound);
}

static bool chance(struct walk *walk, uint64_t of_1000)
{
    return draw(walk, 1000) < of_1000;
}

static void submit(struct walk *walk)
{
    char name[NAME_SIZE];
    (void)snprintf(name, sizeof(name), "j%zu", walk->job_count);
    struct job_spec spec = world_spec(name, 1 + (int64_t)draw(walk, 40));
    spec.devices_min = 1 + (int64_t)draw(walk, 3);
    spec.devices_max = spec.devices_min + (int64_t)draw(walk, 3);
    spec.priority = (int64_t)draw(walk, 2);
    spec.seed = (int64_t)walk->job_count;
    story_submit(walk->world, walk->job[walk->job_count++], &spec);
}

static void use_verb(struct walk *walk)
{
    struct world *world = walk->world;
    const char *id = walk->job[draw(walk, walk->job_count)];
    struct replan_request request = {0};
    if (!core_job(world->core, id)) {
        return;
    }
    switch (draw(walk, 8)) {
    case 0: world_verb(world, id, JOB_PAUSE); break;
    case 1:
    case 2:
    case 3: world_verb(world, id, JOB_RESUME); break;
    case 4:
        if (draw(walk, 6) == 0) {
            world_verb(world, id, JOB_CANCEL);
        }
        break;
    default:
        request.has_cuts = draw(walk, 2) == 0;
        request.cut_count = request.has_cuts ? draw(walk, 4) : 0;
        for (size_t i = 0; i < request.cut_count; i++) {
            request.cut[i] = (int64_t)(i + 1 + (i > 0 && request.cut[i - 1] > (int64_t)i ? 1 : 0));
        }
        world_replan(world, id, &request);
        break;
    }
}

/* One agent does a little of what there is to do. */
static void act(struct walk *walk, size_t index, bool faults)
{
    struct world *world = walk->world;
    struct agent *agent = &world->agent[index];
    if (!agent->up) {
        if (!faults || draw(walk, 20) == 0) {
            agent_restart(world, agent);
        }
        return;
    }
    if (faults && chance(walk, walk->crash)) {
        agent->up = false;
        return;
    }
    if (faults && chance(walk, walk->silence)) {
        walk->silent_until[index] = world->now_ms + (int64_t)draw(walk, 9000);
    }
    bool silent = faults && walk->silent_until[index] > world->now_ms;
    if (!silent && !(faults && chance(walk, walk->loss))) {
        agent_follow(world, agent);
    }
    for (uint64_t i = draw(walk, 3); i > 0; i--) {
        (void)agent_step(world, agent);
    }
    if (!silent && !(faults && chance(walk, walk->loss))) {
        (void)agent_upload(world, agent);
    }
    if (faults && agent->phase != PHASE_IDLE && chance(walk, walk->error)) {
        static const char *const codes[] = {"peer", "data", "internal"};
        agent_fail(agent, codes[draw(walk, 3)]);
    }
    if (silent || (faults && chance(walk, walk->loss))) {
        return;
    }
    agent_beat(world, agent);
    if (draw(walk, 10) == 0) {
        agent_beat_again(world, agent);
    }
}

static void answer_export(struct walk *walk, bool faults)
{
    struct world *world = walk->world;
    if (world->pending_count == 0 || draw(walk, 4) != 0) {
        return;
    }
    world->pending_count--;
    memcpy(world->export_job, world->pending[world->pending_count], ID_SIZE);
    world->export_version = world->pending_version[world->pending_count];
    const struct job *job = core_job(world->core, world->export_job);
    bool failed = faults && draw(walk, 5) == 0;
    if (job && !failed) {
        size_t right = 0;
        for (size_t i = 0; i < world->rows.unit_count; i++) {
            const struct center_unit *unit = &world->rows.unit[i];
            char sha256[SHA256_SIZE];
            unit_sha256(sha256, job->progress.steps, unit->unit);
            right += strcmp(unit->job.text, job->id.text) == 0 && unit->version == world->export_version &&
                     strcmp(unit->sha256, sha256) == 0;
        }
        assert_int_equal(right, 5);
        assert_int_equal(world->export_version, job->progress.steps);
    }
    world_exported(world, failed);
}

static void turn(struct walk *walk, bool faults)
{
    struct world *world = walk->world;
    world_pass(world, 50 + (int64_t)draw(walk, 300));
    for (size_t i = 0; i < world->agent_count; i++) {
        act(walk, i, faults);
    }
    answer_export(walk, faults);
    if (faults && walk->job_count < JOBS && draw(walk, 20) == 0) {
        submit(walk);
    }
    if (faults && walk->job_count > 0 && chance(walk, walk->verb)) {
        use_verb(walk);
    }
    if (faults && chance(walk, walk->restart)) {
        world_restart(world);
        for (size_t i = 0; i < world->agent_count; i++) {
            world->agent[i].tell_holdings = true; /* agents that connect again tell what they hold */
        }
    }
}

static void heal(struct walk *walk)
{
    struct world *world = walk->world;
    while (walk->job_count < JOBS) {
        submit(walk);
    }
    for (size_t j = 0; j < walk->job_count; j++) {
        if (core_job(world->core, walk->job[j])) {
            world_verb(world, walk->job[j], JOB_RESUME);
        }
    }
}

static bool all_ended(const struct walk *walk)
{
    for (size_t j = 0; j < walk->job_count; j++) {
        if (core_job(walk->world->core, walk->job[j])) {
            return false;
        }
    }
    return true;
}

static void walk_once(uint64_t seed, size_t *succeeded)
{
    struct walk walk = {.world = world_new(), .stream = rng_stream(seed, RNG_SIMULATION, 20, 0)};
    struct world *world = walk.world;
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};
    world->traced = false;
    walk.crash = draw(&walk, 8);
    walk.silence = draw(&walk, 8);
    walk.loss = draw(&walk, 200);
    walk.restart = draw(&walk, 10);
    walk.verb = draw(&walk, 60);
    walk.error = draw(&walk, 3);
    for (uint64_t i = 3 + draw(&walk, 4); i > 0; i--) {
        struct agent *agent = world_agent(world, names[world->agent_count], 1 + (double)draw(&walk, 20));
        agent->numeric_class = draw(&walk, 4) == 0 ? "neon" : "avx2";
    }
    for (int i = 0; i < 400; i++) {
        turn(&walk, true);
    }
    heal(&walk);
    int rounds = 0;
    for (; rounds < 6000 && !all_ended(&walk); rounds++) {
        turn(&walk, false);
        if (rounds % 100 == 99) {
            heal(&walk); /* whatever paused meanwhile */
        }
    }
    for (size_t j = 0; j < walk.job_count; j++) {
        const struct job *job = world_job(world, walk.job[j]);
        if (!job_state_ended(job->state)) {
            if (getenv("DBG"))
                for (size_t i = 0; i < world->agent_count; i++) {
                    struct agent *g = &world->agent[i];
                    printf("%s up %d job %s gen %ld phase %d step %ld stopped %ld err %s; told phase %d first %ld end "
                           "%ld idx %ld; row job %s\n",
                           g->name, g->up, g->job, g->generation, g->phase, g->step, g->stopped_version, g->error,
                           g->assignment.has_run ? g->assignment.run.phase : -1, g->assignment.run.first,
                           g->assignment.run.end, g->assignment.run.stage_index,
                           core_device(world->core, g->id.text)->job);
                    printf("total %ld\n", world->agent[0].assignment.run.total_steps);
                }
            fail_msg("seed %llu: job %zu is still %s: %s", (unsigned long long)seed, j, job_state_names[job->state],
                     job->message);
        }
        *succeeded += job->state == JOB_SUCCEEDED;
    }
    assert_true(core_job_count(world->core) == 0);
    world_free(world);
}

static void every_job_of_a_random_walk_ends(void **state)
{
    (void)state;
    const char *first = getenv("WALK_FIRST"), *count = getenv("WALK_COUNT");
    uint64_t from = first ? strtoull(first, NULL, 10) : 1, seeds = count ? strtoull(count, NULL, 10) : 1000;
    size_t succeeded = 0;
    for (uint64_t seed = from; seed < from + seeds; seed++) {
        walk_once(seed, &succeeded);
    }
    assert_true(succeeded > seeds); /* of 4 a seed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_job_of_a_random_walk_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
