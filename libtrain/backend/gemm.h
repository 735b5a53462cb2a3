/* gemm.h: matrix products in single precision on the calling thread, by OpenBLAS, which only this
 * room sees. Used by libtrain/ops and the probe. Any thread, at the same time. The bits of a
 * product depend on its dimensions and on the library's core (gemm_describe) alone. */
#ifndef LIBTRAIN_BACKEND_GEMM_H
#define LIBTRAIN_BACKEND_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* C = A B + beta C, row-major; overwrites C (beta 0: C is not read; 1: accumulates).
 * A [M][K] with lda floats from row to row (transpose_a: [K][M]), B [K][N] with ldb (transpose_b:
 * [N][K]), C [M][N] with ldc. C overlaps neither A nor B. M, N, K >= 1, each dimension at most
 * INT_MAX. */
void gemm(bool transpose_a, bool transpose_b, size_t M, size_t N, size_t K, const float *A,
          size_t lda, const float *B, size_t ldb, float beta, float *C, size_t ldc);

/* Reserve buffers before the first product: `threads` may multiply at the same time, in addition to
 * those reserved earlier. The library would later wait for a buffer without end. Each takes 128 MiB
 * of addresses, but memory only as products touch it. ERR_MEMORY if there is no room, for instance
 * under a limit of the address space. */
NODISCARD int gemm_reserve(size_t threads, struct err *err);
void gemm_release(size_t threads);

/* Write library, version and the core it chose: "openblas-0.3.21-Haswell". */
void gemm_describe(char *out, size_t size);

#endif
