#include "tests/support/no_alloc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "libtrain/backend/simd.h"

static _Thread_local bool forbidden;

void no_alloc_begin(void)
{
    ASSERT(!forbidden);
    forbidden = true;
}

void no_alloc_end(void)
{
    ASSERT(forbidden);
    forbidden = false;
}

#if !defined(SIMD_BASELINE_ONLY) /* simd.h: no sanitizer */

/* glibc's names of the functions replaced here. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static void check(void)
{
    static const char message[] = "memory is allocated where none may be\n";
    if (forbidden) {
        forbidden = false;
        (void)!write(STDERR_FILENO, message, sizeof(message) - 1);
        abort();
    }
}

void *malloc(size_t size)
{
    check();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    check();
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    check();
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    check();
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    check();
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}
#endif
