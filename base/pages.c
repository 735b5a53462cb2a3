#include "base/pages.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/size.h"

/* A mapping is, in this order: unused bytes, this header, the elements, at most PAGES_ALIGNMENT
 * unused bytes up to the end of a page, and a page without access. */
struct header {
    _Alignas(PAGES_ALIGNMENT) char *mapping;
    size_t bytes;
    char *end; /* of the unused bytes after the elements */
};

void *pages_new(size_t count, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t used, most;
    if (!size_multiply(count, size, &used) ||
        !size_add(used, sizeof(struct header) + PAGES_ALIGNMENT + 2 * page, &most)) {
        return NULL;
    }
    const size_t room = size_align(used > 0 ? used : 1, PAGES_ALIGNMENT);
    const size_t open = size_align(room + sizeof(struct header), page);
    const size_t bytes = open + page;
    char *mapping = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        return NULL;
    }
    if (mprotect(mapping, open, PROT_READ | PROT_WRITE) != 0) {
        (void)munmap(mapping, bytes);
        return NULL;
    }
    char *element = mapping + open - room;
    *((struct header *)(void *)element - 1) = (struct header){mapping, bytes, mapping + open};
    ASAN_POISON_MEMORY_REGION(mapping, (size_t)(element - mapping));
    ASAN_POISON_MEMORY_REGION(element + used, room - used);
    return element;
}

void pages_free(void *pages)
{
    if (!pages) {
        return;
    }
    const struct header *at = (const struct header *)pages - 1;
    ASAN_UNPOISON_MEMORY_REGION(at, sizeof(*at));
    const struct header header = *at;
    char *element = pages;
    ASAN_UNPOISON_MEMORY_REGION(header.mapping, (size_t)(element - header.mapping));
    ASAN_UNPOISON_MEMORY_REGION(header.end - PAGES_ALIGNMENT, PAGES_ALIGNMENT);
    (void)munmap(header.mapping, header.bytes); /* the kernel may refuse to split its mappings */
}
