/* records.h: every record of schema, by name, with what a reader places in the struct first and the
 * rules between its fields. For the tests that walk the examples and the contract, and for
 * fuzz_wire. */
#ifndef TESTS_UNIT_SCHEMA_RECORDS_H
#define TESTS_UNIT_SCHEMA_RECORDS_H

#include <stddef.h>

#include "base/record.h"

struct test_record {
    const struct record *record;
    const void *defaults; /* NULL: all zero */
    int (*check)(const void *value, struct record_faults *faults,
                 struct err *err); /* NULL: no rules */
};

extern const struct test_record test_records[];
extern const size_t test_record_count;

/* The record `name` starts with up to its first dot ("job_spec.minimal.json"), or NULL. */
const struct test_record *test_record_find(const char *name);
/* A new struct of that record with its defaults; free it after record_done. NULL when out of
 * memory. */
void *test_record_new(const struct test_record *test);

#endif
