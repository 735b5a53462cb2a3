/* checkpoint_blob.h: reads a blob of the center as a file of tensors. A worker thread. */
#ifndef COORDINATOR_CONTENT_CHECKPOINT_BLOB_H
#define COORDINATOR_CONTENT_CHECKPOINT_BLOB_H

#include "coordinator/store/blobs.h"
#include "libtrain/state/checkpoint.h"

struct checkpoint_blob {
    struct blob_reader *reader;
    struct checkpoint_file *file; /* NULL: not open */
};

/* Open the blob and read its header. Returns the errors of blob_reader_open and
 * checkpoint_file_open. Call checkpoint_blob_close after a failure too. */
NODISCARD int checkpoint_blob_open(struct blob_store *blobs, const char *sha256,
                                   struct checkpoint_blob *out, struct err *err);
void checkpoint_blob_close(struct checkpoint_blob *blob);

#endif
