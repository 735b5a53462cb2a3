/* check.h: reports violations of a document's rules: each fault goes to the caller's list, the
 * first one also to err. */
#ifndef SCHEMA_CHECK_H
#define SCHEMA_CHECK_H

#include "base/err.h"
#include "base/record.h"

struct check {
    struct record_faults *faults; /* NULL: faults are not listed */
    struct err *err;
    int rc; /* ERR_INVALID after the first fault */
};

/* Report a fault. pointer: JSON pointer of the faulty field. */
void check_fault(struct check *check, const char *pointer, const char *format, ...)
    PRINTF_LIKE(3, 4);

#endif
