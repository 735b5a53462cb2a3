/* spool.h: receives an upload into an unnamed temporary file. The loop's thread passes bytes and
 * workers write them, so a slow disk slows only the upload. A crash leaves no file, because the
 * file has no name. */
#ifndef COORDINATOR_CONTENT_SPOOL_H
#define COORDINATOR_CONTENT_SPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "coordinator/content/work.h"

struct spool;

struct spool_config {
    struct work *work;
    const char *directory; /* borrowed for the spool's life */
    uint64_t limit_bytes;
    uint64_t min_free_bytes;    /* of the file system: below it the spool fails with ERR_FULL */
    void (*on_room)(void *arg); /* the loop's thread: spool_write can take more again */
    void *arg;
};

NODISCARD int spool_new(const struct spool_config *config, struct spool **out, struct err *err);
/* Take bytes. Returns how many were taken (0: wait for on_room), or a negative ERR_ code
 * (ERR_LIMIT, ERR_FULL, ERR_IO). */
int64_t spool_write(struct spool *spool, const void *data, size_t size, struct err *err);
/* End the bytes. settled(arg, code, err) runs on the loop's thread when all bytes are in the file,
 * perhaps before this returns. It may free the spool. ERR_CANCELLED: the program ends. */
void spool_finish(struct spool *spool, void (*settled)(void *arg, int code, const struct err *err));
/* Return the file and its size; valid after settled. Borrowed. */
int spool_fd(const struct spool *spool);
uint64_t spool_size(const struct spool *spool);
/* End the spool at any time. Its memory and file are freed when no worker uses them any more. */
void spool_free(struct spool **spool);

#endif
