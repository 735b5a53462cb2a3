/* `paceline-agent train` as a function: the same bits whatever the number of threads, and errors
 * that say what. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/offline/train.h"
#include "base/file.h"
#include "tests/support/test.h"
#include "tests/unit/agent_offline/command.h"
#include "tests/unit/agent/tiny.h"

static int train(const char *directory, struct err *err, const char *const *words)
{
    bool misused = false;
    int rc = command_run(train_command, directory, words, &misused, err);
    assert_int_equal(misused, rc != 0 && strstr(err->text, "--output FILE is required") != NULL);
    return rc;
}

static void read_output(const char *directory, const char *name, char sha256[HASH_TEXT_SIZE])
{
    BUF_AUTO struct buf file;
    struct err err = {0};
    buf_init(&file, 1 << 20);
    assert_ok(file_read(test_path_in(directory, name).text, &file, &err), &err);
    sha256_text(file.data, file.size, sha256);
}

static void the_model_does_not_depend_on_the_number_of_threads(void **state)
{
    const char *directory = *state;
    struct err err = {0};
    char one[HASH_TEXT_SIZE];
    char two[HASH_TEXT_SIZE];
    command_write_job(directory);
    command_write_data(directory, "a", TINY_SAMPLES, 1);
    command_write_data(directory, "b", TINY_TESTS, 2);
    assert_ok(train(directory, &err,
                    WORDS("@job.json", "--dataset=a=@a", "--dataset=b=@b", "--output=@one",
                          "--threads=1", "--metrics=@metrics")),
              &err);
    assert_ok(train(directory, &err,
                    WORDS("@job.json", "--dataset=a=@a", "--dataset=b=@b", "--output=@two",
                          "--threads=2")),
              &err);
    read_output(directory, "one", one);
    read_output(directory, "two", two);
    assert_string_equal(one, two);
    BUF_AUTO struct buf metrics;
    buf_init(&metrics, 1 << 20);
    assert_ok(file_read(test_path_in(directory, "metrics").text, &metrics, &err), &err);
    assert_holds(metrics.data, "{\"step\":12,\"name\":\"loss\",\"value\":");
    assert_holds(metrics.data, "{\"step\":12,\"name\":\"test_accuracy\",\"value\":");
}

static void errors_say_what_is_wrong(void **state)
{
    const char *directory = *state;
    command_write_job(directory);
    command_write_data(directory, "a", TINY_SAMPLES, 1);
    command_write_data(directory, "b", TINY_TESTS, 2);
    command_write_data(directory, "few", 8, 1);
    command_write_text(directory, "rubbish", "this is no data set");
    command_write_text(directory, "broken.json", "{\"name\":");
    command_write_text(directory, "unknown.json",
                       "{\"model\":{\"name\":\"mlp\"},\"dataset\":{\"train\":\"a\"},\"bach\":3}");
    command_write_text(directory, "stranger.json",
                       "{\"model\":{\"name\":\"nosuch\"},\"dataset\":{\"train\":\"a\"}}");
    const struct {
        const char *const *words;
        const char *part;
    } wrong[] = {
        {WORDS("@job.json", "--dataset=a=@a"), "--output"},
        {WORDS("@nothing.json", "--output=@o"), "nothing.json"},
        {WORDS("@broken.json", "--output=@o"), "broken.json"},
        {WORDS("@unknown.json", "--output=@o"), "batch"},
        {WORDS("@job.json", "--dataset=a=@a", "--output=@o"), "--dataset b=PATH"},
        {WORDS("@job.json", "--dataset=a=@missing", "--dataset=b=@b", "--output=@o"), "missing"},
        {WORDS("@job.json", "--dataset=a=@rubbish", "--dataset=b=@b", "--output=@o"),
         "data set 'a'"},
        {WORDS("@job.json", "--dataset=a=@few", "--dataset=b=@b", "--output=@o"), "8 samples"},
        {WORDS("@stranger.json", "--dataset=a=@a", "--output=@o"), "nosuch"},
        {WORDS("@job.json", "--dataset=a=@a", "--dataset=b=@b", "--output=@no/where"), "no/where"},
        {WORDS("@job.json", "--output=@no/where"), "its directory"}, /* before anything is read */
        {WORDS("@job.json", "--dataset=a=@a", "--dataset=b=@b", "--output=@."),
         "not a regular file"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct err err = {0};
        assert_int_not_equal(train(directory, &err, wrong[i].words), 0);
        assert_holds(err.text, wrong[i].part);
        assert_int_not_equal(access(test_path_in(directory, "o").text, F_OK), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test_with_directory(the_model_does_not_depend_on_the_number_of_threads),
        test_with_directory(errors_say_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
