#include "libtrain/backend/product.h"

#include "libtrain/backend/product_isa.h"
#include "libtrain/backend/simd.h"

void product_run(const struct product *product)
{
#ifdef __x86_64__
    enum simd_isa isa = simd_isa();
    if (isa == SIMD_AVX512) {
        product_avx512(product);
        return;
    }
    if (isa == SIMD_AVX2) {
        product_avx2(product);
        return;
    }
#endif
    product_baseline(product);
}
