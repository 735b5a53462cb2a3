#include "schema/check.h"

#include <stdarg.h>
#include <stdio.h>

void check_fault(struct check *check, const char *pointer, const char *format, ...)
{
    char message[RECORD_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    if (check->faults) {
        record_fault(check->faults, pointer, "%s", message);
    }
    if (check->rc == 0) {
        check->rc = err_set(check->err, ERR_INVALID, "%s: %s", pointer, message);
    }
}
