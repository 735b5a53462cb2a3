/* conf.h: describes a program's options by one table, for the command line, an optional "key =
 * value" file and --help. Programs only. */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum conf_type {
    CONF_FLAG,   /* bool; no value on the command line, true or false in a file */
    CONF_TEXT,   /* char[size] inside the struct */
    CONF_LIST,   /* a repeatable text: struct conf_list */
    CONF_INT,    /* int64_t within [min, max] */
    CONF_DOUBLE, /* double within [min, max] */
    CONF_SIZE,   /* uint64_t bytes: 64K, 8M, 2G */
};

#define CONF_LIST_MAX 64
struct conf_list {
    const char *item[CONF_LIST_MAX]; /* borrowed from argv or `owned` */
    char *owned[CONF_LIST_MAX];      /* the copy of an item from a file, or NULL */
    size_t count;
};

/* Free the items from a file and empty the list. */
void conf_list_done(struct conf_list *list);

struct conf_option {
    const char *name; /* "state-dir" is --state-dir and state-dir = ... */
    char letter;      /* 'o' is -o on the command line; 0: none */
    enum conf_type type;
    size_t offset; /* in the program's struct, which the caller has filled with the defaults */
    size_t size;   /* of a CONF_TEXT field */
    double min, max;
    const char *value_name; /* "DIR", "HOST:PORT"; NULL for a flag */
    const char *help;       /* "What it is for. Default: X.", one or two lines */
};

struct conf_program {
    const char *name;        /* "paceline-agent" */
    const char *summary;     /* one sentence */
    const char *usage;       /* the arguments after the options: "JOB.json", or "" */
    const char *other_usage; /* other arguments after the name: "train JOB.json"; NULL: none */
    const struct conf_option *options;
    size_t option_count;
    size_t positional_min, positional_max;
};

/* Read argv[1..] over the defaults in `out`. Every program has `--config FILE`, which is read
 * first; --help (-h) and --version print to stdout and set *done. Positional words go to
 * `positional`; "--" ends the options. The command line overrides the file, and the file overrides
 * the defaults. The first item of a list replaces the items of the earlier source. A value may
 * follow "=" or be the next word; a flag may be "--flag=false". Errors name the option and the
 * closest known one. Call conf_list_done for the lists in `out` that the file may set. */
NODISCARD int conf_parse(const struct conf_program *program, int argc, char **argv, void *out,
                         struct conf_list *positional, bool *done, struct err *err);

/* Read a file of 'name = value' lines over the values in `out`. ERR_NOT_FOUND: no such file. */
NODISCARD int conf_file(const struct conf_program *program, const char *path, void *out,
                        struct err *err);
/* Append such lines for the values that differ from the defaults. ERR_INVALID: a text that a line
 * cannot hold, with a line feed or with a space at an end. */
NODISCARD int conf_write(const struct conf_program *program, const void *values,
                         const void *defaults, struct buf *out, struct err *err);

enum conf_request { CONF_RUN, CONF_HELP, CONF_VERSION };
/* The same for a program that prints its own help and counts its own positional words. *request:
 * the request of the command line. Unless it is CONF_RUN, only the positional words are read. */
NODISCARD int conf_read(const struct conf_program *program, int argc, char **argv, void *out,
                        struct conf_list *positional, enum conf_request *request, struct err *err);

#endif
