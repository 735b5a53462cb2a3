#include "coordinator/content/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"

#define SPOOL_BUFFER_BYTES (1u << 20)

/* Two buffers: one is filled by the loop's thread while the other is written by a worker. */
struct spool {
    struct work_job job; /* first: the worker gets it as struct spool */
    struct spool_config config;
    int fd;

    /* While busy, the worker owns these. */
    char *writing;
    size_t writing_size;
    uint64_t written; /* offset of the buffer being written */
    int write_code;
    struct err write_err;

    /* The loop's thread only. */
    char *filling;
    size_t filled;
    uint64_t size;
    bool busy, paused, finished, abandoned;
    int code; /* the first failure */
    struct err err;
    void (*settled)(void *arg, int code, const struct err *err);
};

static void spool_run(struct work_job *job)
{
    struct spool *spool = (struct spool *)job;
    uint64_t free_bytes = 0;
    spool->write_code = file_free_bytes(spool->config.directory, &free_bytes, &spool->write_err);
    if (!spool->write_code && free_bytes < spool->config.min_free_bytes + spool->writing_size) {
        spool->write_code =
            err_set(&spool->write_err, ERR_FULL, "'%s' has %llu bytes free; %llu must stay free",
                    spool->config.directory, (unsigned long long)free_bytes,
                    (unsigned long long)spool->config.min_free_bytes);
    }
    if (!spool->write_code) {
        spool->write_code = file_write_at(spool->fd, spool->writing, spool->writing_size,
                                          spool->written, &spool->write_err);
    }
}

static void spool_release(struct spool *spool)
{
    file_close(&spool->fd);
    free(spool->filling);
    free(spool->writing);
    free(spool);
}

/* Give the filled buffer to a worker. */
static void spool_flush(struct spool *spool)
{
    ASSERT(!spool->busy);
    char *buffer = spool->filling;
    spool->filling = spool->writing;
    spool->writing = buffer;
    spool->writing_size = spool->filled;
    spool->filled = 0;
    spool->busy = true;
    work_submit(spool->config.work, &spool->job);
}

/* The last use of a spool: its owner may free it. */
static void spool_settle(struct spool *spool)
{
    if (spool->finished && !spool->busy && spool->settled) {
        void (*settled)(void *, int, const struct err *) = spool->settled;
        spool->settled = NULL;
        settled(spool->config.arg, spool->code, &spool->err);
    }
}

static void spool_done(struct work_job *job)
{
    struct spool *spool = (struct spool *)job;
    spool->busy = false;
    spool->written += spool->writing_size;
    if (spool->abandoned) {
        spool_release(spool);
        return;
    }
    if (job->cancelled) {
        spool->code = err_set(&spool->err, ERR_CANCELLED, "the coordinator is stopping");
    } else if (spool->write_code) {
        spool->code = spool->write_code;
        spool->err = spool->write_err;
    }
    if (!spool->code && spool->finished && spool->filled > 0) {
        spool_flush(spool);
    }
    if (spool->paused) {
        spool->paused = false;
        spool->config.on_room(spool->config.arg);
    }
    spool_settle(spool);
}

/* Some file systems cannot create an unnamed file: then it has a name for a moment. */
static int open_unnamed(const char *directory)
{
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) {
        return fd;
    }
    char path[PATH_MAX];
    int length = snprintf(path, sizeof(path), "%s/upload-XXXXXX", directory);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) {
        (void)unlink(path);
    }
    return fd;
}

int spool_new(const struct spool_config *config, struct spool **out, struct err *err)
{
    struct spool *spool = calloc(1, sizeof(*spool));
    if (!spool) {
        return err_set(err, ERR_MEMORY, "upload: out of memory");
    }
    spool->job = (struct work_job){.run = spool_run, .done = spool_done};
    spool->config = *config;
    spool->filling = malloc(SPOOL_BUFFER_BYTES);
    spool->writing = malloc(SPOOL_BUFFER_BYTES);
    spool->fd = open_unnamed(config->directory);
    if (spool->fd < 0 || !spool->filling || !spool->writing) {
        int reason = spool->fd < 0 ? errno : ENOMEM;
        int rc = err_set(err, err_from_errno(reason), "temporary file in '%s': %s",
                         config->directory, strerror(reason));
        spool_release(spool);
        return rc;
    }
    *out = spool;
    return 0;
}

int64_t spool_write(struct spool *spool, const void *data, size_t size, struct err *err)
{
    ASSERT(!spool->finished);
    if (spool->code) {
        *err = spool->err;
        return spool->code;
    }
    if (size > spool->config.limit_bytes - spool->size) {
        return err_set(err, ERR_LIMIT, "the upload is larger than %llu bytes",
                       (unsigned long long)spool->config.limit_bytes);
    }
    if (spool->filled == SPOOL_BUFFER_BYTES) {
        if (spool->busy) {
            spool->paused = true;
            return 0;
        }
        spool_flush(spool);
    }
    size_t room = SPOOL_BUFFER_BYTES - spool->filled;
    size_t taken = size < room ? size : room;
    memcpy(spool->filling + spool->filled, data, taken);
    spool->filled += taken;
    spool->size += taken;
    return (int64_t)taken;
}

void spool_finish(struct spool *spool, void (*settled)(void *arg, int code, const struct err *err))
{
    spool->finished = true;
    spool->settled = settled;
    if (!spool->busy && !spool->code && spool->filled > 0) {
        spool_flush(spool);
    }
    spool_settle(spool);
}

int spool_fd(const struct spool *spool)
{
    return spool->fd;
}

uint64_t spool_size(const struct spool *spool)
{
    return spool->size;
}

void spool_free(struct spool **pointer)
{
    struct spool *spool = *pointer;
    *pointer = NULL;
    if (!spool) {
        return;
    }
    if (spool->busy) {
        spool->abandoned = true; /* the worker's done() releases it */
        return;
    }
    spool_release(spool);
}
