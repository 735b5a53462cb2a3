#include "cli/command.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/conf.h"
#include "cli/api.h"
#include "cli/device.h"
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
     .help = "Address of the coordinator. Default: $PACELINE_SERVER, else " DEFAULT_SERVER "."},
    {.name = "wait",
     .type = CONF_FLAG,
     .offset = offsetof(struct options, wait),
     .help = "With job submit: watch the job to its end. Default: off."},
};

static const struct conf_program program = {
    .name = "paceline",
    .summary =
        "Submit, show and watch jobs of a Paceline coordinator, and drain its devices.\n"
        "Exit status: 0 success, 1 rejected or unreachable, 2 wrong usage, 3 the watched job "
        "did not succeed.\n"
        "If the coordinator stops answering, job watch retries for 5 minutes.",
    .usage = "job submit FILE.json | job get ID | job groups ID | job watch ID | device drain ID | "
             "device undrain ID",
    .options = option_table,
    .option_count = sizeof(option_table) / sizeof(option_table[0]),
    .positional_max = CONF_LIST_MAX, /* the table of commands says how many */
};

/* Where a command writes, and how it ended. */
struct ending {
    FILE *out, *complaints;
    int status;
};

static int watch(struct api *api, const char *id, struct ending *ending, struct err *err)
{
    bool succeeded = false;
    int rc = job_watch(api, id, ending->out, ending->complaints, &succeeded, err);
    if (!rc && !succeeded) {
        ending->status = COMMAND_NOT_SUCCEEDED;
    }
    return rc;
}

static int run_submit(struct api *api, const struct options *options, const char *word,
                      struct ending *ending, struct err *err)
{
    struct job_id id;
    int rc = job_submit(api, word, ending->out, &id, err);
    return rc || !options->wait ? rc : watch(api, id.text, ending, err);
}

static int run_get(struct api *api, const struct options *options, const char *word,
                   struct ending *ending, struct err *err)
{
    (void)options;
    return job_get(api, word, ending->out, err);
}

static int run_groups(struct api *api, const struct options *options, const char *word,
                      struct ending *ending, struct err *err)
{
    (void)options;
    return job_groups(api, word, ending->out, err);
}

static int run_watch(struct api *api, const struct options *options, const char *word,
                     struct ending *ending, struct err *err)
{
    (void)options;
    return watch(api, word, ending, err);
}

static int run_drain(struct api *api, const struct options *options, const char *word,
                     struct ending *ending, struct err *err)
{
    (void)options;
    return device_verb(api, word, "drain", ending->out, err);
}

static int run_undrain(struct api *api, const struct options *options, const char *word,
                       struct ending *ending, struct err *err)
{
    (void)options;
    return device_verb(api, word, "undrain", ending->out, err);
}

static const struct command {
    const char *thing, *verb, *takes;
    bool takes_wait;
    int (*run)(struct api *api, const struct options *options, const char *word,
               struct ending *ending, struct err *err);
} commands[] = {
    {"job", "submit", "FILE.json", true, run_submit},
    {"job", "get", "ID", false, run_get},
    {"job", "groups", "ID", false, run_groups},
    {"job", "watch", "ID", false, run_watch},
    {"device", "drain", "ID", false, run_drain},
    {"device", "undrain", "ID", false, run_undrain},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

#define WORDS_BEFORE 2 /* thing and verb, before the command's arguments */

/* The command is not in the table: "unknown command 'job foo'; expected job submit, job
 * get, job watch, ...". */
static int refuse(const struct conf_list *words, struct err *err)
{
    char known[200] = "";
    size_t used = 0;
    for (size_t i = 0; i < COMMANDS; i++) {
        int added = snprintf(known + used, sizeof(known) - used, "%s%s %s", i == 0 ? "" : ", ",
                             commands[i].thing, commands[i].verb);
        ASSERT(added > 0 && (size_t)added < sizeof(known) - used);
        used += (size_t)added;
    }
    if (words->count == 0) {
        return err_set(err, ERR_INVALID, "no command given; expected %s (see --help)", known);
    }
    return err_set(err, ERR_INVALID, "unknown command '%s%s%s'; expected %s", words->item[0],
                   words->count > 1 ? " " : "", words->count > 1 ? words->item[1] : "", known);
}

static int find(const struct conf_list *words, const struct options *options,
                const struct command **out, struct err *err)
{
    const struct command *found = NULL;
    for (size_t i = 0; i < COMMANDS && words->count >= WORDS_BEFORE; i++) {
        if (strcmp(commands[i].thing, words->item[0]) == 0 &&
            strcmp(commands[i].verb, words->item[1]) == 0) {
            found = &commands[i];
        }
    }
    if (!found) {
        return refuse(words, err);
    }
    if (words->count < WORDS_BEFORE + 1) {
        return err_set(err, ERR_INVALID, "%s %s needs one argument: %s", found->thing, found->verb,
                       found->takes);
    }
    if (words->count > WORDS_BEFORE + 1) {
        return err_set(err, ERR_INVALID, "%s %s takes one argument, %s; '%s' is too many",
                       found->thing, found->verb, found->takes, words->item[WORDS_BEFORE + 1]);
    }
    if (options->wait && !found->takes_wait) {
        return err_set(err, ERR_INVALID, "--wait goes with job submit only");
    }
    *out = found;
    return 0;
}

/* Write one line for each fault in the file (`word`) that the server named, or else the error. */
static void complain(const struct api *api, const char *word, const struct err *err,
                     FILE *complaints)
{
    if (api->faults.count == 0) {
        fprintf(complaints, "paceline: %s\n", err->text);
    }
    for (size_t i = 0; i < api->faults.count; i++) {
        const struct record_fault *fault = &api->faults.fault[i];
        fprintf(complaints, "paceline: %s: %s%s%s\n", word, fault->pointer,
                fault->pointer[0] != '\0' ? ": " : "", fault->message);
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
        snprintf(options.server, sizeof(options.server), "%s", server) >=
            (int)sizeof(options.server)) {
        rc = err_set(&err, ERR_LIMIT, "PACELINE_SERVER is longer than %zu bytes",
                     sizeof(options.server) - 1);
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
    struct ending ending = {.out = out, .complaints = complaints, .status = COMMAND_OK};
    rc = api_open(&api, options.server, &err);
    if (!rc) {
        rc = command->run(&api, &options, words.item[WORDS_BEFORE], &ending, &err);
    }
    if (rc) {
        complain(&api, words.item[WORDS_BEFORE], &err, complaints);
        return COMMAND_FAILED;
    }
    if (fflush(out)) {
        fprintf(complaints, "paceline: write the answer: failed\n");
        return COMMAND_FAILED;
    }
    return ending.status;
}
