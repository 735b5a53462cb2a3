#include "base/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/size.h"

/* The mapping of one block, in this order: unused bytes, this header, the elements up to the end of
 * a page, and a page without access. */
struct header {
    _Alignas(PAGES_ALIGNMENT) void *mapping;
    size_t bytes;
};

void *pages_new(size_t count, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used, bytes;
    if (!size_multiply(count, size, &used) ||
        !size_add(used, sizeof(struct header) + PAGES_ALIGNMENT + 2 * page, &bytes)) {
        return NULL;
    }
    used = size_align(used > 0 ? used : 1, PAGES_ALIGNMENT);
    const size_t open = size_align(used + sizeof(struct header), page);
    bytes = open + page;
    char *mapping = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return NULL;
    }
    if (mprotect(mapping, open, PROT_READ | PROT_WRITE) != 0) {
        ASSERT(munmap(mapping, bytes) == 0);
        return NULL;
    }
    char *element = mapping + open - used;
    *((struct header *)(void *)element - 1) = (struct header){mapping, bytes};
    return element;
}

void pages_free(void *pages)
{
    if (pages) {
        const struct header header = *((struct header *)pages - 1);
        ASSERT(munmap(header.mapping, header.bytes) == 0);
    }
}
