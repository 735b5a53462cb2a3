#include "libtrain/backend/gemm.h"

#include <cblas.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "libtrain/memory/memory.h"

/* Debian's serial OpenBLAS hands out its packing buffers without a lock (it is built without
 * USE_LOCKING). Two threads that multiply at once may then pack into the same buffer and get wrong
 * numbers. The two functions below replace the library's own (symbol interposition) and add the
 * lock. In other builds the replacement may have no effect, because the symbols are bound in the
 * library. prepare detects this, and then every product takes the lock: slower, but correct (ADR
 * 0009). */
void *blas_memory_alloc(int position);
void blas_memory_free(void *buffer);

static struct {
    pthread_once_t once;
    pthread_mutex_t lock; /* protects the library's table of buffers, or whole products */
    void *(*allocate)(int position);
    void (*release)(void *buffer);
    atomic_bool guarded;   /* the library called our blas_memory_alloc */
    atomic_bool serialise; /* the library does not call it: products take the lock */
    atomic_bool allocates; /* the core is one of allocating_cores */
    /* Under the lock: */
    size_t made;     /* buffers that the library has allocated */
    size_t in_use;   /* buffers that running products use */
    size_t reserved; /* buffers that the library must have */
} blas = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static void find_library(void)
{
    /* POSIX's way to turn dlsym's object pointer into a function pointer. */
    *(void **)&blas.allocate = dlsym(RTLD_NEXT, "blas_memory_alloc");
    *(void **)&blas.release = dlsym(RTLD_NEXT, "blas_memory_free");
    ASSERT(blas.allocate && blas.release);
}

void *blas_memory_alloc(int position)
{
    pthread_once(&blas.once, find_library);
    atomic_store_explicit(&blas.guarded, true, memory_order_relaxed);
    pthread_mutex_lock(&blas.lock);
    void *buffer = blas.allocate(position);
    blas.in_use++;
    blas.made = blas.made > blas.in_use ? blas.made : blas.in_use;
    pthread_mutex_unlock(&blas.lock);
    return buffer;
}

void blas_memory_free(void *buffer)
{
    pthread_once(&blas.once, find_library);
    pthread_mutex_lock(&blas.lock);
    blas.release(buffer);
    blas.in_use--;
    pthread_mutex_unlock(&blas.lock);
}

/* The library retries a failed mapping without end. So a new buffer is requested before the
 * products that need it, and only if there is memory for it. The library keeps the buffer. */
#define BUFFER_BYTES                                                                               \
    ((size_t)(sizeof(void *) > 4 ? 128 : 32) << 20)   /* at least BUFFER_SIZE of its builds */
#define ROOM_BYTES (BUFFER_BYTES + ((size_t)8 << 20)) /* margin for other threads */

static bool has_room(void)
{
    void *room = mmap(NULL, ROOM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && munmap(room, ROOM_BYTES) == 0;
}

/* Called under the lock. The library hands out a free buffer first, so all buffers are held at
 * once. */
static bool make_buffers(size_t wanted)
{
    void *held[MEMORY_THREADS_MAX];
    size_t count = 0;
    bool room = true;
    while (room && count < MEMORY_THREADS_MAX && blas.in_use + count < wanted) {
        room = blas.in_use + count < blas.made || has_room();
        if (room) {
            held[count++] = blas.allocate(0);
        }
    }
    blas.made = blas.made > blas.in_use + count ? blas.made : blas.in_use + count;
    while (count > 0) {
        blas.release(held[--count]);
    }
    return room;
}

/* For small products of two matrices that are not transposed (at most SMALL_PRODUCT
 * multiplications), the library's AVX-512 kernels allocate a buffer per call. Training must not
 * allocate. So these products use a transposed copy of one matrix, which selects other kernels. */
#define SMALL_PRODUCT 1e6
#define COPY_FLOATS 16384 /* size of the copy; larger products are computed in pieces of K */
static const char *const allocating_cores[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};

static blasint dimension(size_t value)
{
    ASSERT(value <= INT_MAX);
    return (blasint)value;
}

static void multiply(bool transpose_a, bool transpose_b, size_t M, size_t N, size_t K,
                     const float *A, size_t lda, const float *B, size_t ldb, float beta, float *C,
                     size_t ldc)
{
    bool serialise = atomic_load_explicit(&blas.serialise, memory_order_relaxed);
    if (serialise) {
        pthread_mutex_lock(&blas.lock);
    }
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                transpose_b ? CblasTrans : CblasNoTrans, dimension(M), dimension(N), dimension(K),
                1.0f, A, dimension(lda), B, dimension(ldb), beta, C, dimension(ldc));
    if (serialise) {
        pthread_mutex_unlock(&blas.lock);
    }
}

/* out[columns][rows] = in[rows][columns] with ld floats from row to row. */
static void transpose(const float *in, size_t ld, size_t rows, size_t columns, float *out)
{
    for (size_t i = 0; i < columns; i++) {
        for (size_t j = 0; j < rows; j++) {
            out[i * rows + j] = in[j * ld + i];
        }
    }
}

/* C = A B + beta C for a small product, in pieces of K whose copy fits. */
static void multiply_copy(size_t M, size_t N, size_t K, const float *A, size_t lda, const float *B,
                          size_t ldb, float beta, float *C, size_t ldc)
{
    static _Thread_local float copy[COPY_FLOATS];
    /* The library is faster with a transposed A, unless A is much larger than B. */
    const bool copy_a = M <= 4 * N;
    const size_t piece = COPY_FLOATS / (copy_a ? M : N); /* M <= 2000 or N <= 500 here: never 0 */
    for (size_t k = 0; k < K; k += piece) {
        const size_t depth = K - k < piece ? K - k : piece;
        if (copy_a) {
            transpose(A + k, lda, M, depth, copy);
            multiply(true, false, M, N, depth, copy, M, B + k * ldb, ldb, k == 0 ? beta : 1.0f, C,
                     ldc);
        } else {
            transpose(B + k * ldb, ldb, depth, N, copy);
            multiply(false, true, M, N, depth, A + k, lda, copy, depth, k == 0 ? beta : 1.0f, C,
                     ldc);
        }
    }
}

void gemm(bool transpose_a, bool transpose_b, size_t M, size_t N, size_t K, const float *A,
          size_t lda, const float *B, size_t ldb, float beta, float *C, size_t ldc)
{
    if (!transpose_a && !transpose_b &&
        atomic_load_explicit(&blas.allocates, memory_order_relaxed) &&
        (double)M * (double)N * (double)K <= SMALL_PRODUCT) {
        multiply_copy(M, N, K, A, lda, B, ldb, beta, C, ldc);
    } else {
        multiply(transpose_a, transpose_b, M, N, K, A, lda, B, ldb, beta, C, ldc);
    }
}

/* Switch off the library's threading and guard its buffers, once, before the first product. */
static void prepare(void)
{
    /* Large enough for every core to use a buffer: the path for small matrices uses none. */
    enum { SIZE = 128 };
    static const float zeros[SIZE * SIZE];
    static float product[SIZE * SIZE];
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    if (!atomic_load(&blas.guarded) && !atomic_load(&blas.serialise)) {
        openblas_set_num_threads(1);
        for (size_t i = 0; i < sizeof(allocating_cores) / sizeof(allocating_cores[0]); i++) {
            if (strcmp(openblas_get_corename(), allocating_cores[i]) == 0) {
                atomic_store(&blas.allocates, true);
            }
        }
        gemm(false, false, SIZE, SIZE, SIZE, zeros, SIZE, zeros, SIZE, 0.0f, product, SIZE);
        bool locks_itself = openblas_get_parallel() != 0;
        atomic_store(&blas.serialise, !atomic_load(&blas.guarded) && !locks_itself);
    }
    pthread_mutex_unlock(&once);
}

int gemm_reserve(size_t threads, struct err *err)
{
    pthread_once(&blas.once, find_library);
    pthread_mutex_lock(&blas.lock);
    const bool made = make_buffers(blas.reserved + threads);
    blas.reserved += made ? threads : 0;
    pthread_mutex_unlock(&blas.lock);
    if (!made) {
        return err_set(
            err, ERR_MEMORY,
            "no room for the buffers of matrix products, %zu x %zu MiB (see 'ulimit -v')", threads,
            BUFFER_BYTES >> 20);
    }
    prepare();
    return 0;
}

void gemm_release(size_t threads)
{
    pthread_mutex_lock(&blas.lock);
    ASSERT(blas.reserved >= threads);
    blas.reserved -= threads;
    pthread_mutex_unlock(&blas.lock);
}

void gemm_describe(char *out, size_t size)
{
    char version[32] = "";
    /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." */
    if (sscanf(openblas_get_config(), "%*s %31s", version) != 1) {
        version[0] = '\0';
    }
    (void)snprintf(out, size, "openblas-%s-%s", version, openblas_get_corename());
}
