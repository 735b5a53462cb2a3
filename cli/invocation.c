#include "cli/invocation.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/parse.h"

#define NOUNS_MAX 32
#define TEXT_MAX 300

static const struct conf_program program = {
    .name = "paceline",
    .summary = "",
    .usage = "",
    .options = option_table,
    .option_count = OPTION_COUNT,
    .positional_max = CONF_LIST_MAX,
};

/* The first words of all commands, or the second words of those with this first word. */
static size_t list_words(const char *noun, const char *out[NOUNS_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < command_count; i++) {
        const char *word = noun ? commands[i].verb : commands[i].noun;
        if (noun ? strcmp(commands[i].noun, noun) == 0
                 : count == 0 || strcmp(out[count - 1], word) != 0) {
            ASSERT(count < NOUNS_MAX);
            out[count++] = word;
        }
    }
    return count;
}

/* The words name no command. Suggest the nearest one, or list all that are possible there. */
static int refuse(const struct conf_list *words, struct err *err)
{
    const char *known[NOUNS_MAX];
    char list[TEXT_MAX] = "";
    if (words->count == 0) {
        return err_set(err, ERR_INVALID, "no command given (see paceline --help)");
    }
    const char *noun = words->item[0];
    size_t count = list_words(noun, known);
    if (count == 0) {
        count = list_words(NULL, known);
        const char *nearest = parse_nearest(noun, known, count);
        return nearest
                   ? err_set(err, ERR_INVALID, "unknown command '%s'; did you mean '%s'?", noun,
                             nearest)
                   : err_set(err, ERR_INVALID, "unknown command '%s' (see paceline --help)", noun);
    }
    const char *verb = words->count > 1 ? words->item[1] : NULL;
    const char *nearest = verb ? parse_nearest(verb, known, count) : NULL;
    if (nearest) {
        return err_set(err, ERR_INVALID, "unknown command '%s %s'; did you mean '%s %s'?", noun,
                       verb, noun, nearest);
    }
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(list);
        (void)snprintf(list + used, sizeof(list) - used, "%s%s", i == 0 ? "" : ", ", known[i]);
    }
    return err_set(err, ERR_INVALID, "unknown command '%s%s%s'; expected %s and one of %s", noun,
                   verb ? " " : "", verb ? verb : "", noun, list);
}

static int take_arguments(struct invocation *call, struct err *err)
{
    const struct command *command = call->command;
    const size_t first = command_words(command);
    const size_t given = call->words.count - first;
    const size_t needs = command_needs(command), takes = command_arguments(command);
    char name[TEXT_MAX];
    (void)snprintf(name, sizeof(name), "%s%s%s", command->noun, first == 2 ? " " : "",
                   command->verb);
    if (given < needs) {
        return err_set(err, ERR_INVALID, "%s needs %s (see paceline %s --help)", name,
                       command->argument[given].name, name);
    }
    if (given > takes) {
        return err_set(err, ERR_INVALID, "%s takes %zu argument%s; '%s' is too many", name, takes,
                       takes == 1 ? "" : "s", call->words.item[first + takes]);
    }
    for (size_t i = 0; i < given; i++) {
        call->argument[i] = call->words.item[first + i];
    }
    return 0;
}

/* Whether a word is in a list of words with one space in between. */
static bool is_choice(const char *choices, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = choices; *at; at += strcspn(at, " "), at += *at == ' ') {
        if (strcspn(at, " ") == size && memcmp(at, word, size) == 0) {
            return true;
        }
    }
    return false;
}

static int check_options(const struct invocation *call, struct err *err)
{
    const struct command *command = call->command;
    for (enum option option = 0; option < OPTION_COUNT; option++) {
        const char *choices = option_uses[option].choices;
        const char *name = option_table[option].name;
        const char *text = call->options.text[option];
        if (!option_given(&call->options, option)) {
            continue;
        }
        if (!command_takes(command, option)) {
            return err_set(err, ERR_INVALID, "%s%s%s has no option --%s", command->noun,
                           command->verb[0] != '\0' ? " " : "", command->verb, name);
        }
        if (choices && !is_choice(choices, text)) {
            return err_set(err, ERR_INVALID, "--%s: '%s' is unknown; expected one of: %s", name,
                           text, choices);
        }
        int64_t number = 0;
        if (option_uses[option].value == VALUE_NUMBER &&
            parse_i64(text, 0, INT64_MAX, &number, err)) {
            return err_wrap(err, "--%s", name);
        }
    }
    return 0;
}

int invocation_read(int argc, char **argv, struct invocation *out, struct err *err)
{
    memset(out, 0, sizeof(*out));
    int rc = conf_read(&program, argc, argv, &out->options, &out->words, &out->request, err);
    if (rc) {
        return rc;
    }
    const struct conf_list *words = &out->words;
    out->command = words->count > 0
                       ? command_find(words->item[0], words->count > 1 ? words->item[1] : NULL)
                       : NULL;
    if (out->request != CONF_RUN) {
        bool is_noun = false;
        for (size_t i = 0; i < command_count && words->count == 1; i++) {
            is_noun = is_noun || strcmp(commands[i].noun, words->item[0]) == 0;
        }
        return words->count == 0 || out->command || is_noun ? 0 : refuse(words, err);
    }
    if (!out->command) {
        return refuse(words, err);
    }
    rc = take_arguments(out, err);
    return rc ? rc : check_options(out, err);
}

void invocation_done(struct invocation *invocation)
{
    conf_list_done(&invocation->words);
    conf_list_done(&invocation->options.set);
}

enum format invocation_format(const struct invocation *invocation, bool terminal)
{
    const char *text = invocation->options.text[OPTION_FORMAT];
    const struct command *command = invocation->command;
    const bool json_only = !command->layout && !command->run;
    const bool one_object = command->layout && command->layout->rows[0] == '\0';
    if (json_only || strcmp(text, "json") == 0) {
        return FORMAT_JSON;
    }
    if (text[0] == '\0') {
        return one_object && !terminal ? FORMAT_JSON : FORMAT_TABLE;
    }
    return strcmp(text, "wide") == 0 ? FORMAT_WIDE : FORMAT_TABLE;
}
