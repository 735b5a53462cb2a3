#include "coordinator/core/state/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "coordinator/core/state/state.h"

void text_format(char *out, size_t size, const char *format, va_list arguments)
{
    memset(out, 0, size);
    (void)vsnprintf(out, size, format, arguments);
}

void text_set(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_format(out, size, format, arguments);
    va_end(arguments);
}
