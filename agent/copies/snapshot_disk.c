#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/copies/snapshot_parts.h"
#include "agent/runtime/thread.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"
#include "net/hash.h"

#define READ_BYTES ((size_t)256 << 10)
#define NAME_BYTES 192

/* ---- names ---- */

static void name_directory(const struct snapshot_store *store, const struct job_id *job,
                           char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/%s", store->directory, job->text);
}

static void name_file(const struct snapshot_store *store, const struct holding *holding,
                      char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/%s/%" PRId64 "-%" PRId64 "-%" PRId64 "-%s.blob",
                   store->directory, holding->job.text, holding->version, holding->unit,
                   holding->generation, holding->sha256);
}

/* The next number of a name; false: no more. */
static bool take_number(char **at, int64_t max, int64_t *out)
{
    char *dash = strchr(*at, '-');
    if (!dash) {
        return false;
    }
    *dash = '\0';
    const char *text = *at;
    *at = dash + 1;
    return parse_i64(text, 0, max, out, NULL) == 0;
}

/* "version-unit-generation-sha256.blob" */
static bool read_name(const char *name, struct holding *out)
{
    char text[NAME_BYTES];
    char *at = text;
    if (strlen(name) >= sizeof(text)) {
        return false;
    }
    memcpy(text, name, strlen(name) + 1);
    char *end = strstr(text, ".blob");
    if (!end || end[sizeof(".blob") - 1] != '\0') {
        return false;
    }
    *end = '\0';
    if (!take_number(&at, STEPS_MAX, &out->version) ||
        !take_number(&at, UNITS_MAX - 1, &out->unit) ||
        !take_number(&at, INT64_MAX, &out->generation) || !sha256_form.valid(at)) {
        return false;
    }
    memcpy(out->sha256, at, sizeof(out->sha256));
    return true;
}

/* ---- at the start ---- */

/* Open the file of a snapshot. ERR_FORMAT: a link, a pipe, a device, or a file larger than any
 * snapshot, which might never end. */
static int open_snapshot(const char *path, int *out, struct err *err)
{
    struct stat status;
    FD_AUTO int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW |
                                    O_NONBLOCK); /* do not wait for the writer of a pipe */
    if (fd < 0) {
        const int rc = errno == ELOOP || errno == ENXIO ? ERR_FORMAT : err_from_errno(errno);
        return err_set(err, rc, "open '%s': %s", path, strerror(errno));
    }
    if (fstat(fd, &status) != 0) {
        return err_set(err, err_from_errno(errno), "look at '%s': %s", path, strerror(errno));
    }
    if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size > BLOB_BYTES_MAX) {
        return err_set(err, ERR_FORMAT, "'%s' is not a file, or is larger than any snapshot", path);
    }
    *out = fd;
    fd = -1;
    return 0;
}

/* The hash and size of a file. */
static int hash_file(const char *path, struct holding *out, struct err *err)
{
    FD_AUTO int fd = -1;
    int opened = open_snapshot(path, &fd, err);
    if (opened != 0) {
        return opened;
    }
    struct sha256 *hash AUTO(sha256_free) = NULL;
    int rc = sha256_new(&hash, err);
    char *chunk = rc == 0 ? malloc(READ_BYTES) : NULL;
    if (rc == 0 && !chunk) {
        rc = err_set(err, ERR_MEMORY, "read '%s'", path);
    }
    out->bytes = 0;
    while (rc == 0) {
        const ssize_t got = read(fd, chunk, READ_BYTES);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            rc = err_set(err, ERR_IO, "read '%s': %s", path, strerror(errno));
        }
        if (got <= 0) {
            break;
        }
        sha256_update(hash, chunk, (size_t)got);
        out->bytes += got;
    }
    free(chunk);
    if (rc == 0) {
        sha256_finish_text(hash, out->sha256);
    }
    return rc;
}

/* Hold the file if its content matches its name; remove it otherwise. */
static void take_file(struct snapshot_store *store, const struct job_id *job, const char *name)
{
    char path[PATH_MAX];
    struct err err = {0};
    struct holding named = {.job = *job};
    struct holding found;
    (void)snprintf(path, sizeof(path), "%s/%s/%.*s", store->directory, job->text, NAME_MAX, name);
    int rc = read_name(name, &named) ? 0 : err_set(&err, ERR_FORMAT, "not the name of a snapshot");
    found = named;
    rc = rc ? rc : hash_file(path, &found, &err);
    if (rc == ERR_IO || rc == ERR_MEMORY) {
        log_warn("snapshot_unread", "file=%s error=%s", log_quote(path).text,
                 log_quote(err.text).text);
        return;
    }
    if (rc == 0 && strcmp(found.sha256, named.sha256) != 0) {
        rc = err_set(&err, ERR_FORMAT, "its hash is %.12s", found.sha256);
    }
    struct kept *old = NULL;
    struct kept *kept = rc == 0 ? snapshot_place(store, &found, SNAPSHOT_REPLICA) : NULL;
    if (rc == 0 && !kept) {
        rc = err_set(&err, ERR_LIMIT, "too many snapshots");
    }
    if (kept) {
        kept->in_file = true;
        rc = snapshot_insert(store, kept, &old, &err);
        kept->dropped = rc == ERR_STALE;
        snapshot_unref(rc < 0 ? kept : old);
    }
    if (rc != 0) {
        log_warn("snapshot_rejected", "file=%s error=%s", log_quote(path).text,
                 log_quote(err.text).text);
    }
    if (rc == ERR_FORMAT) {
        (void)unlink(path);
    }
}

static void take_directory(struct snapshot_store *store, const char *name)
{
    struct job_id job;
    char path[PATH_MAX];
    if (!job_id_form.valid(name) || strlen(name) >= sizeof(job.text)) {
        return;
    }
    memset(&job, 0, sizeof(job));
    memcpy(job.text, name, strlen(name));
    name_directory(store, &job, path);
    DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        if (entry->d_name[0] != '.') {
            take_file(store, &job, entry->d_name);
        }
    }
    if (directory) {
        (void)closedir(directory);
    }
    (void)rmdir(path); /* the job has no snapshots left */
}

static int lock_directory(struct snapshot_store *store, struct err *err)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/lock", store->directory);
    store->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (store->lock_fd < 0) {
        return err_set(err, err_from_errno(errno), "open '%s': %s", path, strerror(errno));
    }
    if (flock(store->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        return errno == EWOULDBLOCK
                   ? err_set(err, ERR_EXISTS,
                             "another agent uses '%s': give each its own --replica-dir",
                             store->directory)
                   : err_set(err, err_from_errno(errno), "lock '%s': %s", path, strerror(errno));
    }
    return 0;
}

static int take_all(struct snapshot_store *store, struct err *err)
{
    DIR *directory = opendir(store->directory);
    if (!directory) {
        return err_set(err, err_from_errno(errno), "open directory '%s': %s", store->directory,
                       strerror(errno));
    }
    const struct dirent *entry;
    while ((entry = readdir(directory))) {
        take_directory(store, entry->d_name);
    }
    (void)closedir(directory);
    if (store->list.count > 0) {
        log_info("snapshots_found", "count=%zu directory=%s", store->list.count,
                 log_quote(store->directory).text);
    }
    return 0;
}

/* ---- the thread ---- */

static int sync_path(const char *path, struct err *err)
{
    FD_AUTO int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && fsync(fd) == 0
               ? 0
               : err_set(err, err_from_errno(errno), "sync '%s': %s", path, strerror(errno));
}

static int make_directory(const struct snapshot_store *store, const struct job_id *job,
                          struct err *err)
{
    char path[PATH_MAX];
    name_directory(store, job, path);
    if (mkdir(path, 0700) != 0) {
        return errno == EEXIST
                   ? 0
                   : err_set(err, err_from_errno(errno), "mkdir '%s': %s", path, strerror(errno));
    }
    return sync_path(store->directory, err);
}

/* Link the file of the same bytes under another name. */
static int link_file(const struct snapshot_store *store, const struct kept *kept, const char *path,
                     struct err *err)
{
    char old[PATH_MAX];
    char directory[PATH_MAX];
    name_file(store, &kept->same->snapshot.holding, old);
    if (link(old, path) != 0 && errno != EEXIST) {
        return err_set(err, ERR_NOT_FOUND, "link '%s': %s", old, strerror(errno));
    }
    name_directory(store, &kept->snapshot.holding.job, directory);
    return sync_path(directory, err);
}

static int write_kept(struct snapshot_store *store, struct kept *kept, struct err *err)
{
    char path[PATH_MAX];
    const struct holding *holding = &kept->snapshot.holding;
    name_file(store, holding, path);
    int rc = make_directory(store, &holding->job, err);
    if (rc == 0 && kept->same) {
        rc = link_file(store, kept, path, err);
    } else if (rc == 0) {
        rc = file_write_atomic(path, kept->block, (size_t)holding->bytes, 0600, err);
    }
    return rc;
}

/* Log the full disk. A snapshot that cannot be written stays in memory, within the bound. */
static void say_full(struct snapshot_store *store, int rc, const struct err *err)
{
    if (rc != 0 && !store->full) {
        log_warn("replica_dir_failed", "error=%s action=%s", log_quote(err->text).text,
                 "kept_in_memory");
    } else if (rc == 0 && store->full) {
        log_info("replica_dir_works", "directory=%s", log_quote(store->directory).text);
    }
    store->full = rc != 0;
}

static void do_write(struct snapshot_store *store, struct kept *kept)
{
    struct err err = {0};
    struct kept *old = NULL;
    const struct snapshot_waiter waiter = kept->waiter;
    const uint64_t bytes = (uint64_t)kept->snapshot.holding.bytes;
    const size_t call = disk_watch_begin(store->disk, "write a snapshot", bytes, clock_now_ms());
    int rc = write_kept(store, kept, &err);
    disk_watch_end(store->disk, call);
    const bool written = rc == 0;
    void *block = NULL;
    if (!kept->same) {
        say_full(store, rc, &err);
        rc = 0;
    }
    snapshot_unref(kept->same);
    kept->same = NULL;
    (void)pthread_mutex_lock(&store->lock);
    if (written) {
        kept->in_file = true;
        block = kept->block;
        kept->block = NULL;
        kept->snapshot.data = NULL;
    }
    if (rc == 0) {
        rc = snapshot_insert(store, kept, &old, &err);
        kept->dropped = rc != 0; /* its file is removed too */
    }
    store->bytes_written += block ? kept->snapshot.holding.bytes : 0;
    (void)pthread_mutex_unlock(&store->lock);
    snapshot_block_free(store, block, (size_t)kept->snapshot.holding.bytes);
    snapshot_unref(rc != 0 ? kept : old);
    if (waiter.done) {
        waiter.done(waiter.arg, rc, &err);
    }
}

/* Remove the file, unless the same snapshot was kept again in the meantime. */
static void do_remove(struct snapshot_store *store, struct kept *kept)
{
    char path[PATH_MAX];
    const struct holding *holding = &kept->snapshot.holding;
    (void)pthread_mutex_lock(&store->lock);
    const bool stays = snapshot_has_file(store, holding);
    (void)pthread_mutex_unlock(&store->lock);
    if (!stays) {
        const size_t call = disk_watch_begin(store->disk, "remove a snapshot", 0, clock_now_ms());
        name_file(store, holding, path);
        if (unlink(path) != 0 && errno != ENOENT) {
            log_warn("snapshot_not_removed", "file=%s error=%s", log_quote(path).text,
                     log_quote(strerror(errno)).text);
        }
        name_directory(store, &holding->job, path);
        (void)rmdir(path); /* succeeds after the job's last file */
        disk_watch_end(store->disk, call);
    }
    snapshot_free_place(store, kept);
}

static void *write_all(void *arg)
{
    struct snapshot_store *store = arg;
    thread_set_name("disk");
    (void)pthread_mutex_lock(&store->lock);
    for (;;) {
        while (!store->first && !store->stopping) {
            (void)pthread_cond_wait(&store->work, &store->lock);
        }
        struct kept *kept = store->first;
        if (!kept) {
            break;
        }
        store->first = kept->next;
        store->last = store->first ? store->last : NULL;
        store->writing = true;
        (void)pthread_mutex_unlock(&store->lock);
        if (atomic_load(&kept->references) == 0) {
            do_remove(store, kept);
        } else {
            do_write(store, kept);
        }
        (void)pthread_mutex_lock(&store->lock);
        store->writing = false;
        (void)pthread_cond_broadcast(&store->idle);
    }
    (void)pthread_mutex_unlock(&store->lock);
    return NULL;
}

/* ---- for snapshot.c ---- */

int snapshot_disk_open(struct snapshot_store *store, struct err *err)
{
    int rc = file_make_directory(store->directory, 0700, err);
    rc = rc ? rc : lock_directory(store, err);
    rc = rc ? rc : take_all(store, err);
    rc = rc ? rc : thread_start(&store->thread, write_all, store, err);
    store->started = rc == 0;
    return rc;
}

void snapshot_disk_close(struct snapshot_store *store)
{
    if (store->started) {
        (void)pthread_mutex_lock(&store->lock);
        store->stopping = true;
        (void)pthread_cond_signal(&store->work);
        (void)pthread_mutex_unlock(&store->lock);
        (void)pthread_join(store->thread, NULL);
        store->started = false;
    }
    file_close(&store->lock_fd);
}

void snapshot_disk_add(struct snapshot_store *store, struct kept *kept)
{
    kept->next = NULL;
    if (store->last) {
        store->last->next = kept;
    } else {
        store->first = kept;
    }
    store->last = kept;
    (void)pthread_cond_signal(&store->work);
}

void snapshot_flush(struct snapshot_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    while (store->first || store->writing) {
        (void)pthread_cond_wait(&store->idle, &store->lock);
    }
    (void)pthread_mutex_unlock(&store->lock);
}

void snapshot_disk_remove(struct snapshot_store *store, struct kept *kept)
{
    if (!store->started) { /* at the start, while the files are checked */
        do_remove(store, kept);
        return;
    }
    (void)pthread_mutex_lock(&store->lock);
    snapshot_disk_add(store, kept);
    (void)pthread_mutex_unlock(&store->lock);
}

int snapshot_disk_read(const struct kept *kept, uint64_t offset, void *out, size_t size,
                       struct err *err)
{
    char path[PATH_MAX];
    struct disk_watch *disk = kept->store->disk;
    name_file(kept->store, &kept->snapshot.holding, path);
    FD_AUTO int fd = -1;
    const size_t call = disk_watch_begin(disk, "read a snapshot", size, clock_now_ms());
    int rc = open_snapshot(path, &fd, err);
    rc = rc ? rc : file_read_at(fd, out, size, offset, err);
    disk_watch_end(disk, call);
    return rc;
}
