/* gemm.h: the one door to OpenBLAS: single precision matrix products on the calling thread. Used by libtrain/ops and
 * the probe. Any thread, at the same time. The bits of a product depend on its dimensions and on the library's core
 * (gemm_describe), on nothing else. */
#ifndef LIBTRAIN_BACKEND_GEMM_H
#define LIBTRAIN_BACKEND_GEMM_H

#include <stdbool.h>
#include <stddef.h>

/* C = A B + beta C, row-major; overwrites C (beta 0: C is not read; 1: accumulates).
 * A [M][K] with lda floats from row to row (transpose_a: [K][M]), B [K][N] with ldb (transpose_b: [N][K]), C [M][N]
 * with ldc. C overlaps neither A nor B. M, N, K >= 1, each dimension at most INT_MAX. */
void gemm(bool transpose_a, bool transpose_b, size_t M, size_t N, size_t K, const float *A, size_t lda, const float *B,
          size_t ldb, float beta, float *C, size_t ldc);

/* Once before the first product and before threads start: the library's own threading off, its buffers guarded. */
void gemm_prepare(void);

/* "openblas-0.3.21-Haswell": library, version and the core it chose. */
void gemm_describe(char *out, size_t size);

#endif
