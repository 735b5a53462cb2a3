#include "cli/manual.h"

#include <stdio.h>
#include <string.h>

#include "cli/usage.h"

#define LINE_BYTES 90 /* line length of the page's source; escapes may add some bytes */

/* ---- the manual page: man(7) ---- */

/* A line that begins with one of these characters is a request. Escape it. */
static int guard_line(struct buf *out, const char *line, struct err *err)
{
    return *line == '.' || *line == '\'' ? buf_printf(out, err, "\\&") : 0;
}

/* Append text as lines of a page. A request or an escape in it is shown as text. */
static int add_text(struct buf *out, const char *text, struct err *err)
{
    size_t begin = out->size;
    int rc = guard_line(out, text, err);
    for (; !rc && *text; text++) {
        bool space = *text == ' ' || *text == '\n';
        bool full = space && out->size - begin + 1 + strcspn(text + 1, " \n") > LINE_BYTES;
        begin = full ? out->size : begin;
        rc = *text == '\\'  ? buf_printf(out, err, "\\e")
             : *text == '-' ? buf_printf(out, err, "\\-")
             : space        ? buf_printf(out, err, full ? "\n" : " ")
                            : buf_append(out, text, 1, err);
        rc = rc || !full ? rc : guard_line(out, text + 1, err);
    }
    return rc ? rc : buf_append(out, "\n", 1, err);
}

static int add_section(struct buf *out, const char *title, struct err *err)
{
    return buf_printf(out, err, ".SH %s\n", title);
}

/* A tagged paragraph: a tag in bold, and its text. */
static int add_tagged(struct buf *out, const char *tag, const char *text, struct err *err)
{
    int rc = buf_printf(out, err, ".TP\n.B ");
    rc = rc ? rc : add_text(out, tag, err);
    return rc ? rc : add_text(out, text, err);
}

/* "-w, --wait", "--server URL" */
static void name_option(const struct conf_option *option, char out[USAGE_LINE_SIZE])
{
    char letter[8] = "";
    if (option->letter) {
        (void)snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    }
    (void)snprintf(out, USAGE_LINE_SIZE, "%s--%s%s%s", letter, option->name,
                   option->value_name ? " " : "", option->value_name ? option->value_name : "");
}

static int add_option(struct buf *out, enum option option, struct err *err)
{
    char name[USAGE_LINE_SIZE];
    name_option(&option_table[option], name);
    return add_tagged(out, name, option_table[option].help, err);
}

static int add_command(struct buf *out, const struct command *command, struct err *err)
{
    char line[USAGE_LINE_SIZE];
    usage_line(command, line);
    int rc = add_tagged(out, line, command->help, err);
    if (rc || command->options == 0) {
        return rc;
    }
    rc = buf_printf(out, err, ".RS\n");
    for (enum option option = OPTIONS_OF_ALL; !rc && option < OPTION_COUNT; option++) {
        rc = command_takes(command, option) ? add_option(out, option, err) : 0;
    }
    return rc ? rc : buf_printf(out, err, ".RE\n");
}

static int add_commands(struct buf *out, struct err *err)
{
    int rc = add_section(out, "COMMANDS", err);
    for (size_t i = 0; !rc && i < command_count; i++) {
        rc = add_command(out, &commands[i], err);
    }
    rc = rc ? rc : add_section(out, "OPTIONS", err);
    for (enum option option = 0; !rc && option < OPTIONS_OF_ALL; option++) {
        rc = add_option(out, option, err);
    }
    rc = rc ? rc : add_tagged(out, "-h, --help", "Print help: of a command, or of all.", err);
    return rc ? rc : add_tagged(out, "--version", "Print the version of this program.", err);
}

static int add_ends(struct buf *out, struct err *err)
{
    int rc = add_section(out, "EXIT STATUS", err);
    for (size_t i = 0; !rc && i < EXIT_STATUSES; i++) {
        char status[16];
        (void)snprintf(status, sizeof(status), "%d", exit_statuses[i].status);
        rc = add_tagged(out, status, exit_statuses[i].meaning, err);
    }
    rc = rc ? rc : add_section(out, "ENVIRONMENT", err);
    for (size_t i = 0; !rc && i < ENVIRONMENT_VARIABLES; i++) {
        rc = add_tagged(out, environment_variables[i].name, environment_variables[i].meaning, err);
    }
    return rc;
}

int manual_page(struct buf *out, struct err *err)
{
    int rc = buf_printf(out, err,
                        ".\\\" Made from the table of commands of paceline.\n"
                        ".TH PACELINE 1 \"\" \"Paceline %s\"\n"
                        ".SH NAME\npaceline \\- control a Paceline coordinator\n"
                        ".SH SYNOPSIS\n.B paceline\n.I COMMAND\n.RI [ ARGUMENT ...]\n"
                        ".RI [ OPTION ...]\n.SH DESCRIPTION\n",
                        PACELINE_VERSION);
    rc = rc ? rc : add_text(out, usage_summary, err);
    rc = rc ? rc : buf_printf(out, err, ".PP\n");
    rc = rc ? rc : add_text(out, usage_names, err);
    rc = rc ? rc : add_commands(out, err);
    return rc ? rc : add_ends(out, err);
}

/* ---- the tables of the documentation ---- */

/* A cell of a table of Markdown. */
static int add_cell(struct buf *out, const char *text, struct err *err)
{
    int rc = 0;
    for (; !rc && *text; text++) {
        rc = *text == '|'    ? buf_printf(out, err, "\\|")
             : *text == '\n' ? buf_printf(out, err, " ")
                             : buf_append(out, text, 1, err);
    }
    return rc;
}

static int add_row(struct buf *out, const char *code, const char *text, struct err *err)
{
    int rc = buf_printf(out, err, "| `%s` | ", code);
    rc = rc ? rc : add_cell(out, text, err);
    return rc ? rc : buf_printf(out, err, " |\n");
}

static int add_takers(struct buf *out, enum option option, struct err *err)
{
    const char *separator = "";
    int rc = buf_printf(out, err, " | ");
    for (size_t i = 0; !rc && i < command_count; i++) {
        const struct command *command = &commands[i];
        if (command_takes(command, option)) {
            rc = buf_printf(out, err, "%s`%s%s%s`", separator, command->noun,
                            command->verb[0] != '\0' ? " " : "", command->verb);
            separator = ", ";
        }
    }
    return rc;
}

static int add_option_rows(struct buf *out, struct err *err)
{
    int rc = buf_printf(out, err, "\n| option | meaning | of |\n|---|---|---|\n");
    for (enum option option = 0; !rc && option < OPTION_COUNT; option++) {
        char name[USAGE_LINE_SIZE];
        name_option(&option_table[option], name);
        rc = buf_printf(out, err, "| `%s` | ", name);
        rc = rc ? rc : add_cell(out, option_table[option].help, err);
        rc = rc                        ? rc
             : option < OPTIONS_OF_ALL ? buf_printf(out, err, " | every command")
                                       : add_takers(out, option, err);
        rc = rc ? rc : buf_printf(out, err, " |\n");
    }
    return rc;
}

int manual_tables(struct buf *out, struct err *err)
{
    int rc = buf_printf(out, err, "\n| command | what it does |\n|---|---|\n");
    for (size_t i = 0; !rc && i < command_count; i++) {
        char line[USAGE_LINE_SIZE];
        usage_line(&commands[i], line);
        rc = add_row(out, line, commands[i].help, err);
    }
    rc = rc ? rc : add_option_rows(out, err);
    rc = rc ? rc : buf_printf(out, err, "\n| exit status | meaning |\n|---|---|\n");
    for (size_t i = 0; !rc && i < EXIT_STATUSES; i++) {
        rc = buf_printf(out, err, "| %d | %s |\n", exit_statuses[i].status,
                        exit_statuses[i].meaning);
    }
    rc = rc ? rc : buf_printf(out, err, "\n| variable | meaning |\n|---|---|\n");
    for (size_t i = 0; !rc && i < ENVIRONMENT_VARIABLES; i++) {
        rc = add_row(out, environment_variables[i].name, environment_variables[i].meaning, err);
    }
    return rc ? rc : buf_printf(out, err, "\n");
}
