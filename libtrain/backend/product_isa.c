/* One build of the product for each vector ISA (CMakeLists.txt sets PRODUCT_NAME, the ISA's flags and that a * b + c is
 * fused where the ISA can): the sum of an element runs over k in order, so its bits depend on the ISA alone. */
#include "libtrain/backend/product_isa.h"

/* Rows and columns of the block of C that registers hold: ROWS x VECTORS accumulators. */
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
#define VECTORS 2
#define COLUMNS (VECTORS * LANES)

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

/* A block of `rows` x `vectors` of C, both constant where this is inlined. */
static inline __attribute__((always_inline)) void block(const struct product *p, size_t m, size_t n, size_t rows,
                                                        size_t vectors)
{
    lanes sum[ROWS][VECTORS];
    float *C = p->C + m * p->c_row + n;
    const float *A = p->A + m * p->a_row;
    const float *B = p->B + n / PRODUCT_PANEL * p->b_panel + n % PRODUCT_PANEL;
    for (size_t r = 0; r < rows; r++) {
        for (size_t v = 0; v < vectors; v++) {
            sum[r][v] = p->accumulate ? *(const lanes *)(C + r * p->c_row + v * LANES) : (lanes){0};
        }
    }
    for (size_t k = 0; k < p->K; k++, A += p->a_step, B += p->b_step) {
        for (size_t r = 0; r < rows; r++) {
            for (size_t v = 0; v < vectors; v++) {
                sum[r][v] += A[r * p->a_row] * *(const lanes *)(B + v * LANES);
            }
        }
    }
    for (size_t r = 0; r < rows; r++) {
        for (size_t v = 0; v < vectors; v++) {
            *(lanes *)(C + r * p->c_row + v * LANES) = sum[r][v];
        }
    }
}

static inline __attribute__((always_inline)) void columns_of(const struct product *p, size_t n, size_t vectors)
{
    size_t m = 0;
    for (; m + ROWS <= p->M; m += ROWS) {
        block(p, m, n, ROWS, vectors);
    }
    if (m + 4 <= p->M) {
        block(p, m, n, 4, vectors);
        m += 4;
    }
    if (m + 2 <= p->M) {
        block(p, m, n, 2, vectors);
        m += 2;
    }
    if (m < p->M) {
        block(p, m, n, 1, vectors);
    }
}

void PRODUCT_NAME(const struct product *p)
{
    size_t n = 0;
    for (; n + COLUMNS <= p->N; n += COLUMNS) {
        columns_of(p, n, VECTORS);
    }
    for (; n < p->N; n += LANES) {
        columns_of(p, n, 1);
    }
}
