#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/content/catalog.h"
#include "coordinator/coordinator.h"
#include "coordinator/http/access.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/describe.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/replay.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/wait.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/formats/class_names.h"
#include "schema/model_view.h"
#include "schema/wire.h"

#define ZOO_REVISION 1 /* a model of the zoo changes with the program only */

/* "no model 'lenet'; there are lenet5, mlp, ..." */
static int unknown_model(const struct coordinator *coordinator, const char *name, struct err *err)
{
    BUF_AUTO struct buf names;
    buf_init(&names, 256);
    int rc = 0;
    for (size_t i = 0; !rc && zoo_name(i); i++) {
        rc = buf_printf(&names, err, "%s%s", i ? ", " : "", zoo_name(i));
    }
    for (size_t i = 0; !rc && i < core_model_count(coordinator->core); i++) {
        rc = buf_printf(&names, err, ", %s", core_model_at(coordinator->core, i)->name);
    }
    /* A list that does not fit is truncated: its first names are enough help. */
    return err_set(err, ERR_NOT_FOUND, "no model '%s'; there are %s%s", name, names.data,
                   rc ? " ..." : "");
}

int describe_named(struct coordinator *coordinator, const char *name, json_t **out, struct err *err)
{
    const char *text = zoo_text(name);
    if (text) {
        return json_parse(text, strlen(text), out, err);
    }
    const struct model_row *row = core_model(coordinator->core, name);
    if (!row) {
        return unknown_model(coordinator, name, err);
    }
    int rc = catalog_read(coordinator->catalog, row->sha256, out, err);
    return rc ? err_wrap(err, "model '%s'", name) : 0;
}

struct model_fit describe_fit(const struct dataset *dataset)
{
    return (struct model_fit){
        .input = {(uint32_t)dataset->height, (uint32_t)dataset->width, (uint32_t)dataset->channels},
        .dtype = strcmp(dataset->dtype, dtype_name(DTYPE_F32)) == 0 ? DTYPE_F32 : DTYPE_U8,
        .classes = (uint32_t)dataset->classes,
        .positions = dataset->positions > 0 ? (uint32_t)dataset->positions : 1};
}

int describe_class_names(struct coordinator *coordinator, const struct dataset *dataset,
                         struct name_list *out, struct err *err)
{
    json_auto_t *list = NULL;
    int rc = dataset->class_names_sha256[0]
                 ? catalog_read(coordinator->catalog, dataset->class_names_sha256, &list, err)
                 : 0;
    rc = rc || !list ? rc : class_names_read(list, out, err);
    return rc ? err_wrap(err, "class names of data set '%s'", dataset->name) : 0;
}

/* Return a model of the zoo as a row of the list, with the hash of its text. */
static struct model_row zoo_row(const char *name, const char *text)
{
    struct model_row row = {.revision = ZOO_REVISION};
    snprintf(row.name, sizeof(row.name), "%s", name);
    sha256_text(text, strlen(text), row.sha256);
    return row;
}

/* A key starts with a digit: 0 for the zoo, 1 for posted models. The index in the zoo or the name
 * follows. */
#define KEY_OF_ZOO "0%03zu"
#define KEY_OF_POSTED "1%s"

static bool is_model_key(const char *text)
{
    return (text[0] == '0' && strlen(text) == 4 && strspn(text, "0123456789") == 4) ||
           (text[0] == '1' && name_valid(text + 1));
}

static const struct text_form model_key_form = {.valid = is_model_key,
                                                .expected = "a place in the list of models"};
static const struct list_form model_list_form = {
    .key = &model_key_form, .names = true, .waits = true};

/* false: the page is full. */
static bool add_model(struct list *list, const char *key, const struct model_row *row)
{
    return !list_reaches(list, key) || !list_wants(list, 0, row->name, NULL, 0) ||
           list_object(list, key, OBJECT_MODEL, row);
}

static bool add_zoo(struct list *list, size_t index)
{
    char key[NAME_SIZE + 1];
    const char *name = zoo_name(index);
    const struct model_row zoo = zoo_row(name, zoo_text(name));
    snprintf(key, sizeof(key), KEY_OF_ZOO, index);
    return add_model(list, key, &zoo);
}

static bool add_posted(struct list *list, const struct model_row *row)
{
    char key[NAME_SIZE + 1];
    snprintf(key, sizeof(key), KEY_OF_POSTED, row->name);
    return add_model(list, key, row);
}

/* List the zoo first, in its own order, then posted models by name. */
static bool look_at_models(void *context, struct http_exchange *exchange, const char *id,
                           int64_t after, bool last)
{
    (void)id;
    const struct coordinator *coordinator = context;
    const size_t posted = core_model_count(coordinator->core);
    size_t zoo = 0;
    struct list list;
    if (!wait_list_is_new(coordinator, OBJECT_MODEL, after, last)) {
        return false;
    }
    if (!list_begin(exchange, &model_list_form, &list)) {
        return true;
    }
    list.revision = edge_list_revision(coordinator->edge, OBJECT_MODEL);
    while (zoo_name(zoo)) {
        zoo++;
    }
    bool room = true;
    for (size_t i = 0; room && i < zoo + posted; i++) {
        const size_t at = list.descending ? zoo + posted - 1 - i : i;
        room = at < zoo ? add_zoo(&list, at)
                        : add_posted(&list, core_model_at(coordinator->core, at - zoo));
    }
    list_end(exchange, &list);
    return true;
}

void serve_models(void *context, struct http_exchange *exchange)
{
    wait_for_list(context, exchange, OBJECT_MODEL, &model_list_form, look_at_models);
}

/* Resolve the description: with the named data set, else with the usual data set of a zoo model,
 * else unchanged or with the default guess. */
static int resolve(const char *name, const struct dataset *dataset, struct described *out,
                   struct record_faults *faults, struct err *err)
{
    const struct model_fit *usual = zoo_fit(name);
    struct model_fit fit;
    if (!dataset && !usual) {
        return description_parse_usual(out->description, &out->model, &out->assumed, faults, err);
    }
    out->assumed = !dataset;
    fit = dataset ? describe_fit(dataset) : *usual;
    return description_parse(out->description, &fit, &out->model, faults, err);
}

/* Report a fault of a named model at the field that names it. */
static void answer_model_faults(struct http_exchange *exchange, const struct record_faults *faults,
                                const char *field)
{
    struct record_faults outer = {.more = faults->more};
    for (size_t i = 0; i < faults->count; i++) {
        record_fault(&outer, field, "%s", faults->fault[i].message);
    }
    answer_faults(exchange, &outer);
}

bool describe_model(struct coordinator *coordinator, struct http_exchange *exchange,
                    const char *name, const char *dataset_name, const char *field,
                    struct described *out)
{
    const struct dataset *dataset = NULL;
    struct record_faults faults = {0};
    struct err err = {0};
    *out = (struct described){0};
    int rc = describe_named(coordinator, name, &out->description, &err);
    if (rc == ERR_NOT_FOUND) {
        answer_problem(exchange, PROBLEM_UNKNOWN_MODEL, "%s", err.text);
        return false;
    }
    if (!rc && dataset_name && !(dataset = core_dataset(coordinator->core, dataset_name))) {
        described_done(out);
        answer_problem(exchange, PROBLEM_UNKNOWN_DATASET, "no data set '%.60s'", dataset_name);
        return false;
    }
    rc = rc ? rc : resolve(name, dataset, out, &faults, &err);
    if (!rc) {
        return true;
    }
    described_done(out);
    if (faults.count == 0) {
        answer_err(exchange, &err);
    } else if (field) {
        answer_model_faults(exchange, &faults, field);
    } else {
        answer_faults(exchange, &faults);
    }
    return false;
}

void described_done(struct described *described)
{
    json_decref(described->description);
    described->description = NULL;
    model_free(&described->model);
}

static void show_model(struct http_exchange *exchange, const struct described *described,
                       const struct model_row *row)
{
    struct err err = {0};
    struct model_view *view = calloc(1, sizeof(*view));
    int rc = view ? model_view_make(described->model, row, described->assumed, view, &err)
                  : err_set(&err, ERR_MEMORY, "out of memory");
    BUF_AUTO struct buf body;
    buf_init(&body, 2 * JSON_BODY_MAX);
    if (!rc) {
        view->description = described->description;
        rc = wire_write(&model_view_record, view, &body, &err);
    }
    if (rc) {
        answer_err(exchange, &err);
    } else {
        answer_object(exchange, 200, row->revision, &body);
    }
    free(view);
}

void serve_model(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {"dataset", NULL};
    struct coordinator *coordinator = context;
    const char *name = http_param(exchange, "name");
    struct described described AUTO(described_done) = {0};
    if (!answer_check_query(exchange, allowed) ||
        !describe_model(coordinator, exchange, name, http_query(exchange, "dataset"), NULL,
                        &described)) {
        return;
    }
    const char *text = zoo_text(name);
    if (text) {
        struct model_row zoo = zoo_row(name, text);
        show_model(exchange, &described, &zoo);
    } else {
        show_model(exchange, &described, core_model(coordinator->core, name));
    }
}

void serve_model_post(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    struct coordinator *coordinator = context;
    struct turn_extra extra = {0};
    json_auto_t *description = NULL;
    size_t size;
    (void)http_body(exchange, &size);
    if (!answer_check_query(exchange, allowed) || !replay_check(coordinator, exchange, &extra) ||
        !edge_takes_rows(coordinator, exchange) ||
        !access_spend_bytes(coordinator, exchange, size) ||
        !answer_read_json(exchange, &description)) {
        return;
    }
    struct model_row row = {0};
    struct record_faults faults = {0};
    struct err err = {0};
    const char *name = json_string_value(json_object_get(description, "name"));
    if (!name || !name_valid(name)) {
        record_fault(&faults, "/name", "expected %s", name_form.expected);
    } else if (zoo_text(name)) {
        answer_problem(exchange, PROBLEM_NAME_TAKEN, "the zoo has a model '%s'; take another name",
                       name);
        return;
    } else {
        snprintf(row.name, sizeof(row.name), "%s", name);
    }
    struct model *model = NULL;
    bool assumed;
    int rc = faults.count ? ERR_INVALID
                          : description_parse_usual(description, &model, &assumed, &faults, &err);
    model_free(&model);
    if (faults.count > 0) {
        answer_faults(exchange, &faults);
        return;
    }
    /* Store the description unresolved, as posted, but compact. */
    BUF_AUTO struct buf text;
    buf_init(&text, MODEL_DESCRIPTION_BYTES_MAX);
    rc = rc ? rc : json_write(description, &text, &err);
    if (rc) {
        answer_err(exchange, &err);
        return;
    }
    sha256_text(text.data, text.size, row.sha256);
    extra.description = text.data;
    extra.description_size = text.size;
    memcpy(extra.description_sha256, row.sha256, SHA256_SIZE);
    struct event event = {.type = EVENT_MODEL_STORED, .model_stored = {.model = &row}};
    turn_event(coordinator->turn, &event, exchange, &extra);
}
