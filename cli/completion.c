#include "cli/completion.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/usage.h"

#define TEXT_BYTES_MAX ((size_t)1 << 20)
#define COLUMNS 100
#define WORD_SIZE 256

const char *const completion_shells[SHELLS] = {"bash", "zsh", "fish"};

/* A script that grows. `rc` keeps the first error. */
struct script {
    struct buf *out;
    struct err *err;
    int rc;
    size_t column;
};

PRINTF_LIKE(2, 3) static void add(struct script *script, const char *format, ...)
{
    char text[2 * COLUMNS + WORD_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (!script->rc) {
        script->rc = size < (int)sizeof(text)
                         ? buf_append(script->out, text, (size_t)size, script->err)
                         : err_set(script->err, ERR_LIMIT, "a line of a script is too long");
        const char *feed = strrchr(text, '\n');
        script->column = feed ? strlen(feed + 1) : script->column + (size_t)size;
    }
}

/* Add a word to a list, on a new line if this one would be too long. broken: the end of a line
 * whose list continues. */
static void add_item(struct script *script, const char *word, const char *separator,
                     const char *broken)
{
    if (script->column + strlen(separator) + strlen(word) + 4 > COLUMNS) {
        add(script, "%s\n        %s", broken, word);
    } else {
        add(script, "%s%s", separator, word);
    }
}

/* Add every option that takes a value, as patterns of a case: "--server | --format | -o". */
static void add_valued(struct script *script, const char *separator, const char *broken)
{
    const char *before = "";
    for (enum option option = 0; option < OPTION_COUNT; option++) {
        const struct conf_option *about = &option_table[option];
        char word[WORD_SIZE];
        if (about->type == CONF_FLAG) {
            continue;
        }
        (void)snprintf(word, sizeof(word), "--%s", about->name);
        add_item(script, word, before, broken);
        before = separator;
        if (about->letter) {
            (void)snprintf(word, sizeof(word), "-%c", about->letter);
            add_item(script, word, before, broken);
        }
    }
}

/* Whether this is the first command with its noun. */
static bool begins_noun(size_t index)
{
    return index == 0 || strcmp(commands[index].noun, commands[index - 1].noun) != 0;
}

/* The noun of the command that lists the values of an argument; "" if there is none. */
static const char *lister_of(enum argument_kind kind)
{
    static const char *const listers[ARGUMENT_CONTEXT + 1] = {
        [ARGUMENT_CONTEXT] = "context",
        [ARGUMENT_TOKEN_ROW] = "token",
        [ARGUMENT_JOB] = "job",
        [ARGUMENT_DEVICE] = "device",
        [ARGUMENT_CHECKPOINT] = "checkpoint",
        [ARGUMENT_INCIDENT] = "incident",
        [ARGUMENT_DATASET] = "dataset",
        [ARGUMENT_MODEL] = "model",
    };
    return listers[kind] ? listers[kind] : "";
}

static const char *name_of(const struct command *command, char out[WORD_SIZE])
{
    (void)snprintf(out, WORD_SIZE, "%s%s%s", command->noun, command->verb[0] != '\0' ? " " : "",
                   command->verb);
    return out;
}

/* ---- bash and zsh: one function that chooses by the words before the cursor ---- */

static void add_nouns(struct script *script)
{
    add(script, "    '')\n        choice='");
    for (size_t i = 0, count = 0; i < command_count; i++) {
        if (begins_noun(i)) {
            add_item(script, commands[i].noun, count++ ? " " : "", "");
        }
    }
    add(script, "' ;;\n");
    for (size_t i = 0; i < command_count; i++) {
        if (commands[i].verb[0] == '\0') {
            continue;
        }
        if (begins_noun(i)) {
            add(script, "    %s)\n        choice='", commands[i].noun);
        }
        add_item(script, commands[i].verb, begins_noun(i) ? "" : " ", "");
        if (i + 1 == command_count || begins_noun(i + 1)) {
            add(script, "' ;;\n");
        }
    }
}

static void add_things(struct script *script)
{
    for (size_t i = 0; i < command_count; i++) {
        const struct argument *argument = commands[i].argument;
        char name[WORD_SIZE];
        if (lister_of(argument[0].kind)[0] != '\0') {
            add(script, "    '%s') list=%s ;;\n", name_of(&commands[i], name),
                lister_of(argument[0].kind));
        } else if (argument[0].kind == ARGUMENT_FILE) {
            add(script, "    '%s') files=1 ;;\n", name_of(&commands[i], name));
        } else if (argument[0].kind == ARGUMENT_SHELL) {
            add(script, "    '%s') choice='bash zsh fish' ;;\n", name_of(&commands[i], name));
        }
        if (argument[1].kind == ARGUMENT_FILE) {
            add(script, "    '%s '*) files=1 ;;\n", name_of(&commands[i], name));
        }
    }
}

static void add_options(struct script *script)
{
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = &commands[i];
        char name[WORD_SIZE];
        if (command->options == 0) {
            continue;
        }
        (void)name_of(command, name);
        add(script, "    '%s' | '%s '*)\n        options='", name, name);
        const char *separator = "";
        for (enum option option = OPTIONS_OF_ALL; option < OPTION_COUNT; option++) {
            char word[WORD_SIZE];
            (void)snprintf(word, sizeof(word), "--%s", option_table[option].name);
            if (command_takes(command, option)) {
                add_item(script, word, separator, "");
                separator = " ";
            }
        }
        add(script, "' ;;\n");
    }
}

static void add_common_options(struct script *script)
{
    add(script, "    options=\"$options");
    for (enum option option = 0; option < OPTIONS_OF_ALL; option++) {
        add(script, " --%s", option_table[option].name);
    }
    add(script, " --help --version\"\n");
}

/* Add the values of the option before the cursor. */
static void add_values(struct script *script)
{
    add(script, "    case $before in\n");
    for (enum option option = 0; option < OPTION_COUNT; option++) {
        const struct conf_option *about = &option_table[option];
        const struct option_use *use = &option_uses[option];
        const char *list = option == OPTION_CONTEXT      ? "context"
                           : use->value == VALUE_JOB     ? "job"
                           : use->value == VALUE_DEVICES ? "device"
                           : use->value == VALUE_DATASET ? "dataset"
                           : option == OPTION_MODEL      ? "model"
                                                         : NULL;
        char letter[WORD_SIZE] = "";
        if (about->letter) {
            (void)snprintf(letter, sizeof(letter), " | -%c", about->letter);
        }
        if (use->choices) {
            add(script, "    --%s%s) choice='%s' ;;\n", about->name, letter, use->choices);
        } else if (list) {
            add(script, "    --%s%s) list=%s ;;\n", about->name, letter, list);
        } else if (about->type == CONF_TEXT && strcmp(about->value_name, "FILE") == 0) {
            add(script, "    --%s%s) files=1 ;;\n", about->name, letter);
        }
    }
    add(script, "    esac\n");
}

/* Choose `words`, `list`, `files` and `options` by `given` and `before`. bash expands the words of
 * a list, so only harmless characters of the coordinator's words are kept. */
static void add_choice(struct script *script)
{
    add(script, "    if [ -n \"$value\" ]; then\n");
    add_values(script);
    add(script, "    else\n    case \"$given\" in\n");
    add_nouns(script);
    add_things(script);
    add(script, "    esac\n    case \"$given\" in\n");
    add_options(script);
    add(script, "    esac\n");
    add_common_options(script);
    add(script, "    fi\n    [ -z \"$list\" ] || choice=$(paceline \"$list\" list --quiet "
                "2>/dev/null |\n"
                "        LC_ALL=C tr -cd 'A-Za-z0-9._\\n-')\n");
}

/* Add the loop that collects the words before the cursor, without options and their values. */
static void add_walk(struct script *script, const char *loop)
{
    add(script,
        "    %s; do\n        if [ -n \"$value\" ]; then value=; continue; fi\n"
        "        case $word in\n        ",
        loop);
    add_valued(script, " | ", " | \\");
    add(script, ") value=1 ;;\n        -*) ;;\n        *) given=\"$given${given:+ }$word\" ;;\n"
                "        esac\n    done\n");
}

static void add_bash(struct script *script)
{
    add(script, "# bash completion for paceline; made from its table of commands.\n_paceline()\n{\n"
                "    local word given= value= choice= list= files= options=\n"
                "    local now=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n");
    add_walk(script, "for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"");
    add_choice(script);
    add(script, "    case $now in -*) choice=$options ;; esac\n"
                "    COMPREPLY=()\n"
                "    while IFS= read -r word; do COMPREPLY+=(\"$word\"); done \\\n"
                "        < <(compgen -W \"$choice\" -- \"$now\")\n"
                "    [ -z \"$files\" ] || compopt -o default\n}\n"
                "complete -F _paceline paceline\n");
}

static void add_zsh(struct script *script)
{
    add(script,
        "#compdef paceline\n# Made from the table of commands of paceline.\n_paceline()\n{\n"
        "    local word given= value= list= files= options= before=${words[CURRENT - 1]}\n"
        "    local now=${words[CURRENT]}\n"
        "    local -a before_cursor=(\"${(@)words[2,CURRENT-1]}\")\n"
        "    local choice=\n");
    add_walk(script, "for word in \"${before_cursor[@]}\"");
    add_choice(script);
    add(script, "    case $now in -*) choice=$options ;; esac\n"
                "    [[ -z $choice ]] || compadd -- ${=choice}\n"
                "    [[ -z $files ]] || _files\n}\n"
                "if [[ $funcstack[1] == _paceline ]]; then _paceline \"$@\"\n"
                "else compdef _paceline paceline; fi\n");
}

/* ---- fish: one line for each word ---- */

/* Add the first line of a text in single quotes. */
static void add_quoted(struct script *script, const char *text)
{
    add(script, "'");
    for (size_t i = 0; text[i] != '\0' && text[i] != '\n'; i++) {
        add(script, "%s%c", text[i] == '\'' ? "\\" : "", text[i]);
    }
    add(script, "'");
}

static void add_fish_command(struct script *script, const struct command *command)
{
    char name[WORD_SIZE];
    const bool one_word = command->verb[0] == '\0';
    add(script, "complete -c paceline -n '__paceline_at \"%s\"' -a %s \\\n    -d ",
        one_word ? "" : command->noun, one_word ? command->noun : command->verb);
    add_quoted(script, command->help);
    add(script, "\n");
    (void)name_of(command, name);
    const enum argument_kind kind = command->argument[0].kind;
    if (lister_of(kind)[0] != '\0') {
        add(script,
            "complete -c paceline -n '__paceline_at \"%s\"' \\\n    -a '(paceline %s list --quiet "
            "2>/dev/null)'\n",
            name, lister_of(kind));
    } else if (kind == ARGUMENT_SHELL) {
        add(script, "complete -c paceline -n '__paceline_at \"%s\"' -a 'bash zsh fish'\n", name);
    } else if (kind == ARGUMENT_FILE || command->argument[1].kind == ARGUMENT_FILE) {
        add(script, "complete -c paceline -n '__paceline_in \"%s\"' -F\n", name);
    }
}

static void add_fish_option(struct script *script, const struct command *command,
                            enum option option)
{
    const struct conf_option *about = &option_table[option];
    char name[WORD_SIZE] = "";
    add(script, "complete -c paceline ");
    if (command) {
        add(script, "-n '__paceline_in \"%s\"' ", name_of(command, name));
    }
    if (about->letter) {
        add(script, "-s %c ", about->letter);
    }
    add(script, "-l %s ", about->name);
    if (option_uses[option].choices) {
        add(script, "-x \\\n    -a '%s' ", option_uses[option].choices);
    } else if (about->type != CONF_FLAG) {
        add(script, strcmp(about->value_name, "FILE") == 0 ? "-r -F " : "-x ");
    }
    add(script, "\\\n    -d ");
    add_quoted(script, about->help);
    add(script, "\n");
}

static void add_fish(struct script *script)
{
    add(script, "# fish completion for paceline; made from its table of commands.\n"
                "function __paceline_given\n    set -l value\n    set -l given\n"
                "    for word in (commandline -opc)[2..]\n"
                "        if set -q value[1]\n            set -e value\n            continue\n"
                "        end\n        switch $word\n            case ");
    add_valued(script, " ", " \\");
    add(script, "\n                set -a value 1\n            case '-*'\n            case '*'\n"
                "                set -a given $word\n        end\n    end\n    echo \"$given\"\n"
                "end\n"
                "function __paceline_at\n    test (__paceline_given) = \"$argv[1]\"\nend\n"
                "function __paceline_in\n"
                "    string match -q -- \"$argv[1] *\" (__paceline_given)' '\nend\n"
                "complete -c paceline -f\n");
    for (size_t i = 0; i < command_count; i++) {
        if (begins_noun(i) && commands[i].verb[0] != '\0') {
            add(script, "complete -c paceline -n '__paceline_at \"\"' -a %s\n", commands[i].noun);
        }
        add_fish_command(script, &commands[i]);
    }
    for (enum option option = 0; option < OPTIONS_OF_ALL; option++) {
        add_fish_option(script, NULL, option);
    }
    for (size_t i = 0; i < command_count; i++) {
        for (enum option option = OPTIONS_OF_ALL; option < OPTION_COUNT; option++) {
            if (command_takes(&commands[i], option)) {
                add_fish_option(script, &commands[i], option);
            }
        }
    }
}

/* ---- both ---- */

int completion_add(size_t shell, struct buf *out, struct err *err)
{
    static void (*const writers[SHELLS])(struct script *) = {add_bash, add_zsh, add_fish};
    struct script script = {.out = out, .err = err};
    writers[shell](&script);
    return script.rc;
}

int completion_write(struct session *session, struct err *err)
{
    const char *shell = session->call.argument[0];
    for (size_t i = 0; i < SHELLS; i++) {
        if (strcmp(shell, completion_shells[i]) == 0) {
            BUF_AUTO struct buf text;
            buf_init(&text, TEXT_BYTES_MAX);
            int rc = completion_add(i, &text, err);
            return rc ? rc : api_write(session->out, &text, err);
        }
    }
    session->status = COMMAND_USAGE;
    return err_set(err, ERR_INVALID, "no completion for '%s'; expected bash, zsh or fish", shell);
}
