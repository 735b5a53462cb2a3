/* Random walks: users submit, pause, resume, replan and cancel, agents beat, train, die, return and
 * fall silent, the coordinator dies and returns; one seed draws it all. After every event the world
 * checks what must always hold. When the faults stop, every job ends within a bound of virtual
 * time, and those that succeed have the right state. */
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
    uint64_t crash, silence, loss, restart, verb, error, link, stop, busy;
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
    spec.strategy = draw(walk, 3) == 0 ? STRATEGY_PARAMETER_SERVER : STRATEGY_PIPELINE;
    spec.neighbor_every = (int64_t)draw(walk, 6);
    spec.center_every = (int64_t)draw(walk, 3) == 0 ? 1 + (int64_t)draw(walk, 10) : 0;
    spec.expected_step_seconds = draw(walk, 2) == 0 ? 10 : 0;
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
        request.cut_count = request.has_cuts ? (size_t)draw(walk, 4) : 0;
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
        agent_kill(agent);
        return;
    }
    if (faults && chance(walk, walk->silence)) {
        walk->silent_until[index] = world->now_ms + (int64_t)draw(walk, 9000);
    }
    if (faults && chance(walk, walk->link)) {
        agent->cut = !agent->cut;
    }
    if (faults && chance(walk, walk->stop)) {
        agent->stopped_cpu = true;
        walk->silent_until[index] = world->now_ms + (int64_t)draw(walk, 9000);
    }
    bool silent = faults && walk->silent_until[index] > world->now_ms;
    agent->cut = agent->cut && faults;
    agent->stopped_cpu = agent->stopped_cpu && silent;
    if (agent->stopped_cpu) {
        return;
    }
    if (faults && chance(walk, walk->busy)) {
        agent->busy_ms = 1;
    } else if (agent->busy_ms > 0) {
        agent->busy_ms = !faults || draw(walk, 30) == 0 ? 0 : agent->busy_ms + 200;
    }
    if (!silent && !(faults && chance(walk, walk->loss))) {
        agent_follow(world, agent);
    }
    for (uint64_t i = draw(walk, 3); i > 0; i--) {
        (void)agent_step(world, agent);
    }
    if (!silent && !(faults && chance(walk, walk->loss))) {
        (void)agent_upload(world, agent);
        (void)agent_replicate(world, agent);
        (void)agent_replicate(world, agent);
    }
    if (faults && agent->generation > 0 && chance(walk, walk->error)) {
        static const char *const codes[] = {"peer", "data", "internal"};
        agent_fail(world, agent, codes[draw(walk, 3)]);
    }
    if (silent || (faults && chance(walk, walk->loss))) {
        return;
    }
    agent_beat(world, agent);
    if (draw(walk, 10) == 0) {
        agent_beat_again(world, agent);
    }
}

static void break_poll(struct walk *walk)
{
    struct event event = {.type = EVENT_POLL_BROKEN};
    event.poll_broken.device = walk->world->agent[draw(walk, walk->world->agent_count)].id;
    world_send(walk->world, &event);
    struct event disk = {.type = EVENT_DISK, .disk = {.nearly_full = draw(walk, 4) == 0}};
    world_send(walk->world, &disk);
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
            right += id_equal(unit->job.text, job->id.text) &&
                     unit->version == world->export_version && strcmp(unit->sha256, sha256) == 0;
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
    if (world->question != 0 && draw(walk, 3) == 0) {
        world_planned(world);
    }
    if (world->tune_job[0] != '\0' && draw(walk, 2) == 0) {
        world_tuned(world, faults && draw(walk, 5) == 0);
    }
    if (faults && walk->job_count < JOBS && draw(walk, 20) == 0) {
        submit(walk);
    }
    if (faults && walk->job_count > 0 && chance(walk, walk->verb)) {
        use_verb(walk);
    }
    if (faults && chance(walk, walk->verb)) {
        break_poll(walk);
    }
    if (faults && chance(walk, walk->restart)) {
        world_restart(world);
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
    world->plans_wait = true;
    walk.crash = draw(&walk, 8);
    walk.silence = draw(&walk, 8);
    walk.loss = draw(&walk, 200);
    walk.restart = draw(&walk, 10);
    walk.verb = draw(&walk, 60);
    walk.error = draw(&walk, 3);
    walk.link = draw(&walk, 4);
    walk.stop = draw(&walk, 4);
    walk.busy = draw(&walk, 4);
    world->reports = draw(&walk, 4) != 0;
    for (uint64_t i = 3 + draw(&walk, 4); i > 0; i--) {
        struct agent *agent =
            world_agent(world, names[world->agent_count], 1 + (double)draw(&walk, 20));
        agent->numeric_class = draw(&walk, 4) == 0 ? "neon" : seed % 2 ? "avx2" : "avx2/onednn-1";
        agent->disk = draw(&walk, 3) == 0;
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
            fail_msg("seed %llu: job %zu is still %s: %s", (unsigned long long)seed, j,
                     job_state_names[job->state], job->message);
        }
        *succeeded += job->state == JOB_SUCCEEDED;
    }
    assert_true(core_job_count(world->core) == 0);
    world_free(world);
}

/* Of the command line. */
struct seeds {
    uint64_t first, count;
};

static void every_job_of_a_random_walk_ends(void **state)
{
    static const uint64_t found_bugs[] = {
        104613, /* rows of half a version outlived their plan */
        23801,  /* a committed version was abandoned for a link that had failed before it */
        31748,  /* the same for an error at a step where there had been one before */
    };
    const struct seeds *seeds = *state;
    size_t succeeded = 0;
    for (size_t i = 0; i < sizeof(found_bugs) / sizeof(found_bugs[0]); i++) {
        walk_once(found_bugs[i], &succeeded);
    }
    succeeded = 0;
    for (uint64_t seed = seeds->first; seed < seeds->first + seeds->count; seed++) {
        walk_once(seed, &succeeded);
    }
    assert_true(succeeded > seeds->count); /* of 4 a seed */
}

/* Same events, same actions: nothing depends on addresses or on what memory held before. */
static void the_same_walk_leaves_the_same_trace(void **state)
{
    (void)state;
    struct buf trace[2];
    for (int i = 0; i < 2; i++) {
        struct walk walk = {.world = world_new(), .stream = rng_stream(7, RNG_SIMULATION, 20, 0)};
        walk.crash = walk.silence = walk.restart = walk.error = walk.link = walk.stop = 5;
        walk.world->reports = walk.world->plans_wait = true;
        walk.loss = 50;
        walk.verb = 30;
        (void)world_agent(walk.world, "a", 10);
        (void)world_agent(walk.world, "b", 5);
        (void)world_agent(walk.world, "c", 7);
        for (int k = 0; k < 1000; k++) {
            turn(&walk, true);
        }
        trace[i] = walk.world->trace;
        walk.world->trace = (struct buf){0};
        world_free(walk.world);
    }
    assert_true(trace[0].size > 10000);
    assert_string_equal(trace[0].data, trace[1].data);
    buf_done(&trace[0]);
    buf_done(&trace[1]);
}

int main(int argc, char **argv)
{
    struct seeds seeds = {.first = 1, .count = WALK_SEEDS};
    if (argc == 3) {
        seeds.first = strtoull(argv[1], NULL, 10);
        seeds.count = strtoull(argv[2], NULL, 10);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(every_job_of_a_random_walk_ends, &seeds),
        cmocka_unit_test(the_same_walk_leaves_the_same_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
