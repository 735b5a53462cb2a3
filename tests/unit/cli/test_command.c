#include "cli/command.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "tests/support/test.h"
#include "tests/unit/net/serve.h"

#define ID "job_01JD6Z0A4B6C8D0E2F4G6H8J0K"
#define NEWS 20

/* A coordinator that tells what it was given to tell. Its answers are the examples of schema/. */
struct fixture {
    struct serve serve;
    struct buf running, ended, plan, device, problem, posted;
    _Atomic(const char *) end_state; /* of the second answer about the job */
    atomic_bool refuses;
    atomic_bool rubbish;
    atomic_int news;   /* this many answers about the running job precede its end */
    atomic_int gets;   /* of the job */
    atomic_int starts; /* of calls that carried an Idempotency-Key and the right type */
    char *out, *complaints;
    size_t out_size, complaints_size;
};

static void answer(struct http_exchange *exchange, int status, const char *type,
                   const struct buf *body)
{
    http_reply(exchange, status, type, body->data, body->size);
}

static void post_job(void *context, struct http_exchange *exchange)
{
    struct fixture *f = context;
    const char *key = http_header(exchange, "Idempotency-Key");
    const char *type = http_header(exchange, "Content-Type");
    f->starts += key && strlen(key) == 32 && type && strcmp(type, "application/json") == 0;
    size_t size = 0;
    const char *body = http_body(exchange, &size);
    buf_clear(&f->posted);
    ASSERT(buf_append(&f->posted, body, size, NULL) == 0);
    if (f->refuses) {
        answer(exchange, 422, "application/problem+json", &f->problem);
    } else {
        answer(exchange, 201, "application/json", &f->running);
    }
}

/* The running job in quick progress; after half of the news it recovers, then it runs as
 * generation 2. */
static void answer_news(struct http_exchange *exchange, struct fixture *f, const char *after)
{
    json_t *job = NULL;
    int left = f->news--;
    ASSERT(json_parse(f->running.data, f->running.size, &job, NULL) == 0);
    ASSERT(json_object_set_new(job, "revision",
                               json_integer(after ? strtoll(after, NULL, 10) + 1 : 1)) == 0);
    ASSERT(json_object_set_new(json_object_get(job, "progress"), "step", json_integer(90 - left)) ==
           0);
    ASSERT(json_object_set_new(job, "generation", json_integer(left > NEWS / 2 ? 1 : 2)) == 0);
    if (left <= NEWS / 2) {
        bool recovers = left == NEWS / 2;
        const char *message =
            recovers ? "prepares generation 2" : "runs generation 2; device 'a' was lost";
        ASSERT(json_object_set_new(job, "state",
                                   json_string(recovers ? "recovering" : "running")) == 0);
        ASSERT(json_object_set_new(job, "message", json_string(message)) == 0);
    }
    char *text = json_dumps(job, 0);
    ASSERT(text);
    http_reply(exchange, 200, "application/json", text, strlen(text));
    free(text);
    json_decref(job);
}

/* First the running job, then, once asked for news of revision 31, the ended one. */
static void get_job(void *context, struct http_exchange *exchange)
{
    struct fixture *f = context;
    const char *after = http_query(exchange, "after");
    const char *wait = http_query(exchange, "wait");
    f->gets++;
    if (f->rubbish) {
        http_reply(exchange, 200, "text/html", "<html>", 6);
    } else if (f->news > 0) {
        answer_news(exchange, f, after);
    } else if (!after) {
        answer(exchange, 200, "application/json", &f->running);
    } else {
        bool quick =
            strcmp(after, "31") != 0; /* progress that is not shown yet is not left for long */
        ASSERT(wait && strcmp(wait, quick ? "1" : "30") == 0);
        json_t *job = NULL;
        ASSERT(json_parse(f->ended.data, f->ended.size, &job, NULL) == 0);
        ASSERT(json_object_set_new(job, "state", json_string(f->end_state)) == 0);
        char *text = json_dumps(job, 0);
        ASSERT(text);
        http_reply(exchange, 200, "application/json", text, strlen(text));
        free(text);
        json_decref(job);
    }
}

static void get_plan(void *context, struct http_exchange *exchange)
{
    struct fixture *f = context;
    const char *generation = http_param(exchange, "generation");
    ASSERT(strcmp(generation, "1") == 0 || strcmp(generation, "2") == 0);
    answer(exchange, 200, "application/json", &f->plan);
}

/* The second device of the plan is one that was forgotten. */
static void get_device(void *context, struct http_exchange *exchange)
{
    struct fixture *f = context;
    if (strcmp(http_param(exchange, "id"), "dev_01JD6Y3K9T2V4W8X0Z1B5C7D9E") == 0) {
        answer(exchange, 200, "application/json", &f->device);
    } else {
        static const char text[] = "{\"code\":\"unknown_device\",\"detail\":\"no such device\"}";
        http_reply(exchange, 404, "application/problem+json", text, sizeof(text) - 1);
    }
}

static const struct http_route routes[] = {
    {.method = "POST", .pattern = "/v1/jobs", .handle = post_job, .body_max = 1 << 20},
    {.method = "GET", .pattern = "/v1/jobs/{id}", .handle = get_job},
    {.method = "GET", .pattern = "/v1/jobs/{id}/plans/{generation}", .handle = get_plan},
    {.method = "GET", .pattern = "/v1/devices/{id}", .handle = get_device},
};

static void load(struct buf *out, const char *name)
{
    struct err err = {0};
    char path[200];
    (void)snprintf(path, sizeof(path), "schema/examples/valid/%s", name);
    buf_init(out, 1 << 20);
    assert_ok(file_read(test_data_path(path).text, out, &err), &err);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    load(&f->running, "job.running.json");
    load(&f->ended, "job.succeeded.json");
    load(&f->plan, "plan.running.json");
    load(&f->device, "device.online.json");
    load(&f->problem, "problem.fields.json");
    buf_init(&f->posted, 1 << 20);
    f->end_state = "succeeded";
    struct http_server_config config = serve_config(routes, sizeof(routes) / sizeof(routes[0]), f);
    serve_start(&f->serve, &config);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    serve_stop(&f->serve);
    struct buf *bufs[] = {&f->running, &f->ended, &f->plan, &f->device, &f->problem, &f->posted};
    for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++) {
        buf_done(bufs[i]);
    }
    free(f->out);
    free(f->complaints);
    free(f);
    return 0;
}

/* Run `paceline WORD...` (NULL ends) against the server of the fixture; out NULL: into f->out. */
static int run(struct fixture *f, FILE *out, const char *const *words)
{
    char copy[8][512];
    char *argv[9] = {0};
    int argc = 1;
    (void)snprintf(copy[0], sizeof(copy[0]), "paceline");
    argv[0] = copy[0];
    for (; words[argc - 1]; argc++) {
        assert_true(argc < 8);
        (void)snprintf(copy[argc], sizeof(copy[argc]), "%s", words[argc - 1]);
        argv[argc] = copy[argc];
    }
    free(f->out);
    free(f->complaints);
    f->out = NULL;
    FILE *text = out ? NULL : open_memstream(&f->out, &f->out_size);
    FILE *complaints = open_memstream(&f->complaints, &f->complaints_size);
    assert_non_null(complaints);
    int status = command_run(argc, argv, f->serve.url, out ? out : text, complaints);
    if (text) {
        assert_int_equal(fclose(text), 0);
    }
    assert_int_equal(fclose(complaints), 0);
    return status;
}

#define RUN(f, ...) run((f), NULL, (const char *const[]){__VA_ARGS__, NULL})

static void a_job_is_submitted_from_a_file(void **state)
{
    struct fixture *f = *state;
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
    struct fixture *f = *state;
    struct test_path path = test_data_path("schema/examples/valid/job_spec.minimal.json");
    assert_int_equal(RUN(f, "job", "submit", "--wait", path.text), COMMAND_OK);
    assert_holds(f->out, ID "\nrunning  step 46/93");
    assert_holds(f->out, "\nsucceeded: ");
}

static void every_fault_of_a_refused_job_is_a_line(void **state)
{
    struct fixture *f = *state;
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
    struct fixture *f = *state;
    assert_int_equal(RUN(f, "job", "submit", "/nonexistent/job.json"), COMMAND_FAILED);
    assert_holds(f->complaints, "/nonexistent/job.json");
    assert_int_equal(RUN(f, "job", "submit", "/dev/null"), COMMAND_FAILED);
    assert_string_equal(f->complaints,
                        "paceline: /dev/null is empty; expected the description of a job\n");
    assert_int_equal(f->starts, 0);
}

static void get_writes_the_job_as_json(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(RUN(f, "job", "get", ID), COMMAND_OK);
    json_auto_t *printed = NULL;
    json_auto_t *expected = NULL;
    struct err err = {0};
    assert_ok(json_parse(f->out, f->out_size, &printed, &err), &err);
    assert_ok(json_parse(f->running.data, f->running.size, &expected, &err), &err);
    assert_true(json_equal(printed, expected));
}

static void watch_shows_who_does_what_until_the_end(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(RUN(f, "job", "watch", ID), COMMAND_OK);
    assert_holds(
        f->out,
        "running  step 46/93  ETA 0:03  loss 0.8200  512 samples/s  epoch 1  units kitchen 2/5, "
        "dev_01JD6Y3M0Q7R2S4T6V8W0X2Y4Z 3/5\nsucceeded: ");
    assert_int_equal(f->gets, 2);
}

static void a_job_that_did_not_succeed_is_a_status_of_its_own(void **state)
{
    struct fixture *f = *state;
    f->end_state = "failed";
    assert_int_equal(RUN(f, "job", "watch", ID), COMMAND_NOT_SUCCEEDED);
    assert_holds(f->out, "\nfailed");
    f->end_state = "cancelled";
    assert_int_equal(RUN(f, "job", "watch", ID), COMMAND_NOT_SUCCEEDED);
    assert_holds(f->out, "\ncancelled");
}

/* Progress is printed once a second, an event of the job at once. */
static void quick_progress_is_printed_at_most_once_a_second(void **state)
{
    struct fixture *f = *state;
    f->news = NEWS;
    assert_int_equal(RUN(f, "job", "watch", ID), COMMAND_OK);
    assert_int_equal(f->gets, NEWS + 1);
    assert_holds(f->out, "running  step 70/93  ETA 0:03");
    assert_holds(f->out, "\nrecovering  step 80/93");
    assert_holds(f->out, "\nrunning  step 81/93  (runs generation 2; device 'a' was lost)\nrunning "
                         " step 81/93  ETA");
    assert_holds(f->out, "\nsucceeded: ");
    size_t lines = 0;
    for (const char *at = f->out; (at = strchr(at, '\n')); at++) {
        lines++;
    }
    /* Five, and a few more on a machine that is busy for seconds. */
    assert_true(lines >= 5 && lines < NEWS);
}

static void on_a_terminal_the_progress_line_is_overwritten(void **state)
{
    struct fixture *f = *state;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    struct winsize window = {.ws_col = 31, .ws_row = 24};
    assert_int_equal(ioctl(master, TIOCSWINSZ, &window), 0);
    char name[100];
    assert_int_equal(ptsname_r(master, name, sizeof(name)), 0);
    int slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    FILE *out = fdopen(slave, "w");
    assert_non_null(out);
    assert_int_equal(run(f, out, (const char *const[]){"job", "watch", ID, NULL}), COMMAND_OK);
    /* What was written comes out of the terminal bit by bit. */
    char text[2000] = "";
    for (size_t used = 0; !strstr(text, "succeeded: ");) {
        struct pollfd ready = {.fd = master, .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 20000), 1);
        ssize_t size = read(master, text + used, sizeof(text) - 1 - used);
        assert_true(size > 0);
        used += (size_t)size;
        text[used] = '\0';
    }
    /* As much as fits 30 columns: the cursor needs one. */
    assert_holds(text, "\r\033[Krunning  step 46/93  ETA 0:03\r\033[Ksucceeded: ");
    fclose(out);
    close(master);
}

/* A coordinator that is stopped and started again: an answer, one that says so, two calls that are
 * cut off, the end. */
struct restart {
    int listener;
    json_t *job[5]; /* NULL: the connection is closed without an answer */
    atomic_int calls;
};

static void *serve_restart(void *arg)
{
    struct restart *restart = arg;
    for (size_t i = 0; i < sizeof(restart->job) / sizeof(restart->job[0]); i++) {
        int fd = accept4(restart->listener, NULL, NULL, SOCK_CLOEXEC);
        ASSERT(fd >= 0);
        char request[4000] = "";
        for (size_t used = 0; !strstr(request, "\r\n\r\n");) {
            ssize_t size = read(fd, request + used, sizeof(request) - 1 - used);
            ASSERT(size > 0);
            used += (size_t)size;
        }
        restart->calls++;
        if (restart->job[i]) {
            char *body = json_dumps(restart->job[i], 0);
            ASSERT(body);
            int status = json_object_get(restart->job[i], "code") ? 503 : 200;
            ASSERT(dprintf(fd,
                           "HTTP/1.1 %d -\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                           status, strlen(body), body) > 0);
            free(body);
        }
        close(fd);
    }
    return NULL;
}

static void a_watch_outlives_a_restart_of_the_coordinator(void **state)
{
    struct fixture *f = *state;
    struct restart restart = {.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    assert_int_equal(bind(restart.listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(restart.listener, 5), 0);
    assert_int_equal(getsockname(restart.listener, (struct sockaddr *)&address, &size), 0);
    struct err err = {0};
    assert_ok(json_parse(f->running.data, f->running.size, &restart.job[0], &err), &err);
    /* No plan yet: no calls about devices in between. */
    assert_int_equal(json_object_set_new(restart.job[0], "generation", json_integer(0)), 0);
    restart.job[1] = json_pack("{s:s,s:s}", "code", "stopping", "detail", "going down");
    assert_ok(json_parse(f->ended.data, f->ended.size, &restart.job[4], &err), &err);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, serve_restart, &restart), 0);

    char server[100];
    (void)snprintf(server, sizeof(server), "http://127.0.0.1:%d", ntohs(address.sin_port));
    assert_int_equal(RUN(f, "--server", server, "job", "watch", ID), COMMAND_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(restart.calls, 5);
    assert_holds(f->out, "running  step 46/93");
    assert_holds(f->out, "\nsucceeded: ");
    char expected[300];
    (void)snprintf(expected, sizeof(expected),
                   "paceline: %s does not answer; retrying for 5 minutes\npaceline: "
                   "%s answers again\n",
                   server, server);
    assert_string_equal(f->complaints, expected);
    close(restart.listener);
    for (size_t i = 0; i < sizeof(restart.job) / sizeof(restart.job[0]); i++) {
        json_decref(restart.job[i]);
    }
}

static void answers_that_no_coordinator_gives_are_reported(void **state)
{
    struct fixture *f = *state;
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
    struct fixture f = {0};
    struct http_server_config config = serve_config(routes, 1, &f);
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
    struct fixture *f = *state;
    static const char known[] = "there are job submit, job get, job watch";
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
    assert_int_equal(run(f, NULL, (const char *const[]){NULL}), COMMAND_USAGE);
    assert_holds(f->complaints, "no command given; ");
    assert_holds(f->complaints, known);
    assert_int_equal(RUN(f, "job", "get", ID, "--wait"), COMMAND_USAGE);
    assert_holds(f->complaints, "--wait goes with job submit only");
    assert_int_equal(RUN(f, "--sever", "x", "job", "get", ID), COMMAND_USAGE);
    assert_holds(f->complaints, "did you mean 'server'?");
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

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_is_submitted_from_a_file),
        TEST(submit_and_wait_ends_with_the_job),
        TEST(every_fault_of_a_refused_job_is_a_line),
        TEST(a_file_that_is_not_there_is_named),
        TEST(get_writes_the_job_as_json),
        TEST(watch_shows_who_does_what_until_the_end),
        TEST(a_job_that_did_not_succeed_is_a_status_of_its_own),
        TEST(quick_progress_is_printed_at_most_once_a_second),
        TEST(on_a_terminal_the_progress_line_is_overwritten),
        TEST(a_watch_outlives_a_restart_of_the_coordinator),
        TEST(answers_that_no_coordinator_gives_are_reported),
        cmocka_unit_test(an_unknown_route_is_reported_as_a_wrong_server),
        TEST(a_wrong_command_line_is_reported_before_any_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
