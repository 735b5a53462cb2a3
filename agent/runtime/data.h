/* data.h: a data set's tensors in memory, mapped from a file in the format of data sets
 * (libtrain/formats/dataset.h): a complete file (`paceline-agent train`), or the agent's cache in
 * DIRECTORY, with one sparse file per data set and one map of its pieces of 4 MiB.
 *
 * Only the pieces with the required tensors are fetched. The map has a sha256 per piece, over the
 * hash of the data set, the number of the piece and its bytes, and is written after the piece. So
 * only pieces that a crash left incomplete, that are damaged or that have the wrong name are
 * fetched again. The size comes from the header, never from the file system. Once the file is
 * complete, its own hash is checked too. Used by the thread that builds a stage; any thread may
 * read the mapping. */
#ifndef AGENT_RUNTIME_DATA_H
#define AGENT_RUNTIME_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/runtime/disk_watch.h"
#include "base/err.h"
#include "libtrain/formats/dataset.h"
#include "schema/limits.h"

#define DATA_PIECE_BYTES (4u << 20)

struct data;

/* Get bytes [offset, offset + size) of the data set: at least one byte, and fewer than requested
 * only at its end. Returns the number of bytes, or a negative ERR_ code. */
typedef int64_t (*data_fetch_fn)(void *arg, const char *sha256, uint64_t offset, void *out,
                                 size_t size, struct err *err);

struct data_request {
    const char *directory; /* of the cache */
    const char *sha256;
    const char *in_use; /* another data set of the cache that must stay, or "" */
    bool inputs, labels;
    struct disk_watch *disk; /* watches every call to the disk; or NULL */
    data_fetch_fn fetch;
    void *arg;
};

/* Fetch missing or damaged pieces and map the data set; damage is logged. On a full disk, other
 * data sets leave the cache first. ERR_FULL or ERR_IO (of the disk), ERR_FORMAT (the content does
 * not match its hash or its header), or the error of `fetch`. */
NODISCARD int data_open(const struct data_request *request, struct data **out, struct err *err);
/* Map a complete file. The descriptor may be closed afterwards. */
NODISCARD int data_open_file(int fd, struct data **out, struct err *err);
void data_close(struct data **data);

const struct dataset_info *data_info(const struct data *data); /* classes: 0 */
/* Return the hash of the whole file. */
void data_hash(const struct data *data, char out[SHA256_SIZE]);
/* Restrict the data set to its first `count` samples. ERR_INVALID: it has fewer. */
NODISCARD int data_shorten(struct data *data, uint64_t count, struct err *err);
const unsigned char *data_inputs(const struct data *data);
const unsigned char *data_labels(const struct data *data); /* I32, little-endian */

#endif
