/* panels.h: weights packed in panels of PRODUCT_PANEL columns, for products. Private to
 * libtrain/ops. */
#ifndef LIBTRAIN_OPS_PANELS_H
#define LIBTRAIN_OPS_PANELS_H

#include <stdbool.h>
#include <stddef.h>

#include "libtrain/backend/pool.h"

/* Pack the row-major matrix `from` [rows][columns] ([columns][rows] if `transposed`) as panels
 * [panel][rows][PRODUCT_PANEL]; zeros after the last column. */
void panels_pack(const struct compute *compute, const float *from, size_t rows, size_t columns,
                 bool transposed, float *panels);

#endif
