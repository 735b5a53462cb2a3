#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "coordinator/access/setup.h"
#include "coordinator/access/tokens.h"
#include "coordinator/store/state.h"
#include "net/hash.h"

#define NOW_MS 1770000000000ll
#define MINUTE_MS 60000ll

struct room {
    struct state_store *state;
    struct tokens *tokens;
};

static void open_room(struct room *room, const char *directory)
{
    struct err err = {0};
    assert_ok(state_open(directory, &room->state, &err), &err);
    assert_ok(tokens_new(room->state, &room->tokens, &err), &err);
}

static void close_room(struct room *room)
{
    tokens_free(&room->tokens);
    state_close(&room->state);
}

static void reopen(struct room *room, const char *directory)
{
    close_room(room);
    open_room(room, directory);
}

static bool always(void *arg, size_t place)
{
    (void)arg;
    (void)place;
    return true;
}

static bool never(void *arg, size_t place)
{
    (void)arg;
    (void)place;
    return false;
}

static void begin(struct room *room)
{
    struct err err = {0};
    assert_ok(state_begin(room->state, &err), &err);
}

static void commit(struct room *room)
{
    struct err err = {0};
    assert_ok(state_commit(room->state, &err), &err);
}

static struct token_request request_for(const char *name, enum role role, int64_t seconds)
{
    struct token_request request = {.role = TOKEN_ROLE(role), .expires_seconds = seconds};
    snprintf(request.name, sizeof(request.name), "%s", name);
    return request;
}

static size_t create(struct room *room, const char *name, enum role role, int64_t seconds,
                     char secret[TOKEN_TEXT_SIZE])
{
    struct err err = {0};
    const struct token_request request = request_for(name, role, seconds);
    size_t place;
    begin(room);
    assert_ok(tokens_create(room->tokens, &request, NOW_MS, always, NULL, &place, secret, &err),
              &err);
    commit(room);
    return place;
}

static void a_secret_has_256_bits_in_the_url_safe_alphabet(void **state)
{
    (void)state;
    uint8_t bytes[TOKEN_BYTES];
    char text[TOKEN_TEXT_SIZE];
    memset(bytes, 0xff, sizeof(bytes));
    token_write(bytes, text);
    assert_string_equal(text, "pl_"
                              "__________________________________________8");
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)i;
    }
    token_write(bytes, text);
    assert_string_equal(text, "pl_"
                              "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8");
    assert_true(token_valid(text));
    text[10] = '+';
    assert_false(token_valid(text));
    assert_false(token_valid("pl_"));
    assert_false(token_valid(""));
}

static void a_token_is_found_by_its_secret_before_and_after_a_restart(void **state)
{
    struct room room;
    char secret[TOKEN_TEXT_SIZE], other[TOKEN_TEXT_SIZE];
    open_room(&room, *state);
    create(&room, "first", ROLE_READ, 0, other);
    size_t place = create(&room, "ci", ROLE_SUBMIT, 60, secret);
    assert_string_not_equal(secret, other);
    assert_true(token_valid(secret));
    for (int life = 0; life < 2; life++) {
        place = tokens_find_secret(room.tokens, secret);
        const struct token *token = tokens_at(room.tokens, place);
        assert_non_null(token);
        assert_string_equal(token->name, "ci");
        assert_int_equal(token_role(token), ROLE_SUBMIT);
        assert_int_equal(token_state_at(token, NOW_MS + 59999), TOKEN_ACTIVE);
        assert_int_equal(token_state_at(token, NOW_MS + 60000), TOKEN_EXPIRED);
        secret[20] ^= 1;
        assert_int_equal(tokens_find_secret(room.tokens, secret), TOKENS_NONE);
        assert_int_equal(tokens_find_secret(room.tokens, ""), TOKENS_NONE);
        secret[20] ^= 1;
        reopen(&room, *state);
    }
    close_room(&room);
}

static void the_database_holds_no_secret(void **state)
{
    struct err err = {0};
    char secret[TOKEN_TEXT_SIZE];
    assert_ok(access_make_tokens(*state, secret, NULL, &err), &err);
    static const char *const names[] = {"state.db", "state.db-wal"};
    for (size_t i = 0; i < 2; i++) {
        FILE *file = fopen(test_path_in(*state, names[i]).text, "rb");
        static char data[1 << 20];
        const size_t size = file ? fread(data, 1, sizeof(data), file) : 0;
        assert_null(memmem(data, size, secret, TOKEN_TEXT_SIZE - 1));
        if (file) {
            fclose(file);
        }
    }
}

static void a_revoked_token_stays_revoked_and_frees_its_name(void **state)
{
    struct room room;
    struct err err = {0};
    char secret[TOKEN_TEXT_SIZE];
    open_room(&room, *state);
    const size_t place = create(&room, "ci", ROLE_ADMIN, 0, secret);
    assert_int_equal(tokens_admins(room.tokens, NOW_MS), 1);
    assert_int_equal(tokens_find_name(room.tokens, "ci", NOW_MS), place);
    begin(&room);
    assert_ok(tokens_revoke(room.tokens, place, NOW_MS, &err), &err);
    commit(&room);
    reopen(&room, *state);
    const struct token *token = tokens_at(room.tokens, tokens_find_secret(room.tokens, secret));
    assert_non_null(token);
    assert_int_equal(token_state_at(token, NOW_MS), TOKEN_REVOKED);
    assert_int_equal(token->revision, 2);
    assert_int_equal(tokens_find_name(room.tokens, "ci", NOW_MS), TOKENS_NONE);
    assert_int_equal(tokens_admins(room.tokens, NOW_MS), 0);
    close_room(&room);
}

static size_t count_rows(struct room *room)
{
    struct err err = {0};
    size_t count = 0;
    assert_ok(state_count(room->state, STATE_TOKENS, &count, &err), &err);
    return count;
}

static void the_token_that_ended_first_makes_room_and_an_active_one_never(void **state)
{
    struct room room;
    struct err err = {0};
    char secret[TOKEN_TEXT_SIZE];
    open_room(&room, *state);
    begin(&room);
    for (int i = 0; i < TOKENS_MAX; i++) {
        char name[NAME_SIZE];
        size_t place;
        snprintf(name, sizeof(name), "t%d", i);
        const struct token_request request = request_for(name, ROLE_READ, i == 7 || i == 9 ? i : 0);
        assert_ok(tokens_create(room.tokens, &request, NOW_MS, always, NULL, &place, secret, &err),
                  &err);
    }
    commit(&room);
    const struct token_request more = request_for("more", ROLE_READ, 0);
    size_t place;
    begin(&room);
    assert_int_equal(tokens_create(room.tokens, &more, NOW_MS, always, NULL, &place, secret, &err),
                     ERR_LIMIT);
    assert_int_equal(
        tokens_create(room.tokens, &more, NOW_MS + 20000, never, NULL, &place, secret, &err),
        ERR_LIMIT);
    assert_ok(tokens_create(room.tokens, &more, NOW_MS + 20000, always, NULL, &place, secret, &err),
              &err);
    commit(&room);
    assert_int_equal(place, 7);
    assert_int_equal(count_rows(&room), TOKENS_MAX);
    reopen(&room, *state);
    assert_int_not_equal(tokens_find_secret(room.tokens, secret), TOKENS_NONE);
    close_room(&room);
}

static void a_use_is_written_once_a_minute(void **state)
{
    struct room room;
    struct err err = {0};
    char secret[TOKEN_TEXT_SIZE];
    open_room(&room, *state);
    const size_t place = create(&room, "ci", ROLE_READ, 0, secret);
    const int64_t uses_ms[] = {0, 1, MINUTE_MS - 1, MINUTE_MS, MINUTE_MS + 5, -MINUTE_MS};
    const bool written[] = {true, false, false, true, false, false};
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
        tokens_use(room.tokens, place, NOW_MS + uses_ms[i]);
        assert_int_equal(tokens_used(room.tokens), written[i]);
        begin(&room);
        assert_ok(tokens_write_uses(room.tokens, &err), &err);
        commit(&room);
        assert_false(tokens_used(room.tokens));
    }
    reopen(&room, *state);
    assert_int_equal(tokens_at(room.tokens, 0)->last_used_ms, NOW_MS + MINUTE_MS);
    close_room(&room);
}

static void bytes_and_jobs_of_a_quota_are_counted_and_written(void **state)
{
    struct room room;
    struct err err = {0};
    char secret[TOKEN_TEXT_SIZE];
    struct token_request request = request_for("student", ROLE_SUBMIT, 0);
    size_t place;
    request.max_bytes = 1000;
    request.max_jobs = 2;
    open_room(&room, *state);
    begin(&room);
    assert_ok(tokens_create(room.tokens, &request, NOW_MS, always, NULL, &place, secret, &err),
              &err);
    commit(&room);
    const struct token *token = tokens_at(room.tokens, place);
    assert_int_equal(token->max_bytes, 1000);
    tokens_add_bytes(room.tokens, place, 300);
    tokens_add_bytes(room.tokens, place, 50);
    assert_true(tokens_used(room.tokens));
    begin(&room);
    assert_ok(tokens_write_uses(room.tokens, &err), &err);
    commit(&room);
    assert_false(tokens_used(room.tokens));
    reopen(&room, *state);
    assert_int_equal(tokens_at(room.tokens, 0)->used_bytes, 350);
    /* A row for another reason has the bytes too. */
    tokens_add_bytes(room.tokens, 0, 50);
    begin(&room);
    assert_ok(tokens_spend(room.tokens, tokens_at(room.tokens, 0)->id, NOW_MS, &err), &err);
    commit(&room);
    reopen(&room, *state);
    assert_int_equal(tokens_at(room.tokens, 0)->used_bytes, 400);
    assert_int_equal(tokens_at(room.tokens, 0)->used_jobs, 1);
    assert_int_equal(token_state_at(tokens_at(room.tokens, 0), NOW_MS), TOKEN_ACTIVE);
    close_room(&room);
}

static void the_first_admin_token_switches_tokens_on_for_good(void **state)
{
    struct room room;
    struct err err = {0};
    char secret[TOKEN_TEXT_SIZE], second[TOKEN_TEXT_SIZE], join[TOKEN_TEXT_SIZE];
    open_room(&room, *state);
    assert_false(tokens_required(room.tokens));
    assert_int_equal(access_make_tokens(*state, secret, NULL, &err), ERR_STATE);
    close_room(&room);
    assert_ok(access_make_tokens(*state, secret, NULL, &err), &err);
    assert_ok(access_make_tokens(*state, second, join, &err), &err);
    open_room(&room, *state);
    assert_true(tokens_required(room.tokens));
    const size_t place = tokens_find_secret(room.tokens, secret);
    assert_string_equal(tokens_at(room.tokens, place)->name, "admin");
    assert_int_equal(token_role(tokens_at(room.tokens, place)), ROLE_ADMIN);
    assert_string_equal(tokens_at(room.tokens, tokens_find_secret(room.tokens, second))->name,
                        "admin-2");
    assert_int_equal(tokens_at(room.tokens, place)->expires_ms, 0);
    const struct token *joins = tokens_at(room.tokens, tokens_find_secret(room.tokens, join));
    assert_int_equal(token_role(joins), ROLE_JOIN);
    assert_int_equal(joins->uses_left, SETUP_JOIN_USES);
    assert_int_equal(joins->expires_ms - joins->created_ms, TOKEN_JOIN_SECONDS * 1000);
    close_room(&room);
}

static void a_join_token_reads_as_it_is_written(void **state)
{
    (void)state;
    struct join_token token = {.ca_sha256 = ""}, read;
    char text[JOIN_TOKEN_SIZE], longer[JOIN_TOKEN_SIZE + 8];
    uint8_t bytes[TOKEN_BYTES] = {0};
    token_write(bytes, token.secret);
    join_token_write(&token, text);
    assert_string_equal(text, token.secret);
    assert_true(join_token_read(text, &read));
    assert_string_equal(read.ca_sha256, "");
    memset(token.ca_sha256, 'e', SHA256_SIZE - 1);
    join_token_write(&token, text);
    assert_int_equal(strlen(text), JOIN_TOKEN_SIZE - 1);
    assert_true(join_token_read(text, &read));
    assert_memory_equal(&read, &token, sizeof(read));
    for (size_t size = 0; size < sizeof(text) - 1; size++) { /* one that was cut off */
        snprintf(longer, sizeof(longer), "%.*s", (int)size, text);
        assert_int_equal(join_token_read(longer, &read), size == TOKEN_TEXT_SIZE - 1);
    }
    snprintf(longer, sizeof(longer), "%s0", text);
    assert_false(join_token_read(longer, &read));
    text[TOKEN_TEXT_SIZE - 1] = '-';
    assert_false(join_token_read(text, &read));
    text[TOKEN_TEXT_SIZE - 1] = '_';
    text[TOKEN_TEXT_SIZE] = 'E';
    assert_false(join_token_read(text, &read));
}

static void a_join_token_ends_with_its_last_use_and_makes_room(void **state)
{
    struct room room;
    struct err err = {0};
    char secret[TOKEN_TEXT_SIZE];
    struct token_request request = request_for("", ROLE_JOIN, 1000000);
    size_t place;
    request.uses = 2;
    open_room(&room, *state);
    begin(&room);
    assert_ok(tokens_create(room.tokens, &request, NOW_MS, always, NULL, &place, secret, &err),
              &err);
    commit(&room);
    const struct token *token = tokens_at(room.tokens, place);
    assert_int_equal(strlen(token->name), strlen("join-") + 8);
    assert_memory_equal(token->name, "join-", 5);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(token_state_at(token, NOW_MS), TOKEN_ACTIVE);
        begin(&room);
        assert_ok(tokens_spend(room.tokens, token->id, NOW_MS + i, &err), &err);
        commit(&room);
    }
    reopen(&room, *state);
    token = tokens_at(room.tokens, tokens_find_secret(room.tokens, secret));
    assert_int_equal(token_state_at(token, NOW_MS), TOKEN_USED_UP);
    assert_int_equal(token->last_used_ms, NOW_MS + 1);
    begin(&room);
    for (int i = 1; i <= TOKENS_MAX; i++) {
        char name[NAME_SIZE], other[TOKEN_TEXT_SIZE];
        snprintf(name, sizeof(name), "t%d", i);
        const struct token_request more = request_for(name, ROLE_READ, 0);
        assert_ok(tokens_create(room.tokens, &more, NOW_MS, always, NULL, &place, other, &err),
                  &err);
    }
    commit(&room);
    assert_int_equal(tokens_find_secret(room.tokens, secret), TOKENS_NONE);
    close_room(&room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_has_256_bits_in_the_url_safe_alphabet),
        test_with_directory(a_token_is_found_by_its_secret_before_and_after_a_restart),
        test_with_directory(the_database_holds_no_secret),
        test_with_directory(a_revoked_token_stays_revoked_and_frees_its_name),
        test_with_directory(the_token_that_ended_first_makes_room_and_an_active_one_never),
        test_with_directory(a_use_is_written_once_a_minute),
        test_with_directory(bytes_and_jobs_of_a_quota_are_counted_and_written),
        test_with_directory(the_first_admin_token_switches_tokens_on_for_good),
        cmocka_unit_test(a_join_token_reads_as_it_is_written),
        test_with_directory(a_join_token_ends_with_its_last_use_and_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
