#include "tests/support/pages.h"

#include <sys/mman.h>

#include "base/assert.h"

void *pages_new(size_t size)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

void pages_free(void *pages, size_t size)
{
    if (pages) {
        ASSERT(munmap(pages, size) == 0);
    }
}
