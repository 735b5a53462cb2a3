/* offered.h: data sets for the tests of offers.h. */
#ifndef TESTS_UNIT_AGENT_RUNTIME_OFFERED_H
#define TESTS_UNIT_AGENT_RUNTIME_OFFERED_H

#include <stdio.h>
#include <string.h>

#include "agent/runtime/offers.h"
#include "base/file.h"
#include "tests/support/test.h"

enum { SIDE = 4, IMAGE_BYTES = SIDE * SIDE, PATIENCE_MS = 1500 };

/* A directory "DIR/name" with an IDX pair of `count` images of 3 classes. */
static inline void put_images(const char *directory, const char *name, unsigned char count)
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
    struct offer offer[OFFERS_MAX];
    int64_t look_ms;
    bool hangs; /* sources do not answer */
};

static inline void add(struct opening *opening, const char *name, const char *directory,
                       const char *path)
{
    char *item = opening->text[opening->list.count];
    (void)snprintf(item, sizeof(opening->text[0]), "%s=%s/%s", name, directory, path);
    opening->list.item[opening->list.count++] = item;
}

static inline size_t open_all(struct opening *opening, const char *directory)
{
    struct err err = {0};
    opening->kept = test_path_in(directory, "kept");
    const struct offers_config config = {.directory = opening->kept.text,
                                         .data = &opening->list,
                                         .reading = "",
                                         .cancel_fd = -1,
                                         .look_ms = opening->look_ms,
                                         .patience_ms =
                                             opening->hangs ? PATIENCE_MS : INT64_MAX / 2};
    offers_free(&opening->offers);
    assert_ok(offers_check(&opening->list, "", &err), &err);
    assert_ok(offers_open(&config, &opening->offers, &err), &err);
    return offers_list(opening->offers, opening->offer);
}

#endif
