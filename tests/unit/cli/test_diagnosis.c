#include "cli/diagnosis.h"

#include <string.h>

#include "base/clock.h"
#include "tests/support/test.h"

#define VERSION "{\"version\": \"" PACELINE_VERSION "\"}"
#define DEVICE(name, state, version, more)                                                         \
    "{\"name\": \"" name "\", \"state\": \"" state "\", \"last_seen_at\": "                        \
    "\"2026-01-31T12:00:00Z\", \"inventory\": {\"agent_version\": \"" version "\"}" more "}"

static json_t *parsed(const char *text)
{
    json_t *value = NULL;
    struct err err = {0};
    assert_ok(json_parse(text, strlen(text), &value, &err), &err);
    return value;
}

static int64_t at(const char *time)
{
    int64_t ms = 0;
    assert_int_equal(clock_parse_rfc3339(time, &ms, NULL), 0);
    return ms;
}

/* The findings as "result check: message", a line each. */
static bool diagnose(const struct facts *facts, struct buf *out)
{
    json_auto_t *findings = NULL;
    bool failed = false;
    struct err err = {0};
    size_t index;
    json_t *item;
    buf_init(out, 1 << 16);
    assert_ok(diagnosis_make(facts, &findings, &failed, &err), &err);
    json_array_foreach(json_object_get(findings, "items"), index, item)
    {
        assert_ok(buf_printf(out, &err, "%s %s: %s\n",
                             json_string_value(json_object_get(item, "result")),
                             json_string_value(json_object_get(item, "check")),
                             json_string_value(json_object_get(item, "message"))),
                  &err);
    }
    return failed;
}

static void a_healthy_installation_has_one_finding_a_check(void **state)
{
    (void)state;
    json_auto_t *version = parsed(VERSION);
    json_auto_t *devices = parsed("[" DEVICE("a", "online", PACELINE_VERSION, "") "]");
    const struct facts facts = {.version = version,
                                .devices = devices,
                                .disk_free_bytes = 0x1p32,
                                .now_ms = at("2026-01-31T12:00:02Z")};
    BUF_AUTO struct buf text;
    assert_false(diagnose(&facts, &text));
    assert_string_equal(
        text.data, "ok versions: coordinator, agents and this program are " PACELINE_VERSION "\n"
                   "ok clocks: the coordinator and this machine agree\n"
                   "ok disk: 4.0 GiB are free on the coordinator\n"
                   "ok devices: 1 of 1 are online\n"
                   "ok pairs: no open incident of a link\n"
                   "ok jobs: none waits or is stalled\n");
}

static void every_trouble_is_named(void **state)
{
    (void)state;
    json_auto_t *version = parsed("{\"version\": \"9.9.9\"}");
    json_auto_t *devices = parsed("[" DEVICE(
        "a", "online", "0.0.1", ", \"cordoned\": true") "," DEVICE("b", "lost", "9.9.9", "") "]");
    json_auto_t *jobs = parsed("[{\"spec\": {\"name\": \"j\"}, \"state\": \"waiting_for_devices\","
                               "\"message\": \"2 devices; 1 is free\"},"
                               "{\"spec\": {\"name\": \"k\"}, \"stalled\": true,"
                               "\"message\": \"no step\"}]");
    json_auto_t *incidents = parsed("[{\"id\": \"inc_1\", \"state\": \"open\", \"cause\": \"link\","
                                    "\"devices\": [{\"name\": \"a\"}, {\"name\": \"b\"}]},"
                                    "{\"id\": \"inc_0\", \"state\": \"resolved\","
                                    "\"cause\": \"link\", \"devices\": []}]");
    const struct facts facts = {.version = version,
                                .devices = devices,
                                .jobs = jobs,
                                .incidents = incidents,
                                .disk_free_bytes = 0x1p27,
                                .now_ms = at("2026-01-31T12:10:00Z")};
    BUF_AUTO struct buf text;
    assert_true(diagnose(&facts, &text));
    assert_string_equal(
        text.data, "warning versions: the coordinator is 9.9.9, this program " PACELINE_VERSION "\n"
                   "warning versions: agents of another version than 9.9.9: a\n"
                   "warning clocks: the coordinator's clock is 600 s behind that of this machine; "
                   "set both by NTP\n"
                   "failed disk: 0.1 GiB are free on the coordinator\n"
                   "warning devices: a is cordoned: no plan uses it\n"
                   "warning devices: b is lost since 2026-01-31T12:00:00Z\n"
                   "ok devices: 1 of 2 are online\n"
                   "failed pairs: a, b do not reach each other (inc_1)\n"
                   "warning jobs: j waits: 2 devices; 1 is free\n"
                   "warning jobs: k is stalled: no step\n");
}

static void pairs_that_need_a_relay_are_named(void **state)
{
    (void)state;
    json_auto_t *version = parsed(VERSION);
    json_auto_t *devices = parsed("[" DEVICE(
        "a", "online", PACELINE_VERSION,
        ", \"id\": \"dev_a\", \"relayed\": "
        "[\"dev_b\", \"dev_gone\", 7]") "," DEVICE("b", "online", PACELINE_VERSION,
                                                   ", \"id\": \"dev_b\", \"relayed\": "
                                                   "[]") "," DEVICE("c", "lost", PACELINE_VERSION,
                                                                    ", \"relayed\": "
                                                                    "[\"dev_b\"]") "]");
    const struct facts facts = {.version = version,
                                .devices = devices,
                                .disk_free_bytes = 0x1p32,
                                .now_ms = at("2026-01-31T12:00:02Z")};
    BUF_AUTO struct buf text;
    assert_false(diagnose(&facts, &text));
    assert_holds(text.data, "warning relays: a reaches b, dev_gone through a relay only\n");
    assert_null(strstr(text.data, "relays: b"));
    assert_null(strstr(text.data, "relays: c"));
}

static void answers_that_say_nothing_are_no_fault_of_ours(void **state)
{
    (void)state;
    const struct facts facts = {.disk_free_bytes = -1};
    BUF_AUTO struct buf text;
    assert_true(diagnose(&facts, &text));
    assert_holds(text.data, "ok clocks: not known: no device is online\n");
    assert_holds(text.data, "warning disk: the coordinator does not say how much is free\n");
    assert_holds(text.data, "failed devices: 0 of 0 are online\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_installation_has_one_finding_a_check),
        cmocka_unit_test(every_trouble_is_named),
        cmocka_unit_test(pairs_that_need_a_relay_are_named),
        cmocka_unit_test(answers_that_say_nothing_are_no_fault_of_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
