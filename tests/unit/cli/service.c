#include "tests/unit/cli/service.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/command.h"
#include "tests/support/test.h"

static void answer(struct http_exchange *exchange, int status, const char *type,
                   const struct buf *body)
{
    http_reply(exchange, status, type, body->data, body->size);
}

static void post_job(void *context, struct http_exchange *exchange)
{
    struct service *f = context;
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
static void answer_news(struct http_exchange *exchange, struct service *f, const char *after)
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
    struct service *f = context;
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
        /* Progress that is not shown yet is not left for long. */
        bool quick = strcmp(after, "31") != 0 || f->live;
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

static void get_groups(void *context, struct http_exchange *exchange)
{
    struct service *f = context;
    answer(exchange, 200, "application/json", &f->groups);
}

static void get_plan(void *context, struct http_exchange *exchange)
{
    struct service *f = context;
    const char *generation = http_param(exchange, "generation");
    ASSERT(strcmp(generation, "1") == 0 || strcmp(generation, "2") == 0);
    answer(exchange, 200, "application/json", &f->plan);
}

/* The second device of the plan is one that was forgotten. */
static void get_device(void *context, struct http_exchange *exchange)
{
    struct service *f = context;
    if (strcmp(http_param(exchange, "id"), "dev_01JD6Y3K9T2V4W8X0Z1B5C7D9E") == 0) {
        answer(exchange, 200, "application/json", &f->device);
    } else {
        static const char text[] = "{\"code\":\"unknown_device\",\"detail\":\"no such device\"}";
        http_reply(exchange, 404, "application/problem+json", text, sizeof(text) - 1);
    }
}

/* Two pages of one device each. */
static void get_devices(void *context, struct http_exchange *exchange)
{
    struct service *f = context;
    const char *limit = http_query(exchange, "limit");
    const bool first = !http_query(exchange, "cursor");
    json_t *device = NULL;
    ASSERT(limit && strcmp(limit, "500") == 0);
    ASSERT(json_parse(f->device.data, f->device.size, &device, NULL) == 0);
    if (!first) {
        ASSERT(json_object_set_new(device, "name", json_string("attic")) == 0);
        ASSERT(json_object_set_new(device, "id", json_string(ATTIC)) == 0);
    }
    json_t *page = json_pack("{s:[o],s:s?}", "items", device, "next_cursor", first ? "next" : NULL);
    char *text = json_dumps(page, 0);
    ASSERT(text);
    http_reply(exchange, 200, "application/json", text, strlen(text));
    free(text);
    json_decref(page);
}

static void get_metrics(void *context, struct http_exchange *exchange)
{
    (void)context;
    static const char text[] =
        "{\"items\": [{\"step\": 1, \"name\": \"loss\", \"value\": 2.3},"
        "{\"step\": 2, \"name\": \"loss\", \"value\": 1.2}], \"next_cursor\": null}";
    http_reply(exchange, 200, "application/json", text, sizeof(text) - 1);
}

static void get_incidents(void *context, struct http_exchange *exchange)
{
    struct service *f = context;
    json_t *incident = NULL;
    ASSERT(json_parse(f->incident.data, f->incident.size, &incident, NULL) == 0);
    json_t *page = json_pack("{s:[o],s:n}", "items", incident, "next_cursor");
    char *text = json_dumps(page, 0);
    ASSERT(text);
    http_reply(exchange, 200, "application/json", text, strlen(text));
    free(text);
    json_decref(page);
}

const struct http_route service_routes[SERVICE_ROUTES] = {
    {.method = "POST", .pattern = "/v1/jobs", .handle = post_job, .body_max = 1 << 20},
    {.method = "GET", .pattern = "/v1/jobs/{id}", .handle = get_job},
    {.method = "GET", .pattern = "/v1/jobs/{id}/groups", .handle = get_groups},
    {.method = "GET", .pattern = "/v1/jobs/{id}/plans/{generation}", .handle = get_plan},
    {.method = "GET", .pattern = "/v1/devices/{id}", .handle = get_device},
    {.method = "GET", .pattern = "/v1/devices", .handle = get_devices},
    {.method = "GET", .pattern = "/v1/jobs/{id}/metrics", .handle = get_metrics},
    {.method = "GET", .pattern = "/v1/jobs/{id}/incidents", .handle = get_incidents},
};

static void load(struct buf *out, const char *name)
{
    struct err err = {0};
    char path[200];
    (void)snprintf(path, sizeof(path), "schema/examples/valid/%s", name);
    buf_init(out, 1 << 20);
    assert_ok(file_read(test_data_path(path).text, out, &err), &err);
}

int service_setup(void **state)
{
    struct service *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    load(&f->running, "job.running.json");
    load(&f->ended, "job.succeeded.json");
    load(&f->plan, "plan.running.json");
    load(&f->device, "device.online.json");
    load(&f->problem, "problem.fields.json");
    load(&f->groups, "groups.training.json");
    load(&f->incident, "incident.resolved.json");
    buf_init(&f->posted, 1 << 20);
    f->end_state = "succeeded";
    struct http_server_config config = serve_config(service_routes, SERVICE_ROUTES, f);
    serve_start(&f->serve, &config);
    *state = f;
    return 0;
}

int service_teardown(void **state)
{
    struct service *f = *state;
    serve_stop(&f->serve);
    struct buf *bufs[] = {&f->running, &f->ended,  &f->plan,     &f->device,
                          &f->problem, &f->groups, &f->incident, &f->posted};
    for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++) {
        buf_done(bufs[i]);
    }
    free(f->out);
    free(f->complaints);
    free(f);
    return 0;
}

int service_run(struct service *f, FILE *out, const char *const *words)
{
    char copy[12][512];
    char *argv[13] = {0};
    int argc = 1;
    (void)snprintf(copy[0], sizeof(copy[0]), "paceline");
    argv[0] = copy[0];
    for (; words[argc - 1]; argc++) {
        assert_true(argc < 12);
        (void)snprintf(copy[argc], sizeof(copy[argc]), "%s", words[argc - 1]);
        argv[argc] = copy[argc];
    }
    free(f->out);
    free(f->complaints);
    f->out = NULL;
    FILE *text = out ? NULL : open_memstream(&f->out, &f->out_size);
    FILE *complaints = open_memstream(&f->complaints, &f->complaints_size);
    assert_non_null(complaints);
    const struct environment environment = {.url = f->serve.url, .config = f->config};
    int status = (int)command_run(argc, argv, &environment, out ? out : text, complaints);
    if (text) {
        assert_int_equal(fclose(text), 0);
    }
    assert_int_equal(fclose(complaints), 0);
    return status;
}
