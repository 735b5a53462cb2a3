#include "libtrain/backend/gemm.h"

#include <cblas.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

/* Debian's serial OpenBLAS hands out its packing buffers without a lock (it is built without USE_LOCKING), so two
 * threads that multiply at once may pack into the same buffer and get wrong numbers. The two functions below stand in
 * front of the library's own ones (symbol interposition) and add the lock. Where that does not take effect (another
 * build, bound symbolically), gemm_prepare notices and every product takes the lock instead: slower, still right. */
void *blas_memory_alloc(int position);
void blas_memory_free(void *buffer);

static struct {
    pthread_once_t once;
    pthread_mutex_t lock; /* of the library's table of buffers, or of whole products */
    void *(*allocate)(int position);
    void (*release)(void *buffer);
    atomic_bool guarded;   /* our blas_memory_alloc was called by the library */
    atomic_bool serialise; /* it never is */
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
    pthread_mutex_unlock(&blas.lock);
    return buffer;
}

void blas_memory_free(void *buffer)
{
    pthread_once(&blas.once, find_library);
    pthread_mutex_lock(&blas.lock);
    blas.release(buffer);
    pthread_mutex_unlock(&blas.lock);
}

static blasint dimension(size_t value)
{
    ASSERT(value <= INT_MAX);
    return (blasint)value;
}

void gemm(bool transpose_a, bool transpose_b, size_t M, size_t N, size_t K, const float *A, size_t lda, const float *B,
          size_t ldb, float beta, float *C, size_t ldc)
{
    bool serialise = atomic_load_explicit(&blas.serialise, memory_order_relaxed);
    if (serialise) {
        pthread_mutex_lock(&blas.lock);
    }
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
                dimension(M), dimension(N), dimension(K), 1.0f, A, dimension(lda), B, dimension(ldb), beta, C,
                dimension(ldc));
    if (serialise) {
        pthread_mutex_unlock(&blas.lock);
    }
}

void gemm_prepare(void)
{
    /* Large enough that no core takes its path for small matrices, which needs no buffer. */
    enum { SIZE = 128 };
    static const float zeros[SIZE * SIZE];
    static float product[SIZE * SIZE];
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    if (!atomic_load(&blas.guarded) && !atomic_load(&blas.serialise)) {
        openblas_set_num_threads(1);
        gemm(false, false, SIZE, SIZE, SIZE, zeros, SIZE, zeros, SIZE, 0.0f, product, SIZE);
        bool locks_itself = openblas_get_parallel() != 0;
        atomic_store(&blas.serialise, !atomic_load(&blas.guarded) && !locks_itself);
    }
    pthread_mutex_unlock(&once);
}

void gemm_describe(char *out, size_t size)
{
    char version[32] = "";
    /* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." */
    if (sscanf(openblas_get_config(), "%*s %31s", version) != 1) {
        version[0] = '\0';
    }
    snprintf(out, size, "openblas-%s-%s", version, openblas_get_corename());
}
