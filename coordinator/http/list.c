#include "coordinator/http/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/parse.h"
#include "coordinator/http/answer.h"
#include "coordinator/turn/objects.h"
#include "schema/limits.h"
#include "schema/wire.h"

#define PARAMETERS_MAX 12
#define STATES_MAX 64
#define WORD_MAX 64

/* ---- the query ---- */

static bool refuse(struct http_exchange *exchange, const char *name, const char *value,
                   const char *expected)
{
    answer_problem(exchange, PROBLEM_INVALID_PARAMETER, "query parameter '%s': '%.60s' is not %s",
                   name, value, expected);
    return false;
}

static bool check_parameters(struct http_exchange *exchange, const struct list_form *form)
{
    const char *allowed[PARAMETERS_MAX];
    size_t count = 0;
    const struct {
        const char *name;
        bool offered;
    } parameters[] = {
        {"limit", true},         {"cursor", true},       {"order", true},
        {"state", form->states}, {"name", form->names},  {"label", form->labels},
        {"view", form->brief},   {"after", form->waits}, {"wait", form->waits},
        {"local", form->local},
    };
    for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
        if (parameters[i].offered) {
            allowed[count++] = parameters[i].name;
        }
    }
    allowed[count] = NULL;
    return answer_check_query(exchange, allowed);
}

/* Read the next word of a comma-separated list. false: no word is left. */
static bool next_word(const char **text, char out[WORD_MAX])
{
    if (!*text) {
        return false;
    }
    const size_t length = strcspn(*text, ",");
    snprintf(out, WORD_MAX, "%.*s", length < WORD_MAX ? (int)length : WORD_MAX - 1, *text);
    *text = (*text)[length] == ',' ? *text + length + 1 : NULL;
    return true;
}

static bool read_states(struct http_exchange *exchange, struct list *list)
{
    const char *text = list->form->states ? http_query(exchange, "state") : NULL;
    char word[WORD_MAX];
    while (next_word(&text, word)) {
        size_t state = 0;
        size_t count = 0;
        const char *const *names = list->form->states;
        while (names[count]) {
            state = strcmp(names[count], word) == 0 ? count : state;
            count++;
        }
        ASSERT(count <= STATES_MAX);
        if (strcmp(names[state], word) != 0) {
            const char *nearest = parse_nearest(word, names, count);
            char expected[WORD_MAX + 32];
            snprintf(expected, sizeof(expected), "a state%s%s%s", nearest ? "; did you mean '" : "",
                     nearest ? nearest : "", nearest ? "'?" : "");
            return refuse(exchange, "state", word, expected);
        }
        list->states |= (uint64_t)1 << state;
    }
    return true;
}

/* Read a name: "NAME" or "BEGINNING*". */
static bool read_name(struct http_exchange *exchange, struct list *list)
{
    char name[NAME_SIZE + 1];
    const char *text = list->form->names ? http_query(exchange, "name") : NULL;
    if (!text) {
        return true;
    }
    const size_t length = strlen(text);
    const bool beginning = length > 1 && text[length - 1] == '*';
    /* A name that is too long is truncated to a length that is still invalid. */
    snprintf(name, sizeof(name), "%.*s", length <= NAME_SIZE ? (int)length - beginning : NAME_SIZE,
             text);
    if (!name_valid(name)) {
        return refuse(exchange, "name", text, "a name, or the beginning of one and '*'");
    }
    list->name = text;
    list->name_size = beginning ? length - 1 : 0;
    return true;
}

/* Return the length of the pair at the start of `text`. A value may have commas: only a comma
 * before a further KEY= ends it. */
static size_t pair_length(const char *text)
{
    const char *comma = strchr(text, ',');
    for (; comma; comma = strchr(comma + 1, ',')) {
        const size_t key = strcspn(comma + 1, ",=");
        if (key > 0 && comma[1 + key] == '=') {
            return (size_t)(comma - text);
        }
    }
    return strlen(text);
}

/* Read labels: "KEY=VALUE", or several separated by commas. */
static bool read_labels(struct http_exchange *exchange, struct list *list)
{
    const char *text = list->form->labels ? http_query(exchange, "label") : NULL;
    const char *whole = text;
    while (text) {
        const size_t length = pair_length(text);
        const char *equals = memchr(text, '=', length);
        if (!equals || equals - text >= NAME_SIZE || text + length - equals > NAME_SIZE ||
            list->label_count == LABELS_MAX) {
            return refuse(exchange, "label", whole, "KEY=VALUE, or several with commas");
        }
        struct label *label = &list->label[list->label_count++];
        snprintf(label->key, sizeof(label->key), "%.*s", (int)(equals - text), text);
        snprintf(label->value, sizeof(label->value), "%.*s", (int)(text + length - equals - 1),
                 equals + 1);
        if (!name_valid(label->key) || !word_form.valid(label->value)) {
            return refuse(exchange, "label", whole, "KEY=VALUE, or several with commas");
        }
        text = text[length] == ',' ? text + length + 1 : NULL;
    }
    return true;
}

static bool read_word(struct http_exchange *exchange, const char *name, const char *on,
                      const char *off, bool *out)
{
    const char *text = http_query(exchange, name);
    if (!text) {
        return true;
    }
    *out = strcmp(text, on) == 0;
    if (*out || strcmp(text, off) == 0) {
        return true;
    }
    char expected[WORD_MAX];
    snprintf(expected, sizeof(expected), "'%s' or '%s'", on, off);
    return refuse(exchange, name, text, expected);
}

static bool read_query(struct http_exchange *exchange, struct list *list)
{
    int64_t limit;
    const char *cursor = http_query(exchange, "cursor");
    list->descending = list->form->newest_first;
    if (!check_parameters(exchange, list->form) ||
        !answer_query_int(exchange, "limit", 1, LIST_LIMIT_MAX, LIST_LIMIT_DEFAULT, &limit) ||
        !read_word(exchange, "order", "desc", "asc", &list->descending) ||
        !read_word(exchange, "view", "short", "full", &list->brief) ||
        !read_states(exchange, list) || !read_name(exchange, list) ||
        !read_labels(exchange, list)) {
        return false;
    }
    if (cursor && (strlen(cursor) >= sizeof(list->last) || !list->form->key->valid(cursor))) {
        answer_bad_cursor(exchange, cursor);
        return false;
    }
    list->after = cursor ? cursor : "";
    list->limit = (size_t)limit;
    return true;
}

bool list_begin(struct http_exchange *exchange, const struct list_form *form, struct list *list)
{
    *list = (struct list){.form = form};
    if (!read_query(exchange, list)) {
        return false;
    }
    buf_init(&list->body, (size_t)LIST_LIMIT_MAX * 65536);
    list->failed = buf_printf(&list->body, &list->err, "{\"items\":[") != 0;
    return true;
}

/* ---- items ---- */

bool list_reaches(const struct list *list, const char *key)
{
    const int order = strcmp(key, list->after);
    return list->after[0] == '\0' || (list->descending ? order < 0 : order > 0);
}

static bool has_label(const struct label *label, size_t label_count, const struct label *wanted)
{
    for (size_t i = 0; i < label_count; i++) {
        if (strcmp(label[i].key, wanted->key) == 0 && strcmp(label[i].value, wanted->value) == 0) {
            return true;
        }
    }
    return false;
}

bool list_wants(const struct list *list, int state, const char *name, const struct label *label,
                size_t label_count)
{
    if (list->states && !(list->states >> state & 1)) {
        return false;
    }
    if (list->name && (list->name_size ? strncmp(name, list->name, list->name_size)
                                       : strcmp(name, list->name)) != 0) {
        return false;
    }
    for (size_t i = 0; i < list->label_count; i++) {
        if (!has_label(label, label_count, &list->label[i])) {
            return false;
        }
    }
    return true;
}

static void note_key(struct list *list, const char *key)
{
    ASSERT(strlen(key) < sizeof(list->last)); /* a part of it would begin the next page too early */
    memcpy(list->last, key, strlen(key) + 1);
}

/* Return whether another item fits; if not, note that more items exist. */
static bool has_room(struct list *list, const char *key)
{
    if (list->failed || list->count == list->limit) {
        list->more = true;
        return false;
    }
    list->failed = list->count > 0 && buf_append(&list->body, ",", 1, &list->err) != 0;
    list->count++;
    note_key(list, key);
    return !list->failed;
}

bool list_text(struct list *list, const char *key, const char *text, size_t size)
{
    if (!has_room(list, key)) {
        return false;
    }
    list->failed = buf_append(&list->body, text, size, &list->err) != 0;
    return !list->failed;
}

bool list_object(struct list *list, const char *key, enum object_kind kind, const void *object)
{
    if (!has_room(list, key)) {
        return false;
    }
    list->failed = object_write(kind, object, &list->body, &list->err) != 0;
    return !list->failed;
}

bool list_brief(struct list *list, const char *key, const void *object)
{
    if (!has_room(list, key)) {
        return false;
    }
    list->failed = wire_write(list->form->brief, object, &list->body, &list->err) != 0;
    return !list->failed;
}

/* ---- the end ---- */

void list_drop(struct list *list)
{
    buf_done(&list->body);
}

static int write_end(struct list *list)
{
    int rc = list->more
                 ? buf_printf(&list->body, &list->err, "],\"next_cursor\":\"%s\"", list->last)
                 : buf_printf(&list->body, &list->err, "],\"next_cursor\":null");
    if (!rc && list->revision > 0) {
        rc = buf_printf(&list->body, &list->err, ",\"revision\":%" PRId64, list->revision);
    }
    return rc ? rc : buf_append(&list->body, "}", 1, &list->err);
}

void list_end(struct http_exchange *exchange, struct list *list)
{
    list->failed = list->failed || write_end(list) != 0;
    if (list->failed) {
        answer_err(exchange, &list->err);
    } else {
        answer_object(exchange, 200, 0, &list->body);
    }
    list_drop(list);
}

/* ---- rows ---- */

/* The store passes rows that do not match without their documents. */
struct search {
    struct list *list;
    list_visit_fn visit;
    void *arg;
    size_t rows;
};

static bool look_at_row(void *arg, const struct state_row *row)
{
    struct search *search = arg;
    search->rows++;
    if (row->document_size > 0) {
        return search->visit(search->arg, row);
    }
    note_key(search->list, row->id);
    return true;
}

/* Write the names of the wanted states for the store, as ",A,B,". */
static void join_states(const struct list *list, char *out, size_t size)
{
    size_t length = 0;
    out[0] = '\0';
    for (size_t i = 0; list->states && list->form->states[i]; i++) {
        if (list->states >> i & 1) {
            const int more = snprintf(out + length, size - length, "%s%s,", length ? "" : ",",
                                      list->form->states[i]);
            ASSERT(more > 0 && (size_t)more < size - length);
            length += (size_t)more;
        }
    }
}

void list_rows(struct http_exchange *exchange, struct list *list, struct state_store *state,
               enum state_table table, const char *job, list_visit_fn visit, void *arg)
{
    char states[STATES_MAX * 8];
    struct search search = {.list = list, .visit = visit, .arg = arg};
    join_states(list, states, sizeof(states));
    const bool filtered = list->states || list->name;
    const struct state_query query = {.after_id = list->after,
                                      .limit = filtered ? ROWS_SEARCHED_MAX : list->limit + 1,
                                      .newest_first = list->descending,
                                      .parent = list->form->whole ? "" : NULL,
                                      .job = job,
                                      .states = states,
                                      .name = list->name ? list->name : ""};
    struct err err = {0};
    if (state_search(state, table, &query, look_at_row, &search, &err)) {
        list_drop(list);
        answer_err(exchange, &err);
        return;
    }
    list->more = list->more || search.rows == query.limit;
    list_end(exchange, list);
}
