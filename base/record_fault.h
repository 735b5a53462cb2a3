/* record_fault.h: collects the faults of one record_read at their JSON pointers. For record.c only.
 */
#ifndef BASE_RECORD_FAULT_H
#define BASE_RECORD_FAULT_H

#include "base/record.h"

/* The reader's place: a chain of names and indices on the stack, converted to text only for a
 * fault. */
struct record_place {
    const struct record_place *parent; /* NULL at the top */
    const char *name;                  /* NULL: an element of a list */
    size_t index;
};

struct record_reader {
    const char *base_pointer;
    int version; /* of the tables */
    struct record_faults *faults;
    struct record_fault first;
    bool failed;
};

/* Add a fault at a place; dropped when record_fault_full. */
void record_fault_add(struct record_reader *reader, const struct record_place *place,
                      const char *format, ...) PRINTF_LIKE(3, 4);
/* Return whether further faults are dropped, which bounds the time for a body with thousands of
 * faults. */
bool record_fault_full(const struct record_reader *reader);
/* Unless `good`, add the fault that the value is not of the type `wanted` ("a number"). Returns
 * good. */
bool record_fault_expect(struct record_reader *reader, const struct record_place *place,
                         const json_t *value, bool good, const char *wanted);

#endif
