#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "net/hash.h"
#include "tests/unit/agent_runtime/offered.h"

static void a_directory_is_converted_once_and_described(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL};
    struct stat before, after;
    struct err err = {0};
    put_images(directory, "photos", 10);
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    const struct offer *offer = &opening.offer[0];
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
    offer = &opening.offer[0];
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
    put_images(directory, "photos", 10);
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    memcpy(sha256, opening.offer[0].sha256, sizeof(sha256));
    put_images(directory, "photos", 8);
    assert_int_equal(open_all(&opening, directory), 1);
    const struct offer *offer = &opening.offer[0];
    assert_int_equal(offer->samples, 8);
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
    put_images(directory, "photos", 10);
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    const struct test_path file = test_path_in(opening.kept.text, "cats.data");
    assert_int_equal(truncate(file.text, 200), 0);
    assert_int_equal(open_all(&opening, directory), 1);
    const struct offer *offer = &opening.offer[0];
    assert_ok(offers_data(opening.offers, "cats", offer->sha256, &data, &err), &err);
    offers_free(&opening.offers);
}

static void what_cannot_be_read_is_left_out_alone(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL};
    put_images(directory, "photos", 10);
    const struct test_path empty = test_path_in(directory, "empty");
    assert_int_equal(mkdir(empty.text, 0755), 0);
    add(&opening, "none", directory, "empty");
    add(&opening, "missing", directory, "nowhere");
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    assert_string_equal(opening.offer[0].name, "cats");
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

static void expect_part(const struct opening *opening, size_t parts, const char *sha256,
                        int64_t samples)
{
    const struct offer *offer = &opening->offer[0];
    assert_int_equal(offer->part_count, parts);
    const struct offer_part *part = offer_part(offer, sha256);
    assert_non_null(part);
    assert_int_equal(part->samples, samples);
}

static void samples_that_are_appended_extend_what_was_offered(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL};
    struct data *data AUTO(data_close) = NULL;
    struct err err = {0};
    char first[SHA256_SIZE], second[SHA256_SIZE];
    put_images(directory, "photos", 10);
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    assert_int_equal(opening.offer[0].part_count, 0);
    memcpy(first, opening.offer[0].sha256, sizeof(first));
    put_images(directory, "photos", 12);
    assert_int_equal(open_all(&opening, directory), 1);
    memcpy(second, opening.offer[0].sha256, sizeof(second));
    expect_part(&opening, 1, first, 10);
    put_images(directory, "photos", 15);
    assert_int_equal(open_all(&opening, directory), 1);
    expect_part(&opening, 2, first, 10);
    expect_part(&opening, 2, second, 12);
    /* What was offered first is there as it was. */
    assert_ok(offers_data(opening.offers, "cats", first, &data, &err), &err);
    assert_int_equal(data_info(data)->count, 10);
    assert_int_equal(data_inputs(data)[9 * IMAGE_BYTES], 9);
    put_images(directory, "photos", 11);
    assert_int_equal(open_all(&opening, directory), 1);
    assert_int_equal(opening.offer[0].part_count, 0);
    offers_free(&opening.offers);
}

static void only_the_newest_parts_are_named(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL};
    add(&opening, "cats", directory, "photos");
    for (unsigned char count = 10; count < 10 + OFFER_PARTS_MAX + 3; count++) {
        put_images(directory, "photos", count);
        assert_int_equal(open_all(&opening, directory), 1);
    }
    const struct offer *offer = &opening.offer[0];
    assert_int_equal(offer->part_count, OFFER_PARTS_MAX);
    assert_int_equal(offer->part[0].samples, 12);
    assert_true(offer_grows(offer));
    offers_free(&opening.offers);
}

/* CLASS/NAME: a PNG of one grey pixel of 10, 120 or 240. */
static void put_pixel(const char *directory, const char *class, const char *name, size_t which)
{
    enum { AT = 49, DIFFERS = 9 }; /* the pixel, and what is computed of it */
    static const unsigned char pixels[][DIFFERS] = {
        {0x0a, 0x00, 0x0c, 0x00, 0x0b, 0xde, 0xfe, 0xd1, 0x67},
        {0x78, 0x00, 0x7a, 0x00, 0x79, 0xb3, 0x9b, 0x66, 0x3a},
        {0xf0, 0x00, 0xf2, 0x00, 0xf1, 0x3e, 0x48, 0xdc, 0x43}};
    unsigned char png[] = {0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d,
                           0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01,
                           0x08, 0x00, 0x00, 0x00, 0x00, 0x3a, 0x7e, 0x9b, 0x55, 0x00, 0x00, 0x00,
                           0x0d, 0x49, 0x44, 0x41, 0x54, 0x78, 0x01, 0x01, 0x02, 0x00, 0xfd, 0xff,
                           0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                           0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
    memcpy(png + AT, pixels[which], DIFFERS);
    struct err err = {0};
    const struct test_path place = test_path_in(directory, class);
    assert_ok(file_make_directory(place.text, 0755, &err), &err);
    const struct test_path file = test_path_in(place.text, name);
    assert_ok(file_write_atomic(file.text, png, sizeof(png), 0600, &err), &err);
}

static int grey_of(const struct data *data, size_t sample)
{
    return data_inputs(data)[sample * data_info(data)->c];
}

static void files_that_are_added_come_after_those_that_were_there(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL};
    struct data *data AUTO(data_close) = NULL;
    struct err err = {0};
    char first[SHA256_SIZE];
    const struct test_path photos = test_path_in(directory, "photos");
    assert_ok(file_make_directory(photos.text, 0755, &err), &err);
    put_pixel(photos.text, "cat", "m.png", 0);
    put_pixel(photos.text, "dog", "m.png", 1);
    add(&opening, "pets", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    memcpy(first, opening.offer[0].sha256, sizeof(first));
    put_pixel(photos.text, "cat", "a.png", 2); /* sorted, it would be the first */
    assert_int_equal(open_all(&opening, directory), 1);
    expect_part(&opening, 1, first, 2);
    assert_ok(offers_data(opening.offers, "pets", opening.offer[0].sha256, &data, &err), &err);
    assert_int_equal(data_info(data)->count, 3);
    assert_int_equal(grey_of(data, 0), 10);
    assert_int_equal(grey_of(data, 2), 240);
    assert_int_equal(opening.offer[0].class_count[0], 2);
    data_close(&data);
    /* A file that has changed: all in the order of names. */
    put_pixel(photos.text, "cat", "m.png", 1);
    assert_int_equal(open_all(&opening, directory), 1);
    assert_int_equal(opening.offer[0].part_count, 0);
    assert_ok(offers_data(opening.offers, "pets", opening.offer[0].sha256, &data, &err), &err);
    assert_int_equal(grey_of(data, 0), 240);
    assert_int_equal(grey_of(data, 1), 120);
    offers_free(&opening.offers);
}

static void sources_that_come_back_are_read_in_the_order_of_before(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL};
    char first[SHA256_SIZE];
    struct err err = {0};
    const struct test_path photos = test_path_in(directory, "photos");
    const struct test_path away = test_path_in(directory, "away");
    assert_ok(file_make_directory(photos.text, 0755, &err), &err);
    put_pixel(photos.text, "cat", "m.png", 0);
    put_pixel(photos.text, "dog", "m.png", 1);
    add(&opening, "pets", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    memcpy(first, opening.offer[0].sha256, sizeof(first));
    assert_int_equal(rename(photos.text, away.text), 0);
    assert_int_equal(open_all(&opening, directory), 0);
    const struct test_path kept = test_path_in(opening.kept.text, "pets.data");
    assert_int_equal(access(kept.text, F_OK), -1); /* no samples stay */
    put_pixel(away.text, "cat", "a.png", 2);       /* sorted, it would be the first */
    assert_int_equal(rename(away.text, photos.text), 0);
    assert_int_equal(open_all(&opening, directory), 1);
    expect_part(&opening, 1, first, 2);
    offers_free(&opening.offers);
}

static void data_that_cannot_be_read_any_more_stay_as_they_were(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL};
    struct data *data AUTO(data_close) = NULL;
    struct err err = {0};
    char first[SHA256_SIZE];
    put_images(directory, "photos", 10);
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    memcpy(first, opening.offer[0].sha256, sizeof(first));
    const struct test_path photos = test_path_in(directory, "photos");
    const struct test_path images = test_path_in(photos.text, "images");
    assert_int_equal(truncate(images.text, 40), 0);
    assert_int_equal(open_all(&opening, directory), 1);
    assert_true(opening.offer[0].stale);
    assert_string_equal(opening.offer[0].sha256, first);
    assert_ok(offers_data(opening.offers, "cats", first, &data, &err), &err);
    assert_int_equal(data_info(data)->count, 10);
    put_images(directory, "photos", 12);
    assert_int_equal(open_all(&opening, directory), 1);
    assert_false(opening.offer[0].stale);
    expect_part(&opening, 1, first, 10);
    /* Who removes them wants no use of them. */
    assert_int_equal(unlink(images.text), 0);
    const struct test_path labels = test_path_in(photos.text, "labels");
    assert_int_equal(unlink(labels.text), 0);
    assert_int_equal(open_all(&opening, directory), 0);
    const struct test_path kept = test_path_in(opening.kept.text, "cats.data");
    assert_int_equal(access(kept.text, R_OK), -1);
    offers_free(&opening.offers);
}

static void a_crash_before_new_data_are_in_their_place_loses_nothing(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL};
    struct err err = {0};
    char first[SHA256_SIZE];
    struct buf before;
    put_images(directory, "photos", 10);
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    memcpy(first, opening.offer[0].sha256, sizeof(first));
    const struct test_path kept = test_path_in(opening.kept.text, "cats.data");
    buf_init(&before, 1 << 20);
    assert_ok(file_read(kept.text, &before, &err), &err);
    put_images(directory, "photos", 12);
    assert_int_equal(open_all(&opening, directory), 1);
    assert_ok(file_write_atomic(kept.text, before.data, before.size, 0600, &err), &err);
    assert_int_equal(open_all(&opening, directory), 1);
    assert_int_equal(opening.offer[0].samples, 12);
    expect_part(&opening, 1, first, 10);
    /* And the sources cannot be read any more. */
    const struct test_path made = test_path_in(opening.kept.text, "cats.new");
    assert_int_equal(rename(kept.text, made.text), 0);
    assert_ok(file_write_atomic(kept.text, before.data, before.size, 0600, &err), &err);
    const struct test_path photos = test_path_in(directory, "photos");
    const struct test_path images = test_path_in(photos.text, "images");
    assert_int_equal(truncate(images.text, 40), 0);
    assert_int_equal(open_all(&opening, directory), 1);
    assert_true(opening.offer[0].stale);
    assert_int_equal(opening.offer[0].samples, 12);
    buf_done(&before);
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
        test_with_directory(samples_that_are_appended_extend_what_was_offered),
        test_with_directory(only_the_newest_parts_are_named),
        test_with_directory(files_that_are_added_come_after_those_that_were_there),
        test_with_directory(sources_that_come_back_are_read_in_the_order_of_before),
        test_with_directory(data_that_cannot_be_read_any_more_stay_as_they_were),
        test_with_directory(a_crash_before_new_data_are_in_their_place_loses_nothing),
        cmocka_unit_test(options_that_name_no_data_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
