#include <dirent.h>
#include <poll.h>
#include <stdlib.h>

#include "base/file.h"
#include "coordinator/content/spool.h"
#include "tests/support/test.h"

#define PIECE_BYTES 100003u /* no divisor of the buffers' size */
#define WHOLE_BYTES (7u * 1024 * 1024 + 11)

struct room {
    struct work *work;
    struct spool *spool;
    bool has_room, settled;
    int code;
    struct err err;
};

static void on_room(void *arg)
{
    struct room *room = arg;
    room->has_room = true;
}

static void on_settled(void *arg, int code, const struct err *err)
{
    struct room *room = arg;
    assert_false(room->settled);
    room->settled = true;
    room->code = code;
    room->err = *err;
}

static void open_room(struct room *room, const char *directory, uint64_t limit_bytes,
                      uint64_t min_free_bytes)
{
    struct err err = {0};
    *room = (struct room){0};
    assert_ok(work_new(1, &room->work, &err), &err);
    struct spool_config config = {.work = room->work,
                                  .directory = directory,
                                  .limit_bytes = limit_bytes,
                                  .min_free_bytes = min_free_bytes,
                                  .on_room = on_room,
                                  .arg = room};
    assert_ok(spool_new(&config, &room->spool, &err), &err);
}

static void collect_until(struct room *room, const bool *flag)
{
    struct pollfd polled = {.fd = work_fd(room->work), .events = POLLIN};
    while (!*flag) {
        assert_int_equal(poll(&polled, 1, 20000), 1);
        work_collect(room->work);
    }
}

static char byte_at(size_t offset)
{
    return (char)(offset * 2654435761u >> 13);
}

/* Give `size` bytes, waiting for room; the code of the first failure. */
static int feed(struct room *room, size_t size, struct err *err)
{
    static char piece[PIECE_BYTES];
    for (size_t at = 0; at < size;) {
        size_t count = size - at < PIECE_BYTES ? size - at : PIECE_BYTES;
        for (size_t i = 0; i < count; i++) {
            piece[i] = byte_at(at + i);
        }
        room->has_room = false;
        int64_t taken = spool_write(room->spool, piece, count, err);
        if (taken < 0) {
            return (int)taken;
        }
        if (taken == 0) {
            collect_until(room, &room->has_room);
        }
        at += (size_t)taken;
    }
    return 0;
}

static void settle(struct room *room)
{
    spool_finish(room->spool, on_settled);
    collect_until(room, &room->settled);
}

static void close_room(struct room *room)
{
    spool_free(&room->spool);
    assert_null(room->spool);
    work_free(&room->work);
}

static void all_bytes_lie_in_the_file_when_it_is_settled(void **state)
{
    static const size_t sizes[] = {0, 1, 1u << 20, (1u << 20) + 1, 2u << 20, WHOLE_BYTES};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        struct room room;
        struct err err = {0};
        open_room(&room, *state, WHOLE_BYTES, 0);
        assert_ok(feed(&room, sizes[k], &err), &err);
        settle(&room);
        assert_ok(room.code, &room.err);
        assert_int_equal(spool_size(room.spool), sizes[k]);
        char *data = malloc(sizes[k] + 1);
        assert_non_null(data);
        assert_ok(file_read_at(spool_fd(room.spool), data, sizes[k], 0, &err), &err);
        for (size_t i = 0; i < sizes[k]; i++) {
            if (data[i] != byte_at(i)) {
                fail_msg("byte %zu of %zu", i, sizes[k]);
            }
        }
        assert_int_equal(file_read_at(spool_fd(room.spool), data, sizes[k] + 1, 0, &err),
                         ERR_FORMAT);
        free(data);
        close_room(&room);
    }
}

static void the_file_has_no_name(void **state)
{
    struct room room;
    struct err err = {0};
    open_room(&room, *state, WHOLE_BYTES, 0);
    assert_ok(feed(&room, WHOLE_BYTES, &err), &err);
    DIR *directory = opendir(*state);
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory));) {
        assert_int_equal(entry->d_name[0], '.');
    }
    closedir(directory);
    close_room(&room); /* while a worker writes */
}

static void more_than_the_limit_is_refused(void **state)
{
    struct room room;
    struct err err = {0};
    open_room(&room, *state, 1000, 0);
    assert_int_equal(spool_write(room.spool, "0123456789", 10, &err), 10);
    assert_int_equal(feed(&room, 991, &err), ERR_LIMIT);
    assert_holds(err.text, "1000");
    close_room(&room);
}

static void a_disk_with_too_little_room_fails_the_spool(void **state)
{
    struct room room;
    struct err err = {0};
    open_room(&room, *state, UINT64_MAX, UINT64_MAX / 2);
    assert_int_equal(feed(&room, WHOLE_BYTES, &err), ERR_FULL);
    assert_holds(err.text, "stay free");
    settle(&room);
    assert_int_equal(room.code, ERR_FULL);
    close_room(&room);
    open_room(&room, *state, UINT64_MAX, UINT64_MAX / 2);
    assert_ok(feed(&room, 10, &err),
              &err); /* small enough for its buffer: the disk is asked at the end */
    settle(&room);
    assert_int_equal(room.code, ERR_FULL);
    close_room(&room);
}

static void a_directory_that_is_not_there_is_named(void **state)
{
    struct test_path missing = test_path_in(*state, "missing");
    struct err err = {0};
    struct work *work = NULL;
    struct spool *spool = NULL;
    assert_ok(work_new(1, &work, &err), &err);
    struct spool_config config = {
        .work = work, .directory = missing.text, .limit_bytes = 10, .on_room = on_room};
    assert_int_equal(spool_new(&config, &spool, &err), ERR_NOT_FOUND);
    assert_holds(err.text, "missing");
    work_free(&work);
}

static void a_spool_is_cancelled_with_the_program(void **state)
{
    struct room room;
    struct err err = {0};
    open_room(&room, *state, WHOLE_BYTES, 0);
    assert_ok(feed(&room, 3u << 20, &err), &err);
    work_stop(room.work);
    spool_finish(room.spool, on_settled);
    work_collect(room.work);
    assert_true(room.settled);
    assert_int_equal(room.code, ERR_CANCELLED);
    close_room(&room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(all_bytes_lie_in_the_file_when_it_is_settled),
        test_with_directory(the_file_has_no_name),
        test_with_directory(more_than_the_limit_is_refused),
        test_with_directory(a_disk_with_too_little_room_fails_the_spool),
        test_with_directory(a_directory_that_is_not_there_is_named),
        test_with_directory(a_spool_is_cancelled_with_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
