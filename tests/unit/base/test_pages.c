#include "base/pages.h"

#include <sanitizer/asan_interface.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

static void a_block_is_zeroed_aligned_and_writable_to_its_end(void **state)
{
    (void)state;
    static const size_t size[] = {0, 1, 63, 64, 65, 4031, 4032, 4033, 4096, 1 << 20};
    for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
        unsigned char *pages = pages_new(1, size[i]);
        assert_non_null(pages);
        assert_int_equal((uintptr_t)pages % PAGES_ALIGNMENT, 0);
        for (size_t j = 0; j < size[i]; j++) {
            assert_int_equal(pages[j], 0);
        }
        memset(pages, 0xff, size[i]);
        pages_free(pages);
        /* The same addresses are free again, for a block with another beginning and end. */
        pages = pages_new(1, 4096);
        assert_non_null(pages);
        memset(pages, 0xff, 4096);
        pages_free(pages);
    }
    pages_free(NULL);
}

static void an_access_past_the_end_faults(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        volatile char *pages = pages_new(100, 64);
        pages[100 * 64] = 1;
        _exit(0);
    }
    assert_true(child > 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void address_sanitizer_reports_accesses_outside_of_a_block(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    char *pages = pages_new(3, 7);
    assert_int_equal(__asan_address_is_poisoned(pages - 1), 1);
    assert_int_equal(__asan_address_is_poisoned(pages), 0);
    assert_int_equal(__asan_address_is_poisoned(pages + 20), 0);
    assert_int_equal(__asan_address_is_poisoned(pages + 21), 1);
    assert_int_equal(__asan_address_is_poisoned(pages + PAGES_ALIGNMENT - 1), 1);
    pages_free(pages);
#else
    test_skip("only AddressSanitizer reports them");
#endif
}

static void sizes_that_do_not_fit_are_out_of_memory(void **state)
{
    (void)state;
    assert_null(pages_new(SIZE_MAX, 2));
    assert_null(pages_new(1, SIZE_MAX));
    assert_null(pages_new(1, SIZE_MAX - 4096));
    assert_null(pages_new(1, SIZE_MAX / 2));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_zeroed_aligned_and_writable_to_its_end),
        cmocka_unit_test(an_access_past_the_end_faults),
        cmocka_unit_test(address_sanitizer_reports_accesses_outside_of_a_block),
        cmocka_unit_test(sizes_that_do_not_fit_are_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
