/* onednn_library.h: oneDNN's engine and streams, opened by onednn.c and used by onednn_pass.c.
 * Private to libtrain/backend. It names the library's types without its headers, so that it
 * compiles where they are not installed. One thread opens and frees it; each worker has its own
 * stream. */
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

/* Switch the library's threading off for the calling thread. Called before every use. */
void onednn_compute_alone(void);

/* Set the error of a dnnl_status_t other than success. what: the failed call. */
NODISCARD int onednn_failed(int status, const char *what, struct err *err);

#endif
