#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"

static struct test_path join(const char *directory, const char *name)
{
    struct test_path path;
    int length = snprintf(path.text, sizeof(path.text), "%s/%s", directory, name);
    assert_in_range(length, 1, sizeof(path.text) - 1);
    return path;
}

struct test_path test_data_path(const char *relative)
{
    return join(TEST_SOURCE_DIR, relative);
}

struct test_path test_path_in(const char *directory, const char *name)
{
    return join(directory, name);
}

int test_directory_setup(void **state)
{
    const char *parent = getenv("TMPDIR");
    struct test_path path = join(parent ? parent : "/tmp", "paceline-test-XXXXXX");
    char *directory = malloc(sizeof(path.text));
    if (!directory || !mkdtemp(path.text)) {
        free(directory);
        return -1;
    }
    (void)snprintf(directory, sizeof(path.text), "%s", path.text);
    *state = directory;
    return 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

int test_directory_teardown(void **state)
{
    int rc = nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return rc;
}
