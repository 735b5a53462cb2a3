#include "cli/command.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/support/test.h"
#include "tests/unit/cli/service.h"

static void a_job_is_submitted_from_a_file(void **state)
{
    struct service *f = *state;
    struct test_path path = test_data_path("schema/examples/valid/job_spec.minimal.json");
    assert_int_equal(RUN(f, "job", "submit", path.text), COMMAND_OK);
    assert_string_equal(f->out, ID "\n");
    assert_string_equal(f->complaints, "");
    assert_int_equal(f->starts, 1);
    BUF_AUTO struct buf file;
    buf_init(&file, 1 << 20);
    struct err err = {0};
    assert_ok(file_read(path.text, &file, &err), &err);
    assert_string_equal(f->posted.data, file.data);
    assert_int_equal(f->gets, 0);
}

static void submit_and_wait_ends_with_the_job(void **state)
{
    struct service *f = *state;
    struct test_path path = test_data_path("schema/examples/valid/job_spec.minimal.json");
    assert_int_equal(RUN(f, "job", "submit", "--wait", path.text), COMMAND_OK);
    assert_holds(f->out, ID "\nrunning  step 46/93");
    assert_holds(f->out, "\nsucceeded: ");
}

static void every_fault_of_a_refused_job_is_a_line(void **state)
{
    struct service *f = *state;
    f->refuses = true;
    struct test_path path = test_data_path("schema/examples/valid/job_spec.minimal.json");
    assert_int_equal(RUN(f, "job", "submit", path.text), COMMAND_FAILED);
    assert_string_equal(f->out, "");
    char expected[TEST_PATH_MAX + 200];
    (void)snprintf(expected, sizeof(expected),
                   "paceline: %s: /optimizer/momentun: unknown field; did you mean 'momentum'?\n",
                   path.text);
    assert_string_equal(f->complaints, expected);
}

static void a_file_that_is_not_there_is_named(void **state)
{
    struct service *f = *state;
    assert_int_equal(RUN(f, "job", "submit", "/nonexistent/job.json"), COMMAND_FAILED);
    assert_holds(f->complaints, "/nonexistent/job.json");
    assert_int_equal(RUN(f, "job", "submit", "/dev/null"), COMMAND_FAILED);
    assert_string_equal(f->complaints,
                        "paceline: /dev/null is empty; expected the description of a job\n");
    assert_int_equal(f->starts, 0);
}

static void get_writes_the_job_as_json(void **state)
{
    struct service *f = *state;
    assert_int_equal(RUN(f, "job", "get", ID), COMMAND_OK);
    json_auto_t *printed = NULL;
    json_auto_t *expected = NULL;
    struct err err = {0};
    assert_ok(json_parse(f->out, f->out_size, &printed, &err), &err);
    assert_ok(json_parse(f->running.data, f->running.size, &expected, &err), &err);
    assert_true(json_equal(printed, expected));
}

static void groups_writes_a_line_for_each_part(void **state)
{
    struct service *f = *state;
    assert_int_equal(RUN(f, "job", "groups", ID), COMMAND_OK);
    static const char *const lines[] = {
        "phase groups\nstem      running  step 46/93",
        "\ngroup 0   classes 0-4  width 0.500  running  step 46/93  ETA 0:03  loss 0.8200  ",
        "  units kitchen 2/5, dev_",
        "\ngroup 1   classes 5-9  width 0.500  waiting\njoint     waiting\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_holds(f->out, lines[i]);
    }
    assert_int_equal(f->gets, 2); /* the parts that have a job */
}

static void answers_that_no_coordinator_gives_are_reported(void **state)
{
    struct service *f = *state;
    f->rubbish = true;
    assert_int_equal(RUN(f, "job", "get", ID), COMMAND_FAILED);
    assert_holds(f->complaints, "is not JSON");
    assert_int_equal(RUN(f, "job", "watch", ID), COMMAND_FAILED);
    assert_holds(f->complaints, "answered a job that this version does not understand");
    /* A plain 404, as any web server would answer. */
    char server[100];
    (void)snprintf(server, sizeof(server), "%s/elsewhere", f->serve.url);
    assert_int_equal(RUN(f, "--server", server, "job", "get", ID), COMMAND_FAILED);
    assert_holds(f->complaints, "is not a server; expected a URL such as http://127.0.0.1:7410");
}

static void an_unknown_route_is_reported_as_a_wrong_server(void **state)
{
    (void)state;
    struct service f = {0};
    struct http_server_config config = serve_config(service_routes, 1, &f);
    serve_start(&f.serve, &config);
    assert_int_equal(RUN(&f, "job", "get", ID), COMMAND_FAILED);
    assert_holds(f.complaints, "answered 404 without a reason; is it a Paceline coordinator?");
    serve_stop(&f.serve);
    /* After it has stopped the connection is refused. */
    assert_int_equal(RUN(&f, "job", "get", ID), COMMAND_FAILED);
    assert_holds(f.complaints, "paceline: no coordinator answers at http://127.0.0.1:");
    assert_holds(f.complaints, "check that paceline-coordinator runs there");
    free(f.out);
    free(f.complaints);
}

static void a_wrong_command_line_is_reported_before_any_call(void **state)
{
    struct service *f = *state;
    static const char known[] =
        "expected job submit, job get, job groups, job watch, device drain, device undrain";
    assert_int_equal(RUN(f, "job", "get"), COMMAND_USAGE);
    assert_holds(f->complaints, "job get needs one argument: ID");
    assert_int_equal(RUN(f, "job", "get", ID, "more"), COMMAND_USAGE);
    assert_holds(f->complaints, "job get takes one argument, ID; 'more' is too many");
    assert_int_equal(RUN(f, "job", "fetch", ID), COMMAND_USAGE);
    assert_holds(f->complaints, "unknown command 'job fetch'; ");
    assert_holds(f->complaints, known);
    assert_int_equal(RUN(f, "job"), COMMAND_USAGE);
    assert_holds(f->complaints, "unknown command 'job'; ");
    assert_holds(f->complaints, known);
    assert_int_equal(service_run(f, NULL, (const char *const[]){NULL}), COMMAND_USAGE);
    assert_holds(f->complaints, "no command given; ");
    assert_holds(f->complaints, known);
    assert_int_equal(RUN(f, "job", "get", ID, "--wait"), COMMAND_USAGE);
    assert_holds(f->complaints, "--wait goes with job submit only");
    assert_int_equal(RUN(f, "--sever", "x", "job", "get", ID), COMMAND_USAGE);
    assert_holds(f->complaints, "did you mean 'server'?");
    assert_int_equal(RUN(f, "device", "drain", ID), COMMAND_FAILED);
    assert_holds(f->complaints, "is not the id of a device; expected dev_ and 26 characters");
    assert_int_equal(RUN(f, "job", "get", "../devices"), COMMAND_FAILED);
    assert_holds(f->complaints, "'../devices' is not the id of a job");
    static const char *const servers[] = {"ftp://127.0.0.1", "http://", "127.0.0.1:7410",
                                          "http://a/b", "http://u@h"};
    for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
        assert_int_equal(RUN(f, "--server", servers[i], "job", "get", ID), COMMAND_FAILED);
        assert_holds(f->complaints, "is not a server");
    }
    assert_int_equal(f->gets, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, service_setup, service_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_is_submitted_from_a_file),
        TEST(submit_and_wait_ends_with_the_job),
        TEST(every_fault_of_a_refused_job_is_a_line),
        TEST(a_file_that_is_not_there_is_named),
        TEST(get_writes_the_job_as_json),
        TEST(groups_writes_a_line_for_each_part),
        TEST(answers_that_no_coordinator_gives_are_reported),
        cmocka_unit_test(an_unknown_route_is_reported_as_a_wrong_server),
        TEST(a_wrong_command_line_is_reported_before_any_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
