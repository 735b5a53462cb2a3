/* check.h: the rules of a document: faults go to the caller's list, and the first one to err. */
#ifndef SCHEMA_CHECK_H
#define SCHEMA_CHECK_H

#include "base/err.h"
#include "base/record.h"

struct check {
    struct record_faults *faults; /* NULL: nobody lists them */
    struct err *err;
    int rc; /* ERR_INVALID after the first fault */
};

/* pointer: JSON pointer of the faulty field. */
void check_fault(struct check *check, const char *pointer, const char *format, ...)
    PRINTF_LIKE(3, 4);

#endif
