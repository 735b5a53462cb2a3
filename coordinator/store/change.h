/* change.h: one change of a row, and the log of a turn's changes. With the log the store can repeat
 * a whole turn after a first attempt on a full disk. Private to coordinator/store. One thread. */
#ifndef COORDINATOR_STORE_CHANGE_H
#define COORDINATOR_STORE_CHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "coordinator/store/state.h"

/* The limit of all changes of one turn; a turn of the coordinator writes kilobytes. */
#define CHANGE_LOG_BYTES_MAX (64u << 20)

enum change_kind {
    CHANGE_PUT,
    CHANGE_ADD,                   /* changes nothing if the id exists */
    CHANGE_DELETE,                /* id */
    CHANGE_DELETE_CHILDREN,       /* parent */
    CHANGE_DELETE_CHILDREN_BELOW, /* parent, id */
    CHANGE_TRIM,                  /* keep */
    CHANGE_KINDS,
};

struct change {
    enum change_kind kind;
    enum state_table table;
    struct state_row row; /* texts are never NULL */
    size_t keep;
};

/* Append a copy of a change. ERR_LIMIT, ERR_MEMORY. */
NODISCARD int change_log_append(struct buf *log, const struct change *change, struct err *err);
/* Read the change at *offset and advance *offset; false at the end. Texts point into the log. */
bool change_log_next(const struct buf *log, size_t *offset, struct change *out);

#endif
