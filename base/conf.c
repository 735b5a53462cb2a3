#include "base/conf.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/parse.h"

#define OPTIONS_MAX 64 /* of one program */
#define FILE_MAX_BYTES 65536
#define HELP_COLUMN 30

static const struct conf_option config_option = {
    .name = "config",
    .type = CONF_TEXT,
    .value_name = "FILE",
    .help = "Read options from this file first, as 'name = value' lines. Default: none."};
static const struct conf_option help_option = {
    .name = "help", .letter = 'h', .type = CONF_FLAG, .help = "Print this help."};
static const struct conf_option version_option = {
    .name = "version", .type = CONF_FLAG, .help = "Print the version."};

static const struct conf_option *const own_options[] = {&config_option, &help_option,
                                                        &version_option};
#define OWN_COUNT (sizeof(own_options) / sizeof(own_options[0]))

struct parser {
    const struct conf_program *program;
    char *out;
    bool list_begun[OPTIONS_MAX]; /* by the source being read: its first item replaces what was
                                     there before */
};

void conf_list_done(struct conf_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->owned[i]);
    }
    *list = (struct conf_list){.count = 0};
}

/* Options by number: first the program's, then our own. */
static const struct conf_option *option_at(const struct conf_program *program, size_t index)
{
    return index < program->option_count ? &program->options[index]
                                         : own_options[index - program->option_count];
}

/* The option of "-w"; NULL: none has this letter. */
static const struct conf_option *find_letter(const struct conf_program *program, char letter)
{
    for (size_t i = 0; i < program->option_count + OWN_COUNT; i++) {
        if (option_at(program, i)->letter == letter) {
            return option_at(program, i);
        }
    }
    return NULL;
}

static int find_option(const struct conf_program *program, const char *name,
                       const struct conf_option **out, struct err *err)
{
    const char *names[OPTIONS_MAX + OWN_COUNT];
    size_t count = program->option_count + OWN_COUNT;
    for (size_t i = 0; i < count; i++) {
        names[i] = option_at(program, i)->name;
        if (strcmp(names[i], name) == 0) {
            *out = option_at(program, i);
            return 0;
        }
    }
    const char *nearest = parse_nearest(name, names, count);
    if (nearest) {
        return err_set(err, ERR_INVALID, "unknown option '%s'; did you mean '%s'?", name, nearest);
    }
    return err_set(err, ERR_INVALID, "unknown option '%s' (see --help)", name);
}

static int append_item(struct conf_list *list, const char *value, bool copy, struct err *err)
{
    if (list->count == CONF_LIST_MAX) {
        return err_set(err, ERR_LIMIT, "given more than %d times", CONF_LIST_MAX);
    }
    char *owned = copy ? strdup(value) : NULL;
    if (copy && !owned) {
        return err_set(err, ERR_MEMORY, "no memory");
    }
    list->owned[list->count] = owned;
    list->item[list->count++] = copy ? owned : value;
    return 0;
}

static int set_text(const struct conf_option *option, const char *value, char *to, struct err *err)
{
    size_t size = strlen(value);
    if (size >= option->size) {
        return err_set(err, ERR_LIMIT, "longer than %zu bytes", option->size - 1);
    }
    memcpy(to, value, size + 1);
    return 0;
}

/* Store one value; `copy` when it does not live as long as the program (it comes from a file). */
static int set_value(struct parser *parser, const struct conf_option *option, const char *value,
                     bool copy, struct err *err)
{
    void *to = parser->out + option->offset;
    switch (option->type) {
    case CONF_FLAG: return parse_bool(value, to, err);
    case CONF_TEXT: return set_text(option, value, to, err);
    case CONF_LIST: {
        bool *begun = &parser->list_begun[option - parser->program->options];
        if (!*begun) {
            conf_list_done(to);
            *begun = true;
        }
        return append_item(to, value, copy, err);
    }
    /* Bounds are doubles; the largest one of an int64_t is not a double, hence the comparison. */
    case CONF_INT:
        return parse_i64(value, option->min <= -0x1p63 ? INT64_MIN : (int64_t)option->min,
                         option->max >= 0x1p63 ? INT64_MAX : (int64_t)option->max, to, err);
    case CONF_DOUBLE: return parse_double(value, option->min, option->max, to, err);
    case CONF_SIZE: return parse_size(value, to, err);
    }
    return err_set(err, ERR_STATE, "option of an unknown type");
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static char *trim(char *text)
{
    while (is_space(*text)) {
        text++;
    }
    size_t size = strlen(text);
    while (size > 0 && is_space(text[size - 1])) {
        text[--size] = '\0';
    }
    return text;
}

/* One line of a file; it is cut into its parts in place. */
static int read_line(struct parser *parser, char *line, struct err *err)
{
    line = trim(line);
    if (line[0] == '\0' || line[0] == '#') {
        return 0;
    }
    char *equals = strchr(line, '=');
    if (!equals) {
        return err_set(err, ERR_INVALID, "expected 'name = value'");
    }
    *equals = '\0';
    const char *name = trim(line);
    const char *value = trim(equals + 1);
    const struct conf_option *option;
    int rc = find_option(parser->program, name, &option, err);
    if (rc) {
        return rc;
    }
    for (size_t i = 0; i < OWN_COUNT; i++) {
        if (option == own_options[i]) {
            return err_set(err, ERR_INVALID, "option '%s' belongs on the command line", name);
        }
    }
    rc = set_value(parser, option, value, true, err);
    return rc ? err_wrap(err, "%s", name) : 0;
}

static int read_config(struct parser *parser, const char *path, struct err *err)
{
    BUF_AUTO struct buf text;
    buf_init(&text, FILE_MAX_BYTES);
    int rc = file_read(path, &text, err);
    if (rc) {
        return rc;
    }
    if (text.size > 0 && memchr(text.data, '\0', text.size)) {
        return err_set(err, ERR_FORMAT, "%s: holds a NUL byte", path);
    }
    char *line = text.data;
    for (size_t number = 1; line; number++) {
        char *feed = strchr(line, '\n');
        if (feed) {
            *feed = '\0';
        }
        rc = read_line(parser, line, err);
        if (rc) {
            return err_wrap(err, "%s:%zu", path, number);
        }
        line = feed ? feed + 1 : NULL;
    }
    return 0;
}

int conf_file(const struct conf_program *program, const char *path, void *out, struct err *err)
{
    ASSERT(program->option_count <= OPTIONS_MAX);
    struct parser parser = {.program = program, .out = out};
    return read_config(&parser, path, err);
}

/* ---- writing ---- */

static int write_text(const char *name, const char *text, struct buf *out, struct err *err)
{
    const size_t size = strlen(text);
    if (strchr(text, '\n') || (size > 0 && (is_space(text[0]) || is_space(text[size - 1])))) {
        return err_set(err, ERR_INVALID,
                       "--%s '%s': a file cannot hold a line feed, or a space at an end", name,
                       text);
    }
    return buf_printf(out, err, "%s = %s\n", name, text);
}

static bool same_list(const struct conf_list *a, const struct conf_list *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++) {
        same = strcmp(a->item[i], b->item[i]) == 0;
    }
    return same;
}

static int write_list(const char *name, const struct conf_list *list, struct buf *out,
                      struct err *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < list->count; i++) {
        rc = write_text(name, list->item[i], out, err);
    }
    return rc;
}

/* The value at `value`, unless it is that of the defaults. */
static int write_option(const struct conf_option *option, const void *value, const void *usual,
                        struct buf *out, struct err *err)
{
    const char *name = option->name;
    switch (option->type) {
    case CONF_FLAG: {
        const bool flag = *(const bool *)value;
        return flag == *(const bool *)usual
                   ? 0
                   : buf_printf(out, err, "%s = %s\n", name, flag ? "true" : "false");
    }
    case CONF_TEXT: return strcmp(value, usual) == 0 ? 0 : write_text(name, value, out, err);
    case CONF_LIST: return same_list(value, usual) ? 0 : write_list(name, value, out, err);
    case CONF_INT:
        return *(const int64_t *)value == *(const int64_t *)usual
                   ? 0
                   : buf_printf(out, err, "%s = %" PRId64 "\n", name, *(const int64_t *)value);
    case CONF_DOUBLE: /* as the bytes that were read: no sum came between */
        return memcmp(value, usual, sizeof(double)) == 0
                   ? 0
                   : buf_printf(out, err, "%s = %.17g\n", name, *(const double *)value);
    case CONF_SIZE:
        return *(const uint64_t *)value == *(const uint64_t *)usual
                   ? 0
                   : buf_printf(out, err, "%s = %" PRIu64 "\n", name, *(const uint64_t *)value);
    }
    return err_set(err, ERR_STATE, "option of an unknown type");
}

int conf_write(const struct conf_program *program, const void *values, const void *defaults,
               struct buf *out, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < program->option_count; i++) {
        const struct conf_option *option = &program->options[i];
        rc = write_option(option, (const char *)values + option->offset,
                          (const char *)defaults + option->offset, out, err);
    }
    return rc;
}

/* ---- help ---- */

static void print_option(const struct conf_option *option)
{
    char letter[8] = "";
    if (option->letter) {
        (void)snprintf(letter, sizeof(letter), "-%c, ", option->letter);
    }
    int width = printf("  %s--%s%s%s", letter, option->name, option->value_name ? " " : "",
                       option->value_name ? option->value_name : "");
    const char *line = option->help;
    while (line) {
        const char *feed = strchr(line, '\n');
        int size = feed ? (int)(feed - line) : (int)strlen(line);
        if (width >= HELP_COLUMN) {
            putchar('\n');
            width = 0;
        }
        printf("%*s%.*s\n", HELP_COLUMN - width, "", size, line);
        width = 0;
        line = feed ? feed + 1 : NULL;
    }
}

static void print_help(const struct conf_program *program)
{
    printf("Usage: %s [OPTION...]%s%s\n", program->name, program->usage[0] ? " " : "",
           program->usage);
    if (program->other_usage) {
        printf("       %s %s\n", program->name, program->other_usage);
    }
    printf("\n%s\n\nOptions:\n", program->summary);
    for (size_t i = 0; i < program->option_count + OWN_COUNT; i++) {
        print_option(option_at(program, i));
    }
}

/* One option of the command line: its name and value, which may be the next word. */
struct word {
    const struct conf_option *option; /* NULL: a positional word */
    const char *value;
};

/* Take the value of an option: the one given with it, "true" for a flag, or the next word. */
static int take_value(const struct conf_option *option, const char *given, int argc, char **argv,
                      int *index, struct word *out, struct err *err)
{
    const char *value = given;
    if (!value && option->type == CONF_FLAG) {
        value = "true";
    } else if (!value) {
        if (*index >= argc || strncmp(argv[*index], "--", 2) == 0) {
            return err_set(err, ERR_INVALID, "option '--%s' needs a value (%s)", option->name,
                           option->value_name);
        }
        value = argv[(*index)++];
    }
    *out = (struct word){.option = option, .value = value};
    return 0;
}

/* Read the word at argv[*index] and move *index past it. */
static int next_word(const struct conf_program *program, int argc, char **argv, int *index,
                     bool only_positional, struct word *out, struct err *err)
{
    const char *text = argv[(*index)++];
    if (only_positional || text[0] != '-' || text[1] == '\0') {
        *out = (struct word){.value = text};
        return 0;
    }
    if (text[1] != '-') {
        const struct conf_option *option = text[2] == '\0' ? find_letter(program, text[1]) : NULL;
        if (!option) {
            return err_set(err, ERR_INVALID, "unknown option '%s'; options are written --name",
                           text);
        }
        return take_value(option, NULL, argc, argv, index, out, err);
    }
    const char *equals = strchr(text, '=');
    char name[64];
    int size = snprintf(name, sizeof(name), "%.*s",
                        equals ? (int)(equals - text) - 2 : (int)sizeof(name), text + 2);
    if (size < 0 || (size_t)size >= sizeof(name)) {
        return err_set(err, ERR_INVALID, "unknown option '%s' (see --help)", text);
    }
    const struct conf_option *option = NULL;
    int rc = find_option(program, name, &option, err);
    return rc ? rc : take_value(option, equals ? equals + 1 : NULL, argc, argv, index, out, err);
}

/* Walk the command line once. The first pass reads only our own options and the positional words,
 * which choose the help to print; the second pass reads the program's options and the words again.
 * A file that is named late is thus still read first. */
static int read_arguments(struct parser *parser, int argc, char **argv, bool own_pass,
                          struct conf_list *positional, const struct conf_option **request,
                          const char **config, struct err *err)
{
    bool only_positional = false;
    int index = 1;
    while (index < argc) {
        if (!only_positional && strcmp(argv[index], "--") == 0) {
            only_positional = true;
            index++;
            continue;
        }
        struct word word = {0};
        int rc = next_word(parser->program, argc, argv, &index, only_positional, &word, err);
        if (rc) {
            return rc;
        }
        if (word.option == &config_option) {
            *config = word.value;
        } else if (word.option == &help_option || word.option == &version_option) {
            *request = *request ? *request : word.option;
        } else if (!own_pass && word.option) {
            rc = set_value(parser, word.option, word.value, false, err);
            if (rc) {
                return err_wrap(err, "--%s", word.option->name);
            }
        } else if (!word.option) {
            rc = append_item(positional, word.value, false, err);
            if (rc) {
                return err_wrap(err, "arguments");
            }
        }
    }
    return 0;
}

int conf_read(const struct conf_program *program, int argc, char **argv, void *out,
              struct conf_list *positional, enum conf_request *request, struct err *err)
{
    ASSERT(program->option_count <= OPTIONS_MAX);
    struct parser parser = {.program = program, .out = out};
    const struct conf_option *asked = NULL;
    const char *config = NULL;
    *positional = (struct conf_list){.count = 0};
    *request = CONF_RUN;
    int rc = read_arguments(&parser, argc, argv, true, positional, &asked, &config, err);
    if (rc) {
        return rc;
    }
    if (asked) {
        *request = asked == &help_option ? CONF_HELP : CONF_VERSION;
        return 0;
    }
    if (config) {
        rc = read_config(&parser, config, err);
        if (rc) {
            return rc;
        }
        memset(parser.list_begun, 0, sizeof(parser.list_begun));
    }
    *positional = (struct conf_list){.count = 0};
    return read_arguments(&parser, argc, argv, false, positional, &asked, &config, err);
}

int conf_parse(const struct conf_program *program, int argc, char **argv, void *out,
               struct conf_list *positional, bool *done, struct err *err)
{
    enum conf_request request;
    *done = false;
    int rc = conf_read(program, argc, argv, out, positional, &request, err);
    if (rc) {
        return rc;
    }
    if (request == CONF_HELP) {
        print_help(program);
    } else if (request == CONF_VERSION) {
        printf("%s %s\n", program->name, PACELINE_VERSION);
    }
    if (request != CONF_RUN) {
        *done = true;
        return 0;
    }
    if (positional->count < program->positional_min ||
        positional->count > program->positional_max) {
        const char *other = program->other_usage;
        return err_set(err, ERR_INVALID, "%zu argument%s given; usage: %s [OPTION...]%s%s%s%s%s%s",
                       positional->count, positional->count == 1 ? "" : "s", program->name,
                       program->usage[0] ? " " : "", program->usage, other ? " or " : "",
                       other ? program->name : "", other ? " " : "", other ? other : "");
    }
    return 0;
}
