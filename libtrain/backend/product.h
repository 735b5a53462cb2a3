/* product.h: small matrix products of convolutions, on the calling thread. Their operands are
 * already packed in panels of columns, once instead of per call; gemm.h does large products. Any
 * thread, at the same time. An element's sum runs over the runs and k in order; its bits depend on
 * the ISA (simd_isa) alone. */
#ifndef LIBTRAIN_BACKEND_PRODUCT_H
#define LIBTRAIN_BACKEND_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

#define PRODUCT_PANEL 32 /* columns of a whole panel of B */

/* C [M][N] = A B, or += where `accumulate`. The sum is over K elements, `runs` times (0 counts as
 * 1): from one run to the next A and B move by a_run and b_run. */
struct product {
    size_t M, N, K, runs;
    const float *A; /* element (m, k) at m * a_row + k * a_step */
    size_t a_row, a_step, a_run;
    const float
        *B; /* element (k, n) at n / PRODUCT_PANEL * b_panel + k * b_step + n % PRODUCT_PANEL */
    size_t b_step, b_panel, b_run;
    float *C; /* element (m, n) at m * c_row + n */
    size_t c_row;
    bool accumulate;
};

void product_run(const struct product *product);

#endif
