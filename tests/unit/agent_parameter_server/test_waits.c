/* A sender that waits for sums of its own member takes no processor meanwhile. */
#include <stdlib.h>

#include "agent/runtime/thread.h"
#include "base/clock.h"
#include "tests/support/test.h"
#include "tests/unit/agent_parameter_server/party.h"

#define WAITS 3

int64_t __wrap_clock_now_ms(void);
int __wrap_thread_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t wait_ns);

static struct member *member;
static int64_t now_ms, shortest_ms;
static size_t waits;

int64_t __wrap_clock_now_ms(void)
{
    return now_ms;
}

/* The time passes, and nothing is signalled; at last the member is cancelled. */
int __wrap_thread_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t wait_ns)
{
    const int64_t wait_ms = wait_ns / NS_PER_MS;
    (void)condition;
    (void)lock;
    shortest_ms = wait_ms < shortest_ms ? wait_ms : shortest_ms;
    now_ms += wait_ms;
    if (++waits == WAITS) {
        keeper_cancel(member_work(member)->keeper);
    }
    return 0;
}

/* Layer 0 is none of the message. */
static void sums_that_do_not_come_are_looked_for_seldom(void **state)
{
    (void)state;
    struct assignment_run *run = party_run(1, 20000);
    const struct exchange_message message = party_sum(1, 1, 1, PARTY_LAYERS);
    shortest_ms = INT64_MAX;
    member = party_member(run, -1);
    assert_int_equal(member_wait_sums(member, &message, 0), MEMBER_SUMS_UNWANTED);
    assert_int_equal(waits, WAITS);
    assert_true(shortest_ms >= 1000);
    member_free(member_work(member));
    free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_that_do_not_come_are_looked_for_seldom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
