#include "libtrain/backend/onednn.h"

#include <dnnl.h>
#include <dnnl_debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libtrain/backend/onednn_library.h"

/* A function of OpenMP, which Debian's build uses. It sets the number of threads of the calling
 * thread's next parallel region. With one thread the region is a plain call. */
void omp_set_num_threads(int threads);

bool onednn_built(void)
{
    return true;
}

/* sysconf returns -1 for unknown values. */
static long cache_kib(int name)
{
    long bytes = sysconf(name);
    return bytes > 0 ? bytes / 1024 : 0;
}

void onednn_describe(char *out, size_t size)
{
    const dnnl_version_t *version = dnnl_version();
    const char *isa = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
    (void)snprintf(out, size, "/onednn-%d.%d.%d-%s-%ld+%ld+%ldk", version->major, version->minor,
                   version->patch, strncmp(isa, "cpu_isa_", 8) == 0 ? isa + 8 : isa,
                   cache_kib(_SC_LEVEL1_DCACHE_SIZE), cache_kib(_SC_LEVEL2_CACHE_SIZE),
                   cache_kib(_SC_LEVEL3_CACHE_SIZE));
}

void onednn_compute_alone(void)
{
    omp_set_num_threads(1);
}

int onednn_failed(int status, const char *what, struct err *err)
{
    return err_set(err, status == dnnl_out_of_memory ? ERR_MEMORY : ERR_INVALID, "oneDNN: %s: %s",
                   what, dnnl_status2str((dnnl_status_t)status));
}

int onednn_new(size_t workers, struct onednn **out, struct err *err)
{
    struct onednn *library AUTO(onednn_free) =
        calloc(1, sizeof(*library) + workers * sizeof(library->stream[0]));
    if (!library) {
        return err_set(err, ERR_MEMORY, "out of memory for oneDNN");
    }
    library->workers = workers;
    onednn_compute_alone();
    dnnl_status_t status = dnnl_engine_create(&library->engine, dnnl_cpu, 0);
    for (size_t i = 0; status == dnnl_success && i < workers; i++) {
        status =
            dnnl_stream_create(&library->stream[i], library->engine, dnnl_stream_default_flags);
    }
    if (status != dnnl_success) {
        return onednn_failed(status, "start", err);
    }
    *out = library;
    library = NULL;
    return 0;
}

void onednn_free(struct onednn **pointer)
{
    struct onednn *library = *pointer;
    if (!library) {
        return;
    }
    for (size_t i = 0; i < library->workers && library->stream[i]; i++) {
        (void)dnnl_stream_destroy(library->stream[i]);
    }
    if (library->engine) {
        (void)dnnl_engine_destroy(library->engine);
    }
    free(library);
    *pointer = NULL;
}
