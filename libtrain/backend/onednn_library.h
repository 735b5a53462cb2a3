/* onednn_library.h: oneDNN's engine and streams as onednn.c opens them and onednn_pass.c uses them.
 * Private to libtrain/backend. Names the library's types without its headers, which are not
 * everywhere. One thread opens and frees it; each worker has a stream of its own. */
#ifndef LIBTRAIN_BACKEND_ONEDNN_LIBRARY_H
#define LIBTRAIN_BACKEND_ONEDNN_LIBRARY_H

#include <stddef.h>

#include "libtrain/backend/onednn.h"

struct dnnl_engine;
struct dnnl_stream;

struct onednn {
    struct dnnl_engine *engine;
    size_t workers;
    struct dnnl_stream *stream[]; /* [workers] */
};

/* Let the calling thread compute alone: call it before every call that may open a parallel region.
 */
void onednn_compute_alone(void);

/* The error of a dnnl_status_t other than success. `what`: the call that failed. */
NODISCARD int onednn_failed(int status, const char *what, struct err *err);

#endif
