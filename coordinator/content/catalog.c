#include "coordinator/content/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/store/state.h"
#include "libtrain/description/description.h"
#include "libtrain/kernels/kernel_table.h"
#include "libtrain/kernels/kernel_text.h"

#define CATALOG_KEEP                                                                               \
    32 /* entries kept although no job uses them: repeated submissions of one model */

struct catalog {
    struct state_store *state;
    struct catalog_entry *first;
    size_t count;
};

int catalog_new(struct state_store *state, struct catalog **out, struct err *err)
{
    struct catalog *catalog = calloc(1, sizeof(*catalog));
    if (!catalog) {
        return err_set(err, ERR_MEMORY, "model catalog: out of memory");
    }
    catalog->state = state;
    *out = catalog;
    return 0;
}

static void entry_free(struct catalog_entry *entry)
{
    model_free(&entry->model);
    json_decref(entry->description);
    buf_done(&entry->text);
    free(entry);
}

void catalog_free(struct catalog **pointer)
{
    struct catalog *catalog = *pointer;
    if (!catalog) {
        return;
    }
    while (catalog->first) {
        struct catalog_entry *entry = catalog->first;
        catalog->first = entry->next;
        entry_free(entry);
    }
    free(catalog);
    *pointer = NULL;
}

static struct catalog_entry *lookup(const struct catalog *catalog, const char *sha256)
{
    for (struct catalog_entry *entry = catalog->first; entry; entry = entry->next) {
        if (strcmp(entry->sha256, sha256) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* Fill an entry from a parsed model: its canonical description, text and hash. */
static int entry_fill(struct catalog_entry *entry, struct err *err)
{
    entry->description = description_write(entry->model);
    if (!entry->description) {
        return err_set(err, ERR_MEMORY, "model '%s': out of memory", entry->model->name);
    }
    int rc = json_write(entry->description, &entry->text, err);
    if (rc) {
        return rc;
    }
    sha256_text(entry->text.data, entry->text.size, entry->sha256);
    return 0;
}

static void keep_entry(struct catalog *catalog, struct catalog_entry *entry)
{
    entry->next = catalog->first;
    catalog->first = entry;
    catalog->count++;
}

static int change_model(struct model *model, const struct catalog_change *change,
                        struct record_faults *faults, struct err *err)
{
    for (size_t unit = 0; change->frozen && unit < model->unit_count; unit++) {
        model->unit[unit].frozen = model->unit[unit].frozen || change->frozen[unit];
    }
    if (change->measured) {
        kernel_text_apply(model, change->measured);
    }
    int rc = change->normalise ? model_normalise(model, change->normalise, faults, err) : 0;
    rc = rc || !change->samples ? rc : model_take_samples(model, change->samples, faults, err);
    return rc ? rc : kernel_table_apply(model, change->kernels, faults, err);
}

int catalog_resolve(struct catalog *catalog, const json_t *description, const struct model_fit *fit,
                    const struct catalog_change *change, const struct catalog_entry **out,
                    struct record_faults *faults, struct err *err)
{
    struct catalog_entry *entry = calloc(1, sizeof(*entry));
    if (!entry) {
        return err_set(err, ERR_MEMORY, "model: out of memory");
    }
    buf_init(&entry->text, MODEL_DESCRIPTION_BYTES_MAX);
    int rc = description_parse(description, fit, &entry->model, faults, err);
    rc = rc || !change ? rc : change_model(entry->model, change, faults, err);
    if (!rc) {
        rc = entry_fill(entry, err);
    }
    if (rc) {
        entry_free(entry);
        return rc;
    }
    const struct catalog_entry *known = lookup(catalog, entry->sha256);
    if (known) {
        entry_free(entry);
        *out = known;
        return 0;
    }
    keep_entry(catalog, entry);
    *out = entry;
    return 0;
}

int catalog_derive(struct catalog *catalog, const struct catalog_entry *entry,
                   const struct catalog_change *change, const struct catalog_entry **out,
                   struct err *err)
{
    return catalog_resolve(catalog, entry->description, NULL, change, out, NULL, err);
}

struct stored {
    json_t *description;
    char sha256[HASH_TEXT_SIZE]; /* of the row's text */
};

static bool parse_row(void *arg, const struct state_row *row)
{
    struct stored *stored = arg;
    struct err err = {0};
    sha256_text(row->document, row->document_size, stored->sha256);
    /* A row that does not parse leaves the description NULL, which the caller reports. */
    if (json_parse(row->document, row->document_size, &stored->description, &err)) {
        stored->description = NULL;
    }
    return false;
}

static int read_row(struct catalog *catalog, const char *sha256, struct stored *out,
                    struct err *err)
{
    int rc = state_get(catalog->state, STATE_DESCRIPTIONS, sha256, parse_row, out, err);
    if (!rc && !out->description) {
        rc = err_set(err, ERR_FORMAT, "model description %s in the store is not JSON", sha256);
    }
    return rc;
}

int catalog_read(struct catalog *catalog, const char *sha256, json_t **out, struct err *err)
{
    struct stored stored = {0};
    int rc = read_row(catalog, sha256, &stored, err);
    if (!rc) {
        *out = stored.description;
    }
    return rc;
}

/* Add a description under the hash of its row: an earlier version may have written the same
 * description in other words. */
static int add_stored(struct catalog *catalog, const struct stored *stored,
                      const struct catalog_entry **out, struct err *err)
{
    struct record_faults faults = {0};
    struct catalog_entry *entry = calloc(1, sizeof(*entry));
    if (!entry) {
        return err_set(err, ERR_MEMORY, "model: out of memory");
    }
    buf_init(&entry->text, MODEL_DESCRIPTION_BYTES_MAX);
    int rc = description_parse(stored->description, NULL, &entry->model, &faults, err);
    rc = rc ? rc : entry_fill(entry, err);
    if (rc) {
        entry_free(entry);
        return rc;
    }
    memcpy(entry->sha256, stored->sha256, sizeof(entry->sha256));
    keep_entry(catalog, entry);
    *out = entry;
    return 0;
}

int catalog_find(struct catalog *catalog, const char *sha256, const struct catalog_entry **out,
                 struct err *err)
{
    *out = lookup(catalog, sha256);
    if (*out) {
        return 0;
    }
    struct stored stored = {0};
    int rc = read_row(catalog, sha256, &stored, err);
    if (!rc && strcmp(stored.sha256, sha256) != 0) {
        rc = err_set(err, ERR_FORMAT, "the row of model description %s holds another one, %s",
                     sha256, stored.sha256);
    }
    rc = rc ? rc : add_stored(catalog, &stored, out, err);
    json_decref(stored.description);
    return rc;
}

void catalog_pin(struct catalog *catalog, const char *sha256)
{
    struct catalog_entry *entry = lookup(catalog, sha256);
    ASSERT(entry);
    entry->pins++;
}

void catalog_unpin(struct catalog *catalog, const char *sha256)
{
    struct catalog_entry *entry = lookup(catalog, sha256);
    ASSERT(entry && entry->pins > 0);
    entry->pins--;
}

void catalog_trim(struct catalog *catalog, catalog_in_use_fn in_use, const void *arg)
{
    size_t kept = 0;
    if (catalog->count <= CATALOG_KEEP) {
        return;
    }
    for (struct catalog_entry **link = &catalog->first; *link;) {
        struct catalog_entry *entry = *link;
        if (kept < CATALOG_KEEP / 2 || entry->pins > 0 || in_use(arg, entry->sha256)) {
            kept++;
            link = &entry->next;
        } else {
            *link = entry->next;
            catalog->count--;
            entry_free(entry);
        }
    }
}

size_t catalog_count(const struct catalog *catalog)
{
    return catalog->count;
}
