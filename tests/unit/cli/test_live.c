#include "cli/live.h"

#include <string.h>

#include "schema/job.h"
#include "tests/support/test.h"

static struct job running(void)
{
    struct job job = {.state = JOB_RUNNING,
                      .message = "runs generation 2",
                      .generation = 2,
                      .progress = {.step = 650,
                                   .steps = 1860,
                                   .epoch = 3,
                                   .loss = 0.42134,
                                   .has_loss = true,
                                   .accuracy = 0.85119,
                                   .has_accuracy = true,
                                   .samples_per_second = 512.4,
                                   .eta_seconds = 71.6}};
    (void)snprintf(job.spec.name, sizeof(job.spec.name), "fashion");
    return job;
}

static struct live two_stages(void)
{
    struct live live = {
        .shares =
            {.generation = 2,
             .count = 2,
             .device = {{.name = "kitchen", .units = 2, .first = 0, .busy = 0.46},
                        {.name = "board1-under-the-roof", .units = 3, .first = 2, .busy = 1}}},
        .incident = {{.state = INCIDENT_RESOLVED,
                      .cause = INCIDENT_DEVICE_LOST,
                      .device = {{.name = "attic"}},
                      .device_count = 1,
                      .steps_redone = 4,
                      .detect_seconds = 0.3,
                      .resume_seconds = 0.4,
                      .suspected_ms = INT64_C(1769862600000)},
                     {.state = INCIDENT_OPEN,
                      .cause = INCIDENT_LINK,
                      .device = {{.name = "kitchen"}, {.name = "attic"}},
                      .device_count = 2,
                      .suspected_ms = INT64_C(1769862660000)}},
        .incident_count = 2};
    for (int64_t step = 1; step <= 16; step++) {
        live_curve_add(&live.loss, step, 2.0 / (double)step);
    }
    return live;
}

static void check(const struct live *live, const struct job *job, struct live_style style,
                  const char *expected)
{
    BUF_AUTO struct buf out;
    struct err err = {0};
    buf_init(&out, 1 << 16);
    assert_ok(live_render(live, job, &style, &out, &err), &err);
    assert_string_equal(out.data, expected);
}

static void a_page_shows_progress_loss_incidents_and_stages(void **state)
{
    (void)state;
    const struct live live = two_stages();
    const struct job job = running();
    check(&live, &job, (struct live_style){.columns = 80, .rows = 24},
          "fashion  running\n"
          "#########................. 650/1860  ETA 1:12\n"
          "loss 0.4213 #~-...._________\n"
          "accuracy 0.8512  512.4 samples/s  epoch 3\n"
          "12:30:00 device_lost attic: 4 steps to retrain, 0.7 s\n"
          "12:31:00 link kitchen,attic: open\n"
          "kitchen          #########...........  46 % units 0-1\n"
          "board1-under-the #################### 100 % units 2-4\n");
}

static void servers_and_workers_show_units_and_micro_batches(void **state)
{
    (void)state;
    const struct live live = {
        .shares = {.generation = 2,
                   .count = 2,
                   .device = {{.name = "rack", .units = 5, .micro_batches = 1, .busy = 0.5},
                              {.name = "attic",
                               .first = 5,
                               .micro_batches = 3,
                               .first_micro_batch = 1,
                               .busy = 1}}}};
    const struct job job = running();
    check(&live, &job, (struct live_style){.columns = 80, .rows = 24},
          "fashion  running\n"
          "#########................. 650/1860  ETA 1:12\n"
          "loss 0.4213\n"
          "accuracy 0.8512  512.4 samples/s  epoch 3\n"
          "rack  ##########..........  50 % units 0-4 micro-batches 0-0\n"
          "attic #################### 100 % micro-batches 1-3\n");
}

static void groups_that_train_apart_have_a_line_each(void **state)
{
    (void)state;
    static struct groups_view groups = {
        .group = {{.group = 0,
                   .mixes = {.device = {"dev_1"},
                             .samples = 600,
                             .steps = 132,
                             .every = 3,
                             .mixes = 12,
                             .has_loss = true,
                             .loss = 0.31,
                             .has_distance = true,
                             .distance = 0.02149},
                   .has_mixes = true},
                  {.group = 1, .mixes = {.samples = 400, .steps = 70}, .has_mixes = true}},
        .group_count = 2};
    const struct live live = {.groups = &groups};
    const struct job job = running();
    check(&live, &job, (struct live_style){.columns = 120, .rows = 24},
          "fashion  running\n"
          "##############.......................... 650/1860  ETA 1:12\n"
          "loss 0.4213\n"
          "accuracy 0.8512  512.4 samples/s  epoch 3\n"
          "group 0   600 samples  step 132  every 3 steps  12 mixes  loss 0.3100  distance 0.0215\n"
          "group 1   400 samples  step 70  every 0 steps  0 mixes  waits for a device\n");
}

static void a_narrow_terminal_gets_narrow_lines(void **state)
{
    (void)state;
    const struct live live = two_stages();
    const struct job job = running();
    check(&live, &job, (struct live_style){.columns = 40, .rows = 24, .unicode = true},
          "fashion  running\n"
          "█████░░░░░░░░ 650/1860  ETA 1:12\n"
          "loss 0.4213 █▄▃▂▂▂▂▁▁▁▁▁▁▁▁▁\n"
          "accuracy 0.8512  512.4 samples/s  epoch\n"
          "12:30:00 device_lost attic: 4 steps to\n"
          "12:31:00 link kitchen,attic: open\n"
          "kitchen    ██████░░░░░░  46 % units 0-1\n"
          "board1-und ████████████ 100 % units 2-4\n");
}

static void a_low_terminal_gets_the_first_lines(void **state)
{
    (void)state;
    const struct live live = two_stages();
    const struct job job = running();
    check(&live, &job, (struct live_style){.columns = 80, .rows = 3},
          "fashion  running\n#########................. 650/1860  ETA 1:12\n");
}

static void colour_marks_states_only_where_it_is_wanted(void **state)
{
    (void)state;
    const struct live live = {.shares = {.generation = 0}};
    struct job job = {.state = JOB_RECOVERING, .message = "a\033[2J"};
    (void)snprintf(job.spec.name, sizeof(job.spec.name), "fashion");
    check(&live, &job, (struct live_style){.columns = 80, .rows = 24, .colour = true},
          "\033[33mfashion  recovering  a?[2J\033[0m\n");
    check(&live, &job, (struct live_style){.columns = 80, .rows = 24},
          "fashion  recovering  a?[2J\n");
}

static void retrained_steps_replace_the_end_of_the_curve(void **state)
{
    (void)state;
    struct live_curve curve = {.count = 0};
    assert_int_equal(live_curve_last(&curve), 0);
    for (int64_t step = 1; step <= LIVE_POINTS + 5; step++) {
        live_curve_add(&curve, step, (double)step);
    }
    assert_int_equal(curve.count, LIVE_POINTS);
    assert_int_equal(curve.step[0], 6);
    live_curve_add(&curve, LIVE_POINTS, 7);
    assert_int_equal(live_curve_last(&curve), LIVE_POINTS);
    assert_int_equal(curve.count, LIVE_POINTS - 5);
    assert_close(&curve.value[curve.count - 1], (&(const double){7}), 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_shows_progress_loss_incidents_and_stages),
        cmocka_unit_test(servers_and_workers_show_units_and_micro_batches),
        cmocka_unit_test(groups_that_train_apart_have_a_line_each),
        cmocka_unit_test(a_narrow_terminal_gets_narrow_lines),
        cmocka_unit_test(a_low_terminal_gets_the_first_lines),
        cmocka_unit_test(colour_marks_states_only_where_it_is_wanted),
        cmocka_unit_test(retrained_steps_replace_the_end_of_the_curve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
