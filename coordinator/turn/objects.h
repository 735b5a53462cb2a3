/* objects.h: one table of the kinds of objects: the record of each, its table in the store, the
 * name of its row. Pure. */
#ifndef COORDINATOR_TURN_OBJECTS_H
#define COORDINATOR_TURN_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "coordinator/core/action.h"
#include "coordinator/store/state.h"

struct object_kind_facts {
    const struct record *record; /* as the API shows it; NULL for OBJECT_NOTHING */
    const struct record *row;    /* as the store keeps it */
    enum state_table table;      /* STATE_TABLES: never stored */
};
const struct object_kind_facts *object_facts(enum object_kind kind);

#define OBJECT_ROW_ID_SIZE 128
struct object_row {
    char id[OBJECT_ROW_ID_SIZE];
    char parent[ID_SIZE];
    int64_t revision;
    int64_t created_ms;
};
/* How the object's row is named. */
void object_describe(enum object_kind kind, const void *object, struct object_row *out);
/* The row id of one unit of a version in the center; sorts by job, then version, then unit. unit
 * -1: the first id of that version. */
void object_center_unit_id(char out[OBJECT_ROW_ID_SIZE], const char *job, int64_t version,
                           int64_t unit);
/* How the object is named that the actions changed: that of the answer (NULL: none), if it has a
 * row, else the first that was written or forgotten. False: no row changed. */
bool object_of_change(const struct actions *actions, const struct action *answer,
                      struct object_row *out);
/* Append the object as JSON, as the API shows it. */
NODISCARD int object_write(enum object_kind kind, const void *object, struct buf *out,
                           struct err *err);
/* The same by the fields that `protocol` has, for an agent; 0: all fields. */
NODISCARD int object_write_version(enum object_kind kind, int protocol, const void *object,
                                   struct buf *out, struct err *err);
/* The same as its row. */
NODISCARD int object_write_row(enum object_kind kind, const void *object, struct buf *out,
                               struct err *err);

#endif
