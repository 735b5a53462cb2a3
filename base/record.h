/* record.h: a C struct described once as a table of fields (record_table.h). From the table follow
 * strict reading from JSON, writing as JSON, and faults with their JSON pointers. For schema and
 * libtrain/model. Pure; any thread.
 *
 * Reading: the caller fills the struct with the defaults first; a field that is absent keeps its
 * default unless it is FIELD_REQUIRED. Unknown members are faults that name the nearest known one.
 * All faults are collected, not only the first. Null: FIELD_NULLABLE maps null to the zero value
 * (0, 0.0, "", false presence) and back. */
#ifndef BASE_RECORD_H
#define BASE_RECORD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/record_table.h"

#define RECORD_NEWEST INT_MAX /* the version that has every field */
#define RECORD_FAULTS_MAX 16
#define RECORD_POINTER_MAX 160
#define RECORD_MESSAGE_MAX 224

struct record_fault {
    char pointer[RECORD_POINTER_MAX]; /* RFC 6901: "/optimizer/type" */
    char message[RECORD_MESSAGE_MAX]; /* "unknown field; did you mean 'momentum'?" */
};

struct record_faults {
    size_t count; /* of stored faults; `more` is true if there were others */
    bool more;
    struct record_fault fault[RECORD_FAULTS_MAX];
};

/* Add a fault found by the caller (a rule between fields) at an RFC 6901 pointer ("" for the whole
 * document). */
void record_fault(struct record_faults *faults, const char *pointer, const char *format, ...)
    PRINTF_LIKE(3, 4);

/* Fill *out from `value`. base_pointer ("" at the top) precedes every pointer. faults may be NULL:
 * then err alone reports the first fault. List elements are read over the values that the caller
 * placed in their slots. FIELD_JSON members share their value with the document (a reference
 * is taken): neither may be changed afterwards. Returns 0, or ERR_INVALID when faults were added
 * (err holds the first one as "pointer: message"). On failure *out is half filled: discard it
 * (record_done still works). */
NODISCARD int record_read(const struct record *record, const json_t *value,
                          const char *base_pointer, void *out, struct record_faults *faults,
                          struct err *err);
/* The same with the fields of `version`: later fields are unknown. */
NODISCARD int record_read_version(const struct record *record, int version, const json_t *value,
                                  const char *base_pointer, void *out, struct record_faults *faults,
                                  struct err *err);
/* Return a new JSON object; NULL when out of memory. Bytes of a text that are not UTF-8 become '?'.
 * Numbers that are not finite become null, which reading rejects unless the field is nullable: keep
 * computed numbers finite. A time of 0 that is not nullable becomes the first moment of 1970. */
json_t *record_write(const struct record *record, const void *value);
/* The same without the fields that were added after `version`. */
json_t *record_write_version(const struct record *record, int version, const void *value);
/* Free the values of FIELD_JSON members, at any depth, and set them to NULL. */
void record_done(const struct record *record, void *value);
/* Set every member of the table to its zero value. It may follow a record_read that succeeded or
 * failed. The cost depends on the number of list elements, not on the lists' capacity, so it suits
 * large, mostly empty structs that are reused. */
void record_clear(const struct record *record, void *value);

#endif
