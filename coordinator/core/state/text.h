/* text.h: formatted text in fixed fields, truncated where it does not fit. */
#ifndef COORDINATOR_CORE_STATE_TEXT_H
#define COORDINATOR_CORE_STATE_TEXT_H

#include <stdarg.h>

#include "coordinator/core/core.h"

/* Write formatted text into a field of `size` bytes, truncated if it does not fit. */
void text_set(char *out, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);
void text_format(char *out, size_t size, const char *format, va_list arguments) PRINTF_LIKE(3, 0);

#endif
