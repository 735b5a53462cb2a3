/* Snapshots between devices over loopback: given to callers, taken as replicas, within their bound.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "net/http_client.h"
#include "tests/support/test.h"
#include "tests/unit/agent/side.h"

static void snapshots_are_given_to_callers(void **state)
{
    (void)state;
    struct side device;
    struct err err = {0};
    const struct job_id job = {SIDE_JOB};
    side_open(&device, 1, NULL);
    struct holding holding = {.job = job, .generation = 3, .version = 9, .unit = 2, .bytes = 17};
    sha256_text("weights of unit 2", 17, holding.sha256);
    assert_ok(snapshot_keep(device.snapshots, &holding, SNAPSHOT_OWN, strdup("weights of unit 2"),
                            NULL, &err),
              &err);
    assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB "/4/snapshots/9/2", NULL), 401);
    assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB "/4/snapshots/9/2", SIDE_TICKET), 200);
    assert_string_equal(device.reply, "weights of unit 2");
    assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB "/4/snapshots/9/3", SIDE_TICKET), 404);
    side_close(&device);
}

/* PUT a replica of unit 2; body false: ask whether the same bytes are there. */
static int put_replica(struct side *device, int64_t version, const char *blob, bool body)
{
    char path[512];
    char hash[HASH_TEXT_SIZE];
    sha256_text(blob, strlen(blob), hash);
    (void)snprintf(path, sizeof(path),
                   "/peer/v1/" SIDE_JOB "/%d/snapshots/%lld/2?sha256=%s&bytes=%zu", SIDE_GENERATION,
                   (long long)version, hash, strlen(blob));
    return side_call(device, "PUT", path, SIDE_TICKET, blob, body ? strlen(blob) : 0, NULL, 0);
}

static void replicas_are_asked_for_taken_and_given_back(void **state)
{
    const char *directories[] = {NULL, *state};
    for (size_t i = 0; i < 2; i++) {
        struct side device;
        side_open(&device, 1, directories[i]);
        assert_int_equal(put_replica(&device, 9, "weights of unit 2", false), 404);
        assert_holds(device.reply, "unknown_blob");
        assert_int_equal(put_replica(&device, 9, "weights of unit 2", true), 204);
        assert_int_equal(put_replica(&device, 9, "weights of unit 2", true), 204);
        assert_int_equal(put_replica(&device, 10, "weights of unit 2", false), 204);
        assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB "/4/snapshots/10/2", SIDE_TICKET),
                         200);
        assert_string_equal(device.reply, "weights of unit 2");
        static struct holding list[HOLDINGS_MAX];
        assert_int_equal(snapshot_holdings(device.snapshots, list), 2);
        assert_int_equal(list[0].generation, SIDE_GENERATION);
        snapshot_drop(device.snapshots,
                      &(struct drop){.job = {SIDE_JOB}, .below_version = INT64_MAX});
        side_close(&device);
    }
}

static void a_replica_with_other_content_than_announced_is_rejected(void **state)
{
    (void)state;
    struct side device;
    char hash[HASH_TEXT_SIZE];
    char path[512];
    static const char base[] = "/peer/v1/" SIDE_JOB "/4/snapshots/9/2";
    side_open(&device, 1, NULL);
    sha256_text("other", 5, hash);
    (void)snprintf(path, sizeof(path), "%s?sha256=%s&bytes=5", base, hash);
    assert_int_equal(side_call(&device, "PUT", path, SIDE_TICKET, "bytes", 5, NULL, 0), 422);
    assert_holds(device.reply, "another hash");
    assert_int_equal(side_call(&device, "PUT", path, SIDE_TICKET, "byte", 4, NULL, 0), 422);
    assert_int_equal(side_call(&device, "PUT", path, NULL, "other", 5, NULL, 0), 401);
    assert_int_equal(side_call(&device, "PUT", base, SIDE_TICKET, "other", 5, NULL, 0), 400);
    (void)snprintf(path, sizeof(path), "%s?sha256=%s&bytes=0", base, hash);
    assert_int_equal(side_call(&device, "PUT", path, SIDE_TICKET, "", 0, NULL, 0), 400);
    (void)snprintf(path, sizeof(path),
                   "/peer/v1/" SIDE_JOB "/4/snapshots/9007199254740993/2?sha256=%s&bytes=5", hash);
    assert_int_equal(side_call(&device, "PUT", path, SIDE_TICKET, "other", 5, NULL, 0), 400);
    (void)snprintf(path, sizeof(path), "/peer/v1/" SIDE_JOB "/3/snapshots/9/2?sha256=%s&bytes=5",
                   hash);
    assert_int_equal(side_call(&device, "PUT", path, SIDE_TICKET, "other", 5, NULL, 0), 409);
    (void)snprintf(path, sizeof(path), "/peer/v1/" SIDE_JOB "/5/snapshots/9/2?sha256=%s&bytes=5",
                   hash);
    assert_int_equal(side_call(&device, "PUT", path, SIDE_TICKET, "other", 5, NULL, 0), 503);
    assert_int_equal(put_replica(&device, 9, "other", true), 204);
    side_close(&device);
}

static void replicas_stay_within_their_bound(void **state)
{
    (void)state;
    struct side device;
    char blob[SIDE_REPLICA_BYTES / 2 + 1];
    side_open(&device, 1, NULL);
    memset(blob, 'a', sizeof(blob) - 1);
    blob[sizeof(blob) - 1] = '\0';
    assert_int_equal(put_replica(&device, 1, blob, true), 204);
    blob[0] = 'b';
    assert_int_equal(put_replica(&device, 2, blob, true), 204);
    blob[0] = 'c';
    assert_int_equal(put_replica(&device, 3, blob, false), 507);
    assert_holds(device.reply, "no_room");
    assert_int_equal(put_replica(&device, 3, blob, true), 507);
    snapshot_drop(device.snapshots, &(struct drop){.job = {SIDE_JOB}, .below_version = 2});
    assert_int_equal(put_replica(&device, 3, blob, true), 204);
    side_close(&device);
}

static void a_body_that_its_sender_gave_up_takes_no_room(void **state)
{
    (void)state;
    struct side device;
    char blob[SIDE_REPLICA_BYTES / 2 + 1];
    char path[512];
    char hash[HASH_TEXT_SIZE];
    side_open(&device, 1, NULL);
    memset(blob, 'a', sizeof(blob) - 1);
    blob[sizeof(blob) - 1] = '\0';
    sha256_text(blob, sizeof(blob) - 1, hash);
    (void)snprintf(path, sizeof(path), "/peer/v1/" SIDE_JOB "/%d/snapshots/1/2?sha256=%s&bytes=%zu",
                   SIDE_GENERATION, hash, sizeof(blob) - 1);
    const int fd = side_put_half(&device, path, sizeof(blob) - 1);
    assert_int_equal(put_replica(&device, 1, blob, true), 204);
    blob[0] = 'b';
    assert_int_equal(put_replica(&device, 2, blob, true), 204);
    /* The rest of it comes late, and harms no one. */
    assert_true(write(fd, blob, sizeof(blob) - 1 - strlen("half")) > 0);
    (void)snprintf(path, sizeof(path), "/peer/v1/" SIDE_JOB "/%d/snapshots/2/2", SIDE_GENERATION);
    assert_int_equal(side_get(&device, path, SIDE_TICKET), 200);
    assert_string_equal(device.reply, blob);
    (void)close(fd);
    side_close(&device);
}

static void a_replica_of_an_abandoned_version_is_stale(void **state)
{
    (void)state;
    struct side device;
    side_open(&device, 1, NULL);
    snapshot_cut(device.snapshots, &(struct job_id){SIDE_JOB}, SIDE_GENERATION + 1, 8);
    assert_int_equal(put_replica(&device, 9, "weights of unit 2", true), 409);
    assert_int_equal(put_replica(&device, 8, "weights of unit 2", true), 204);
    side_close(&device);
}

static void a_damaged_file_is_not_given_away(void **state)
{
    struct side device;
    char path[TEST_PATH_MAX];
    char hash[HASH_TEXT_SIZE];
    BUF_AUTO struct buf reply;
    struct http_result result;
    struct err err = {0};
    side_open(&device, 1, *state);
    assert_int_equal(put_replica(&device, 9, "weights of unit 2", true), 204);
    sha256_text("weights of unit 2", 17, hash);
    (void)snprintf(path, sizeof(path), "%s/" SIDE_JOB "/9-2-%d-%s.blob", (const char *)*state,
                   SIDE_GENERATION, hash);
    FILE *file = fopen(path, "r+e");
    assert_non_null(file);
    assert_int_equal(fputc('W', file), 'W');
    assert_int_equal(fclose(file), 0);
    char url[512];
    (void)snprintf(url, sizeof(url), "%s/peer/v1/" SIDE_JOB "/4/snapshots/9/2", device.url);
    buf_init(&reply, 4096);
    const struct http_call http = {
        .method = "GET", .url = url, .bearer = SIDE_TICKET, .reply = &reply};
    assert_true(http_client_call(device.client, &http, &result, &err) < 0);
    assert_int_equal(side_get(&device, "/peer/v1/" SIDE_JOB "/4/snapshots/9/2", SIDE_TICKET), 404);
    side_close(&device);
}

int main(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapshots_are_given_to_callers),
        test_with_directory(replicas_are_asked_for_taken_and_given_back),
        cmocka_unit_test(a_replica_with_other_content_than_announced_is_rejected),
        cmocka_unit_test(replicas_stay_within_their_bound),
        cmocka_unit_test(a_body_that_its_sender_gave_up_takes_no_room),
        cmocka_unit_test(a_replica_of_an_abandoned_version_is_stale),
        test_with_directory(a_damaged_file_is_not_given_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
