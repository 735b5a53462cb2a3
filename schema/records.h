/* records.h: every record of schema by name, with the function that fills in its defaults and the
 * check of the rules between its fields. For field-tables, the tests that walk the examples and the
 * contract, and fuzz_wire. */
#ifndef SCHEMA_RECORDS_H
#define SCHEMA_RECORDS_H

#include <stddef.h>

#include "base/record.h"

struct records_entry {
    const struct record *record;
    void (*start)(void *value); /* fills in the defaults; NULL: all zero */
    int (*check)(const void *value, struct record_faults *faults,
                 struct err *err); /* NULL: no rules */
};

extern const struct records_entry records_all[];
extern const size_t records_count;

/* Return the record whose name is the part of `name` before its first dot
 * ("job_spec.minimal.json"), or NULL. */
const struct records_entry *records_find(const char *name);
/* Return a new struct of the record with its defaults; the caller frees it after record_done. NULL
 * when out of memory. */
void *records_new(const struct records_entry *test);

#endif
