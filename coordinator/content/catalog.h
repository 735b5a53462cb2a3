/* catalog.h: keeps one copy of each resolved model description of live jobs, by the sha256 of its
 * canonical text. The loop's thread only. */
#ifndef COORDINATOR_CONTENT_CATALOG_H
#define COORDINATOR_CONTENT_CATALOG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/record.h"
#include "libtrain/description/description.h"
#include "libtrain/model/model.h"
#include "net/hash.h"

struct state_store;
struct catalog;

/* One resolved description. Kept while a job that has not ended uses it, or while it is pinned. */
struct catalog_entry {
    char sha256[HASH_TEXT_SIZE];
    struct model *model;
    json_t *description; /* in the form of jobs and assignments */
    struct buf text;     /* canonical: compact, defaults written out */
    size_t pins;         /* other users than the core, such as an export on a worker thread */
    struct catalog_entry *next;
};

NODISCARD int catalog_new(struct state_store *state, struct catalog **out, struct err *err);
void catalog_free(struct catalog **catalog);

/* A job's changes to a description; a NULL member changes nothing. */
struct catalog_change {
    const struct normalise *normalise; /* of the input */
    const struct model_samples *samples;
    const bool *frozen;   /* frozen units in addition to those of the description */
    json_t *kernels;      /* a table (kernel_table.h) */
    const char *measured; /* kernels for the passes that have none (kernel_text.h) */
};

/* Resolve a description against a data set, change it (both may be NULL) and keep it; faults as
 * description_parse, model_normalise, model_take_samples and kernel_table_apply give them. */
NODISCARD int catalog_resolve(struct catalog *catalog, const json_t *description,
                              const struct model_fit *fit, const struct catalog_change *change,
                              const struct catalog_entry **out, struct record_faults *faults,
                              struct err *err);
/* Keep a changed copy of an entry. */
NODISCARD int catalog_derive(struct catalog *catalog, const struct catalog_entry *entry,
                             const struct catalog_change *change, const struct catalog_entry **out,
                             struct err *err);
/* Read a stored description, resolved or as posted; the caller owns it. ERR_NOT_FOUND; ERR_FORMAT:
 * the row is damaged. */
NODISCARD int catalog_read(struct catalog *catalog, const char *sha256, json_t **out,
                           struct err *err);
/* Find the entry of a sha256, and read it from the store if needed. ERR_NOT_FOUND; ERR_FORMAT: the
 * row is damaged. */
NODISCARD int catalog_find(struct catalog *catalog, const char *sha256,
                           const struct catalog_entry **out, struct err *err);
/* Keep an entry beyond the end of its job, until it was unpinned as often as pinned. */
void catalog_pin(struct catalog *catalog, const char *sha256);
void catalog_unpin(struct catalog *catalog, const char *sha256);
/* Discard unused entries if there are many. in_use returns whether a job that has not ended uses
 * the entry. */
typedef bool (*catalog_in_use_fn)(const void *arg, const char *sha256);
void catalog_trim(struct catalog *catalog, catalog_in_use_fn in_use, const void *arg);
size_t catalog_count(const struct catalog *catalog);

#endif
