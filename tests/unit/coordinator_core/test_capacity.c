/* Capacities: measured by shape, relative to the present speed, with the steps against the claims,
 * and across restarts. */
#include <math.h>
#include <string.h>

#include "coordinator/core/capacity/capacity_rows.h"
#include "coordinator/core/capacity/capacity_units.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "tests/unit/coordinator_core/story.h"

#define UNITS 5

/* The expected times of the job's units on an agent's device. */
static void look(const struct world *world, const char *id, const struct agent *agent,
                 struct capacity_unit *out)
{
    const struct core *core = world->core;
    const struct job_slot *job = slots_job(core, id);
    struct unit_work work[UNITS_MAX];
    assert_int_equal(job->unit_count, UNITS);
    capacity_work(core, job->model, &job->job.spec, CONV2D_BACKEND_OWN, 0, UNITS, work);
    capacity_units(core, slots_device(core, agent->id.text), work, UNITS, 1, out);
}

/* The agent reports these times of its units, and, if step > 0, of a step without waits. */
static void report(struct world *world, struct agent *agent, double seconds, double step)
{
    story_measure(world, agent, seconds);
    if (step > 0) {
        agent->heartbeat.stage_seconds = (struct stage_seconds){.step = step, .compute = step};
        agent_beat_again(world, agent);
    }
}

static void measured_units_have_their_times_whatever_the_job(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct capacity_unit unit[UNITS];
    story_train(world, id, 100, 5);
    report(world, &world->agent[0], 0.02, 0);
    look(world, id, &world->agent[0], unit);
    assert_true(unit[0].measured && !unit[1].measured);
    assert_close(&unit[0].seconds[UNIT_FORWARD], &(double){0.02}, 1, 1e-9);
    assert_true(unit[1].sd_seconds[UNIT_FORWARD] > unit[0].sd_seconds[UNIT_FORWARD]);
}

/* A unit that takes far longer than its work says does so on other devices as well. */
static void a_unit_that_took_long_elsewhere_is_expected_to_take_long(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct capacity_unit unit[UNITS];
    struct unit_work work[UNITS_MAX];
    story_train(world, id, 100, 5);
    look(world, id, &world->agent[0], unit);
    const double usual = unit[1].seconds[UNIT_FORWARD];
    report(world, &world->agent[1], 3, 0); /* unit 1 */
    look(world, id, &world->agent[0], unit);
    const struct job_slot *job = slots_job(world->core, id);
    capacity_work(world->core, job->model, &job->job.spec, CONV2D_BACKEND_OWN, 0, UNITS, work);
    const double ratio =
        capacity_ratio(world->core, slots_device(world->core, world->agent[0].id.text),
                       slots_device(world->core, world->agent[1].id.text), &work[1], UNIT_FORWARD);
    assert_false(unit[1].measured);
    const double expected = unit[1].seconds[UNIT_FORWARD];
    assert_true(expected > 5 * usual && expected < 3 * ratio);
    /* The device turns out to be slow at all that it runs: at this unit too. */
    report(world, &world->agent[0], 9, 0); /* unit 0 */
    look(world, id, &world->agent[0], unit);
    assert_true(unit[1].seconds[UNIT_FORWARD] > expected);
}

/* The margin of what is uncertain decides between plans; it is no part of what they expect. */
static void a_plan_predicts_expected_times_without_a_margin(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct capacity_unit unit[UNITS];
    story_train(world, id, 100, 5);
    const struct plan *plan = &slots_job(world->core, id)->plan;
    double slowest = 0;
    for (size_t s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stage[s];
        double forward = 0, backward = 0;
        look(world, id, &world->agent[s], unit);
        for (int64_t u = stage->first; u < stage->end; u++) {
            assert_true(unit[u].sd_seconds[UNIT_FORWARD] > 0.1 * unit[u].seconds[UNIT_FORWARD]);
            forward += unit[u].seconds[UNIT_FORWARD];
            backward += unit[u].seconds[UNIT_BACKWARD];
        }
        assert_close(&stage->predicted_forward_seconds, &forward, 1, 1e-6);
        assert_close(&stage->predicted_backward_seconds, &backward, 1, 1e-6);
        slowest = fmax(slowest, forward + backward);
    }
    const double least = slowest * (double)core_job(world->core, id)->spec.micro_batches;
    assert_true(plan->predicted_step_seconds >= least);
}

/* A unit that does not run keeps its value relative to those that do. */
static void a_device_that_slows_down_does_so_for_units_that_it_no_longer_runs(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct capacity_unit before[UNITS], after[UNITS];
    story_train(world, id, 100, 5);
    report(world, &world->agent[2], 0.02, 0); /* units 2 to 4 */
    story_replan(world, id, 1, 4);
    world_settle(world);
    report(world, &world->agent[2], 0.02, 0); /* unit 4 */
    look(world, id, &world->agent[2], before);
    report(world, &world->agent[2], 0.1, 0);
    look(world, id, &world->agent[2], after);
    for (size_t u = 0; u < UNITS; u++) {
        const double ratio = after[u].seconds[UNIT_FORWARD] / before[u].seconds[UNIT_FORWARD];
        assert_true(ratio > 4.9 && ratio < 5.1);
    }
    report(world, &world->agent[2], 0.02, 0); /* and back at once */
    look(world, id, &world->agent[2], after);
    assert_close(&after[2].seconds[UNIT_FORWARD], &before[2].seconds[UNIT_FORWARD], 1, 0.02);
}

static void a_device_is_believed_its_steps_not_its_claims(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct capacity_unit unit[UNITS];
    story_train(world, id, 100, 5);
    const double micro_batches = (double)core_job(world->core, id)->spec.micro_batches;
    /* 0.4 s a micro-batch, of which it admits 0.04. */
    report(world, &world->agent[0], 0.02, 0.4 * micro_batches);
    look(world, id, &world->agent[0], unit);
    const double seconds =
        unit[0].seconds[UNIT_FORWARD] + unit[0].seconds[UNIT_BACKWARD] +
        overhead_of(world->core, slots_device(world->core, world->agent[0].id.text)).seconds;
    assert_true(seconds > 0.3 && seconds < 0.45);
}

static void an_idle_devices_probe_changes_its_times(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct capacity_unit before[UNITS], after[UNITS];
    story_train(world, id, 100, 5);
    struct agent *d = world_agent(world, "d", 10);
    world_settle(world);
    struct device_slot *slot = slots_device(world->core, d->id.text);
    if (slot->job) {
        return; /* it has joined the job */
    }
    look(world, id, d, before);
    d->heartbeat.has_probe = true;
    d->heartbeat.probe = (struct idle_probe){.gemm_gflops = slot->device.probe.gemm_gflops / 4,
                                             .memory_bytes_per_second =
                                                 slot->device.probe.memory_bytes_per_second / 4};
    agent_beat_again(world, d);
    look(world, id, d, after);
    const double ratio = after[0].seconds[UNIT_FORWARD] / before[0].seconds[UNIT_FORWARD];
    assert_true(ratio > 3.9 && ratio < 4.1);
}

/* Noise averages out over probes, and not over the heartbeats that repeat one. */
static void a_probe_that_is_repeated_counts_once(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    world_settle(world);
    struct device_slot *slot = slots_device(world->core, a->id.text);
    const struct device_capacity *capacity = capacity_of(world->core, slot);
    double level[4];
    for (size_t i = 0; i < 4; i++) {
        a->heartbeat.has_probe = true;
        a->heartbeat.probe = (struct idle_probe){
            .gemm_gflops = slot->device.probe.gemm_gflops / 1.2,
            .memory_bytes_per_second = slot->device.probe.memory_bytes_per_second / 1.2,
            .age_ms = i == 1 ? 1000 : 0};
        world_pass(world, i == 1 ? 1000 : 8000);
        agent_beat_again(world, a);
        level[i] = capacity->level;
    }
    assert_true(level[0] > 0);
    assert_close(&level[1], &level[0], 1, 1e-12);
    assert_true(level[2] > level[1] && level[3] > level[2]);
}

static void a_probe_within_its_noise_moves_a_device_half_way(void **state)
{
    struct world *world = *state;
    struct agent *a = world_agent(world, "a", 10);
    world_settle(world);
    struct device_slot *slot = slots_device(world->core, a->id.text);
    const struct device_capacity *capacity = capacity_of(world->core, slot);
    a->heartbeat.has_probe = true;
    a->heartbeat.probe = (struct idle_probe){.gemm_gflops = slot->device.probe.gemm_gflops / 1.5,
                                             .memory_bytes_per_second =
                                                 slot->device.probe.memory_bytes_per_second / 1.5};
    agent_beat_again(world, a);
    assert_close(&capacity->level, &(double){log(1.5) / 2}, 1, 1e-6);
    world_pass(world, 8000);
    a->heartbeat.has_probe = true;
    a->heartbeat.probe.gemm_gflops = slot->device.probe.gemm_gflops / 5;
    a->heartbeat.probe.memory_bytes_per_second = slot->device.probe.memory_bytes_per_second / 5;
    agent_beat_again(world, a);
    assert_close(&capacity->level, &(double){log(5)}, 1, 1e-6);
}

static void probe(struct core *core, const struct device_slot *slot, double flops, double bytes)
{
    const struct capacity_probe taken = {.flops_per_second = flops, .bytes_per_second = bytes};
    capacity_probed(core, slot, &taken);
}

/* Units and products are not equally fast: the first probe after work is the measure of the next
 * ones, unless it differs clearly. */
static void the_first_probe_after_units_ran_is_a_reference(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    report(world, &world->agent[0], 0.02, 0);
    struct core *core = world->core;
    const struct device_slot *slot = slots_device(core, world->agent[0].id.text);
    const struct device_capacity *capacity = capacity_of(core, slot);
    const double level = capacity->level;
    const double flops = capacity->flops_per_second, bytes = capacity->bytes_per_second;
    for (int i = 0; i < 3; i++) {
        probe(core, slot, flops / 1.5, bytes / 1.5);
        assert_close(&capacity->level, &level, 1, 1e-12);
    }
    probe(core, slot, flops / 1.8, bytes / 1.8); /* an idle device, within its noise */
    assert_close(&capacity->level, &(double){level + log(1.2) / 2}, 1, 1e-9);
    probe(core, slot, flops / 6, bytes / 6);
    const double slower = level + log(4);
    assert_close(&capacity->level, &slower, 1, 1e-9);
    report(world, &world->agent[0], 0.02, 0); /* and units show that it is not so */
    assert_close(&capacity->level, &level, 1, 1e-9);
    probe(core, slot, flops / 30, bytes / 30);
    assert_true(capacity->level > level + log(4));
}

static void probes_that_are_old_or_of_a_device_at_work_are_not_taken(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    struct agent *works = &world->agent[0], *idle = world_agent(world, "d", 0.001);
    world_live(world, 60000);
    const struct {
        struct agent *agent;
        int64_t age_ms;
        uint64_t refused;
    } cases[] = {{works, 0, 0}, {idle, 121000, 1}, {idle, -1, 1}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct agent *agent = cases[i].agent;
        const struct device_slot *slot = slots_device(world->core, agent->id.text);
        const struct device_capacity *capacity = capacity_of(world->core, slot);
        const uint64_t refused = world->core->capacity->refused;
        const double level = capacity->level;
        agent->heartbeat.has_probe = true;
        agent->heartbeat.probe =
            (struct idle_probe){.gemm_gflops = slot->device.probe.gemm_gflops / 9,
                                .memory_bytes_per_second = 1e9,
                                .age_ms = cases[i].age_ms};
        agent_beat_again(world, agent);
        agent->heartbeat.has_probe = false;
        assert_true(capacity->level == level);
        assert_int_equal(world->core->capacity->refused, refused + cases[i].refused);
    }
    assert_non_null(slots_device(world->core, works->id.text)->job);
    assert_null(slots_device(world->core, idle->id.text)->job);
}

static void values_that_cannot_be_are_counted(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    struct agent *a = &world->agent[0];
    const uint64_t refused = world->core->capacity->refused;
    agent_beat(world, a);
    static const double bad[] = {NAN, 0, -1, 1e300, INFINITY};
    for (size_t i = 0; i < 5; i++) {
        a->heartbeat.unit_seconds[i] =
            (struct unit_seconds){.unit = 0, .forward_seconds = bad[i], .backward_seconds = 0.1};
    }
    a->heartbeat.unit_seconds[5] =
        (struct unit_seconds){.unit = 3, .forward_seconds = 1, .backward_seconds = 1};
    a->heartbeat.unit_seconds_count = 6; /* the last: of another stage */
    a->heartbeat.link_count = 1;
    a->heartbeat.link[0] = (struct link_report){.device = a->id, .count = 5, .seconds_sum = 1};
    agent_beat_again(world, a);
    assert_int_equal(world->core->capacity->refused, refused + 7);
    struct capacity_unit unit[UNITS];
    look(world, id, a, unit);
    for (size_t u = 0; u < UNITS; u++) {
        assert_true(isfinite(unit[u].seconds[UNIT_FORWARD]) && !unit[u].measured);
    }
}

/* Rows written and read give the same times, as after a restart. */
static void rows_bring_the_times_back(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct capacity_unit before[UNITS], after[UNITS];
    story_train(world, id, 100, 5);
    report(world, &world->agent[0], 0.02, 0);
    struct core *core = world->core;
    struct device_slot *slot = slots_device(core, world->agent[0].id.text);
    const struct job_slot *job = slots_job(core, id);
    struct unit_work work[UNITS_MAX];
    static struct capacity_row device, fleet;
    struct unit_row unit;
    look(world, id, &world->agent[0], before);
    capacity_work(core, job->model, &job->job.spec, CONV2D_BACKEND_OWN, 0, UNITS, work);
    capacity_rows_write(core, slot, &device);
    capacity_rows_write(core, NULL, &fleet);
    assert_true(capacity_rows_write_unit(core, slot, &work[0], &unit));
    assert_false(capacity_rows_write_unit(core, slot, &work[1], &unit));
    assert_true(capacity_rows_write_unit(core, slot, &work[0], &unit));
    capacity_free(&core->capacity);
    struct err err = {0};
    assert_ok(capacity_new(core->config.devices_max, &core->capacity, &err), &err);
    capacity_enrolled(core, slot);
    capacity_rows_restore(core, &fleet);
    capacity_rows_restore(core, &device);
    capacity_rows_restore_unit(core, &unit);
    look(world, id, &world->agent[0], after);
    for (size_t u = 0; u < UNITS; u++) {
        assert_close(after[u].seconds, before[u].seconds, UNIT_PASSES, 1e-9);
    }
    device.number[CAPACITY_FIXED] = -1; /* a row that nothing has written */
    capacity_rows_restore(core, &device);
    look(world, id, &world->agent[0], after);
    assert_close(after[1].seconds, before[1].seconds, UNIT_PASSES, 1e-9);
}

/* Write the rows of a device and its units, and read them into an empty core after so long. */
static void restart_after(struct world *world, const char *id, const struct agent *agent,
                          int64_t age_ms)
{
    struct core *core = world->core;
    struct device_slot *slot = slots_device(core, agent->id.text);
    const struct job_slot *job = slots_job(core, id);
    struct unit_work work[UNITS_MAX];
    static struct capacity_row device, fleet;
    struct unit_row unit[UNITS];
    size_t count = 0;
    struct err err = {0};
    capacity_work(core, job->model, &job->job.spec, CONV2D_BACKEND_OWN, 0, UNITS, work);
    capacity_rows_write(core, slot, &device);
    capacity_rows_write(core, NULL, &fleet);
    for (size_t u = 0; u < UNITS; u++) {
        count += capacity_rows_write_unit(core, slot, &work[u], &unit[count]);
    }
    assert_true(count > 0);
    capacity_free(&core->capacity);
    assert_ok(capacity_new(core->config.devices_max, &core->capacity, &err), &err);
    capacity_rows_restore(core, &fleet);
    capacity_rows_restore(core, &device);
    for (size_t i = 0; i < count; i++) {
        unit[i].wall_ms -= age_ms;
        capacity_rows_restore_unit(core, &unit[i]);
    }
    capacity_enrolled(core, slot);
}

static void a_device_that_returns_after_a_day_takes_about_as_long_as_before(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct capacity_unit before[UNITS], after[UNITS];
    story_train(world, id, 100, 5);
    story_replan(world, id, 1, 4);
    world_settle(world);
    report(world, &world->agent[1], 0.02, 0); /* units 1 to 3: equal times, unequal work */
    look(world, id, &world->agent[1], before);
    assert_true(before[1].measured && before[2].measured && before[3].measured);
    restart_after(world, id, &world->agent[1], 24 * 3600 * 1000);
    look(world, id, &world->agent[1], after);
    assert_false(after[1].measured);
    for (size_t u = 0; u < UNITS; u++) {
        for (size_t pass = 0; pass < UNIT_PASSES; pass++) {
            assert_close(&after[u].seconds[pass], &before[u].seconds[pass], 1, 0.15);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(measured_units_have_their_times_whatever_the_job),
        STORY(a_unit_that_took_long_elsewhere_is_expected_to_take_long),
        STORY(a_plan_predicts_expected_times_without_a_margin),
        STORY(a_device_that_slows_down_does_so_for_units_that_it_no_longer_runs),
        STORY(a_device_is_believed_its_steps_not_its_claims),
        STORY(an_idle_devices_probe_changes_its_times),
        STORY(a_probe_that_is_repeated_counts_once),
        STORY(a_probe_within_its_noise_moves_a_device_half_way),
        STORY(the_first_probe_after_units_ran_is_a_reference),
        STORY(probes_that_are_old_or_of_a_device_at_work_are_not_taken),
        STORY(values_that_cannot_be_are_counted),
        STORY(rows_bring_the_times_back),
        STORY(a_device_that_returns_after_a_day_takes_about_as_long_as_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
