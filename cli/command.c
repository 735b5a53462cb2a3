#include "cli/command.h"

#include <stdbool.h>
#include <string.h>

#include "base/conf.h"
#include "cli/api.h"
#include "cli/job.h"

#define DEFAULT_SERVER "http://127.0.0.1:7410"

struct options {
    char server[API_SERVER_SIZE];
    bool wait;
};

static const struct conf_option option_table[] = {
    {.name = "server",
     .type = CONF_TEXT,
     .offset = offsetof(struct options, server),
     .size = sizeof(((struct options *)0)->server),
     .value_name = "URL",
     .help = "the coordinator (default: $PACELINE_SERVER, else " DEFAULT_SERVER ")"},
    {.name = "wait",
     .type = CONF_FLAG,
     .offset = offsetof(struct options, wait),
     .help = "job submit: then watch the job to its end"},
};

static const struct conf_program program = {
    .name = "paceline",
    .summary =
        "A client of a Paceline coordinator. Exit status: 0 done, 1 refused or out of reach, 2 wrong usage, 3 the\n"
        "job that was waited for did not succeed.",
    .usage = "job submit FILE.json | job get ID | job watch ID",
    .options = option_table,
    .option_count = sizeof(option_table) / sizeof(option_table[0]),
    .positional_min = 3,
    .positional_max = 3,
};

static int watch(struct api *api, const char *id, FILE *out, int *status, struct err *err)
{
    bool succeeded = false;
    int rc = job_watch(api, id, out, &succeeded, err);
    if (!rc && !succeeded) {
        *status = COMMAND_NOT_SUCCEEDED;
    }
    return rc;
}

static int run_submit(struct api *api, const struct options *options, const char *word, FILE *out, int *status,
                      struct err *err)
{
    struct job_id id;
    int rc = job_submit(api, word, out, &id, err);
    return rc || !options->wait ? rc : watch(api, id.text, out, status, err);
}

static int run_get(struct api *api, const struct options *options, const char *word, FILE *out, int *status,
                   struct err *err)
{
    (void)options;
    (void)status;
    return job_get(api, word, out, err);
}

static int run_watch(struct api *api, const struct options *options, const char *word, FILE *out, int *status,
                     struct err *err)
{
    (void)options;
    return watch(api, word, out, status, err);
}

static const struct command {
    const char *thing, *verb;
    bool takes_wait;
    int (*run)(struct api *api, const struct options *options, const char *word, FILE *out, int *status,
               struct err *err);
} commands[] = {
    {"job", "submit", true, run_submit},
    {"job", "get", false, run_get},
    {"job", "watch", false, run_watch},
};

static int find(const struct conf_list *words, const struct options *options, const struct command **out,
                struct err *err)
{
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(commands[i].thing, words->item[0]) == 0 && strcmp(commands[i].verb, words->item[1]) == 0) {
            if (options->wait && !commands[i].takes_wait) {
                return err_set(err, ERR_INVALID, "--wait goes with job submit only");
            }
            *out = &commands[i];
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "unknown command '%s %s'; expected %s", words->item[0], words->item[1],
                   program.usage);
}

/* One line a fault where the server named fields of what was sent (`word`: the file), else the one line of the error.
 */
static void complain(const struct api *api, const char *word, const struct err *err, FILE *complaints)
{
    if (api->faults.count == 0) {
        fprintf(complaints, "paceline: %s\n", err->text);
    }
    for (size_t i = 0; i < api->faults.count; i++) {
        const struct record_fault *fault = &api->faults.fault[i];
        fprintf(complaints, "paceline: %s: %s%s%s\n", word, fault->pointer, fault->pointer[0] != '\0' ? ": " : "",
                fault->message);
    }
    if (api->faults.more) {
        fprintf(complaints, "paceline: %s: and more\n", word);
    }
}

int command_run(int argc, char **argv, const char *server, FILE *out, FILE *complaints)
{
    struct options options = {.server = DEFAULT_SERVER};
    AUTO(conf_list_done) struct conf_list words = {.count = 0};
    const struct command *command = NULL;
    struct err err = {0};
    bool done = false;
    int rc = 0;
    if (server && server[0] != '\0' &&
        snprintf(options.server, sizeof(options.server), "%s", server) >= (int)sizeof(options.server)) {
        rc = err_set(&err, ERR_LIMIT, "PACELINE_SERVER is longer than %zu bytes", sizeof(options.server) - 1);
    }
    if (!rc) {
        rc = conf_parse(&program, argc, argv, &options, &words, &done, &err);
    }
    if (!rc && done) {
        return COMMAND_OK;
    }
    if (!rc) {
        rc = find(&words, &options, &command, &err);
    }
    if (rc) {
        fprintf(complaints, "paceline: %s\n", err.text);
        return COMMAND_USAGE;
    }
    AUTO(api_close) struct api api;
    int status = COMMAND_OK;
    rc = api_open(&api, options.server, &err);
    if (!rc) {
        rc = command->run(&api, &options, words.item[2], out, &status, &err);
    }
    if (rc) {
        complain(&api, words.item[2], &err, complaints);
        return COMMAND_FAILED;
    }
    if (fflush(out)) {
        fprintf(complaints, "paceline: write the answer: failed\n");
        return COMMAND_FAILED;
    }
    return status;
}
