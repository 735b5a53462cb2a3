#include "tests/unit/agent_copies/snapshot_support.h"

#include <dirent.h>
#include <string.h>

#include "net/hash.h"
#include "tests/support/test.h"

const struct job_id this_job = {JOB};
const struct job_id other_job = {"job_00000000000000000000000002"};

struct snapshot_store *snapshots_new(const char *directory)
{
    struct snapshot_store *store = NULL;
    struct err err = {0};
    assert_ok(snapshot_store_new(directory, &store, &err), &err);
    return store;
}

struct holding holding_of(const struct job_id *of, int64_t generation, int64_t version,
                          int64_t unit, const char *text)
{
    struct holding holding = {.job = *of,
                              .generation = generation,
                              .version = version,
                              .unit = unit,
                              .bytes = (int64_t)strlen(text)};
    sha256_text(text, strlen(text), holding.sha256);
    return holding;
}

void snapshots_note(void *arg, int rc, const struct err *why)
{
    (void)why;
    *(int *)arg = rc;
}

/* Keep a text and wait for its end. */
int snapshots_try(struct snapshot_store *store, const struct holding *holding,
                  enum snapshot_origin origin, const char *text, struct err *err)
{
    int late = 0;
    const struct snapshot_waiter waiter = {.done = snapshots_note, .arg = &late};
    void *block = snapshot_block(store, strlen(text));
    assert_non_null(block);
    memcpy(block, text, strlen(text));
    const int rc = snapshot_keep(store, holding, origin, block, &waiter, err);
    if (rc != SNAPSHOT_LATER) {
        return rc;
    }
    snapshot_flush(store);
    return late;
}

void snapshots_add_of(struct snapshot_store *store, const struct job_id *of, int64_t generation,
                      int64_t version, int64_t unit, const char *text)
{
    const struct holding holding = holding_of(of, generation, version, unit, text);
    struct err err = {0};
    assert_ok(snapshots_try(store, &holding, SNAPSHOT_OWN, text, &err), &err);
}

void snapshots_add(struct snapshot_store *store, int64_t version, int64_t unit, const char *text)
{
    snapshots_add_of(store, &this_job, 1, version, unit, text);
}

void snapshots_expect(struct snapshot_store *store, int64_t version, int64_t unit, const char *text)
{
    char read[64];
    struct err err = {0};
    const struct snapshot *snapshot = snapshot_get(store, JOB, version, unit);
    assert_non_null(snapshot);
    assert_int_equal(snapshot->holding.bytes, strlen(text));
    assert_ok(snapshot_read(snapshot, 1, read, strlen(text) - 1, &err), &err);
    assert_memory_equal(read, text + 1, strlen(text) - 1);
    snapshot_put_back(snapshot);
}

/* Files of the job's directory. */
size_t snapshots_files(const char *directory)
{
    struct test_path path = test_path_in(directory, JOB);
    DIR *open = opendir(path.text);
    size_t count = 0;
    const struct dirent *entry;
    while (open && (entry = readdir(open))) {
        count += entry->d_name[0] != '.';
    }
    if (open) {
        (void)closedir(open);
    }
    return count;
}
