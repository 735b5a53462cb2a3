/* zoo_table.h: the table of embedded descriptions that the build makes of libtrain/zoo. Private to
 * libtrain/model. */
#ifndef LIBTRAIN_DESCRIPTION_ZOO_TABLE_H
#define LIBTRAIN_DESCRIPTION_ZOO_TABLE_H

#include <stddef.h>

struct zoo_entry {
    const char *name;
    const char *text; /* JSON */
};

extern const struct zoo_entry zoo_entries[]; /* ends with a NULL name */

#endif
