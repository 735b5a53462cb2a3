/* product_isa.h: the builds of product_isa.c. Private to libtrain/backend. */
#ifndef LIBTRAIN_BACKEND_PRODUCT_ISA_H
#define LIBTRAIN_BACKEND_PRODUCT_ISA_H

#include "libtrain/backend/product.h"

void product_baseline(const struct product *product);
void product_avx2(const struct product *product);
void product_avx512(const struct product *product);

#endif
