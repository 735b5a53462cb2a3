/* One build of the product for each vector ISA (CMakeLists.txt sets PRODUCT_NAME, the ISA's flags
 * and fused a * b + c if the ISA has it). The sum of an element runs over k in order, so its bits
 * depend on the ISA alone. */
#include "libtrain/backend/product_isa.h"

/* The block of C held in registers: ROWS x VECTORS accumulators. */
#if defined(__AVX512F__)
#define LANES 16
#define ROWS 8
#elif defined(__AVX2__)
#define LANES 8
#define ROWS 6
#elif defined(__aarch64__)
#define LANES 4
#define ROWS 8
#else
#define LANES 4
#define ROWS 4
#endif
/* The rows after the last full block. Each number of rows has a block of its own: several blocks
 * with fewer rows would each wait for their sums. */
#define TAIL(block, rows)                                                                          \
    case rows:                                                                                     \
        block(p, m, n, rows, vectors);                                                             \
        break;
#define TAILS_3(block) TAIL(block, 1) TAIL(block, 2) TAIL(block, 3)
#if ROWS == 8
#define TAILS(block) TAILS_3(block) TAIL(block, 4) TAIL(block, 5) TAIL(block, 6) TAIL(block, 7)
#elif ROWS == 6
#define TAILS(block) TAILS_3(block) TAIL(block, 4) TAIL(block, 5)
#else
#define TAILS(block) TAILS_3(block)
#endif
#define VECTORS 2
#define COLUMNS (VECTORS * LANES)
#define INLINE static inline __attribute__((always_inline))

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
typedef float half_lanes
    __attribute__((vector_size(LANES / 2 * sizeof(float)), aligned(4), may_alias));

/* A block of `rows` x `vectors` vectors of C; both are constant where this is inlined. */
#define DEFINE_BLOCK(name, vector, width)                                                          \
    INLINE void name(const struct product *p, size_t m, size_t n, size_t rows, size_t vectors)     \
    {                                                                                              \
        vector sum[ROWS][VECTORS];                                                                 \
        float *C = p->C + m * p->c_row + n;                                                        \
        const float *A_run = p->A + m * p->a_row;                                                  \
        const float *B_run = p->B + n / PRODUCT_PANEL * p->b_panel + n % PRODUCT_PANEL;            \
        for (size_t r = 0; r < rows; r++) {                                                        \
            for (size_t v = 0; v < vectors; v++) {                                                 \
                sum[r][v] = (vector){0};                                                           \
                if (p->accumulate) {                                                               \
                    sum[r][v] = *(const vector *)(C + r * p->c_row + v * (width));                 \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        size_t run = 0;                                                                            \
        do {                                                                                       \
            const float *A = A_run;                                                                \
            const float *B = B_run;                                                                \
            for (size_t k = 0; k < p->K; k++, A += p->a_step, B += p->b_step) {                    \
                for (size_t r = 0; r < rows; r++) {                                                \
                    for (size_t v = 0; v < vectors; v++) {                                         \
                        sum[r][v] += A[r * p->a_row] * *(const vector *)(B + v * (width));         \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
            A_run += p->a_run;                                                                     \
            B_run += p->b_run;                                                                     \
        } while (++run < p->runs);                                                                 \
        for (size_t r = 0; r < rows; r++) {                                                        \
            for (size_t v = 0; v < vectors; v++) {                                                 \
                *(vector *)(C + r * p->c_row + v * (width)) = sum[r][v];                           \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    INLINE void name##_column(const struct product *p, size_t n, size_t vectors)                   \
    {                                                                                              \
        size_t m = 0;                                                                              \
        for (; m + ROWS <= p->M; m += ROWS) {                                                      \
            name(p, m, n, ROWS, vectors);                                                          \
        }                                                                                          \
        switch (p->M - m) {                                                                        \
            TAILS(name)                                                                            \
        }                                                                                          \
    }

DEFINE_BLOCK(block, lanes, LANES)
DEFINE_BLOCK(half_block, half_lanes, LANES / 2)
DEFINE_BLOCK(single, float, 1)

/* Compute one panel of columns after the other, so that its rows of B stay in the L1 cache. */
void PRODUCT_NAME(const struct product *p)
{
    size_t n = 0;
    for (; n + COLUMNS <= p->N; n += COLUMNS) {
        block_column(p, n, VECTORS);
    }
    if (n + LANES <= p->N) {
        block_column(p, n, 1);
        n += LANES;
    }
    if (n + LANES / 2 <= p->N) {
        half_block_column(p, n, 1);
        n += LANES / 2;
    }
    for (; n < p->N; n++) {
        single_column(p, n, 1);
    }
}
