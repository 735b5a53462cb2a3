#include "agent/runtime/offers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "net/hash.h"
#include "tests/support/test.h"

enum { SIDE = 4, IMAGE_BYTES = SIDE * SIDE };

/* A directory "DIR/name" with an IDX pair of `count` images of 3 classes. */
static void put_images(const char *directory, const char *name, unsigned char count)
{
    unsigned char images[16 + 255 * IMAGE_BYTES] = {0, 0, 8, 3,    0, 0, 0, count,
                                                    0, 0, 0, SIDE, 0, 0, 0, SIDE};
    unsigned char labels[8 + 255] = {0, 0, 8, 1, 0, 0, 0, count};
    struct test_path path = test_path_in(directory, name);
    struct err err = {0};
    for (size_t i = 0; i < count; i++) {
        memset(images + 16 + i * IMAGE_BYTES, (int)i, IMAGE_BYTES);
        labels[8 + i] = (unsigned char)(i % 3);
    }
    assert_ok(file_make_directory(path.text, 0755, &err), &err);
    const struct test_path first = test_path_in(path.text, "images");
    const struct test_path second = test_path_in(path.text, "labels");
    assert_ok(file_write_atomic(first.text, images, 16 + (size_t)count * IMAGE_BYTES, 0600, &err),
              &err);
    assert_ok(file_write_atomic(second.text, labels, 8 + (size_t)count, 0600, &err), &err);
}

struct opening {
    struct test_path kept;
    char text[OFFERS_MAX][TEST_PATH_MAX + 64];
    struct conf_list list;
    struct offers *offers;
};

static void add(struct opening *opening, const char *name, const char *directory, const char *path)
{
    char *item = opening->text[opening->list.count];
    (void)snprintf(item, sizeof(opening->text[0]), "%s=%s/%s", name, directory, path);
    opening->list.item[opening->list.count++] = item;
}

static size_t open_all(struct opening *opening, const char *directory)
{
    struct err err = {0};
    size_t count;
    opening->kept = test_path_in(directory, "kept");
    const struct offers_config config = {
        .directory = opening->kept.text, .data = &opening->list, .reading = "", .cancel_fd = -1};
    offers_free(&opening->offers);
    assert_ok(offers_check(&opening->list, "", &err), &err);
    assert_ok(offers_open(&config, &opening->offers, &err), &err);
    (void)offers_list(opening->offers, &count);
    return count;
}

static void a_directory_is_converted_once_and_described(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL};
    struct stat before, after;
    struct err err = {0};
    size_t count;
    put_images(directory, "photos", 10);
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    const struct offer *offer = offers_list(opening.offers, &count);
    assert_string_equal(offer->name, "cats");
    assert_int_equal(offer->samples, 10);
    assert_int_equal(offer->height, SIDE);
    assert_int_equal(offer->width, SIDE);
    assert_int_equal(offer->channels, 1);
    assert_string_equal(offer->dtype, "U8");
    assert_int_equal(offer->classes, 3);
    assert_int_equal(offer->class_count_count, 3);
    assert_int_equal(offer->class_count[0], 4);
    assert_int_equal(offer->class_count[2], 3);
    const struct test_path file = test_path_in(opening.kept.text, "cats.data");
    assert_int_equal(stat(file.text, &before), 0);
    assert_int_equal(before.st_mode & 0777, 0600);
    assert_int_equal(open_all(&opening, directory), 1);
    assert_int_equal(stat(file.text, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    struct data *data AUTO(data_close) = NULL;
    offer = offers_list(opening.offers, &count);
    assert_ok(offers_data(opening.offers, "cats", offer->sha256, &data, &err), &err);
    assert_int_equal(data_info(data)->count, 10);
    assert_int_equal(data_inputs(data)[9 * IMAGE_BYTES], 9);
    offers_free(&opening.offers);
}

static void changed_data_have_another_hash(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL};
    struct data *data = NULL;
    struct err err = {0};
    char sha256[SHA256_SIZE];
    size_t count;
    put_images(directory, "photos", 10);
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    memcpy(sha256, offers_list(opening.offers, &count)->sha256, sizeof(sha256));
    put_images(directory, "photos", 12);
    assert_int_equal(open_all(&opening, directory), 1);
    const struct offer *offer = offers_list(opening.offers, &count);
    assert_int_equal(offer->samples, 12);
    assert_string_not_equal(offer->sha256, sha256);
    assert_int_equal(offers_data(opening.offers, "cats", sha256, &data, &err), ERR_NOT_FOUND);
    assert_holds(err.text, "does not offer");
    assert_int_equal(offers_data(NULL, "cats", sha256, &data, &err), ERR_NOT_FOUND);
    offers_free(&opening.offers);
}

static void a_damaged_file_is_made_again(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL};
    struct err err = {0};
    struct data *data AUTO(data_close) = NULL;
    size_t count;
    put_images(directory, "photos", 10);
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    const struct test_path file = test_path_in(opening.kept.text, "cats.data");
    assert_int_equal(truncate(file.text, 200), 0);
    assert_int_equal(open_all(&opening, directory), 1);
    const struct offer *offer = offers_list(opening.offers, &count);
    assert_ok(offers_data(opening.offers, "cats", offer->sha256, &data, &err), &err);
    offers_free(&opening.offers);
}

static void what_cannot_be_read_is_left_out_alone(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL};
    size_t count;
    put_images(directory, "photos", 10);
    const struct test_path empty = test_path_in(directory, "empty");
    assert_int_equal(mkdir(empty.text, 0755), 0);
    add(&opening, "none", directory, "empty");
    add(&opening, "missing", directory, "nowhere");
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    assert_string_equal(offers_list(opening.offers, &count)->name, "cats");
    offers_free(&opening.offers);
}

static void data_that_are_not_offered_any_more_are_removed(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL};
    put_images(directory, "photos", 10);
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    const struct test_path file = test_path_in(opening.kept.text, "cats.data");
    assert_int_equal(access(file.text, R_OK), 0);
    opening.list.count = 0;
    add(&opening, "dogs", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    assert_int_equal(access(file.text, R_OK), -1);
    const struct test_path other = test_path_in(opening.kept.text, "dogs.data");
    assert_int_equal(access(other.text, R_OK), 0);
    offers_free(&opening.offers);
}

static void options_that_name_no_data_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *item[2];
        const char *reading, *words;
    } cases[] = {
        {{"photos"}, "", "expected NAME=PATH"},        {{"=photos"}, "", "expected NAME=PATH"},
        {{"Photos=x"}, "", "expected NAME=PATH"},      {{"photos="}, "", "expected NAME=PATH"},
        {{"photos=x", "photos=y"}, "", "given twice"}, {{"photos=x"}, "colour=red", "--data-as"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct conf_list list = {.item = {cases[i].item[0], cases[i].item[1]},
                                       .count = cases[i].item[1] ? 2 : 1};
        struct err err = {0};
        assert_int_not_equal(offers_check(&list, cases[i].reading, &err), 0);
        assert_holds(err.text, cases[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(a_directory_is_converted_once_and_described),
        test_with_directory(changed_data_have_another_hash),
        test_with_directory(a_damaged_file_is_made_again),
        test_with_directory(what_cannot_be_read_is_left_out_alone),
        test_with_directory(data_that_are_not_offered_any_more_are_removed),
        cmocka_unit_test(options_that_name_no_data_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
