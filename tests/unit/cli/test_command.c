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
    assert_int_equal(RUN(f, "job", "submit", path.text), COMMAND_REFUSED);
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
    assert_string_equal(f->complaints, "paceline: /dev/null is empty; expected JSON\n");
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
    assert_int_equal(RUN(&f, "job", "get", ID), COMMAND_UNREACHABLE);
    assert_holds(f.complaints, "paceline: no coordinator answers at http://127.0.0.1:");
    assert_holds(f.complaints, "check that paceline-coordinator runs there");
    free(f.out);
    free(f.complaints);
}

static void a_wrong_command_line_is_reported_before_any_call(void **state)
{
    struct service *f = *state;
    static const struct {
        const char *words[6];
        const char *complaint;
    } lines[] = {
        {{"job", "get"}, "job get needs JOB (see paceline job get --help)"},
        {{"job", "get", ID, "more"}, "job get takes 1 argument; 'more' is too many"},
        {{"job", "fetch", ID}, "unknown command 'job fetch'; expected job and one of submit, list"},
        {{"job", "watsch", ID}, "unknown command 'job watsch'; did you mean 'job watch'?"},
        {{"job"}, "unknown command 'job'; expected job and one of submit, list"},
        {{"jbo", "get", ID}, "unknown command 'jbo'; did you mean 'job'?"},
        {{"quit"}, "unknown command 'quit' (see paceline --help)"},
        {{NULL}, "no command given (see paceline --help)"},
        {{"job", "get", ID, "--wait"}, "job get has no option --wait"},
        {{"job", "get", ID, "--format", "yaml"}, "--format: 'yaml' is unknown; expected one of: "},
        {{"job", "metrics", ID, "--since", "x"}, "--since: "},
        {{"--sever", "x", "job", "get", ID}, "did you mean 'server'?"},
        {{"job", "submit"}, "job submit needs FILE.json, or --model and --train"},
        {{"job", "submit", "--set", "batch"}, "--set: 'batch' is not FIELD=VALUE"},
        {{"job", "submit", "--set", "a..b=1"}, "--set: '.b' is not a field; expected a name"},
        {{"job", "replan", ID, "--cuts", "1,x"}, "--cuts: "},
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_int_equal(service_run(f, NULL, lines[i].words), COMMAND_USAGE);
        assert_holds(f->complaints, lines[i].complaint);
    }
    static const char *const servers[] = {"ftp://127.0.0.1", "http://", "127.0.0.1:7410",
                                          "http://a/b", "http://u@h"};
    for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
        assert_int_equal(RUN(f, "--server", servers[i], "job", "get", ID), COMMAND_FAILED);
        assert_holds(f->complaints, "is not a server");
    }
    assert_int_equal(f->gets, 0);
}

static void a_thing_that_is_not_listed_is_not_found(void **state)
{
    struct service *f = *state;
    assert_int_equal(RUN(f, "device", "drain", "kitchn"), COMMAND_NOT_FOUND);
    assert_string_equal(f->complaints, "paceline: no device 'kitchn'; did you mean 'kitchen'?\n");
    assert_int_equal(RUN(f, "device", "drain", "../devices"), COMMAND_NOT_FOUND);
    assert_holds(f->complaints, "no device '../devices' (see paceline device list)");
    assert_int_equal(RUN(f, "device", "get", ATTIC), COMMAND_NOT_FOUND);
    assert_string_equal(f->complaints, "paceline: no such device (unknown_device)\n");
}

static void a_name_or_a_beginning_stands_for_the_id(void **state)
{
    struct service *f = *state;
    static const char *const words[] = {"kitchen", "kit", "dev_01JD6Y3K", "01JD6Y3K", KITCHEN};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        assert_int_equal(RUN(f, "device", "get", words[i], "--quiet"), COMMAND_OK);
        assert_string_equal(f->out, KITCHEN "\n");
    }
    assert_int_equal(RUN(f, "device", "get", "kit", "--curl"), COMMAND_OK);
    assert_holds(f->out, "/v1/devices/" KITCHEN "\n");
}

static void a_list_is_a_table_of_all_pages(void **state)
{
    struct service *f = *state;
    assert_int_equal(RUN(f, "device", "list"), COMMAND_OK);
    assert_holds(f->out, "ID                              NAME     STATE   GFLOPS  FREE     JOB  ");
    assert_holds(f->out, "\n" KITCHEN "  kitchen  online  48.5    6.0 GiB  job_");
    assert_holds(f->out, "\n" ATTIC "  attic    online");
    assert_int_equal(RUN(f, "device", "list", "-q"), COMMAND_OK);
    assert_string_equal(f->out, KITCHEN "\n" ATTIC "\n");
    assert_int_equal(RUN(f, "device", "list", "--format", "json"), COMMAND_OK);
    json_auto_t *all = NULL;
    struct err err = {0};
    assert_ok(json_parse(f->out, f->out_size, &all, &err), &err);
    assert_int_equal(json_array_size(json_object_get(all, "items")), 2);
    assert_true(json_is_null(json_object_get(all, "next_cursor")));
}

static void one_object_is_a_line_for_each_value(void **state)
{
    struct service *f = *state;
    assert_int_equal(RUN(f, "job", "get", ID, "--format", "table"), COMMAND_OK);
    assert_holds(f->out, "ID          " ID "\nNAME        fashion\nMODEL       lenet5\n");
    assert_holds(f->out, "\nSTATE       running\nSTEP        46/93\n");
}

static void help_names_every_command_and_its_options(void **state)
{
    struct service *f = *state;
    assert_int_equal(RUN(f, "--help"), COMMAND_OK);
    for (size_t i = 0; i < command_count; i++) {
        assert_holds(f->out, commands[i].help);
    }
    assert_int_equal(RUN(f, "job", "cancel", "--help"), COMMAND_OK);
    assert_holds(f->out, "Usage: paceline job cancel JOB [OPTION...]\n\nEnd a job.\n");
    assert_holds(f->out, "  --keep ");
    assert_int_equal(RUN(f, "device", "-h"), COMMAND_OK);
    assert_holds(f->out, "device drain DEVICE");
    assert_null(strstr(f->out, "job cancel"));
    assert_int_equal(RUN(f, "jbo", "--help"), COMMAND_USAGE);
    assert_int_equal(RUN(f, "--version"), COMMAND_OK);
    assert_string_equal(f->out, "paceline " PACELINE_VERSION "\n");
}

static void fields_of_options_join_those_of_the_file(void **state)
{
    struct service *f = *state;
    struct test_path path = test_data_path("schema/examples/valid/job_spec.minimal.json");
    assert_int_equal(RUN(f, "job", "submit", path.text, "--epochs", "3", "--set",
                         "optimizer.type=adamw", "--set"),
                     COMMAND_USAGE);
    assert_int_equal(
        RUN(f, "job", "submit", path.text, "--epochs", "3", "--set=optimizer.type=adamw"),
        COMMAND_OK);
    assert_holds(f->posted.data, "\"epochs\":3");
    assert_holds(f->posted.data, "\"optimizer\":{\"type\":\"adamw\"}");
    assert_holds(f->posted.data, "\"dataset\":");
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
        TEST(a_thing_that_is_not_listed_is_not_found),
        TEST(a_name_or_a_beginning_stands_for_the_id),
        TEST(a_list_is_a_table_of_all_pages),
        TEST(one_object_is_a_line_for_each_value),
        TEST(help_names_every_command_and_its_options),
        TEST(fields_of_options_join_those_of_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
