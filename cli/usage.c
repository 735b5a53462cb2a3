#include "cli/usage.h"

#include <stdio.h>
#include <string.h>

#include "cli/session.h"

#define COLUMN 30

const char usage_summary[] = "Submit, show and control the jobs, devices and models of a Paceline "
                             "coordinator.";
const char usage_names[] =
    "JOB, DEVICE and the like are an id, a name, or the unambiguous beginning of either.";

const struct exit_status exit_statuses[EXIT_STATUSES] = {
    {COMMAND_OK, "success"},
    {COMMAND_FAILED, "another failure: a file, the output, an answer that makes no sense"},
    {COMMAND_USAGE, "wrong usage"},
    {COMMAND_NOT_SUCCEEDED, "the watched job failed or was cancelled"},
    {COMMAND_NOT_FOUND, "no such thing, or its name is ambiguous"},
    {COMMAND_REFUSED, "the coordinator rejected the request"},
    {COMMAND_UNREACHABLE, "no coordinator answers, or it is busy or stopping"},
    {COMMAND_INTERRUPTED, "interrupted while waiting; the job continues"},
};

const struct environment_variable environment_variables[ENVIRONMENT_VARIABLES] = {
    {"PACELINE_URL", "Address of the coordinator, unless --server or --context is given."},
    {"PACELINE_TOKEN", "Token that is sent, in place of the context's."},
    {"PACELINE_CA", "File of the certificates that are trusted, in place of the context's."},
    {"NO_COLOR", "If it is set, job watch uses no colours."},
    {"TERM", "If it is dumb, job watch writes plain lines on a terminal too."},
    {"XDG_CONFIG_HOME", "Directory of paceline/contexts.json. Default: ~/.config."},
};

void usage_line(const struct command *command, char out[USAGE_LINE_SIZE])
{
    int used = snprintf(out, USAGE_LINE_SIZE, "%s%s%s", command->noun,
                        command->verb[0] != '\0' ? " " : "", command->verb);
    for (size_t i = 0; i < command_arguments(command); i++) {
        const struct argument *argument = &command->argument[i];
        used += snprintf(out + used, USAGE_LINE_SIZE - (size_t)used,
                         argument->optional ? " [%s]" : " %s", argument->name);
    }
}

/* Add an entry of a list: its name, then its text from COLUMN on, line by line. */
static int add_entry(struct buf *out, const char *name, const char *text, struct err *err)
{
    int width = (int)strlen(name) + 2;
    int rc = buf_printf(out, err, "  %s", name);
    if (!rc && width >= COLUMN) {
        rc = buf_printf(out, err, "\n");
        width = 0;
    }
    while (!rc && text) {
        const char *feed = strchr(text, '\n');
        int size = feed ? (int)(feed - text) : (int)strlen(text);
        rc = buf_printf(out, err, "%*s%.*s\n", COLUMN - width, "", size, text);
        width = 0;
        text = feed ? feed + 1 : NULL;
    }
    return rc;
}

static int add_option(struct buf *out, const struct conf_option *option, struct err *err)
{
    char name[USAGE_LINE_SIZE], letter[8] = "";
    if (option->letter) {
        (void)snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    }
    (void)snprintf(name, sizeof(name), "%s--%s%s%s", letter, option->name,
                   option->value_name ? " " : "", option->value_name ? option->value_name : "");
    return add_entry(out, name, option->help, err);
}

/* Add the options from first to end that the command takes (NULL: all of them), after a title. Add
 * nothing if there are no such options. */
static int add_options(struct buf *out, const char *title, const struct command *command,
                       enum option first, enum option end, struct err *err)
{
    int rc = 0;
    for (enum option option = first; !rc && option < end; option++) {
        if (!command || command_takes(command, option)) {
            rc = title ? buf_printf(out, err, "\n%s:\n", title) : 0;
            rc = rc ? rc : add_option(out, &option_table[option], err);
            title = NULL;
        }
    }
    return rc;
}

static int add_common(struct buf *out, struct err *err)
{
    int rc = add_options(out, "Options of every command", NULL, 0, OPTIONS_OF_ALL, err);
    rc = rc ? rc : add_entry(out, "-h, --help", "Print this help.", err);
    rc = rc ? rc : add_entry(out, "--version", "Print the version of this program.", err);
    return rc ? rc : buf_printf(out, err, "\n%s\n", usage_names);
}

int usage_command(const struct command *command, struct buf *out, struct err *err)
{
    char line[USAGE_LINE_SIZE];
    usage_line(command, line);
    int rc = buf_printf(out, err, "Usage: paceline %s [OPTION...]\n\n%s\n", line, command->help);
    rc = rc ? rc : add_options(out, "Options", command, OPTIONS_OF_ALL, OPTION_COUNT, err);
    return rc ? rc : add_common(out, err);
}

int usage_list(const char *noun, struct buf *out, struct err *err)
{
    int rc =
        buf_printf(out, err, "Usage: paceline %s [ARGUMENT...] [OPTION...]\n\n%s\n\nCommands:\n",
                   noun ? noun : "COMMAND", usage_summary);
    for (size_t i = 0; !rc && i < command_count; i++) {
        char line[USAGE_LINE_SIZE];
        usage_line(&commands[i], line);
        if (!noun || strcmp(noun, commands[i].noun) == 0) {
            rc = add_entry(out, line, commands[i].help, err);
        }
    }
    rc = rc ? rc : add_common(out, err);
    rc = rc ? rc : buf_printf(out, err, "\nExit status:\n");
    for (size_t i = 0; !rc && i < EXIT_STATUSES; i++) {
        char status[16];
        (void)snprintf(status, sizeof(status), "%d", exit_statuses[i].status);
        rc = add_entry(out, status, exit_statuses[i].meaning, err);
    }
    return rc ? rc
              : buf_printf(out, err, "\npaceline COMMAND --help shows the options of a command.\n");
}
