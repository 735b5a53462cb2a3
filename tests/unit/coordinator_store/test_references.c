/* Which rows name which contents, and what goes when none does. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "coordinator/store/state.h"
#include "tests/unit/coordinator_store/state_support.h"

static void put(struct state_store *store, enum state_table table, const char *id,
                const char *document)
{
    struct err err = {0};
    const struct state_row row = {id, "", 1, 1000, document, strlen(document)};
    assert_ok(state_put(store, table, &row, &err), &err);
}

static void begin(struct state_store *store)
{
    struct err err = {0};
    assert_ok(state_begin(store, &err), &err);
}

static void commit(struct state_store *store)
{
    struct err err = {0};
    assert_ok(state_commit(store, &err), &err);
}

static bool add_id(void *arg, const struct state_row *row)
{
    char *ids = arg;
    const size_t used = strlen(ids);
    (void)snprintf(ids + used, 256 - used, "%s%s", used > 0 ? " " : "", row->id);
    return true;
}

static void assert_descriptions(struct state_store *store, const char *expected)
{
    char ids[256] = "";
    struct err err = {0};
    assert_ok(state_list(store, STATE_DESCRIPTIONS, NULL, "", 10, false, add_id, ids, &err), &err);
    assert_string_equal(ids, expected);
}

struct named {
    char text[512];
};

static bool note_reference(void *arg, const char *table, const char *id, const char *sha256)
{
    struct named *named = arg;
    const size_t used = strlen(named->text);
    (void)snprintf(named->text + used, sizeof(named->text) - used, "%s %s %s;", table, id,
                   sha256 ? sha256 : "?");
    return true;
}

static void put_referring_rows(struct state_store *store)
{
    begin(store);
    put(store, STATE_DATASETS, "d", "{\"sha256\":\"D\",\"class_names_sha256\":\"names\"}");
    put(store, STATE_CHECKPOINTS, "c", "{\"sha256\":\"C\"}");
    put(store, STATE_CENTER_UNITS, "u", "{\"sha256\":\"U\"}");
    put(store, STATE_MODELS, "m", "{\"sha256\":\"posted\"}");
    put(store, STATE_JOBS, "live",
        "{\"state\":\"paused\",\"spec\":{\"model\":{\"sha256\":\"trained\"}},"
        "\"data\":{\"train_sha256\":\"T\",\"test_sha256\":null,\"checkpoint_sha256\":\"I\"}}");
    put(store, STATE_JOBS, "over",
        "{\"state\":\"failed\",\"spec\":{\"model\":{\"sha256\":\"ended\"}},"
        "\"data\":{\"train_sha256\":\"gone\",\"test_sha256\":\"gone\"}}");
    for (size_t i = 0; i < 5; i++) {
        static const char *const texts[] = {"names", "posted", "trained", "ended", "unnamed"};
        put(store, STATE_DESCRIPTIONS, texts[i], "{}");
    }
    commit(store);
}

static void rows_name_the_blobs_that_they_need(void **state)
{
    struct state_store *store = open_state(state);
    struct named named = {""};
    struct err err = {0};
    put_referring_rows(store);
    assert_ok(state_references(store, note_reference, &named, &err), &err);
    assert_string_equal(named.text,
                        "datasets d D;checkpoints c C;center_units u U;jobs live T;jobs live I;");
    begin(store);
    put(store, STATE_CHECKPOINTS, "nameless", "{\"id\":\"nameless\"}");
    put(store, STATE_CHECKPOINTS, "torn", "{\"sha256\":");
    commit(store);
    named.text[0] = '\0';
    assert_ok(state_references(store, note_reference, &named, &err), &err);
    assert_holds(named.text, "checkpoints nameless ?;checkpoints torn ?;");
    state_close(&store);
}

static void descriptions_without_a_name_are_swept(void **state)
{
    struct state_store *store = open_state(state);
    struct err err = {0};
    size_t removed = 0;
    put_referring_rows(store);
    assert_ok(state_sweep_texts(store, &removed, &err), &err);
    assert_int_equal(removed, 1);
    assert_descriptions(store, "ended names posted trained");
    begin(store);
    assert_ok(state_delete(store, STATE_JOBS, "over", &err), &err);
    put(store, STATE_JOBS, "torn", "{\"spec\":");
    commit(store);
    assert_true(state_sweep_texts(store, &removed, &err) < 0); /* it may name any */
    assert_descriptions(store, "ended names posted trained");
    begin(store);
    assert_ok(state_delete(store, STATE_JOBS, "torn", &err), &err);
    commit(store);
    assert_ok(state_sweep_texts(store, &removed, &err), &err);
    assert_int_equal(removed, 1);
    assert_descriptions(store, "names posted trained");
    state_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(rows_name_the_blobs_that_they_need),
        test_with_directory(descriptions_without_a_name_are_swept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
