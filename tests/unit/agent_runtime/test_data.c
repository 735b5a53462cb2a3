#include "agent/runtime/data.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "libtrain/formats/safetensors.h"
#include "net/hash.h"
#include "tests/support/test.h"

/* Three pieces: the inputs reach into the third, where the labels lie. */
enum { SAMPLES = 2500, SIDE = 60, INPUT_BYTES = SAMPLES * SIDE * SIDE };
#define FILE_MAX (INPUT_BYTES + SAMPLES * 4 + 4096)

struct origin {
    unsigned char *file;
    size_t size;
    char sha256[HASH_TEXT_SIZE];
    unsigned fetched;   /* pieces */
    unsigned fail_from; /* this fetch and those after it fail; 0: none */
};

static struct origin origin;

static int make_origin(void **state)
{
    (void)state;
    struct safetensors_tensor tensor[2] = {
        {.name = "inputs", .dtype = DTYPE_U8, .rank = 4, .dim = {SAMPLES, SIDE, SIDE, 1}},
        {.name = "labels", .dtype = DTYPE_I32, .rank = 1, .dim = {SAMPLES}},
    };
    struct safetensors_header header = {.tensor = tensor, .tensor_capacity = 2, .tensor_count = 2};
    origin.file = calloc(1, FILE_MAX);
    size_t size = 0;
    if (!origin.file || safetensors_write(&header, (char *)origin.file, 4096, &size, NULL) != 0) {
        return -1;
    }
    for (size_t i = 0; i < INPUT_BYTES + SAMPLES * 4; i++) {
        origin.file[size + i] = (unsigned char)(i * 2654435761u >> 24);
    }
    origin.size = size + INPUT_BYTES + SAMPLES * 4;
    sha256_text(origin.file, origin.size, origin.sha256);
    return 0;
}

static int free_origin(void **state)
{
    (void)state;
    free(origin.file);
    return 0;
}

static int64_t fetch(void *arg, const char *sha256, uint64_t offset, void *out, size_t size,
                     struct err *err)
{
    struct origin *from = arg;
    (void)sha256;
    if (from->fail_from > 0 && from->fetched + 1 >= from->fail_from) {
        return err_set(err, ERR_NETWORK, "the cable is out");
    }
    from->fetched++;
    if (offset >= from->size) {
        return 0;
    }
    const size_t left = from->size - (size_t)offset;
    const size_t count = size < left ? size : left;
    memcpy(out, from->file + offset, count);
    return (int64_t)count;
}

static struct data_request request(const char *directory, bool inputs, bool labels)
{
    origin.fetched = 0;
    origin.fail_from = 0;
    return (struct data_request){.directory = directory,
                                 .sha256 = origin.sha256,
                                 .in_use = "",
                                 .inputs = inputs,
                                 .labels = labels,
                                 .fetch = fetch,
                                 .arg = &origin};
}

static void check_open(const struct data_request *wanted)
{
    struct data *data = NULL;
    struct err err = {0};
    assert_ok(data_open(wanted, &data, &err), &err);
    const struct dataset_info *info = data_info(data);
    assert_int_equal(info->count, SAMPLES);
    if (wanted->inputs) {
        assert_memory_equal(data_inputs(data), origin.file + info->inputs_offset, INPUT_BYTES);
    }
    if (wanted->labels) {
        assert_memory_equal(data_labels(data), origin.file + info->labels_offset, SAMPLES * 4);
    }
    data_close(&data);
    assert_null(data);
}

static void only_the_pieces_of_the_tensors_asked_for_are_fetched(void **state)
{
    struct data_request labels = request(*state, false, true);
    check_open(&labels);
    assert_int_equal(origin.fetched, 2);
    struct data_request both = request(*state, true, true);
    check_open(&both);
    assert_int_equal(origin.fetched, 1);
}

static void what_is_cached_is_not_fetched_again(void **state)
{
    struct data_request both = request(*state, true, true);
    check_open(&both);
    assert_int_equal(origin.fetched, 3);
    both = request(*state, true, true);
    check_open(&both);
    assert_int_equal(origin.fetched, 0);
}

static void a_broken_off_fetch_is_taken_up_where_it_ended(void **state)
{
    struct data_request both = request(*state, true, true);
    struct data *data = NULL;
    struct err err = {0};
    origin.fail_from = 3;
    assert_int_equal(data_open(&both, &data, &err), ERR_NETWORK);
    assert_null(data);
    assert_holds(err.text, "the cable is out");
    both = request(*state, true, true);
    check_open(&both);
    assert_int_equal(origin.fetched, 1);
}

static struct test_path cached(const char *directory, const char *suffix)
{
    char name[HASH_TEXT_SIZE + 8];
    (void)snprintf(name, sizeof(name), "%s%s", origin.sha256, suffix);
    return test_path_in(directory, name);
}

static void a_damaged_piece_is_fetched_again(void **state)
{
    struct data_request both = request(*state, true, true);
    check_open(&both);
    FD_AUTO int fd = open(cached(*state, ".data").text, O_RDWR);
    struct err err = {0};
    const unsigned char wrong = (unsigned char)~origin.file[DATA_PIECE_BYTES + 5];
    assert_ok(file_write_at(fd, &wrong, 1, DATA_PIECE_BYTES + 5, &err), &err);
    both = request(*state, true, true);
    check_open(&both);
    assert_int_equal(origin.fetched, 1);
}

/* Cut or lengthen a cached file; the next open repairs it and fetches this many pieces. */
static void check_length(const char *directory, const char *suffix, off_t size, unsigned fetched)
{
    struct data_request both = request(directory, true, true);
    check_open(&both);
    assert_int_equal(truncate(cached(directory, suffix).text, size), 0);
    both = request(directory, true, true);
    check_open(&both);
    assert_int_equal(origin.fetched, fetched);
    both = request(directory, true, true);
    check_open(&both);
    assert_int_equal(origin.fetched, 0);
}

static void a_cached_file_of_any_wrong_length_is_repaired(void **state)
{
    check_length(*state, ".data", (off_t)origin.size - 1, 1);
    check_length(*state, ".data", (off_t)origin.size + 1, 0);
    check_length(*state, ".data", 8 * (off_t)origin.size, 0);
    check_length(*state, ".data", DATA_PIECE_BYTES + 1, 2);
    check_length(*state, ".data", DATA_PIECE_BYTES, 2);
    check_length(*state, ".data", DATA_PIECE_BYTES - 1, 3);
    check_length(*state, ".data", 100, 3);
    check_length(*state, ".data", 7, 3);
    check_length(*state, ".data", 0, 3);
    check_length(*state, ".map", 64 * 3 + 1, 0);
    check_length(*state, ".map", 64 * 3 - 1, 1);
    check_length(*state, ".map", 0, 3);
}

static void flip(const char *path, size_t offset)
{
    struct err err = {0};
    unsigned char byte = 0;
    FD_AUTO int fd = open(path, O_RDWR);
    assert_ok(file_read_at(fd, &byte, 1, offset, &err), &err);
    byte ^= 1;
    assert_ok(file_write_at(fd, &byte, 1, offset, &err), &err);
}

static void one_wrong_bit_anywhere_costs_its_piece(void **state)
{
    static const size_t file_offsets[] = {
        0, 3, 7, 8, 100, DATA_PIECE_BYTES - 1, DATA_PIECE_BYTES, 2 * DATA_PIECE_BYTES};
    struct data_request both = request(*state, true, true);
    check_open(&both);
    for (size_t i = 0; i < sizeof(file_offsets) / sizeof(file_offsets[0]); i++) {
        flip(cached(*state, ".data").text, file_offsets[i]);
        both = request(*state, true, true);
        check_open(&both);
        assert_int_equal(origin.fetched, 1);
    }
    for (size_t offset = 0; offset < 192; offset += 9) {
        flip(cached(*state, ".map").text, offset);
        both = request(*state, true, true);
        check_open(&both);
        assert_int_equal(origin.fetched, 1);
    }
}

/* A part alone cannot be compared with the hash of the whole. */
static void
a_wrong_piece_of_an_earlier_fetch_is_found_with_the_whole_and_all_is_fetched_again(void **state)
{
    struct data_request labels = request(*state, false, true);
    origin.file[origin.size - 1] ^= 1;
    check_open(&labels);
    origin.file[origin.size - 1] ^= 1;
    struct data_request both = request(*state, true, true);
    check_open(&both);
    assert_int_equal(origin.fetched, 1 + 3);
    both = request(*state, true, true);
    check_open(&both);
    assert_int_equal(origin.fetched, 0);
}

static void files_under_the_name_of_another_data_set_are_fetched_again(void **state)
{
    struct data_request both = request(*state, true, true);
    check_open(&both);
    const struct test_path file = cached(*state, ".data"), map = cached(*state, ".map");
    const struct origin before = origin;
    origin.file[DATA_PIECE_BYTES] ^= 1;
    sha256_text(origin.file, origin.size, origin.sha256);
    assert_int_equal(rename(file.text, cached(*state, ".data").text), 0);
    assert_int_equal(rename(map.text, cached(*state, ".map").text), 0);
    struct data_request inputs = request(*state, true, false);
    check_open(&inputs);
    assert_int_equal(origin.fetched, 3);
    origin = before;
    origin.file[DATA_PIECE_BYTES] ^= 1;
}

static void check_replaced(const char *directory, const char *suffix)
{
    struct data_request both = request(directory, true, true);
    check_open(&both);
    both = request(directory, true, true);
    check_open(&both);
    assert_int_equal(origin.fetched, 0);
    assert_int_equal(unlink(cached(directory, suffix).text), 0);
}

static void what_is_no_file_makes_room_for_one(void **state)
{
    struct err err = {0};
    for (int i = 0; i < 2; i++) {
        const char *suffix = i == 0 ? ".data" : ".map";
        const struct test_path path = cached(*state, suffix);
        (void)unlink(path.text); /* what the other file's turn left */
        assert_int_equal(symlink("/dev/full", path.text), 0);
        check_replaced(*state, suffix);
        assert_int_equal(symlink("nowhere", path.text), 0);
        check_replaced(*state, suffix);
        assert_int_equal(mkfifo(path.text, 0600), 0);
        check_replaced(*state, suffix);
        assert_ok(file_make_directory(path.text, 0700, &err), &err);
        check_replaced(*state, suffix);
        assert_ok(file_write_atomic(path.text, "", 0, 0400, &err), &err);
        check_replaced(*state, suffix);
    }
}

static void a_crash_between_data_and_map_costs_one_piece(void **state)
{
    struct data_request both = request(*state, true, true);
    check_open(&both);
    assert_int_equal(truncate(cached(*state, ".map").text, 2 * 64), 0);
    both = request(*state, true, true);
    check_open(&both);
    assert_int_equal(origin.fetched, 1);
}

static void content_that_is_not_what_its_hash_says_is_refused(void **state)
{
    struct data_request both = request(*state, true, true);
    struct data *data = NULL;
    struct err err = {0};
    origin.file[origin.size - 1] ^= 1;
    assert_int_equal(data_open(&both, &data, &err), ERR_FORMAT);
    origin.file[origin.size - 1] ^= 1;
    assert_null(data);
    both = request(*state, true, true);
    check_open(&both);
}

static void content_that_ends_early_is_refused(void **state)
{
    struct data_request both = request(*state, true, true);
    struct data *data = NULL;
    struct err err = {0};
    origin.size -= 100;
    assert_int_equal(data_open(&both, &data, &err), ERR_FORMAT);
    origin.size += 100;
    assert_null(data);
}

static void content_without_a_header_is_refused(void **state)
{
    static unsigned char rubbish[100];
    struct origin other = {.file = rubbish, .size = sizeof(rubbish)};
    struct data_request both = request(*state, true, true);
    struct data *data = NULL;
    struct err err = {0};
    both.arg = &other;
    memset(rubbish, 0xff, sizeof(rubbish));
    assert_int_equal(data_open(&both, &data, &err), ERR_FORMAT);
    assert_null(data);
}

static void a_name_that_is_no_hash_is_refused(void **state)
{
    struct data_request both = request(*state, true, true);
    struct data *data = NULL;
    struct err err = {0};
    both.sha256 = "../../etc/passwd";
    assert_int_equal(data_open(&both, &data, &err), ERR_INVALID);
}

static void an_error_of_the_cache_names_the_data_set_and_the_reason(void **state)
{
    struct data_request both = request(*state, true, true);
    struct data *data = NULL;
    struct err err = {0};
    char expected[200];
    assert_ok(
        file_make_directory(test_path_in(cached(*state, ".data").text, "full").text, 0700, &err),
        &err);
    assert_int_equal(data_open(&both, &data, &err), ERR_IO);
    (void)snprintf(
        expected, sizeof(expected),
        "data set %.12s: its .data in the cache is not a file; remove it: Directory not empty",
        origin.sha256);
    assert_string_equal(err.text, expected);
}

static void a_whole_file_is_mapped_as_it_is(void **state)
{
    struct test_path path = test_path_in(*state, "whole");
    struct err err = {0};
    struct data *data = NULL;
    assert_ok(file_write_atomic(path.text, origin.file, origin.size, 0600, &err), &err);
    FD_AUTO int fd = open(path.text, O_RDONLY);
    assert_ok(data_open_file(fd, &data, &err), &err);
    assert_memory_equal(data_inputs(data), origin.file + data_info(data)->inputs_offset,
                        INPUT_BYTES);
    data_close(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(only_the_pieces_of_the_tensors_asked_for_are_fetched),
        test_with_directory(what_is_cached_is_not_fetched_again),
        test_with_directory(a_broken_off_fetch_is_taken_up_where_it_ended),
        test_with_directory(a_damaged_piece_is_fetched_again),
        test_with_directory(a_cached_file_of_any_wrong_length_is_repaired),
        test_with_directory(one_wrong_bit_anywhere_costs_its_piece),
        test_with_directory(
            a_wrong_piece_of_an_earlier_fetch_is_found_with_the_whole_and_all_is_fetched_again),
        test_with_directory(files_under_the_name_of_another_data_set_are_fetched_again),
        test_with_directory(what_is_no_file_makes_room_for_one),
        test_with_directory(a_crash_between_data_and_map_costs_one_piece),
        test_with_directory(content_that_is_not_what_its_hash_says_is_refused),
        test_with_directory(content_that_ends_early_is_refused),
        test_with_directory(content_without_a_header_is_refused),
        test_with_directory(a_name_that_is_no_hash_is_refused),
        test_with_directory(an_error_of_the_cache_names_the_data_set_and_the_reason),
        test_with_directory(a_whole_file_is_mapped_as_it_is),
    };
    return cmocka_run_group_tests(tests, make_origin, free_origin);
}
