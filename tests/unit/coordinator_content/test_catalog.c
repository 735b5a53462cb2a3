#include <stdio.h>
#include <string.h>

#include "coordinator/content/catalog.h"
#include "coordinator/store/state.h"
#include "libtrain/description/description.h"
#include "tests/support/test.h"

struct room {
    struct state_store *state;
    struct catalog *catalog;
};

static void open_room(struct room *room, const char *directory)
{
    struct err err = {0};
    assert_ok(state_open(directory, &room->state, &err), &err);
    assert_ok(catalog_new(room->state, &room->catalog, &err), &err);
}

static void close_room(struct room *room)
{
    catalog_free(&room->catalog);
    assert_null(room->catalog);
    state_close(&room->state);
}

/* A model whose hidden layer is `units` wide. */
static const struct catalog_entry *resolve(struct room *room, int units, uint32_t classes)
{
    char text[512];
    int length = snprintf(
        text, sizeof(text),
        "{\"name\": \"m\", \"units\": [{\"name\": \"a\", \"ops\": [{\"type\": \"flatten\"}, "
        "{\"type\": \"linear\", \"units\": %d}]}, {\"name\": \"b\", \"ops\": [{\"type\": "
        "\"linear\", "
        "\"units\": \"classes\"}]}]}",
        units);
    const struct model_fit fit = {{8, 8, 1}, DTYPE_U8, classes, 1};
    json_auto_t *description = NULL;
    const struct catalog_entry *entry = NULL;
    struct record_faults faults = {0};
    struct err err = {0};
    assert_ok(json_parse(text, (size_t)length, &description, &err), &err);
    assert_ok(catalog_resolve(room->catalog, description, &fit, NULL, &entry, &faults, &err), &err);
    return entry;
}

/* Fitted to a job that normalises: the description contains that, so it is another model. */
static void a_normalised_model_is_another_entry(void **state)
{
    static const struct normalise normalise = {
        .mean = {0.5}, .std = {0.25}, .mean_count = 1, .std_count = 1};
    const struct model_fit fit = {{8, 8, 1}, DTYPE_U8, 10, 1};
    struct room room;
    open_room(&room, *state);
    const struct catalog_entry *plain = resolve(&room, 5, 10);
    const struct catalog_entry *entry = NULL;
    struct err err = {0};
    assert_ok(catalog_resolve(room.catalog, plain->description, &fit,
                              &(struct catalog_change){.normalise = &normalise}, &entry, NULL,
                              &err),
              &err);
    assert_string_not_equal(entry->sha256, plain->sha256);
    assert_holds(entry->text.data, "\"mean\":[0.5],\"std\":[0.25]");
    assert_int_equal(entry->model->input_normalise.mean_count, 1);
    close_room(&room);
}

static void put_row(struct room *room, const char *sha256, const char *text, size_t size)
{
    struct err err = {0};
    struct state_row row = {sha256, "", 1, 0, text, size};
    assert_ok(state_begin(room->state, &err), &err);
    assert_ok(state_put(room->state, STATE_DESCRIPTIONS, &row, &err), &err);
    assert_ok(state_commit(room->state, &err), &err);
}

static bool is_unused(const void *arg, const char *sha256)
{
    (void)arg;
    (void)sha256;
    return false;
}

static bool only(const void *arg, const char *sha256)
{
    return strcmp(arg, sha256) == 0;
}

static void a_model_is_resolved_once(void **state)
{
    struct room room;
    open_room(&room, *state);
    const struct catalog_entry *first = resolve(&room, 16, 10);
    assert_ptr_equal(resolve(&room, 16, 10), first);
    assert_ptr_not_equal(resolve(&room, 16, 3), first);
    assert_ptr_not_equal(resolve(&room, 17, 10), first);
    assert_int_equal(catalog_count(room.catalog), 3);
    assert_int_equal(first->model->unit_count, 2);
    assert_non_null(json_object_get(first->description, "input"));
    close_room(&room);
}

static void a_model_is_found_again_by_its_hash_after_a_restart(void **state)
{
    struct room room;
    struct err err = {0};
    const struct catalog_entry *found = NULL;
    open_room(&room, *state);
    const struct catalog_entry *entry = resolve(&room, 16, 10);
    char sha256[HASH_TEXT_SIZE];
    memcpy(sha256, entry->sha256, sizeof(sha256));
    put_row(&room, sha256, entry->text.data, entry->text.size);
    close_room(&room);
    open_room(&room, *state);
    assert_ok(catalog_find(room.catalog, sha256, &found, &err), &err);
    assert_string_equal(found->sha256, sha256);
    assert_ptr_equal(resolve(&room, 16, 10), found);
    assert_int_equal(catalog_find(room.catalog, "0000", &found, &err), ERR_NOT_FOUND);
    close_room(&room);
}

/* The same description with other digits, spaces or order, as another version wrote it. */
static void a_row_that_an_earlier_version_wrote_keeps_its_hash(void **state)
{
    static const char change[] = "\"mean\":[0.5]";
    static const char other[] = "\"mean\": [0.50000000000000000]";
    static const struct normalise normalise = {
        .mean = {0.5}, .std = {0.25}, .mean_count = 1, .std_count = 1};
    const struct model_fit fit = {{8, 8, 1}, DTYPE_U8, 10, 1};
    struct room room;
    struct err err = {0};
    const struct catalog_entry *entry = NULL, *found = NULL;
    open_room(&room, *state);
    const struct catalog_entry *plain = resolve(&room, 5, 10);
    assert_ok(catalog_resolve(room.catalog, plain->description, &fit,
                              &(struct catalog_change){.normalise = &normalise}, &entry, NULL,
                              &err),
              &err);
    const char *at = strstr(entry->text.data, change);
    assert_non_null(at);
    BUF_AUTO struct buf text;
    buf_init(&text, 65536);
    assert_ok(buf_printf(&text, &err, "%.*s%s%s", (int)(at - entry->text.data), entry->text.data,
                         other, at + sizeof(change) - 1),
              &err);
    char sha256[HASH_TEXT_SIZE];
    sha256_text(text.data, text.size, sha256);
    put_row(&room, sha256, text.data, text.size);
    assert_ok(catalog_find(room.catalog, sha256, &found, &err), &err);
    assert_string_equal(found->sha256, sha256);
    assert_int_equal(found->model->input_normalise.mean_count, 1);
    const struct catalog_entry *again = NULL;
    assert_ok(catalog_find(room.catalog, sha256, &again, &err), &err);
    assert_ptr_equal(again, found);
    close_room(&room);
}

static void damaged_rows_are_format_errors(void **state)
{
    struct room room;
    struct err err = {0};
    const struct catalog_entry *found = NULL;
    open_room(&room, *state);
    put_row(&room, "1111", "{not json", 9);
    assert_int_equal(catalog_find(room.catalog, "1111", &found, &err), ERR_FORMAT);
    assert_holds(err.text, "1111");
    const struct catalog_entry *other = resolve(&room, 16, 10);
    put_row(&room, "2222", other->text.data, other->text.size);
    assert_int_equal(catalog_find(room.catalog, "2222", &found, &err), ERR_FORMAT);
    assert_holds(err.text, "another");
    close_room(&room);
}

static void a_description_that_does_not_fit_is_refused_at_its_place(void **state)
{
    struct room room;
    struct err err = {0};
    struct record_faults faults = {0};
    const struct catalog_entry *entry = NULL;
    const struct model_fit fit = {{8, 8, 1}, DTYPE_U8, 10, 1};
    json_auto_t *description = NULL;
    static const char text[] = "{\"name\": \"m\", \"units\": [{\"name\": \"a\", \"ops\": "
                               "[{\"type\": \"linear\", \"units\": 4}]}]}";
    open_room(&room, *state);
    assert_ok(json_parse(text, sizeof(text) - 1, &description, &err), &err);
    assert_int_equal(catalog_resolve(room.catalog, description, &fit, NULL, &entry, &faults, &err),
                     ERR_INVALID);
    assert_true(faults.count > 0);
    assert_holds(faults.fault[0].pointer, "/units/0");
    assert_int_equal(catalog_count(room.catalog), 0);
    close_room(&room);
}

static void only_unused_models_are_evicted_when_the_catalog_is_full(void **state)
{
    struct room room;
    open_room(&room, *state);
    char used[HASH_TEXT_SIZE], pinned[HASH_TEXT_SIZE];
    memcpy(used, resolve(&room, 1, 10)->sha256, sizeof(used));
    memcpy(pinned, resolve(&room, 2, 10)->sha256, sizeof(pinned));
    const struct model *model = resolve(&room, 2, 10)->model;
    catalog_pin(room.catalog, pinned);
    catalog_pin(room.catalog, pinned);
    catalog_trim(room.catalog, is_unused, NULL);
    assert_int_equal(catalog_count(room.catalog), 2); /* few are kept for their own sake */
    for (int units = 3; units < 100; units++) {
        (void)resolve(&room, units, 10);
    }
    catalog_trim(room.catalog, only, used);
    size_t few = catalog_count(room.catalog);
    assert_true(few < 50);
    assert_ptr_equal(resolve(&room, 2, 10)->model, model);
    (void)resolve(&room, 1, 10);
    assert_int_equal(catalog_count(room.catalog), few);
    catalog_unpin(room.catalog, pinned);
    catalog_unpin(room.catalog, pinned);
    for (int units = 100; units < 200; units++) {
        (void)resolve(&room, units, 10);
    }
    catalog_trim(room.catalog, is_unused, NULL);
    few = catalog_count(room.catalog);
    (void)resolve(&room, 2, 10);
    assert_int_equal(catalog_count(room.catalog), few + 1);
    close_room(&room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(a_model_is_resolved_once),
        test_with_directory(a_normalised_model_is_another_entry),
        test_with_directory(a_model_is_found_again_by_its_hash_after_a_restart),
        test_with_directory(a_row_that_an_earlier_version_wrote_keeps_its_hash),
        test_with_directory(damaged_rows_are_format_errors),
        test_with_directory(a_description_that_does_not_fit_is_refused_at_its_place),
        test_with_directory(only_unused_models_are_evicted_when_the_catalog_is_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
