/* alloc_count.c: a library to LD_PRELOAD that counts the memory allocations of a program by thread
 * name and by origin: the program's own code or a library. The counts lie in a file that others may
 * read at any time, also after the program's end: ALLOC_COUNT_FILE names it, the process id is
 * appended. Without the variable nothing is counted.
 *
 * The file is an array of struct row, little-endian, unused rows with an empty name;
 * tests/support/alloc_table.py reads it. Threads of one name share a row. An allocation inside libc
 * (strdup, fopen, pthread_create) belongs to the caller of libc. Allocations before the program's
 * own start are not counted. The hooks themselves never allocate. For glibc. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <unwind.h>

#define ROWS_MAX 64
#define NAME_BYTES 16 /* of the kernel's thread names */
#define FRAMES_MAX 32
#define SEGMENTS_MAX 16

enum origin { ORIGIN_OURS, ORIGIN_LIBRARY, ORIGINS };

struct row {
    char name[NAME_BYTES];
    _Atomic uint64_t count[ORIGINS];
};

/* Where a module's segments lie, taken once at start. */
struct module {
    uintptr_t begin[SEGMENTS_MAX], end[SEGMENTS_MAX];
    size_t count;
};

/* glibc's names of the functions replaced here. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static struct module program, c_library, itself;
static struct row *table; /* NULL before the start and when nothing is to be counted */
static atomic_flag table_lock = ATOMIC_FLAG_INIT;

/* Of the calling thread; initial-exec, so that the first use allocates nothing. */
static _Thread_local __attribute__((tls_model("initial-exec"))) bool inside;
static _Thread_local __attribute__((tls_model("initial-exec"))) struct row *own_row;

static bool module_has(const struct module *module, uintptr_t address)
{
    for (size_t i = 0; i < module->count; i++) {
        if (address >= module->begin[i] && address < module->end[i]) {
            return true;
        }
    }
    return false;
}

static void module_set(struct module *module, const struct dl_phdr_info *info)
{
    for (size_t i = 0; i < info->dlpi_phnum && module->count < SEGMENTS_MAX; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            module->begin[module->count] = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            module->end[module->count] = module->begin[module->count] + info->dlpi_phdr[i].p_memsz;
            module->count++;
        }
    }
}

/* The program comes first, without a name. */
static int take_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    size_t *index = arg;
    (void)size;
    struct module module = {.count = 0};
    module_set(&module, info);
    if ((*index)++ == 0) {
        program = module;
    } else if (module_has(&module, (uintptr_t)&__libc_malloc)) {
        c_library = module;
    } else if (module_has(&module, (uintptr_t)&take_module)) {
        itself = module;
    }
    return 0;
}

/* ---- counting ---- */

struct search {
    size_t depth;
    enum origin origin;
};

/* The first frame that is neither ours nor libc's decides. */
static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *arg)
{
    struct search *search = arg;
    const uintptr_t address = (uintptr_t)_Unwind_GetIP(context);
    if (++search->depth > FRAMES_MAX) {
        return _URC_END_OF_STACK;
    }
    if (module_has(&itself, address) || module_has(&c_library, address)) {
        return _URC_NO_REASON;
    }
    search->origin = module_has(&program, address) ? ORIGIN_OURS : ORIGIN_LIBRARY;
    return _URC_END_OF_STACK;
}

static enum origin origin_of(const void *caller)
{
    struct search search = {.origin = ORIGIN_LIBRARY};
    if (module_has(&program, (uintptr_t)caller)) {
        return ORIGIN_OURS;
    }
    if (module_has(&c_library, (uintptr_t)caller)) {
        (void)_Unwind_Backtrace(take_frame, &search);
    }
    return search.origin;
}

static struct row *find_row(const char *name)
{
    struct row *row = NULL;
    while (atomic_flag_test_and_set_explicit(&table_lock, memory_order_acquire)) {
    }
    for (size_t i = 0; i < ROWS_MAX && !row; i++) {
        if (table[i].name[0] == '\0') {
            memcpy(table[i].name, name, NAME_BYTES);
        }
        row = strncmp(table[i].name, name, NAME_BYTES) == 0 ? &table[i] : NULL;
    }
    atomic_flag_clear_explicit(&table_lock, memory_order_release);
    return row;
}

static void count_call(const void *caller)
{
    char name[NAME_BYTES] = "";
    if (!table || inside) {
        return;
    }
    inside = true;
    const int error = errno;
    /* Asked every time: a thread gets its name after its first allocations. */
    if (prctl(PR_GET_NAME, name) == 0 && name[0] != '\0') {
        if (!own_row || strncmp(own_row->name, name, NAME_BYTES) != 0) {
            own_row = find_row(name);
        }
        if (own_row) {
            atomic_fetch_add_explicit(&own_row->count[origin_of(caller)], 1, memory_order_relaxed);
        }
    }
    errno = error;
    inside = false;
}

__attribute__((constructor)) static void start(void)
{
    char path[4096];
    const char *file = getenv("ALLOC_COUNT_FILE");
    size_t index = 0;
    if (!file ||
        snprintf(path, sizeof(path), "%s.%ld", file, (long)getpid()) >= (int)sizeof(path)) {
        return;
    }
    (void)dl_iterate_phdr(take_module, &index);
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        perror(path);
        return;
    }
    void *memory = MAP_FAILED;
    if (ftruncate(fd, ROWS_MAX * sizeof(struct row)) == 0) {
        memory =
            mmap(NULL, ROWS_MAX * sizeof(struct row), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    (void)close(fd);
    if (memory == MAP_FAILED) {
        perror(path);
        return;
    }
    table = memory;
}

/* ---- the replaced functions ---- */

void *malloc(size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    count_call(__builtin_return_address(0));
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    count_call(__builtin_return_address(0));
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) {
        return EINVAL;
    }
    void *got = __libc_memalign(alignment, size);
    if (!got) {
        return ENOMEM;
    }
    *memory = got;
    return 0;
}
