/* command_table.h: the commands of `paceline` as data: words, arguments, options, the request that
 * a command makes and how its answer is shown. Parsing, --help, completions and pages follow from
 * it, so that they cannot differ. Constant; any thread. */
#ifndef CLI_COMMAND_TABLE_H
#define CLI_COMMAND_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "cli/layouts.h"

#define OPTION_TEXT_SIZE 1024
#define ARGUMENTS_MAX 2

/* The options of all commands: an option means the same wherever it is allowed. */
enum option {
    /* of every command */
    OPTION_SERVER,
    OPTION_CONTEXT,
    OPTION_FORMAT,
    OPTION_QUIET,
    OPTION_CURL,
    /* of some commands */
    OPTION_CA,
    OPTION_CA_SHA256,
    OPTION_ROLE,
    OPTION_JOIN,
    OPTION_USES,
    OPTION_MAX_BYTES,
    OPTION_MAX_JOBS,
    OPTION_PENDING,
    OPTION_EXPIRES,
    OPTION_WAIT,
    OPTION_GET,
    OPTION_OUTPUT,
    OPTION_SET,
    OPTION_NAME,
    OPTION_STATE,
    OPTION_LABEL,
    OPTION_ORDER,
    OPTION_MODEL,
    OPTION_TRAIN,
    OPTION_TEST,
    OPTION_EPOCHS,
    OPTION_STEPS,
    OPTION_BATCH,
    OPTION_DRY_RUN,
    OPTION_KEEP,
    OPTION_FROM,
    OPTION_CUTS,
    OPTION_DEVICES,
    OPTION_WITHOUT,
    OPTION_GENERATION,
    OPTION_SERVERS,
    OPTION_SHARE_ENDS,
    OPTION_JOB,
    OPTION_DATASET,
    OPTION_METRIC,
    OPTION_SINCE,
    OPTION_AFTER,
    OPTION_TEXT,
    OPTION_SOUND,
    OPTION_SIZE,
    OPTION_CHANNELS,
    OPTION_COUNT,
};
#define OPTIONS_OF_ALL (OPTION_CURL + 1)
#define OPTION_BIT(option) ((uint64_t)1 << (option))

/* The values of the options: texts are "" and lists empty until an option is given. */
struct options {
    char text[OPTION_COUNT][OPTION_TEXT_SIZE];
    bool flag[OPTION_COUNT];
    struct conf_list set;
};

extern const struct conf_option option_table[OPTION_COUNT];

/* How the value of an option becomes a member of the request. */
enum option_value {
    VALUE_TEXT,
    VALUE_NUMBER,
    VALUE_NUMBERS,  /* "2,5" */
    VALUE_DURATION, /* "90", "30m", "12h", "7d": seconds */
    VALUE_JOB,      /* resolved to an id */
    VALUE_DEVICES,  /* each resolved to an id */
    VALUE_DATASET,
    VALUE_TRAIN, /* a data set, or a file or directory that becomes one */
    VALUE_TEST,
};
struct option_use {
    const char *query;       /* the parameter's name; NULL: none */
    const char *field;       /* of the body: "model/name"; NULL: none */
    enum option_value value; /* of a text */
    const char *word;        /* the value of a flag; NULL: true */
    const char *choices;     /* "table json wide"; NULL: any value */
};
extern const struct option_use option_uses[OPTION_COUNT];

/* Return whether the option was given. */
bool option_given(const struct options *options, enum option option);

/* What a word after the command names. */
enum argument_kind {
    ARGUMENT_NONE,
    ARGUMENT_JOB,
    ARGUMENT_DEVICE,
    ARGUMENT_CHECKPOINT,
    ARGUMENT_INCIDENT,
    ARGUMENT_TOKEN_ROW,
    ARGUMENT_DATASET,
    ARGUMENT_MODEL,
    ARGUMENT_NEW_NAME, /* of a thing that need not exist */
    ARGUMENT_NUMBER,
    ARGUMENT_FILE,
    ARGUMENT_SHELL,
    ARGUMENT_URL,
    ARGUMENT_TOKEN,
    ARGUMENT_CONTEXT,
};
#define ARGUMENT_THINGS (ARGUMENT_MODEL + 1)

struct argument {
    enum argument_kind kind;
    const char *name; /* "JOB" */
    bool optional;
    const char *field; /* of the body, that it becomes; NULL: none */
};

/* The things that the API lists, by the kind of argument that names one. */
struct thing {
    const char *noun, *prefix; /* "job", "job_"; prefix NULL: named by its name alone */
    const char *path;          /* of the list */
    const char *name;          /* path of the name in an item; NULL: ids only */
};
extern const struct thing things[ARGUMENT_THINGS];

enum body {
    BODY_NONE,
    BODY_FIELDS, /* JSON: the file argument, if any, and the options with a field */
    BODY_FILE,   /* the bytes of the file argument */
};

struct session;

struct command {
    const char *noun, *verb; /* verb "": the command is one word */
    const char *help;        /* one sentence */
    struct argument argument[ARGUMENTS_MAX];
    uint64_t options; /* beside those of every command */
    /* The request. "{0}" is the first argument. NULL: `run` makes its own ones. */
    const char *method, *path;
    enum body body;
    const char *constant;        /* a field of every body, "role=join"; NULL: none */
    const struct layout *layout; /* of the answer; NULL: JSON only */
    /* What to do instead of the request; NULL: make it and show the answer. */
    int (*run)(struct session *session, struct err *err);
};

extern const struct command commands[];
extern const size_t command_count;

/* Return the command of two words; NULL: there is none. second NULL: a command of one word. */
const struct command *command_find(const char *first, const char *second);
/* Return how many words name the command: 1 or 2. */
size_t command_words(const struct command *command);
/* Return whether the command takes the option. */
bool command_takes(const struct command *command, enum option option);
/* Return how many arguments the command needs, and takes at most. */
size_t command_needs(const struct command *command);
size_t command_arguments(const struct command *command);

#endif
