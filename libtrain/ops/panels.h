/* panels.h: weights as products read them, PRODUCT_PANEL columns next to each other. Private to
 * libtrain/ops. */
#ifndef LIBTRAIN_OPS_PANELS_H
#define LIBTRAIN_OPS_PANELS_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/backend/pool.h"

/* The matrix [rows][columns] that lies row after row in `from`, or [columns][rows] where it is
 * `transposed`, as panels [panel][rows][PRODUCT_PANEL]; zeros behind the last column. */
void panels_pack(const struct compute *compute, const float *from, size_t rows, size_t columns,
                 bool transposed, float *panels);

#endif
