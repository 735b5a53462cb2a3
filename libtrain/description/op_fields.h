/* op_fields.h: the fields of an op in a description: one table per op type, from which reading
 * (strict), writing and the defaults follow. Private to libtrain/model. Pure; any thread. */
#ifndef LIBTRAIN_DESCRIPTION_OP_FIELDS_H
#define LIBTRAIN_DESCRIPTION_OP_FIELDS_H

#include "base/json.h"
#include "base/record.h"
#include "libtrain/model/model.h"

#define MODEL_CHANNELS_MAX                                                                         \
    (1 << 20)                    /* filters of a convolution, units of a linear or embedding       \
                                  */
#define MODEL_ROWS_MAX (1 << 24) /* of an embedding: a float holds every token number */

/* Read one op and set type, window, bias, numbers and the asked channels (op->out.c); the rest of
 * *op is zero. `classes` stands for the word "classes" (0: unknown). False: faults were added. */
bool op_fields_read(const json_t *value, const char *pointer, uint32_t classes, struct op *op,
                    struct record_faults *faults);

/* The op with every field of its type written out; NULL when out of memory. */
json_t *op_fields_write(const struct op *op);

#endif
