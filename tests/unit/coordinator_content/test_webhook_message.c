#include "coordinator/content/webhook_message.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"

#define NOW_MS 1800000000000ll

static struct public_event event_of(const char *type, const char *parent, int64_t created_ms)
{
    struct public_event event = {.created_ms = created_ms};
    (void)snprintf(event.type, sizeof(event.type), "%s", type);
    (void)snprintf(event.of.parent.text, sizeof(event.of.parent.text), "%s", parent);
    return event;
}

static void ends_incidents_and_losses_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *type, *parent;
        int64_t age_ms;
        bool wanted;
    } cases[] = {
        {"job_succeeded", "", 0, true},
        {"job_failed", "", 0, true},
        {"job_cancelled", "", 1000, true},
        {"job_running", "", 0, false},
        {"job_succeeded", "job_1", 0, false},
        {"incident_opened", "", 0, true},
        {"incident_resolved", "job_1", 0, true},
        {"incident_abandoned", "", 0, true},
        {"device_lost", "", 0, true},
        {"device_suspect", "", 0, false},
        {"job_failed", "", WEBHOOK_EVENT_AGE_MS, true},
        {"job_failed", "", WEBHOOK_EVENT_AGE_MS + 1, false},
        {"job_failed", "", -5000, true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct public_event event =
            event_of(cases[i].type, cases[i].parent, NOW_MS - cases[i].age_ms);
        if (webhook_wants(&event, NOW_MS) != cases[i].wanted) {
            fail_msg("case %zu: %s", i, cases[i].type);
        }
    }
}

/* The example of the documentation of Standard Webhooks, and one of Python's hmac module. */
static void signatures_agree_with_the_published_example(void **state)
{
    (void)state;
    struct webhook_key key;
    struct webhook_headers headers;
    struct err err = {0};
    const char *body = "{\"test\": 2432232314}";
    assert_ok(webhook_key_read("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", &key, &err), &err);
    assert_int_equal(key.size, 24);
    assert_ok(webhook_sign(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330999, body, strlen(body),
                           &headers, &err),
              &err);
    assert_string_equal(headers.id, "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek");
    assert_string_equal(headers.timestamp, "webhook-timestamp: 1614265330");
    assert_string_equal(headers.signature,
                        "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    assert_ok(webhook_key_read("0123456789abcdef", &key, &err), &err);
    assert_ok(webhook_sign(&key, "evt_1", 1000, "{}", 2, &headers, &err), &err);
    assert_string_equal(headers.signature,
                        "webhook-signature: v1,V0jPmtuejIWr8qyx6lo3eYrARSK/iZOem7/crXHq2Ms=");
}

static void a_secret_that_is_not_base64_is_rejected(void **state)
{
    (void)state;
    struct webhook_key key;
    static const char *const secrets[] = {"whsec_", "whsec_abc", "whsec_ab=c",
                                          "whsec_a===", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS!"};
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
        struct err err = {0};
        assert_int_equal(webhook_key_read(secrets[i], &key, &err), ERR_INVALID);
        assert_holds(err.text, "whsec_");
    }
}

static void each_answer_has_its_verdict(void **state)
{
    (void)state;
    static const struct {
        int status;
        enum webhook_verdict verdict;
    } cases[] = {
        {200, WEBHOOK_DELIVERED}, {204, WEBHOOK_DELIVERED}, {0, WEBHOOK_AGAIN},
        {408, WEBHOOK_AGAIN},     {425, WEBHOOK_AGAIN},     {429, WEBHOOK_AGAIN},
        {500, WEBHOOK_AGAIN},     {503, WEBHOOK_AGAIN},     {301, WEBHOOK_AGAIN},
        {401, WEBHOOK_AGAIN},     {403, WEBHOOK_AGAIN},     {404, WEBHOOK_AGAIN},
        {405, WEBHOOK_AGAIN},     {400, WEBHOOK_REFUSED},   {410, WEBHOOK_REFUSED},
        {413, WEBHOOK_REFUSED},   {415, WEBHOOK_REFUSED},   {422, WEBHOOK_REFUSED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t delay_ms;
        assert_int_equal(webhook_judge(cases[i].status, 1, 0, &delay_ms), cases[i].verdict);
        assert_int_equal(delay_ms, cases[i].verdict == WEBHOOK_AGAIN ? 1000 : 0);
    }
}

static void delays_double_up_to_five_minutes_and_end(void **state)
{
    (void)state;
    int64_t delay_ms;
    int64_t sum_ms = 0;
    int64_t last_ms = 500;
    int attempt = 1;
    while (webhook_judge(503, attempt, 0, &delay_ms) == WEBHOOK_AGAIN) {
        assert_true(delay_ms == 2 * last_ms || delay_ms == 300000);
        last_ms = delay_ms;
        sum_ms += delay_ms;
        attempt++;
    }
    assert_int_equal(attempt, WEBHOOK_ATTEMPTS_MAX);
    assert_int_equal(webhook_judge(503, attempt, 0, &delay_ms), WEBHOOK_GIVEN_UP);
    assert_in_range(sum_ms, 4 * 3600000, 5 * 3600000);
    assert_int_equal(webhook_judge(429, 1, 7000, &delay_ms), WEBHOOK_AGAIN);
    assert_int_equal(delay_ms, 7000);
    assert_int_equal(webhook_judge(429, 1, INT64_MAX, &delay_ms), WEBHOOK_AGAIN);
    assert_int_equal(delay_ms, 300000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_incidents_and_losses_are_told),
        cmocka_unit_test(signatures_agree_with_the_published_example),
        cmocka_unit_test(a_secret_that_is_not_base64_is_rejected),
        cmocka_unit_test(each_answer_has_its_verdict),
        cmocka_unit_test(delays_double_up_to_five_minutes_and_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
