/* manual.h: the manual page and the reference of the commands, from their table. Pure. */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include "base/buf.h"
#include "base/err.h"

/* Append paceline(1). */
NODISCARD int manual_page(struct buf *out, struct err *err);
/* Append the tables of docs/command-line.md. */
NODISCARD int manual_tables(struct buf *out, struct err *err);

#endif
