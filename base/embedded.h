/* embedded.h: files of the tree as constants of a program, made by paceline_embed
 * (cmake/Rooms.cmake). A list ends with a NULL name. */
#ifndef BASE_EMBEDDED_H
#define BASE_EMBEDDED_H

#include <stddef.h>

struct embedded {
    const char *name; /* of the file, without its directory and ending */
    const char *text; /* size bytes and a NUL */
    size_t size;
};

#endif
