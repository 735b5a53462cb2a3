#include "cli/progress.h"

#include <string.h>

#include "tests/support/test.h"

static const struct progress_shares shares = {
    .generation = 1,
    .count = 2,
    .device = {{.name = "kitchen", .units = 2}, {.name = "board1", .units = 3}}};

static void a_running_job_shows_all_that_is_known(void **state)
{
    (void)state;
    struct job job = {.state = JOB_RUNNING,
                      .message = "not shown while it runs",
                      .progress = {.step = 46,
                                   .steps = 93,
                                   .epoch = 1,
                                   .loss = 0.42134,
                                   .has_loss = true,
                                   .samples_per_second = 1234.4,
                                   .eta_seconds = 71.6}};
    char line[256];
    progress_line(&job, &shares, 0, line, sizeof(line));
    assert_string_equal(
        line,
        "running  step 46/93  ETA 1:12  loss 0.4213  1234 samples/s  epoch 1  units kitchen 2/5, "
        "board1 3/5");
    job.progress.has_accuracy = true;
    job.progress.accuracy = 0.85119;
    job.progress.samples_per_second = 9.87;
    job.progress.eta_seconds = 7325;
    progress_line(&job, &shares, 0, line, sizeof(line));
    assert_holds(line, "  ETA 2:02:05  loss 0.4213  accuracy 0.8512  9.9 samples/s  ");
    job.progress.has_recall = true;
    job.progress.recall = 0.5;
    progress_line(&job, &shares, 0, line, sizeof(line));
    assert_holds(line, "  accuracy 0.8512  recall 0.5000  9.9 samples/s  ");
}

static void a_job_with_servers_shows_units_and_micro_batches(void **state)
{
    (void)state;
    static const struct progress_shares servers = {
        .generation = 1,
        .count = 3,
        .device = {{.name = "rack", .units = 5},
                   {.name = "kitchen", .micro_batches = 3, .first = 5},
                   {.name = "attic", .micro_batches = 1, .first = 5, .first_micro_batch = 3}}};
    const struct job job = {.state = JOB_RUNNING, .progress = {.step = 46, .steps = 93}};
    char line[256];
    progress_line(&job, &servers, 0, line, sizeof(line));
    assert_string_equal(
        line, "running  step 46/93  units rack 5/5  micro-batches kitchen 3/4, attic 1/4");
    progress_line(&job, &servers, 40, line, sizeof(line));
    assert_string_equal(line, "running  step 46/93  units rack 5/5");
}

static void a_job_with_parts_shows_its_phase(void **state)
{
    (void)state;
    struct job job = {.state = JOB_RUNNING,
                      .spec = {.strategy = STRATEGY_SUBMODEL},
                      .message = "phase groups: 1 of 3 trained",
                      .progress = {.step = 46, .steps = 93}};
    const struct progress_shares none = {0};
    char line[256];
    progress_line(&job, &none, 0, line, sizeof(line));
    assert_string_equal(line, "running  phase groups: 1 of 3 trained  step 46/93");
    job.state = JOB_RECOVERING;
    progress_line(&job, &none, 0, line, sizeof(line));
    assert_string_equal(line, "recovering  step 46/93  (phase groups: 1 of 3 trained)");
}

static void numbers_in_a_row_are_a_range(void **state)
{
    (void)state;
    static const int64_t number[] = {0, 1, 2, 3, 7, 9, 8, 9};
    char text[32], cut[9];
    progress_numbers(number, 8, text, sizeof(text));
    assert_string_equal(text, "0-3,7,9,8-9");
    progress_numbers(number, 1, text, sizeof(text));
    assert_string_equal(text, "0");
    progress_numbers(number, 0, text, sizeof(text));
    assert_string_equal(text, "");
    progress_numbers(number, 8, cut, sizeof(cut));
    assert_string_equal(cut, "0-3,7...");
}

static void the_message_of_a_new_generation_is_printed(void **state)
{
    (void)state;
    struct job job = {
        .state = JOB_RUNNING,
        .message = "runs generation 2 on 2 devices; device 'board1' was lost, 49 steps to retrain "
                   "from step 650",
        .progress = {.step = 650, .steps = 1860}};
    char line[256];
    progress_news(&job, line, sizeof(line));
    assert_string_equal(
        line,
        "running  step 650/1860  (runs generation 2 on 2 devices; device 'board1' was lost, 49 "
        "steps to retrain from step 650)");
}

static void unknown_values_are_omitted(void **state)
{
    (void)state;
    struct progress_shares none = {0};
    struct job job = {.state = JOB_WAITING_FOR_DEVICES, .message = "2 devices; 1 is free"};
    char line[256];
    progress_line(&job, &none, 0, line, sizeof(line));
    assert_string_equal(line, "waiting_for_devices  (2 devices; 1 is free)");
    job = (struct job){.state = JOB_RUNNING,
                       .progress = {.steps = 93, .loss = 2.3, .has_loss = true}};
    progress_line(&job, &none, 0, line, sizeof(line));
    assert_string_equal(line, "running  step 0/93");
    job = (struct job){.state = JOB_QUEUED};
    progress_line(&job, &none, 0, line, sizeof(line));
    assert_string_equal(line, "queued");
}

static void values_beyond_the_terminal_width_are_omitted(void **state)
{
    (void)state;
    struct job job = {.state = JOB_RUNNING,
                      .progress = {.step = 12345,
                                   .steps = 18600,
                                   .epoch = 12,
                                   .loss = 0.42134,
                                   .has_loss = true,
                                   .accuracy = 0.85119,
                                   .has_accuracy = true,
                                   .samples_per_second = 1234.4,
                                   .eta_seconds = 5025}};
    char line[256];
    progress_line(&job, &shares, 79, line, sizeof(line));
    assert_string_equal(
        line, "running  step 12345/18600  ETA 1:23:45  loss 0.4213  accuracy 0.8512  epoch 12");
    job.progress.steps = 1860;
    job.progress.step = 930;
    job.progress.eta_seconds = 12;
    progress_line(&job, &shares, 79, line, sizeof(line));
    assert_string_equal(
        line, "running  step 930/1860  ETA 0:12  loss 0.4213  accuracy 0.8512  1234 samples/s");
    progress_line(&job, &shares, 20, line, sizeof(line));
    assert_string_equal(line, "running  ETA 0:12");
    job = (struct job){.state = JOB_WAITING_FOR_DEVICES, .message = "there are not enough devices"};
    progress_line(&job, &shares, 40, line, sizeof(line));
    assert_string_equal(line, "waiting_for_devices  (there are not e...");
}

static void a_line_that_does_not_fit_is_truncated(void **state)
{
    (void)state;
    struct job job = {.state = JOB_RUNNING, .progress = {.step = 46, .steps = 93}};
    char line[24];
    progress_line(&job, &shares, 0, line, sizeof(line));
    assert_string_equal(line, "running  step 46/93 ...");
}

static void control_characters_from_the_server_are_replaced(void **state)
{
    (void)state;
    struct progress_shares odd = {
        .generation = 1, .count = 1, .device = {{.name = "a\033[2Jb", .units = 1}}};
    struct job job = {.state = JOB_PREPARING, .message = "line\nbreak"};
    char line[256];
    progress_line(&job, &odd, 0, line, sizeof(line));
    assert_string_equal(line, "preparing  units a?[2Jb 1/1  (line?break)");
}

static void the_end_says_how_and_where(void **state)
{
    (void)state;
    struct job job = {
        .state = JOB_SUCCEEDED,
        .state_reason = "succeeded",
        .message = "trained 93 steps",
        .checkpoint = {"ckpt_01JD6Z0A4B6C8D0E2F4G6H8J0K"},
        .progress = {.has_accuracy = true, .accuracy = 0.9, .has_recall = true, .recall = 0.8}};
    char line[256];
    progress_end(&job, line, sizeof(line));
    assert_string_equal(line, "succeeded: trained 93 steps, accuracy 0.9000, recall 0.8000, "
                              "checkpoint ckpt_01JD6Z0A4B6C8D0E2F4G6H8J0K");
    job = (struct job){.state = JOB_FAILED,
                       .state_reason = "diverged",
                       .message = "the loss of step 7 is not finite"};
    progress_end(&job, line, sizeof(line));
    assert_string_equal(line, "failed (diverged): the loss of step 7 is not finite");
    job = (struct job){.state = JOB_CANCELLED, .progress = {.step = 3, .steps = 93}};
    progress_end(&job, line, sizeof(line));
    assert_string_equal(line, "cancelled: 3 of 93 steps");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_running_job_shows_all_that_is_known),
        cmocka_unit_test(a_job_with_servers_shows_units_and_micro_batches),
        cmocka_unit_test(a_job_with_parts_shows_its_phase),
        cmocka_unit_test(numbers_in_a_row_are_a_range),
        cmocka_unit_test(the_message_of_a_new_generation_is_printed),
        cmocka_unit_test(unknown_values_are_omitted),
        cmocka_unit_test(values_beyond_the_terminal_width_are_omitted),
        cmocka_unit_test(a_line_that_does_not_fit_is_truncated),
        cmocka_unit_test(control_characters_from_the_server_are_replaced),
        cmocka_unit_test(the_end_says_how_and_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
