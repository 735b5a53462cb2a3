#include "cli/contexts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/command.h"
#include "tests/support/test.h"

static const struct context home = {
    .name = "home", .url = "https://home:7410", .token = "pl_home", .ca = "/ca.pem"};
static const struct context away = {.name = "away", .url = "http://127.0.0.1:7410"};

/* Store both contexts in a directory below the test's. */
static void store(const char *directory)
{
    AUTO(contexts_done) struct contexts contexts;
    struct err err = {0};
    assert_ok(contexts_read(directory, &contexts, &err), &err);
    assert_null(contexts_current(&contexts));
    assert_ok(contexts_put(&contexts, &home, &err), &err);
    assert_ok(contexts_put(&contexts, &away, &err), &err);
    assert_ok(contexts_write(&contexts, &err), &err);
}

static void contexts_are_kept_for_their_owner_alone(void **state)
{
    struct test_path directory = test_path_in(*state, "config/paceline");
    struct test_path file = test_path_in(directory.text, "contexts.json");
    store(directory.text);
    struct stat about;
    assert_int_equal(stat(file.text, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    AUTO(contexts_done) struct contexts contexts;
    struct context found;
    struct err err = {0};
    assert_ok(contexts_read(directory.text, &contexts, &err), &err);
    assert_string_equal(contexts_current(&contexts), "away");
    assert_ok(contexts_find(&contexts, "home", &found, &err), &err);
    assert_string_equal(found.url, home.url);
    assert_string_equal(found.token, home.token);
    assert_string_equal(found.ca, home.ca);
    contexts_done(&contexts);
    assert_int_equal(chmod(file.text, 0640), 0);
    assert_int_equal(contexts_read(directory.text, &contexts, &err), ERR_STATE);
    assert_holds(err.text, "others can read it; chmod 600");
}

static void a_context_is_used_and_removed_by_name(void **state)
{
    struct test_path directory = test_path_in(*state, "config");
    store(directory.text);
    AUTO(contexts_done) struct contexts contexts;
    struct context found;
    struct err err = {0};
    assert_ok(contexts_read(directory.text, &contexts, &err), &err);
    assert_ok(contexts_use(&contexts, "home", &err), &err);
    assert_string_equal(contexts_current(&contexts), "home");
    assert_ok(contexts_remove(&contexts, "away", &err), &err);
    assert_string_equal(contexts_current(&contexts), "home");
    assert_ok(contexts_remove(&contexts, "home", &err), &err);
    assert_null(contexts_current(&contexts));
    assert_int_equal(contexts_find(&contexts, "home", &found, &err), ERR_NOT_FOUND);
}

static void an_unknown_context_names_the_nearest(void **state)
{
    struct test_path directory = test_path_in(*state, "config");
    store(directory.text);
    AUTO(contexts_done) struct contexts contexts;
    struct err err = {0};
    assert_ok(contexts_read(directory.text, &contexts, &err), &err);
    assert_int_equal(contexts_use(&contexts, "hoem", &err), ERR_NOT_FOUND);
    assert_string_equal(err.text, "no context 'hoem'; did you mean 'home'?");
    assert_int_equal(contexts_remove(&contexts, "x", &err), ERR_NOT_FOUND);
    assert_string_equal(err.text, "no context 'x' (see paceline context list)");
}

static void a_damaged_file_is_named(void **state)
{
    static const char *const texts[] = {"", "{", "[]", "{\"contexts\": []}"};
    struct test_path file = test_path_in(*state, "contexts.json");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        AUTO(contexts_done) struct contexts contexts;
        struct err err = {0};
        assert_ok(file_write_atomic(file.text, texts[i], strlen(texts[i]), 0600, &err), &err);
        assert_int_equal(contexts_read(*state, &contexts, &err), ERR_FORMAT);
        assert_holds(err.text, "contexts.json: ");
    }
}

static void a_token_in_the_command_line_is_overwritten(void **state)
{
    char words[3][32] = {"paceline", "login", "ftp://x"};
    char token[] = "pl_secret";
    char *argv[] = {words[0], words[1], words[2], token, NULL};
    const struct environment environment = {.config = *state};
    char *said = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&said, &size);
    assert_non_null(out);
    assert_int_equal(command_run(4, argv, &environment, out, out), COMMAND_USAGE);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(token, "xxxxxxxxx");
    assert_holds(said, "'ftp://x' is not a server");
    assert_null(strstr(said, "secret"));
    free(said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(contexts_are_kept_for_their_owner_alone),
        test_with_directory(a_context_is_used_and_removed_by_name),
        test_with_directory(an_unknown_context_names_the_nearest),
        test_with_directory(a_damaged_file_is_named),
        test_with_directory(a_token_in_the_command_line_is_overwritten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
