#include "agent/runtime/cgroup.h"

#include <string.h>

#include "base/file.h"
#include "tests/support/test.h"

/* A group below `root` with its limit, usage and memory.stat. */
static void put(const char *root, const char *group, const char *const names[3],
                const char *const texts[3])
{
    struct err err = {0};
    const struct test_path directory = test_path_in(root, group);
    assert_ok(file_make_directory(directory.text, 0700, &err), &err);
    for (size_t i = 0; i < 3; i++) {
        const struct test_path path = test_path_in(directory.text, names[i]);
        assert_ok(file_write_atomic(path.text, texts[i], strlen(texts[i]), 0600, &err), &err);
    }
}

static const char *const old_names[3] = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                         "memory.stat"};
static const char *const new_names[3] = {"memory.max", "memory.current", "memory.stat"};

#define TEXTS(limit, used, stat) ((const char *const[]){limit "\n", used "\n", stat "\n"})

static void the_limit_of_a_group_is_found_in_both_versions(void **state)
{
    put(*state, "memory/board", old_names, TEXTS("1000", "300", "total_inactive_file 0"));
    put(*state, "unit.slice/board", new_names, TEXTS("2000", "500", "inactive_file 0"));
    assert_int_equal(cgroup_free_memory("5:cpu:/x\n4:memory:/board\n", *state), 700);
    assert_int_equal(cgroup_free_memory("0::/unit.slice/board", *state), 1500);
    assert_int_equal(cgroup_free_memory("4:memory:/board\n0::/unit.slice/board\n", *state), 700);
}

static void file_pages_that_can_be_dropped_are_free(void **state)
{
    put(*state, "memory/board", old_names,
        TEXTS("1000", "300", "inactive_file 9\ntotal_inactive_file 250"));
    put(*state, "board", new_names, TEXTS("1000", "300", "anon 50\ninactive_file 400\nfile 1"));
    assert_int_equal(cgroup_free_memory("4:memory:/board\n", *state), 950);
    assert_int_equal(cgroup_free_memory("0::/board\n", *state), 1000);
}

static void the_tightest_ancestor_counts(void **state)
{
    put(*state, "a", new_names, TEXTS("1000", "600", ""));
    put(*state, "a/b", new_names, TEXTS("max", "100", ""));
    put(*state, "a/b/c", new_names, TEXTS("900", "100", ""));
    assert_int_equal(cgroup_free_memory("0::/a/b/c\n", *state), 400);
}

static void the_root_of_the_tree_counts_where_the_group_is_out_of_sight(void **state)
{
    put(*state, "memory", old_names, TEXTS("1000", "200", ""));
    assert_int_equal(cgroup_free_memory("4:memory:/docker/0123\n", *state), 800);
}

static void a_group_without_limit_leaves_everything(void **state)
{
    put(*state, "a", new_names, TEXTS("max", "600", ""));
    assert_true(cgroup_free_memory("0::/a\n", *state) == UINT64_MAX);
    assert_true(cgroup_free_memory("", *state) == UINT64_MAX);
    assert_true(cgroup_free_memory("0::\n\n:\nnonsense\n4:memory:/none\n", *state) == UINT64_MAX);
}

static void a_full_group_leaves_next_to_nothing(void **state)
{
    put(*state, "a", new_names, TEXTS("1000", "1000", ""));
    put(*state, "b", new_names, TEXTS("1000", "1300", "inactive_file 100"));
    assert_int_equal(cgroup_free_memory("0::/a\n", *state), 1);
    assert_int_equal(cgroup_free_memory("0::/b\n", *state), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(the_limit_of_a_group_is_found_in_both_versions),
        test_with_directory(file_pages_that_can_be_dropped_are_free),
        test_with_directory(the_tightest_ancestor_counts),
        test_with_directory(the_root_of_the_tree_counts_where_the_group_is_out_of_sight),
        test_with_directory(a_group_without_limit_leaves_everything),
        test_with_directory(a_full_group_leaves_next_to_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
