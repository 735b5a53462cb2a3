#include "cli/resolve.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

static const char page[] =
    "{\"items\": ["
    "{\"id\": \"job_01AAAA0000000000000000000A\", \"spec\": {\"name\": \"fashion\"}},"
    "{\"id\": \"job_01AABB0000000000000000000B\", \"spec\": {\"name\": \"fashion-long\"}},"
    "{\"id\": \"job_01CCCC0000000000000000000C\", \"spec\": {\"name\": \"digits\"}},"
    "{\"id\": \"job_01DDDD0000000000000000000D\", \"spec\": {\"name\": \"digits\"}},"
    "{\"id\": \"job_01EEEE0000000000000000000E\", \"spec\": {\"name\": \"words group 1\"},"
    " \"parent\": \"job_01CCCC0000000000000000000C\"},"
    "{\"id\": \"job_01FFFF0000000000000000000F\", \"spec\": {\"name\": \"a\\u001b[2J\"}}"
    "]}";

static const struct thing *const jobs = &things[ARGUMENT_JOB];

static int setup(void **state)
{
    struct candidates *candidates = calloc(1, sizeof(*candidates));
    struct err err = {0};
    json_t *list = NULL;
    assert_non_null(candidates);
    assert_ok(json_parse(page, sizeof(page) - 1, &list, &err), &err);
    assert_ok(candidates_add(candidates, jobs, list, &err), &err);
    json_decref(list);
    *state = candidates;
    return 0;
}

static int teardown(void **state)
{
    candidates_done(*state);
    free(*state);
    return 0;
}

static void check_found(void **state, const char *word, size_t index)
{
    const struct candidates *all = *state;
    const struct candidate *found = NULL;
    struct err err = {0};
    assert_ok(resolve_pick(all, jobs, word, &found, &err), &err);
    assert_ptr_equal(found, &all->item[index]);
}

static void check_refused(void **state, const char *word, const char *text)
{
    const struct candidate *found = NULL;
    struct err err = {0};
    assert_int_equal(resolve_pick(*state, jobs, word, &found, &err), ERR_NOT_FOUND);
    assert_string_equal(err.text, text);
    assert_null(found);
}

static void an_id_a_name_and_their_beginnings_are_found(void **state)
{
    check_found(state, "job_01CCCC0000000000000000000C", 2);
    check_found(state, "fashion-l", 1);
    check_found(state, "job_01AAA", 0);
    check_found(state, "01DD", 3);
}

static void a_whole_name_precedes_a_longer_one(void **state)
{
    check_found(state, "fashion", 0);
}

static void an_ambiguous_word_lists_its_candidates(void **state)
{
    check_refused(state, "fash",
                  "'fash' is the beginning of 2 jobs: job_01AAAA0000000000000000000A (fashion), "
                  "job_01AABB0000000000000000000B (fashion-long)");
    check_refused(state, "digits",
                  "'digits' is the name of 2 jobs: job_01CCCC0000000000000000000C (digits), "
                  "job_01DDDD0000000000000000000D (digits)");
}

static void an_unknown_word_names_the_nearest(void **state)
{
    check_refused(state, "fashoin", "no job 'fashoin'; did you mean 'fashion'?");
    check_refused(state, "zebra", "no job 'zebra' (see paceline job list)");
    check_refused(state, "", "no job '' (see paceline job list)");
}

static void a_part_of_a_job_has_no_name(void **state)
{
    check_refused(state, "words", "no job 'words' (see paceline job list)");
    check_found(state, "job_01EE", 4);
}

static void names_of_the_server_cannot_steer_a_terminal(void **state)
{
    const struct candidates *all = *state;
    assert_string_equal(all->item[5].name, "a?[2J");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_id_a_name_and_their_beginnings_are_found),
        TEST(a_whole_name_precedes_a_longer_one),
        TEST(an_ambiguous_word_lists_its_candidates),
        TEST(an_unknown_word_names_the_nearest),
        TEST(a_part_of_a_job_has_no_name),
        TEST(names_of_the_server_cannot_steer_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
