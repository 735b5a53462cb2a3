/* list.h: writes lists of objects: {"items": [...], "next_cursor": ...} in the order of their keys,
 * one page at a time, all objects or those that match a query. The loop's thread only. */
#ifndef COORDINATOR_HTTP_LIST_H
#define COORDINATOR_HTTP_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/core/action.h"
#include "coordinator/store/state.h"
#include "net/http_server.h"
#include "schema/device.h"

/* The query parameters of a list, in addition to ?limit=, ?cursor= and ?order=. */
struct list_form {
    const struct text_form *key; /* of a cursor */
    const char *const *states;   /* of ?state=A,B, up to 64; NULL: no such parameter */
    bool names;                  /* ?name=NAME or NAME* */
    bool labels;                 /* ?label=KEY=VALUE,... */
    const struct record *brief;  /* of ?view=short; NULL: no such parameter */
    bool waits;                  /* ?after=, ?wait=: see wait.h */
    bool newest_first;           /* the order without ?order= */
    bool whole;                  /* of rows: only those without a parent */
    bool local;                  /* ?local=, which chooses the list (local_datasets.c) */
};

#define LIST_KEY_SIZE 128 /* above every key: the longest name the record of a mix */

/* A list under construction. */
struct list {
    const struct list_form *form;
    const char *after; /* the page starts beyond this key; "": at the start */
    size_t limit;
    bool descending;
    bool brief;
    uint64_t states;  /* a bit for each; 0: all */
    const char *name; /* NULL: any */
    size_t name_size; /* length of a prefix; 0: the whole name must match */
    struct label label[LABELS_MAX];
    size_t label_count;
    int64_t revision; /* of the whole list, for ?after=; 0: not shown */

    struct buf body;
    struct err err;
    size_t count;
    char last[LIST_KEY_SIZE]; /* key of the last object examined */
    bool more;
    bool failed;
};

/* Read the query and start the list; false: a problem was sent. The list borrows the request's
 * texts. */
bool list_begin(struct http_exchange *exchange, const struct list_form *form, struct list *list);
/* Return whether the object with this key belongs on this page or a later one. */
bool list_reaches(const struct list *list, const char *key);
/* Return whether an object matches the query. state: its index in the form's states; name: NULL if
 * the form has no names. */
bool list_wants(const struct list *list, int state, const char *name, const struct label *label,
                size_t label_count);
/* Add an item by its text or by its struct. false: the page is full or has failed: stop. */
bool list_text(struct list *list, const char *key, const char *text, size_t size);
bool list_object(struct list *list, const char *key, enum object_kind kind, const void *object);
/* Add an item of the form's `brief` record. */
bool list_brief(struct list *list, const char *key, const void *object);
/* Send the list. */
void list_end(struct http_exchange *exchange, struct list *list);
/* Discard the list, because another answer is sent. */
void list_drop(struct list *list);

/* Visit the rows of the page, and one more; then send the list. `visit` gets only the rows that
 * match the query. After ROWS_SEARCHED_MAX other rows in one request the page ends early. job: only
 * rows of this job and of its parts; NULL: all. */
#define ROWS_SEARCHED_MAX 500
typedef bool (*list_visit_fn)(void *arg, const struct state_row *row);
void list_rows(struct http_exchange *exchange, struct list *list, struct state_store *state,
               enum state_table table, const char *job, list_visit_fn visit, void *arg);

#endif
