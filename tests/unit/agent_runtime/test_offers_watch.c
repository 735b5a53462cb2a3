/* The thread that looks at offered data sets. */
#include <fcntl.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/agent_runtime/offered.h"

/* Counts the calls of offers_watch. */
static void count_call(void *arg)
{
    sem_post(arg);
}

static void a_thread_finds_what_was_appended(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL, .look_ms = 20};
    sem_t calls;
    assert_int_equal(sem_init(&calls, 0, 0), 0);
    put_images(directory, "photos", 10);
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    offers_watch(opening.offers, count_call, &calls);
    put_images(directory, "photos", 12);
    do {
        assert_int_equal(sem_wait(&calls), 0); /* it may look between the two files */
        assert_int_equal(offers_list(opening.offers, opening.offer), 1);
    } while (opening.offer[0].stale || opening.offer[0].samples == 10);
    assert_int_equal(opening.offer[0].samples, 12);
    assert_int_equal(opening.offer[0].part_count, 1);
    const struct test_path photos = test_path_in(directory, "photos");
    const struct test_path images = test_path_in(photos.text, "images");
    assert_int_equal(unlink(images.text), 0);
    assert_int_equal(sem_wait(&calls), 0);
    assert_int_equal(offers_list(opening.offers, opening.offer), 1);
    assert_true(opening.offer[0].stale);
    assert_int_equal(opening.offer[0].samples, 12);
    assert_true(offers_unwatch(opening.offers));
    offers_free(&opening.offers);
    assert_int_equal(sem_destroy(&calls), 0);
}

static void a_disk_that_fails_is_tried_again(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL, .look_ms = 20};
    sem_t calls;
    assert_int_equal(sem_init(&calls, 0, 0), 0);
    put_images(directory, "photos", 10);
    add(&opening, "cats", directory, "photos");
    assert_int_equal(open_all(&opening, directory), 1);
    const struct test_path blocked = test_path_in(opening.kept.text, "cats.new");
    assert_int_equal(mkdir(blocked.text, 0700), 0);
    put_images(directory, "photos", 12);
    offers_watch(opening.offers, count_call, &calls);
    assert_int_equal(sem_wait(&calls), 0);
    assert_int_equal(offers_list(opening.offers, opening.offer), 1);
    assert_true(opening.offer[0].stale);
    assert_int_equal(opening.offer[0].samples, 10);
    assert_int_equal(rmdir(blocked.text), 0); /* the sources do not change */
    assert_int_equal(sem_wait(&calls), 0);
    assert_int_equal(offers_list(opening.offers, opening.offer), 1);
    assert_false(opening.offer[0].stale);
    assert_int_equal(opening.offer[0].samples, 12);
    offers_free(&opening.offers);
    assert_int_equal(sem_destroy(&calls), 0);
}

/* A file system that does not answer: to open a pipe waits for one who writes. */
static void sources_that_do_not_answer_stop_nothing_else(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL, .look_ms = 20, .hangs = true};
    sem_t calls;
    const struct test_path dead = test_path_in(directory, "dead");
    assert_int_equal(sem_init(&calls, 0, 0), 0);
    assert_int_equal(mkfifo(dead.text, 0600), 0);
    put_images(directory, "photos", 10);
    put_images(directory, "later", 12);
    add(&opening, "cats", directory, "photos");
    add(&opening, "stuck", directory, "dead");
    add(&opening, "dogs", directory, "later");
    assert_int_equal(open_all(&opening, directory), 1);
    assert_string_equal(opening.offer[0].name, "cats");
    offers_watch(opening.offers, count_call, &calls);
    const int fd = open(dead.text, O_WRONLY); /* it answers at last */
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(sem_wait(&calls), 0);
    assert_int_equal(offers_list(opening.offers, opening.offer), 2);
    assert_string_equal(opening.offer[1].name, "dogs");
    offers_free(&opening.offers);
    assert_int_equal(sem_destroy(&calls), 0);
}

static void an_end_does_not_wait_for_sources_that_do_not_answer(void **state)
{
    const char *directory = *state;
    struct opening opening = {.offers = NULL, .look_ms = 20, .hangs = true};
    const struct test_path dead = test_path_in(directory, "dead");
    assert_int_equal(mkfifo(dead.text, 0600), 0);
    add(&opening, "stuck", directory, "dead");
    assert_int_equal(open_all(&opening, directory), 0);
    assert_false(offers_unwatch(opening.offers));
    const int fd = open(dead.text, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    while (!offers_unwatch(opening.offers)) {
    }
    offers_free(&opening.offers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(a_thread_finds_what_was_appended),
        test_with_directory(a_disk_that_fails_is_tried_again),
        test_with_directory(sources_that_do_not_answer_stop_nothing_else),
        test_with_directory(an_end_does_not_wait_for_sources_that_do_not_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
