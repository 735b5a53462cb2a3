/* Everything at a time: uploads that wait, uploads that pause, abandoned ones, readers, deletions,
 * statistics. Threads count errors; the test checks the counts. */
#include "tests/support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/store/blobs.h"
#include "tests/unit/coordinator_store/blob_support.h"

#define MIB ((uint64_t)1 << 20)
#define UPLOADERS 3
#define BLOBS 6 /* of each uploader */
#define STABLE 3

struct scene {
    struct blob_store *store;
    char stable[STABLE][BLOB_SHA256_SIZE]; /* never deleted */
    _Atomic bool is_over;
    _Atomic int wrong, uploaded, deleted, reads, vanished;
};

struct worker {
    struct scene *scene;
    uint64_t number;
};

static uint64_t size_of(uint64_t seed)
{
    return seed % 3 == 0 ? 2 * MIB + seed : seed % 3 == 1 ? 40000 + seed : MIB;
}

static uint64_t stable_size(uint64_t seed)
{
    return MIB + 1000 * seed;
}

/* As store_put, by an upload that pauses. */
static int put_pausing(struct blob_store *store, uint64_t seed, uint64_t size,
                       char sha256[BLOB_SHA256_SIZE])
{
    struct pause pause = PAUSE_INIT;
    struct blob_upload *upload = NULL;
    struct err err = {0};
    char expected[BLOB_SHA256_SIZE];
    content_sha256(seed, size, expected);
    int rc = blob_upload_open(store, expected, size, &upload, &err);
    if (rc) {
        return rc;
    }
    blob_upload_on_room(upload, pause_end, &pause);
    char *data = malloc((size_t)size);
    ASSERT(data);
    content_fill(seed, 0, data, (size_t)size);
    for (uint64_t done = 0; done < size;) {
        int64_t taken = blob_upload_write(upload, data + done, (size_t)(size - done), &err);
        ASSERT(taken >= 0);
        done += (uint64_t)taken;
        if (done < size) {
            pause_wait(&pause);
        }
    }
    free(data);
    struct outcome outcome;
    outcome_init(&outcome);
    blob_upload_finish(upload, outcome_set, &outcome);
    rc = outcome_wait(&outcome);
    memcpy(sha256, outcome.sha256, BLOB_SHA256_SIZE);
    outcome_done(&outcome);
    return rc;
}

/* ---- the threads ---- */

static void *upload_blobs(void *arg)
{
    const struct worker *worker = arg;
    struct scene *scene = worker->scene;
    for (uint64_t i = 0; i < BLOBS; i++) {
        /* Neighbours upload the same content now and then. */
        uint64_t seed = 100 + i * 2 + worker->number % 2, size = size_of(seed);
        char sha256[BLOB_SHA256_SIZE];
        struct err err = {0};
        int rc = worker->number == 0 ? put_pausing(scene->store, seed, size, sha256)
                                     : store_put(scene->store, seed, size, sha256, &err);
        scene->wrong += rc != 0;
        scene->uploaded++;
        struct blob_upload *abandoned = NULL;
        if (blob_upload_open(scene->store, NULL, MIB, &abandoned, &err) == 0) {
            scene->wrong += blob_upload_write_all(abandoned, "abandoned", 9, &err) != 0;
            blob_upload_abort(abandoned);
        }
        if (i % 2 == 1) {
            blob_delete(scene->store, sha256);
            scene->deleted++;
        }
    }
    return NULL;
}

static void *read_blobs(void *arg)
{
    const struct worker *worker = arg;
    struct scene *scene = worker->scene;
    for (uint64_t i = worker->number; !scene->is_over || scene->reads < 10; i++) {
        struct err err = {0};
        uint64_t seed = i % STABLE;
        scene->wrong +=
            !store_holds(scene->store, scene->stable[seed], seed, stable_size(seed), &err);
        scene->reads++;
        /* One that may be there, may come and may go while it is read. */
        char sha256[BLOB_SHA256_SIZE];
        seed = 100 + i % (2 * BLOBS);
        content_sha256(seed, size_of(seed), sha256);
        if (!store_holds(scene->store, sha256, seed, size_of(seed), &err)) {
            scene->wrong += err.code != ERR_NOT_FOUND;
            scene->vanished++;
        }
    }
    return NULL;
}

static void *watch(void *arg)
{
    const struct worker *worker = arg;
    while (!worker->scene->is_over) {
        struct blob_statistics statistics;
        uint64_t size = 0;
        struct err err = {0};
        blob_statistics(worker->scene->store, &statistics);
        worker->scene->wrong += statistics.blobs < STABLE;
        worker->scene->wrong +=
            store_stat(worker->scene->store, worker->scene->stable[0], &size, &err) != 0;
    }
    return NULL;
}

static void uploads_readers_and_deletions_do_not_disturb_each_other(void **state)
{
    struct blob_config config = {.directory = *state, .queue_bytes = 3 * MIB};
    struct scene scene = {0};
    struct err err = {0};
    assert_ok(blob_open(&config, &scene.store, &err), &err);
    for (uint64_t seed = 0; seed < STABLE; seed++) {
        assert_ok(store_put(scene.store, seed, stable_size(seed), scene.stable[seed], &err), &err);
    }
    pthread_t uploaders[UPLOADERS], readers[2], watcher;
    struct worker workers[UPLOADERS];
    for (uint64_t i = 0; i < UPLOADERS; i++) {
        workers[i] = (struct worker){&scene, i};
    }
    for (size_t i = 0; i < UPLOADERS; i++) {
        assert_int_equal(pthread_create(&uploaders[i], NULL, upload_blobs, &workers[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&readers[i], NULL, read_blobs, &workers[i]), 0);
    }
    assert_int_equal(pthread_create(&watcher, NULL, watch, &workers[0]), 0);
    for (size_t i = 0; i < UPLOADERS; i++) {
        assert_int_equal(pthread_join(uploaders[i], NULL), 0);
    }
    scene.is_over = true;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    }
    assert_int_equal(pthread_join(watcher, NULL), 0);
    assert_int_equal(scene.wrong, 0);
    assert_int_equal(scene.uploaded, UPLOADERS * BLOBS);
    assert_true(scene.reads >= 10);
    blob_close(&scene.store);

    /* The remaining blobs are whole. */
    scene.store = store_open(*state);
    for (uint64_t seed = 0; seed < STABLE; seed++) {
        assert_true(store_holds(scene.store, scene.stable[seed], seed, stable_size(seed), &err));
    }
    blob_close(&scene.store);
}

static void finish_and_abort_wait_for_a_callback_that_is_running(void **state)
{
    /* A queue of one chunk: every upload pauses, is called, and ends during calls for others. */
    struct blob_config config = {.directory = *state, .queue_bytes = MIB};
    struct blob_store *store = NULL;
    struct err err = {0};
    char *data = calloc(1, 2 * MIB);
    assert_ok(blob_open(&config, &store, &err), &err);
    for (int round = 0; round < 8; round++) {
        struct pause pause[3];
        struct blob_upload *upload[3];
        for (size_t i = 0; i < 3; i++) {
            pause[i] = (struct pause)PAUSE_INIT;
            assert_ok(blob_upload_open(store, NULL, 4 * MIB, &upload[i], &err), &err);
            blob_upload_on_room(upload[i], pause_end, &pause[i]);
            assert_true(blob_upload_write(upload[i], data, 2 * MIB, &err) >= (int64_t)MIB);
        }
        for (size_t i = 0; i < 3; i++) {
            blob_upload_abort(upload[i]);
            /* Nothing may touch it any more. */
            memset(&pause[i], 0xff, sizeof(pause[i]));
        }
    }
    free(data);
    blob_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(uploads_readers_and_deletions_do_not_disturb_each_other),
        test_with_directory(finish_and_abort_wait_for_a_callback_that_is_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
