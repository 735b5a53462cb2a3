#include "tests/unit/agent_offline/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/support/test.h"
#include "tests/unit/agent/tiny.h"

#define WORDS_MAX 16

void command_write_text(const char *directory, const char *name, const char *text)
{
    struct err err = {0};
    assert_ok(file_write_atomic(test_path_in(directory, name).text, text, strlen(text), 0600, &err),
              &err);
}

void command_write_data(const char *directory, const char *name, size_t samples, uint32_t seed)
{
    static struct tiny_data data;
    struct err err = {0};
    tiny_make_data(&data, samples, seed);
    assert_ok(file_write_atomic(test_path_in(directory, name).text, data.file, data.file_size, 0600,
                                &err),
              &err);
}

void command_write_job_with(const char *directory, const char *name, const char *fields)
{
    BUF_AUTO struct buf text;
    struct err err = {0};
    json_auto_t *description = tiny_description();
    buf_init(&text, 1 << 16);
    assert_ok(buf_printf(&text, &err, "{\"name\":\"tiny\",\"model\":{\"description\":"), &err);
    assert_ok(json_write(description, &text, &err), &err);
    assert_ok(buf_printf(&text, &err,
                         "},\"dataset\":{\"train\":\"a\",\"test\":\"b\"},\"batch\":16,%s}", fields),
              &err);
    command_write_text(directory, name, text.data);
}

void command_write_job(const char *directory)
{
    command_write_job_with(directory, "job.json", "\"micro_batches\":4,\"epochs\":3");
}

int command_run(command_fn command, const char *directory, const char *const *words, bool *misused,
                struct err *err)
{
    char *argv[WORDS_MAX] = {strdup("command")};
    int argc = 1;
    for (; words[argc - 1]; argc++) {
        const char *word = words[argc - 1];
        const char *at = strchr(word, '@');
        char text[TEST_PATH_MAX + 64];
        assert_in_range(argc, 1, WORDS_MAX - 1);
        if (at) {
            (void)snprintf(text, sizeof(text), "%.*s%s", (int)(at - word), word,
                           test_path_in(directory, at + 1).text);
        } else {
            (void)snprintf(text, sizeof(text), "%s", word);
        }
        argv[argc] = strdup(text);
    }
    int rc = command(argc, argv, misused, err);
    for (int i = 0; i < argc; i++) {
        free(argv[i]);
    }
    return rc;
}
