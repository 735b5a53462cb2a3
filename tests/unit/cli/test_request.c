#include "cli/request.h"

#include <string.h>

#include "base/json.h"
#include "tests/support/test.h"

#define ID "job_01JD6Z0A4B6C8D0E2F4G6H8J0K"
#define WORDS_MAX 16

/* Build the request of a command line whose names are ids. */
struct built {
    struct invocation call;
    struct request request;
    struct buf curl;
    char *argv[WORDS_MAX];
};

static void built_done(struct built *built)
{
    request_done(&built->request);
    invocation_done(&built->call);
    buf_done(&built->curl);
}

static void build(struct built *built, const char *base, const char *const *words)
{
    struct err err = {0};
    int argc = 1;
    built->argv[0] = (char *)(uintptr_t) "paceline";
    for (; words[argc - 1]; argc++) {
        built->argv[argc] = (char *)(uintptr_t)words[argc - 1];
    }
    assert_ok(invocation_read(argc, built->argv, &built->call, &err), &err);
    assert_ok(request_build(&built->call, base, strlen(base), &built->request, &err), &err);
    buf_init(&built->curl, 1 << 16);
    const struct request_target target = {.server = "http://h:1", .ca = ""};
    assert_ok(request_curl(&built->request, &built->call, &target, &built->curl, &err), &err);
}

#define BUILD(built, base, ...) build((built), (base), (const char *const[]){__VA_ARGS__, NULL})

static void options_become_fields_and_parameters(void **state)
{
    (void)state;
    AUTO(built_done) struct built replan = {0};
    BUILD(&replan, "", "job", "replan", ID, "--cuts", "1,3", "--devices", "dev_a,dev_b");
    assert_string_equal(replan.request.target, "/v1/jobs/" ID "/replan");
    assert_string_equal(replan.request.fields.data,
                        "{\"cuts\":[1,3],\"devices\":[\"dev_a\",\"dev_b\"]}");
    AUTO(built_done) struct built servers = {0};
    BUILD(&servers, "", "job", "replan", ID, "--servers", "2", "--share-ends", "0,3,4");
    assert_string_equal(servers.request.fields.data, "{\"servers\":2,\"share_ends\":[0,3,4]}");
    AUTO(built_done) struct built cancel = {0};
    BUILD(&cancel, "", "job", "cancel", ID, "--keep");
    assert_string_equal(cancel.request.target, "/v1/jobs/" ID "/cancel?keep=true");
    assert_int_equal(cancel.request.fields.size, 0);
    AUTO(built_done) struct built metrics = {0};
    BUILD(&metrics, "", "job", "metrics", ID, "--metric", "loss", "--since", "7");
    assert_string_equal(metrics.request.target,
                        "/v1/jobs/" ID "/metrics?limit=500&name=loss&since=7");
}

static void joining_becomes_a_token_request(void **state)
{
    (void)state;
    AUTO(built_done) struct built join = {0};
    BUILD(&join, "", "token", "create", "--join", "--uses", "5", "--expires", "1d");
    assert_string_equal(join.request.target, "/v1/tokens");
    assert_string_equal(join.request.fields.data,
                        "{\"role\":\"join\",\"uses\":5,\"expires_seconds\":86400}");
    AUTO(built_done) struct built named = {0};
    BUILD(&named, "", "token", "create", "boards", "--join", "--pending");
    assert_string_equal(named.request.fields.data,
                        "{\"name\":\"boards\",\"role\":\"join\",\"pending\":true}");
    AUTO(built_done) struct built rekey = {0};
    BUILD(&rekey, "", "device", "rekey", "dev_a");
    assert_string_equal(rekey.request.target, "/v1/tokens");
    assert_string_equal(rekey.request.fields.data, "{\"device\":\"dev_a\",\"role\":\"join\"}");
    AUTO(built_done) struct built renamed = {0};
    BUILD(&renamed, "", "device", "rename", "dev_a", "kitchen");
    assert_string_equal(renamed.request.method, "PATCH");
    assert_string_equal(renamed.request.target, "/v1/devices/dev_a");
    assert_string_equal(renamed.request.fields.data, "{\"name\":\"kitchen\"}");
}

static void names_are_encoded_in_the_url(void **state)
{
    (void)state;
    AUTO(built_done) struct built put = {0};
    BUILD(&put, "", "dataset", "put", "a/b c?", "x.tar", "--size", "32x32");
    assert_string_equal(put.request.target, "/v1/datasets/a%2Fb%20c%3F?size=32x32");
    AUTO(built_done) struct built get = {0};
    BUILD(&get, "", "dataset", "get", "d", "-o", "d.safetensors");
    assert_string_equal(get.request.target, "/v1/datasets/d/content");
}

static void a_file_is_sent_as_it_stands_unless_options_change_it(void **state)
{
    (void)state;
    static const char job[] = "{ \"model\": {\"name\": \"mlp\"}, \"batch\": 8 }";
    AUTO(built_done) struct built plain = {0};
    BUILD(&plain, job, "job", "submit", "job.json", "--wait");
    assert_string_equal(plain.request.fields.data, job);
    AUTO(built_done) struct built changed = {0};
    BUILD(&changed, job, "job", "submit", "job.json", "--model", "lenet5", "--batch=16", "--set",
          "optimizer.type=adamw", "--set", "devices={\"max\":2}", "--set", "replan.first=0");
    assert_string_equal(changed.request.fields.data,
                        "{\"model\":{\"name\":\"lenet5\"},\"batch\":16,"
                        "\"optimizer\":{\"type\":\"adamw\"},\"devices\":{\"max\":2},"
                        "\"replan\":{\"first\":0},\"name\":\"lenet5\"}");
}

static void a_job_without_a_name_is_called_like_its_model(void **state)
{
    (void)state;
    AUTO(built_done) struct built model = {0};
    BUILD(&model, "", "job", "submit", "--model", "lenet5");
    assert_string_equal(model.request.fields.data,
                        "{\"model\":{\"name\":\"lenet5\"},\"name\":\"lenet5\"}");
    AUTO(built_done) struct built option = {0};
    BUILD(&option, "", "job", "submit", "--model", "lenet5", "--name", "first");
    assert_string_equal(option.request.fields.data,
                        "{\"name\":\"first\",\"model\":{\"name\":\"lenet5\"}}");
    AUTO(built_done) struct built file = {0};
    BUILD(&file, "{\"name\":\"mine\"}", "job", "submit", "job.json", "--model", "lenet5");
    assert_string_equal(file.request.fields.data,
                        "{\"name\":\"mine\",\"model\":{\"name\":\"lenet5\"}}");
    AUTO(built_done) struct built odd = {0};
    BUILD(&odd, "", "job", "submit", "--model", "lenet5", "--set", "model.name=7");
    assert_string_equal(odd.request.fields.data, "{\"model\":{\"name\":7}}");
}

static void curl_quotes_what_a_shell_would_change(void **state)
{
    (void)state;
    AUTO(built_done) struct built submit = {0};
    BUILD(&submit, "{}", "job", "submit", "--name", "it's $HOME");
    assert_string_equal(submit.curl.data,
                        "curl -sS --fail-with-body -H 'Content-Type: application/json' "
                        "--data-binary '{\"name\":\"it'\\''s $HOME\"}' http://h:1/v1/jobs\n");
    AUTO(built_done) struct built file = {0};
    BUILD(&file, "{}", "job", "submit", "my job.json", "--dry-run");
    assert_string_equal(file.curl.data,
                        "curl -sS --fail-with-body -H 'Content-Type: application/json' "
                        "--data-binary '@my job.json' 'http://h:1/v1/jobs?dry_run=true'\n");
    AUTO(built_done) struct built pause = {0};
    BUILD(&pause, "", "job", "pause", ID);
    assert_string_equal(pause.curl.data,
                        "curl -sS --fail-with-body -X POST http://h:1/v1/jobs/" ID "/pause\n");
    AUTO(built_done) struct built put = {0};
    BUILD(&put, "", "checkpoint", "put", "m.safetensors");
    assert_string_equal(put.curl.data,
                        "curl -sS --fail-with-body -X POST -H 'Content-Type: "
                        "application/octet-stream' -T m.safetensors http://h:1/v1/checkpoints\n");
    AUTO(built_done) struct built events = {0};
    BUILD(&events, "", "events", "--after", "evt_1", "--job", ID);
    assert_string_equal(events.curl.data, "curl -sS --fail-with-body -N -H 'Last-Event-ID: evt_1' "
                                          "'http://h:1/v1/events?job=" ID "'\n");
}

static void a_token_is_named_but_never_written(void **state)
{
    (void)state;
    AUTO(built_done) struct built list = {0};
    struct err err = {0};
    BUILD(&list, "", "job", "list");
    buf_clear(&list.curl);
    const struct request_target target = {
        .server = "https://h:1", .with_token = true, .ca = "/my ca.pem"};
    assert_ok(request_curl(&list.request, &list.call, &target, &list.curl, &err), &err);
    assert_string_equal(list.curl.data,
                        "curl -sS --fail-with-body -H \"Authorization: Bearer $PACELINE_TOKEN\" "
                        "--cacert '/my ca.pem' 'https://h:1/v1/jobs?limit=500'\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_become_fields_and_parameters),
        cmocka_unit_test(joining_becomes_a_token_request),
        cmocka_unit_test(names_are_encoded_in_the_url),
        cmocka_unit_test(a_file_is_sent_as_it_stands_unless_options_change_it),
        cmocka_unit_test(a_job_without_a_name_is_called_like_its_model),
        cmocka_unit_test(curl_quotes_what_a_shell_would_change),
        cmocka_unit_test(a_token_is_named_but_never_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
