/* Measurements of steps and links, and the plans that use them. */
#include <string.h>

#include "coordinator/core/placement/placement.h"
#include "tests/unit/coordinator_core/story.h"

/* No device is left out, however slow it is. */
static void train_on_three(struct world *world, char id[ID_SIZE])
{
    struct job_spec spec = story_spec(100);
    spec.devices_min = 3;
    story_devices(world);
    story_submit(world, id, &spec);
    world_settle(world);
    world_train(world, 5);
}

static void measured_times_win_over_predicted_ones(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    train_on_three(world, id);
    /* conv1 and conv2 are slow on a and b; c, with three units, is fast. */
    story_measure(world, &world->agent[0], 1);
    story_measure(world, &world->agent[1], 1);
    story_measure(world, &world->agent[2], 0.001);
    const struct plan *plan = core_job_plan(world->core, id);
    assert_close(&plan->stage[0].measured_forward_seconds, &(double){1}, 1, 1e-12);
    assert_close(&plan->stage[2].measured_forward_seconds, &(double){0.003}, 1, 1e-9);
    world_verb(world, id, JOB_REPLAN);
    world_settle(world);
    plan = world_plan(world, id, 2);
    assert_true(plan->predicted_step_seconds < 4 * 2); /* with the first cuts: at least that */
}

/* One unit that takes a tenth on a does not make the rest of the model as fast there. */
static void one_unit_says_little_of_the_others(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    story_measure(world, &world->agent[0], 0.01);
    story_measure(world, &world->agent[1], 0.1);
    story_measure(world, &world->agent[2], 0.1);
    struct replan_request request = {
        .cut = {3, 4}, .cut_count = 2, .has_cuts = true, .device_count = 3};
    for (size_t i = 0; i < 3; i++) {
        request.device[i] = world->agent[i].id;
    }
    world_replan(world, id, &request);
    world_settle(world);
    const struct plan *plan = world_plan(world, id, 2);
    assert_int_equal(plan->stage[0].end, 3);
    assert_true(plan->stage[0].predicted_forward_seconds > 0.02);
    assert_close(&plan->stage[2].predicted_forward_seconds, &(double){0.1}, 1,
                 1e-9); /* as measured */
}

/* Report transfers of the same size to another device. */
static void report_sizes(struct world *world, struct agent *from, const struct agent *to,
                         double seconds, double bytes)
{
    struct heartbeat *heartbeat = &from->heartbeat;
    agent_beat(world, from);
    heartbeat->link_count = 1;
    heartbeat->link[0] = (struct link_report){.device = to->id,
                                              .count = 10,
                                              .seconds_sum = 10 * seconds,
                                              .bytes_sum = 10 * bytes,
                                              .bytes_squared_sum = 10 * bytes * bytes,
                                              .bytes_seconds_sum = 10 * bytes * seconds};
    agent_beat_again(world, from);
}

static void report_link(struct world *world, struct agent *from, const struct agent *to,
                        double seconds)
{
    report_sizes(world, from, to, seconds, 1000);
}

/* All links carry 1 MB/s. */
static void report_narrow_links(struct world *world)
{
    for (size_t i = 0; i < 3; i++) {
        report_sizes(world, &world->agent[i], &world->agent[(i + 1) % 3], 1, 1e6);
    }
}

static void slow_links_are_known_after_they_were_measured(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    train_on_three(world, id);
    double before = world_plan(world, id, 1)->predicted_step_seconds;
    for (size_t i = 0; i < 3; i++) { /* all of them: a single one is avoided by the order */
        report_link(world, &world->agent[i], &world->agent[(i + 1) % 3], 0.5);
    }
    world_verb(world, id, JOB_REPLAN);
    world_settle(world);
    assert_true(world_plan(world, id, 2)->predicted_step_seconds > 10 * before);
}

/* The tensors of one border: some carry a mark, are 64 bytes longer, and meet the moments at which
 * state is copied. The slope between the two would be 1 MB/s, which is what every other border
 * would be priced at. */
static void marked_tensors_do_not_make_a_link_slow(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    for (size_t i = 0; i < 2; i++) {
        report_link(world, &world->agent[i], &world->agent[i + 1], 0.0001);
    }
    story_replan(world, id, 2, 4);
    world_settle(world);
    double before = world_plan(world, id, 2)->predicted_step_seconds;
    for (size_t i = 0; i < 2; i++) {
        struct agent *agent = &world->agent[i];
        agent_beat(world, agent);
        agent->heartbeat.link_count = 1;
        agent->heartbeat.link[0] =
            (struct link_report){.device = world->agent[i + 1].id,
                                 .count = 2000,
                                 .seconds_sum = 1900 * 0.0001 + 100 * 0.00016,
                                 .bytes_sum = 1900 * 1000 + 100 * 1064,
                                 .bytes_squared_sum = 1900 * 1e6 + 100 * 1064.0 * 1064,
                                 .bytes_seconds_sum = 1900 * 1000 * 0.0001 + 100 * 1064 * 0.00016};
        agent_beat_again(world, agent);
    }
    story_replan(world, id, 1, 2);
    world_settle(world);
    story_replan(world, id, 2, 4);
    world_settle(world);
    double after = world_plan(world, id, 4)->predicted_step_seconds;
    assert_close(&after, &before, 1, 0.1);
}

/* The question of a new plan for a job. */
static const struct planning *ask(struct world *world, const char *id)
{
    world->plans_wait = true;
    world_verb(world, id, JOB_REPLAN);
    assert_true(core_planning(world->core, world->question, world->planning));
    return world->planning;
}

static void report_relayed(struct world *world, struct agent *agent, const struct agent *other)
{
    agent_beat(world, agent);
    agent->heartbeat.relayed_count = 0;
    if (other) {
        agent->heartbeat.relayed[agent->heartbeat.relayed_count++] = other->id;
    }
    agent_beat_again(world, agent);
}

static const struct partition_pair *measured_pair(const struct planning *planning,
                                                  const struct agent *a, const struct agent *b)
{
    const size_t first = planning_find(planning, a->id.text);
    const size_t second = planning_find(planning, b->id.text);
    for (size_t i = 0; i < planning->measured_count; i++) {
        const struct partition_pair *pair = &planning->measured[i];
        if ((pair->a == first && pair->b == second) || (pair->a == second && pair->b == first)) {
            return pair;
        }
    }
    return NULL;
}

static void a_pair_that_needs_a_relay_has_both_links_after_each_other(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    train_on_three(world, id);
    struct agent *a = &world->agent[0], *b = &world->agent[1], *c = &world->agent[2];
    report_link(world, a, b, 0.5);
    report_link(world, c, b, 0.1);
    report_relayed(world, a, c);
    const struct device *device = core_device(world->core, a->id.text);
    assert_int_equal(device->relayed_count, 1);
    assert_string_equal(device->relayed[0].text, c->id.text);
    const struct planning *planning = ask(world, id);
    const struct planning_device *slow = &planning->device[planning_find(planning, a->id.text)];
    const struct planning_device *fast = &planning->device[planning_find(planning, c->id.text)];
    const struct partition_pair *pair = measured_pair(planning, a, c);
    assert_non_null(pair);
    const double both = slow->link.latency_seconds + fast->link.latency_seconds;
    assert_close(&pair->link.latency_seconds, &both, 1, 1e-12);
    assert_true(pair->link.bytes_per_second == slow->link.bytes_per_second ||
                pair->link.bytes_per_second == fast->link.bytes_per_second);
    /* One that was measured counts instead. */
    report_link(world, a, c, 0.02);
    planning = ask(world, id);
    assert_true(measured_pair(planning, a, c)->link.latency_seconds < 0.1);
    report_relayed(world, a, NULL);
    assert_int_equal(core_device(world->core, a->id.text)->relayed_count, 0);
}

static void devices_that_are_not_there_are_relayed_by_nobody(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    train_on_three(world, id);
    struct agent *a = &world->agent[0];
    static const struct agent ghost = {.id = {"dev_ghost"}};
    report_relayed(world, a, &ghost);
    assert_int_equal(core_device(world->core, a->id.text)->relayed_count, 0);
    report_relayed(world, a, a);
    assert_int_equal(core_device(world->core, a->id.text)->relayed_count, 0);
}

static void a_pair_that_never_met_has_the_slower_link_of_both(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct err err = {0};
    train_on_three(world, id);
    const struct agent *a = &world->agent[0], *c = &world->agent[2];
    report_link(world, &world->agent[0], &world->agent[1], 0.5);
    report_link(world, &world->agent[1], &world->agent[0], 0.5);
    report_link(world, &world->agent[2], &world->agent[1], 0.1);
    const struct planning *planning = ask(world, id);
    assert_int_equal(planning->measured_count, 2); /* both directions of one pair count once */
    assert_ok(placement_solve(world->planning, &world->planned, &err), &err);
    const struct planning_device *slow = &planning->device[planning_find(planning, a->id.text)];
    const struct planning_device *fast = &planning->device[planning_find(planning, c->id.text)];
    assert_true(slow->has_link && fast->has_link);
    assert_true(slow->link.latency_seconds > fast->link.latency_seconds);
    size_t found = 0;
    for (size_t i = 0; i < 3; i++) { /* all pairs of three devices, before the measured ones */
        const struct partition_pair *pair = &planning->pair[i];
        const struct planning_device *first = &planning->device[planning->pool[pair->a]];
        const struct planning_device *second = &planning->device[planning->pool[pair->b]];
        if ((first == slow && second == fast) || (first == fast && second == slow)) {
            assert_close(&pair->link.latency_seconds, &slow->link.latency_seconds, 1, 1e-12);
            found++;
        }
    }
    assert_int_equal(found, 1);
}

/* c reports steps that take this much longer than its units, per micro-batch. */
static double planned_overhead(struct world *world, const char *id, double seconds)
{
    struct agent *c = &world->agent[2];
    const double micro_batches = (double)core_job(world->core, id)->spec.micro_batches;
    const double step = micro_batches * (3 * 2 * 0.02 + seconds);
    story_measure(world, c, 0.02);
    for (size_t i = 0; i < 50; i++) {
        c->heartbeat.stage_seconds = (struct stage_seconds){.step = step, .compute = step};
        agent_beat_again(world, c);
    }
    const struct planning *planning = ask(world, id);
    const size_t at = planning_find(planning, c->id.text);
    return planning->device[at].overhead_seconds;
}

static void unexplained_time_of_steps_is_part_of_the_next_plan(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct err err = {0};
    train_on_three(world, id);
    const double overhead = planned_overhead(world, id, 0.02);
    assert_true(overhead > 0.01 && overhead < 0.021);
    assert_ok(placement_solve(world->planning, &world->planned, &err), &err);
    const double with = world->planned.step_seconds;
    for (size_t d = 0; d < world->planning->device_count; d++) {
        world->planning->device[d].overhead_seconds = 0;
    }
    assert_ok(placement_solve(world->planning, &world->planned, &err), &err);
    assert_true(with > world->planned.step_seconds);
}

static void auto_codes_links_that_are_slow_and_only_those(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct job_spec spec = story_spec(100);
    spec.devices_min = 3;
    spec.compression = COMPRESSION_AUTO;
    story_devices(world);
    story_submit(world, id, &spec);
    world_settle(world);
    world_train(world, 5);
    assert_int_equal(world_plan(world, id, 1)->stage[0].codec, CODEC_NONE);
    assert_int_equal(world_plan(world, id, 1)->stage[1].codec, CODEC_NONE);
    assert_true(core_job(world->core, id)->exact);
    report_narrow_links(world);
    world_verb(world, id, JOB_REPLAN);
    world_settle(world);
    const struct plan *plan = world_plan(world, id, 2);
    assert_int_equal(plan->stage_count, 3);
    assert_true(plan->stage[0].codec != CODEC_NONE || plan->stage[1].codec != CODEC_NONE);
    assert_int_equal(plan->stage[2].codec, CODEC_NONE);
    assert_false(core_job(world->core, id)->exact);
    const struct agent *first = world_agent_of(world, plan->stage[0].device.text);
    assert_string_equal(story_assignment(world, first)->run.next.codec,
                        codec_info((enum codec)plan->stage[0].codec)->name);
    const struct plan_memory *parts = &plan->stage[0].memory;
    const int64_t memory = parts->parameters_bytes + parts->gradients_bytes +
                           parts->optimizer_bytes + parts->activations_bytes +
                           parts->workspace_bytes + parts->borders_bytes + parts->snapshots_bytes +
                           parts->replicas_bytes;
    assert_int_equal(memory, plan->stage[0].memory_bytes);
}

static void auto_leaves_links_of_old_agents_uncoded(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    struct err err = {0};
    train_on_three(world, id);
    report_narrow_links(world);
    (void)ask(world, id);
    world->planning->spec.compression = COMPRESSION_AUTO;
    assert_ok(placement_solve(world->planning, &world->planned, &err), &err);
    const double coded = world->planned.step_seconds;
    for (size_t d = 0; d < world->planning->device_count; d++) {
        world->planning->device[d].codecs = d == 1 ? CODECS_NO : CODECS_PLAIN;
    }
    assert_ok(placement_solve(world->planning, &world->planned, &err), &err);
    for (size_t s = 0; s < world->planned.stage_count; s++) {
        assert_int_equal(world->planned.stage[s].codec, CODEC_NONE);
    }
    assert_true(coded < world->planned.step_seconds / 1.05);
}

/* The first link gets transfers of both directions, the second one none that count. */
static void a_plan_shows_the_times_of_its_links(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 5);
    const struct plan *plan = core_job_plan(world->core, id);
    assert_int_equal(plan->link_count, 2);
    /* 5 samples of 6 x 14 x 14 and of 16 x 5 x 5 values. */
    assert_int_equal(plan->link[0].bytes, 5 * 6 * 14 * 14 * 4);
    assert_int_equal(plan->link[1].bytes, 5 * 16 * 5 * 5 * 4);
    for (size_t s = 0; s < 2; s++) {
        const double seconds = 0.0005 + (double)plan->link[s].bytes / 100e6;
        assert_close(&plan->link[s].predicted_seconds, &seconds, 1, 1e-9);
        assert_true(plan->link[s].measured_seconds == 0);
    }
    assert_true(plan->bottleneck.part != PART_NONE && plan->bottleneck.busy > 0);
    report_link(world, &world->agent[0], &world->agent[1], 0.25);
    report_link(world, &world->agent[1], &world->agent[0], 0.25);
    report_link(world, &world->agent[2], &world->agent[0], 0.5);
    world->agent[1].heartbeat.link[0].device = world->agent[2].id;
    memcpy(world->agent[1].heartbeat.link[0].codec, "q8", sizeof("q8"));
    agent_beat_again(world, &world->agent[1]);
    plan = core_job_plan(world->core, id);
    assert_close(&plan->link[0].measured_seconds, &(double){0.25}, 1, 1e-9);
    assert_true(plan->link[1].measured_seconds == 0);
    report_link(world, &world->agent[0], &world->agent[1], 0.5);
    assert_true(core_job_plan(world->core, id)->link[0].measured_seconds > 0.25);
}

static void a_slow_link_is_the_bottleneck(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    train_on_three(world, id);
    report_narrow_links(world);
    struct replan_request request = {.cut = {1, 2}, .cut_count = 2, .has_cuts = true};
    world_replan(world, id, &request);
    world_settle(world);
    const struct plan *plan = world_plan(world, id, 2);
    assert_int_equal(plan->bottleneck.part, PART_LINK);
    assert_int_equal(plan->bottleneck.index, 0); /* its tensor is the larger one */
}

static void the_reported_step_time_is_the_median(void **state)
{
    struct world *world = *state;
    char id[ID_SIZE];
    story_train(world, id, 100, 10);
    struct heartbeat *heartbeat = &world->agent[0].heartbeat;
    agent_beat(world, &world->agent[0]);
    heartbeat->metric_count = 5;
    for (int i = 0; i < 5; i++) {
        heartbeat->metric[i] = (struct metric){
            .step = i + 1, .name = METRIC_STEP_SECONDS, .value = i == 2 ? 1000 : 0.5};
    }
    agent_beat_again(world, &world->agent[0]);
    const struct plan *plan = core_job_plan(world->core, id);
    assert_int_equal(plan->measured_steps, 5);
    assert_close(&plan->measured_step_seconds, &(double){0.5}, 1, 1e-12);
    const double ratio = 0.5 / plan->predicted_step_seconds;
    assert_close(&plan->measured_over_predicted, &ratio, 1, 1e-12);
    const struct job_progress *progress = &core_job(world->core, id)->progress;
    assert_close(&progress->samples_per_second, &(double){40}, 1, 1e-12);
    assert_close(&progress->eta_seconds, &(double){0.5 * (double)(100 - progress->step)}, 1, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY(measured_times_win_over_predicted_ones),
        STORY(one_unit_says_little_of_the_others),
        STORY(slow_links_are_known_after_they_were_measured),
        STORY(marked_tensors_do_not_make_a_link_slow),
        STORY(a_pair_that_never_met_has_the_slower_link_of_both),
        STORY(a_pair_that_needs_a_relay_has_both_links_after_each_other),
        STORY(devices_that_are_not_there_are_relayed_by_nobody),
        STORY(unexplained_time_of_steps_is_part_of_the_next_plan),
        STORY(auto_codes_links_that_are_slow_and_only_those),
        STORY(auto_leaves_links_of_old_agents_uncoded),
        STORY(a_plan_shows_the_times_of_its_links),
        STORY(a_slow_link_is_the_bottleneck),
        STORY(the_reported_step_time_is_the_median),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
