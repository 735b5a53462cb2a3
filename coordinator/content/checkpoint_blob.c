#include "coordinator/content/checkpoint_blob.h"

#include <inttypes.h>

static int read_blob(void *arg, uint64_t offset, void *out, size_t size, struct err *err)
{
    size_t got = 0;
    int rc = blob_read(arg, offset, out, size, &got, err);
    return rc || got == size
               ? rc
               : err_set(err, ERR_FORMAT, "the file ends at byte %" PRIu64, offset + got);
}

int checkpoint_blob_open(struct blob_store *blobs, const char *sha256, struct checkpoint_blob *out,
                         struct err *err)
{
    uint64_t size = 0;
    int rc = blob_reader_open(blobs, sha256, &out->reader, &size, err);
    return rc ? rc : checkpoint_file_open(read_blob, out->reader, &out->file, err);
}

void checkpoint_blob_close(struct checkpoint_blob *blob)
{
    checkpoint_file_close(&blob->file);
    blob_reader_close(&blob->reader);
}
