#include "base/conf.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/test.h"

struct options {
    bool insecure;
    char state_dir[16];
    struct conf_list labels;
    int64_t port;
    int64_t any_int;
    double slowdown;
    uint64_t memory_bytes;
};

static const struct conf_option table[] = {
    {.name = "insecure",
     .letter = 'i',
     .type = CONF_FLAG,
     .offset = offsetof(struct options, insecure),
     .help = "listen anywhere"},
    {.name = "state-dir",
     .letter = 's',
     .type = CONF_TEXT,
     .offset = offsetof(struct options, state_dir),
     .size = sizeof(((struct options *)0)->state_dir),
     .value_name = "DIR",
     .help = "where the state lies"},
    {.name = "label",
     .type = CONF_LIST,
     .offset = offsetof(struct options, labels),
     .value_name = "K=V",
     .help = "a label"},
    {.name = "port",
     .type = CONF_INT,
     .offset = offsetof(struct options, port),
     .min = 1,
     .max = 65535,
     .value_name = "N",
     .help = "port to listen on;\n7410 if not given"},
    {.name = "any-int",
     .type = CONF_INT,
     .offset = offsetof(struct options, any_int),
     .min = -0x1p63,
     .max = 0x1p63,
     .value_name = "N",
     .help = "any number"},
    {.name = "slowdown",
     .type = CONF_DOUBLE,
     .offset = offsetof(struct options, slowdown),
     .min = 1,
     .max = 100,
     .value_name = "F",
     .help = "stretch"},
    {.name = "memory",
     .type = CONF_SIZE,
     .offset = offsetof(struct options, memory_bytes),
     .value_name = "BYTES",
     .help = "cap"},
};

static const struct conf_program program = {
    .name = "paceline-test",
    .summary = "Tests its options.",
    .usage = "[FILE...]",
    .other_usage = "again FILE",
    .options = table,
    .option_count = sizeof(table) / sizeof(table[0]),
    .positional_min = 0,
    .positional_max = 3,
};

#define ARGUMENTS_MAX 80

struct outcome {
    struct options options;
    struct conf_list positional;
    struct err err;
    bool done;
    int rc;
};

/* Parse the words given, up to NULL, over the defaults. */
static void run(struct outcome *out, const char *const *words)
{
    char *argv[ARGUMENTS_MAX] = {(char *)(uintptr_t) "test"};
    int argc = 1;
    for (; words[argc - 1]; argc++) {
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    }
    *out = (struct outcome){.options = {.port = 7410, .slowdown = 1, .state_dir = "default"}};
    out->rc =
        conf_parse(&program, argc, argv, &out->options, &out->positional, &out->done, &out->err);
}

static void absent_options_keep_their_defaults(void **state)
{
    (void)state;
    struct outcome out;
    run(&out, (const char *const[]){NULL});
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.options.port, 7410);
    assert_string_equal(out.options.state_dir, "default");
    assert_false(out.options.insecure || out.done);
    assert_int_equal(out.positional.count, 0);
}

static void every_type_is_read_in_both_spellings(void **state)
{
    (void)state;
    struct outcome out;
    run(&out, (const char *const[]){"--insecure", "--state-dir", "/x", "--label=a=1", "one",
                                    "--port=80", "--slowdown", "2.5", "--memory", "64K", "--label",
                                    "b=2", "two", NULL});
    assert_ok(out.rc, &out.err);
    assert_true(out.options.insecure);
    assert_string_equal(out.options.state_dir, "/x");
    assert_int_equal(out.options.labels.count, 2);
    assert_string_equal(out.options.labels.item[0], "a=1");
    assert_string_equal(out.options.labels.item[1], "b=2");
    assert_int_equal(out.options.port, 80);
    assert_close(&out.options.slowdown, (&(const double){2.5}), 1, 0);
    assert_int_equal(out.options.memory_bytes, 65536);
    assert_int_equal(out.positional.count, 2);
    assert_string_equal(out.positional.item[1], "two");
}

static void the_last_value_wins_and_a_flag_can_be_taken_back(void **state)
{
    (void)state;
    struct outcome out;
    run(&out,
        (const char *const[]){"--insecure", "--port=1", "--insecure=false", "--port=2", NULL});
    assert_ok(out.rc, &out.err);
    assert_false(out.options.insecure);
    assert_int_equal(out.options.port, 2);
}

static void a_letter_stands_for_its_option(void **state)
{
    (void)state;
    struct outcome out;
    run(&out, (const char *const[]){"-i", "one", "-s", "/x", NULL});
    assert_ok(out.rc, &out.err);
    assert_true(out.options.insecure);
    assert_string_equal(out.options.state_dir, "/x");
    assert_int_equal(out.positional.count, 1);
}

static void a_program_with_its_own_help_gets_the_words(void **state)
{
    (void)state;
    struct options options = {.port = 7410};
    struct conf_list words;
    enum conf_request request;
    struct err err = {0};
    char *argv[] = {(char *)(uintptr_t) "test",   (char *)(uintptr_t) "one",
                    (char *)(uintptr_t) "--port", (char *)(uintptr_t) "80",
                    (char *)(uintptr_t) "two",    (char *)(uintptr_t) "-h"};
    assert_ok(conf_read(&program, 6, argv, &options, &words, &request, &err), &err);
    assert_int_equal(request, CONF_HELP);
    assert_int_equal(options.port, 7410);
    assert_int_equal(words.count, 2);
    assert_string_equal(words.item[1], "two");
    assert_ok(conf_read(&program, 5, argv, &options, &words, &request, &err), &err);
    assert_int_equal(request, CONF_RUN);
    assert_int_equal(options.port, 80);
    assert_int_equal(words.count, 2);
}

static void two_dashes_end_the_options(void **state)
{
    (void)state;
    struct outcome out;
    run(&out, (const char *const[]){"-", "--", "--port", "--help", NULL});
    assert_ok(out.rc, &out.err);
    assert_false(out.done);
    assert_int_equal(out.positional.count, 3);
    assert_string_equal(out.positional.item[1], "--port");
}

static void the_whole_range_of_integers_can_be_asked_for(void **state)
{
    (void)state;
    struct outcome out;
    run(&out, (const char *const[]){"--any-int", "9223372036854775807", NULL});
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.options.any_int, INT64_MAX);
    run(&out, (const char *const[]){"--any-int", "-9223372036854775808", NULL});
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.options.any_int, INT64_MIN);
}

static void check_refused(const char *const *words, int code, const char *text)
{
    struct outcome out;
    run(&out, words);
    assert_int_equal(out.rc, code);
    assert_string_equal(out.err.text, text);
}

static void an_error_names_the_option_and_the_expected_value(void **state)
{
    (void)state;
    check_refused((const char *const[]){"--sate-dir", "x", NULL}, ERR_INVALID,
                  "unknown option 'sate-dir'; did you mean 'state-dir'?");
    check_refused((const char *const[]){"--verson", NULL}, ERR_INVALID,
                  "unknown option 'verson'; did you mean 'version'?");
    check_refused((const char *const[]){"--zzz", NULL}, ERR_INVALID,
                  "unknown option 'zzz' (see --help)");
    check_refused((const char *const[]){"-p", NULL}, ERR_INVALID,
                  "unknown option '-p'; options are written --name");
    check_refused((const char *const[]){"-is", NULL}, ERR_INVALID,
                  "unknown option '-is'; options are written --name");
    check_refused((const char *const[]){"-s", NULL}, ERR_INVALID,
                  "option '--state-dir' needs a value (DIR)");
    check_refused((const char *const[]){"--port", NULL}, ERR_INVALID,
                  "option '--port' needs a value (N)");
    check_refused((const char *const[]){"--state-dir", "--insecure", NULL}, ERR_INVALID,
                  "option '--state-dir' needs a value (DIR)");
    check_refused((const char *const[]){"--port=0", NULL}, ERR_INVALID,
                  "--port: '0' is out of range; expected 1 to 65535");
    check_refused((const char *const[]){"--insecure=maybe", NULL}, ERR_INVALID,
                  "--insecure: 'maybe' is not a boolean; expected true or false");
    check_refused((const char *const[]){"--state-dir=1234567890123456", NULL}, ERR_LIMIT,
                  "--state-dir: longer than 15 bytes");
    check_refused((const char *const[]){"a", "b", "c", "d", NULL}, ERR_INVALID,
                  "4 arguments given; usage: paceline-test [OPTION...] [FILE...] or paceline-test "
                  "again FILE");
}

static void a_list_is_bounded(void **state)
{
    (void)state;
    const char *words[CONF_LIST_MAX + 2] = {NULL};
    for (int i = 0; i <= CONF_LIST_MAX; i++) {
        words[i] = "--label=x";
    }
    check_refused(words, ERR_LIMIT, "--label: given more than 64 times");
}

static struct test_path write_config(const char *directory, const char *text, size_t size)
{
    struct err err = {0};
    struct test_path path = test_path_in(directory, "conf");
    assert_ok(file_write_atomic(path.text, text, size, 0600, &err), &err);
    return path;
}

static void the_command_line_overrides_the_file_which_overrides_defaults(void **state)
{
    static const char text[] = "# comment\n\n port = 81 \r\nstate-dir=/from file\ninsecure = true\n"
                               "label = a = 1\nlabel = b\nmemory = 2M";
    struct test_path path = write_config(*state, text, sizeof(text) - 1);
    struct outcome out;
    run(&out, (const char *const[]){"--port", "82", "--config", path.text, NULL});
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.options.port, 82);
    assert_string_equal(out.options.state_dir, "/from file");
    assert_true(out.options.insecure);
    assert_int_equal(out.options.memory_bytes, 2097152);
    assert_int_equal(out.options.labels.count, 2);
    assert_string_equal(out.options.labels.item[0], "a = 1");
    conf_list_done(&out.options.labels);
}

static void a_list_on_the_command_line_replaces_the_list_in_the_file(void **state)
{
    struct test_path path = write_config(*state, "label = a\nlabel = b\n", 20);
    struct outcome out;
    run(&out, (const char *const[]){"--label", "c", "--config", path.text, NULL});
    assert_ok(out.rc, &out.err);
    assert_int_equal(out.options.labels.count, 1);
    assert_string_equal(out.options.labels.item[0], "c");
}

static void check_config(void **state, const char *text, size_t size, int code,
                         const char *expected)
{
    struct test_path path = write_config(*state, text, size);
    struct outcome out;
    run(&out, (const char *const[]){"--config", path.text, NULL});
    assert_int_equal(out.rc, code);
    assert_holds(out.err.text, expected);
}

static void an_error_in_a_file_names_its_line(void **state)
{
    check_config(state, "port = 1\nprot = 2\n", 18, ERR_INVALID, "conf:2: unknown option 'prot'");
    check_config(state, "port 1\n", 7, ERR_INVALID, "conf:1: expected 'name = value'");
    check_config(state, "\n\nport = x", 10, ERR_INVALID, "conf:3: port: 'x' is not a whole number");
    check_config(state, "insecure\n", 9, ERR_INVALID, "conf:1: expected");
    check_config(state, "config = x\n", 11, ERR_INVALID,
                 "conf:1: option 'config' belongs on the command line");
    check_config(state, "port\0 = 1", 9, ERR_FORMAT, "holds a NUL byte");
}

static void a_file_that_is_missing_or_too_large_is_an_error(void **state)
{
    struct outcome out;
    run(&out, (const char *const[]){"--config", test_path_in(*state, "missing").text, NULL});
    assert_int_equal(out.rc, ERR_NOT_FOUND);
    static char large[70000];
    memset(large, '#', sizeof(large));
    check_config(state, large, sizeof(large), ERR_LIMIT, "more than 65536 bytes");
}

static void capture(void **state, const char *word, struct buf *out)
{
    struct err err = {0};
    struct test_path path = test_path_in(*state, "stdout");
    FD_AUTO int fd = open(path.text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FD_AUTO int saved = dup(STDOUT_FILENO);
    assert_true(fd >= 0 && saved >= 0);
    assert_int_equal(fflush(stdout), 0);
    assert_true(dup2(fd, STDOUT_FILENO) >= 0);
    struct outcome outcome;
    run(&outcome, (const char *const[]){"--port", "1", word, NULL});
    (void)fflush(stdout);
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    assert_ok(outcome.rc, &outcome.err);
    assert_true(outcome.done);
    assert_ok(file_read(path.text, out, &err), &err);
}

static void help_comes_from_the_table(void **state)
{
    BUF_AUTO struct buf out;
    buf_init(&out, 10000);
    capture(state, "--help", &out);
    assert_holds(out.data, "Usage: paceline-test [OPTION...] [FILE...]\n"
                           "       paceline-test again FILE\n\nTests its options.\n");
    assert_holds(out.data, "  -s, --state-dir DIR         where the state lies\n");
    assert_holds(out.data, "  --port N                    port to listen on;\n"
                           "                              7410 if not given\n");
    assert_holds(out.data, "--config FILE");
    assert_holds(out.data, "--version");
    BUF_AUTO struct buf brief;
    buf_init(&brief, 10000);
    capture(state, "-h", &brief);
    assert_string_equal(brief.data, out.data);
}

static void the_version_is_the_projects(void **state)
{
    BUF_AUTO struct buf out;
    buf_init(&out, 10000);
    capture(state, "--version", &out);
    assert_string_equal(out.data, "paceline-test " PACELINE_VERSION "\n");
}

static const struct conf_program plain = {
    .name = "plain",
    .summary = "",
    .usage = "",
    .options = table,
    .option_count = sizeof(table) / sizeof(table[0]),
};

static void what_was_written_is_read_again(void **state)
{
    const struct options usual = {.port = 7410, .slowdown = 1};
    struct options given = usual, read = usual;
    struct err err = {0};
    BUF_AUTO struct buf text;
    buf_init(&text, 1000);
    assert_ok(conf_write(&plain, &usual, &usual, &text, &err), &err);
    assert_int_equal(text.size, 0);
    given.insecure = true;
    given.any_int = INT64_MIN;
    given.slowdown = 1.1;
    given.memory_bytes = UINT64_C(3) << 40;
    snprintf(given.state_dir, sizeof(given.state_dir), "a = #b");
    given.labels = (struct conf_list){.item = {"room=1", "gpu=no"}, .count = 2};
    assert_ok(conf_write(&plain, &given, &usual, &text, &err), &err);
    const struct test_path path = test_path_in(*state, "written.conf");
    assert_ok(file_write_atomic(path.text, text.data, text.size, 0600, &err), &err);
    assert_ok(conf_file(&plain, path.text, &read, &err), &err);
    assert_true(read.insecure);
    assert_true(read.any_int == INT64_MIN && read.port == 7410);
    assert_true(read.slowdown == 1.1);
    assert_true(read.memory_bytes == given.memory_bytes);
    assert_string_equal(read.state_dir, "a = #b");
    assert_int_equal(read.labels.count, 2);
    assert_string_equal(read.labels.item[1], "gpu=no");
    conf_list_done(&read.labels);
    assert_int_equal(conf_file(&plain, "/nonexistent", &read, &err), ERR_NOT_FOUND);
}

static void a_text_that_a_line_cannot_hold_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"two\nlines", " begins", "ends ", "ends\t"};
    const struct options usual = {.port = 1};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct options given = usual;
        struct err err = {0};
        BUF_AUTO struct buf text;
        buf_init(&text, 1000);
        snprintf(given.state_dir, sizeof(given.state_dir), "%s", texts[i]);
        assert_int_equal(conf_write(&plain, &given, &usual, &text, &err), ERR_INVALID);
        assert_holds(err.text, "--state-dir");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent_options_keep_their_defaults),
        cmocka_unit_test(every_type_is_read_in_both_spellings),
        cmocka_unit_test(the_last_value_wins_and_a_flag_can_be_taken_back),
        cmocka_unit_test(a_letter_stands_for_its_option),
        cmocka_unit_test(a_program_with_its_own_help_gets_the_words),
        cmocka_unit_test(two_dashes_end_the_options),
        cmocka_unit_test(the_whole_range_of_integers_can_be_asked_for),
        cmocka_unit_test(an_error_names_the_option_and_the_expected_value),
        cmocka_unit_test(a_list_is_bounded),
        test_with_directory(the_command_line_overrides_the_file_which_overrides_defaults),
        test_with_directory(a_list_on_the_command_line_replaces_the_list_in_the_file),
        test_with_directory(an_error_in_a_file_names_its_line),
        test_with_directory(a_file_that_is_missing_or_too_large_is_an_error),
        test_with_directory(help_comes_from_the_table),
        test_with_directory(the_version_is_the_projects),
        test_with_directory(what_was_written_is_read_again),
        cmocka_unit_test(a_text_that_a_line_cannot_hold_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
