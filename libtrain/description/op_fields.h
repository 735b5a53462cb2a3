/* op_fields.h: the fields of an op in a description: one table per op type, which gives strict
 * reading, writing and defaults. Private to libtrain/description. Pure; any thread. */
#ifndef LIBTRAIN_DESCRIPTION_OP_FIELDS_H
#define LIBTRAIN_DESCRIPTION_OP_FIELDS_H

#include "base/json.h"
#include "base/record.h"
#include "libtrain/model/model.h"

#define MODEL_CHANNELS_MAX (1 << 20) /* filters of a convolution, units of a linear */
#define MODEL_ROWS_MAX (1 << 24)     /* of an embedding: a float holds every token number */

/* Read one op: set type, window, bias, numbers and the stated channels (op->out.c); the rest of *op
 * is zero. `classes`: the value of the word "classes" (0: unknown). False: faults were added. */
bool op_fields_read(const json_t *value, const char *pointer, uint32_t classes, struct op *op,
                    struct record_faults *faults);

/* Return the op with every field of its type written out; NULL when out of memory. */
json_t *op_fields_write(const struct op *op);

#endif
