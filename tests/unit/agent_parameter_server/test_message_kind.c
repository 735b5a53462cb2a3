/* Names and paths of messages, and who notifies whom. */
#include <stdlib.h>
#include <string.h>

#include "agent/parameter_server/message_kind.h"
#include "tests/support/test.h"

static const struct job_id job = {"job_1"};

static void check_path(const struct exchange_message *message, const char *expected)
{
    const struct message_path path = message_kind_path("http://h:1", &job, 4, message);
    assert_string_equal(path.text, expected);
}

static void paths_name_the_message(void **state)
{
    (void)state;
    struct exchange_message message = {
        .kind = EXCHANGE_PARAMETERS, .step = 7, .first = 2, .end = 5};
    check_path(&message, "http://h:1/peer/v1/job_1/4/parameters/7/2/5");
    message.statistics = true;
    check_path(&message, "http://h:1/peer/v1/job_1/4/parameters/7/2/5?statistics=1");
    message = (struct exchange_message){
        .kind = EXCHANGE_CONTRIBUTION, .step = 7, .block = 3, .first = 2, .end = 5};
    check_path(&message, "http://h:1/peer/v1/job_1/4/exchange/contribution/7/3/2/5");
    message.done = true;
    check_path(&message, "http://h:1/peer/v1/job_1/4/exchange/done/7/3/2/5");
    message = (struct exchange_message){.kind = EXCHANGE_RESULT, .step = 7, .micro_batch = 9};
    check_path(&message, "http://h:1/peer/v1/job_1/4/exchange/result/7/9/0/0");
    message = (struct exchange_message){.kind = EXCHANGE_COMMIT, .step = 7, .last = true};
    check_path(&message, "http://h:1/peer/v1/job_1/4/exchange/commit/7/0/0/0");
}

static void names_are_found_again(void **state)
{
    (void)state;
    for (int kind = EXCHANGE_CONTRIBUTION; kind < EXCHANGE_KINDS; kind++) {
        for (int done = 0; done <= (kind == EXCHANGE_CONTRIBUTION); done++) {
            const struct exchange_message message = {.kind = (enum exchange_kind)kind,
                                                     .done = done};
            struct exchange_message found = {.done = !done};
            struct message_path path = message_kind_path("", &job, 4, &message);
            char *name = strstr(path.text, "exchange/") + strlen("exchange/");
            *strchr(name, '/') = '\0';
            assert_true(message_kind_find(name, &found));
            assert_int_equal(found.kind, kind);
            assert_int_equal(found.done, done);
        }
    }
    struct exchange_message found = {0};
    assert_false(message_kind_find("parameters", &found));
    assert_false(message_kind_find("", &found));
    assert_false(message_kind_find("Done", &found));
}

/* The longest path that there is fits. */
static void the_longest_path_fits(void **state)
{
    (void)state;
    char url[URL_SIZE];
    memset(url, 'u', sizeof(url));
    url[sizeof(url) - 1] = '\0';
    struct job_id long_job;
    memset(long_job.text, 'j', sizeof(long_job.text));
    long_job.text[sizeof(long_job.text) - 1] = '\0';
    const struct exchange_message message = {.kind = EXCHANGE_CONTRIBUTION,
                                             .step = STEPS_MAX,
                                             .block = 4095,
                                             .first = 4095,
                                             .end = 4096};
    const struct message_path path = message_kind_path(url, &long_job, INT64_MAX, &message);
    assert_string_equal(path.text + strlen(path.text) - 10, "/4095/4096");
}

static void stages_notify_whom_they_call(void **state)
{
    (void)state;
    struct assignment_run *run = calloc(1, sizeof(*run));
    assert_non_null(run);
    run->stage_count = run->stages_listed = 4;
    for (int64_t s = 0; s < 3; s++) { /* the last one only works */
        run->stage[s].first = s;
        run->stage[s].end = s + 1;
    }
    for (int clips = 0; clips < 2; clips++) {
        run->job_spec.optimizer.clip_norm = clips;
        for (size_t own = 0; own < 4; own++) {
            run->stage_index = (int64_t)own;
            for (size_t other = 0; other < 4; other++) {
                const bool next = own < 3 && other < 3 && (own + 1 == other || other + 1 == own);
                assert_int_equal(message_kind_notifies(run, other),
                                 own != other && (own == 0 || (clips && next)));
            }
        }
    }
    free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_name_the_message),
        cmocka_unit_test(names_are_found_again),
        cmocka_unit_test(the_longest_path_fits),
        cmocka_unit_test(stages_notify_whom_they_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
