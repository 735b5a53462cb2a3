#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "coordinator/store/backup.h"
#include "coordinator/store/backup_parts.h"
#include "coordinator/store/blobs.h"
#include "coordinator/store/owner.h"
#include "coordinator/store/path.h"

#define DRAFT_NAME "restore.partial"
#define QUEUE_BYTES (16u << 20)
#define UPLOADS_MAX 64 /* not yet durable */
#define OVERHEAD_SHARE 64
#define OVERHEAD_BYTES (16u << 20) /* with the reserve of state.db */

/* The parts of a state directory in the order in which they appear. state.db is last, because a
 * coordinator starts with state.db alone and rejects blobs without it. */
static const char *const part_names[] = {"tls", "checkpoints.db", "state.db"};
#define PARTS (sizeof(part_names) / sizeof(part_names[0]))

struct restore {
    const char *directory;
    char draft[PATH_MAX]; /* DIRECTORY/restore.partial */
    struct archive *archive;
    struct blob_store *blobs;
    uid_t user; /* of the directory */
    gid_t group;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t uploads; /* that are not durable yet */
    struct err failure;
};

static int fail(const char *what, const char *path, struct err *err)
{
    const int reason = errno;
    return err_set(err, err_from_errno(reason) == ERR_FULL ? ERR_FULL : ERR_IO, "%s '%s': %s", what,
                   path, strerror(reason));
}

static bool exists(const char *directory, const char *name)
{
    char path[PATH_MAX];
    return path_join(path, directory, name, NULL) == 0 && access(path, F_OK) == 0;
}

/* ---- the draft of the directory ---- */

static void remove_files(const char *directory)
{
    DIR *files = opendir(directory);
    const struct dirent *entry;
    while (files && (entry = readdir(files))) {
        char path[PATH_MAX];
        if (path_join(path, directory, entry->d_name, NULL) == 0) {
            (void)unlink(path); /* directories stay */
        }
    }
    if (files) {
        (void)closedir(files);
    }
    (void)rmdir(directory);
}

static void remove_draft(const struct restore *restore)
{
    char tls[PATH_MAX];
    if (path_join(tls, restore->draft, "tls", NULL) == 0) {
        remove_files(tls);
    }
    remove_files(restore->draft);
}

/* Never replace state that no restore has made. A restore that was interrupted between two parts
 * has left its draft, but no state.db. */
static int check_unused(const struct restore *restore, struct err *err)
{
    const bool interrupted = exists(restore->directory, DRAFT_NAME);
    for (size_t i = 0; i < PARTS; i++) {
        const bool is_state = i + 1 == PARTS;
        if (exists(restore->directory, part_names[i]) && (is_state || !interrupted)) {
            return err_set(err, ERR_EXISTS,
                           "'%s' holds '%s' already: restore into an empty directory, or move the "
                           "old state away",
                           restore->directory, part_names[i]);
        }
    }
    return 0;
}

/* Make an empty draft. Parts that an interrupted restore has published go with its draft. */
static int make_draft(struct restore *restore, struct err *err)
{
    struct stat status;
    int rc = check_unused(restore, err);
    if (rc == 0 && stat(restore->directory, &status)) {
        return fail("look at", restore->directory, err);
    }
    for (size_t i = 0; rc == 0 && i + 1 < PARTS; i++) {
        char from[PATH_MAX], to[PATH_MAX];
        rc = path_join(from, restore->directory, part_names[i], err);
        rc = rc ? rc : path_join(to, restore->draft, part_names[i], err);
        if (rc == 0 && access(from, F_OK) == 0 && rename(from, to)) {
            rc = fail("rename to", to, err);
        }
    }
    if (rc) {
        return rc;
    }
    restore->user = status.st_uid;
    restore->group = status.st_gid;
    remove_draft(restore);
    return file_make_directory(restore->draft, 0700, err);
}

/* ---- contents ---- */

static int append_file(void *arg, const void *data, size_t size, struct err *err)
{
    return file_draft_append(arg, data, size, err);
}

/* File names come from the backup, so only those of certificates are accepted. */
static int check_name(const char *name, struct err *err)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const bool is_tls = strncmp(name, "tls/", 4) == 0;
    if (!is_tls || name[4] == '.' || name[4] == '\0' ||
        name[4 + strspn(name + 4, letters)] != '\0') {
        return err_set(err, ERR_FORMAT, "the backup names the file '%.100s'", name);
    }
    return 0;
}

static int restore_file(struct restore *restore, const struct archive_content *content,
                        const char *name, unsigned mode, struct err *err)
{
    char path[PATH_MAX];
    struct file_draft draft;
    int rc = path_join(path, restore->draft, name, err);
    rc = rc ? rc : file_draft_open(&draft, path, mode, err);
    if (rc) {
        return rc;
    }
    rc = archive_read(restore->archive, content, append_file, &draft, err);
    rc = rc ? rc : file_draft_keep(&draft, err);
    file_draft_drop(&draft);
    return rc;
}

static int restore_certificate(struct restore *restore, const struct archive_content *content,
                               struct err *err)
{
    char tls[PATH_MAX];
    int rc = check_name(content->name, err);
    rc = rc ? rc : path_join(tls, restore->draft, "tls", err);
    rc = rc ? rc : file_make_directory(tls, 0700, err);
    return rc ? rc : restore_file(restore, content, content->name, content->mode & 0777, err);
}

static void upload_done(void *arg, int code, const char *sha256, uint64_t size,
                        const struct err *err)
{
    struct restore *restore = arg;
    (void)sha256;
    (void)size;
    (void)pthread_mutex_lock(&restore->lock);
    restore->uploads--;
    if (code && !restore->failure.code) {
        restore->failure = *err;
        restore->failure.code = code;
    }
    (void)pthread_cond_signal(&restore->changed);
    (void)pthread_mutex_unlock(&restore->lock);
}

/* Wait until at most `limit` uploads are not durable. Return the first failure of any. */
static int wait_for_uploads(struct restore *restore, size_t limit, struct err *err)
{
    (void)pthread_mutex_lock(&restore->lock);
    while (restore->uploads > limit) {
        (void)pthread_cond_wait(&restore->changed, &restore->lock);
    }
    const int rc = restore->failure.code;
    if (rc) {
        *err = restore->failure;
    }
    (void)pthread_mutex_unlock(&restore->lock);
    return rc;
}

static int append_blob(void *arg, const void *data, size_t size, struct err *err)
{
    return blob_upload_write_all(arg, data, size, err);
}

static int restore_blob(struct restore *restore, const struct archive_content *content,
                        struct err *err)
{
    struct blob_upload *upload = NULL;
    int rc = wait_for_uploads(restore, UPLOADS_MAX - 1, err);
    rc = rc ? rc : blob_upload_open(restore->blobs, content->name, content->size, &upload, err);
    if (rc) {
        return rc;
    }
    rc = archive_read(restore->archive, content, append_blob, upload, err);
    if (rc) {
        blob_upload_abort(upload);
        return rc;
    }
    (void)pthread_mutex_lock(&restore->lock);
    restore->uploads++;
    (void)pthread_mutex_unlock(&restore->lock);
    blob_upload_finish(upload, upload_done, restore);
    return 0;
}

static int restore_content(struct restore *restore, const struct archive_content *content,
                           struct err *err)
{
    switch (content->kind) {
    case ARCHIVE_STATE: return restore_file(restore, content, "state.db", 0600, err);
    case ARCHIVE_FILE: return restore_certificate(restore, content, err);
    case ARCHIVE_BLOB: return restore_blob(restore, content, err);
    }
    return 0;
}

static int fill(struct restore *restore, uint64_t min_free_bytes, struct err *err)
{
    const struct blob_config config = {
        .directory = restore->draft, .min_free_bytes = min_free_bytes, .queue_bytes = QUEUE_BYTES};
    size_t count = 0;
    const struct archive_content *content = archive_contents(restore->archive, &count);
    int rc = blob_open(&config, &restore->blobs, err);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = restore_content(restore, &content[i], err);
    }
    struct err later = {0};
    const int uploaded = wait_for_uploads(restore, 0, &later);
    if (restore->blobs) {
        blob_close(&restore->blobs);
    }
    if (rc == 0 && uploaded) {
        rc = err_set(err, uploaded, "%s", later.text);
    }
    return rc;
}

/* ---- publishing ---- */

/* Files that root restores belong to the owner of the directory. */
static int give_away(const struct restore *restore, const char *path, struct err *err)
{
    return geteuid() == 0 && lchown(path, restore->user, restore->group)
               ? fail("change the owner of", path, err)
               : 0;
}

static int give_away_certificates(const struct restore *restore, struct err *err)
{
    char path[PATH_MAX], name[ARCHIVE_NAME_SIZE];
    size_t count = 0;
    const struct archive_content *content = archive_contents(restore->archive, &count);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        if (content[i].kind == ARCHIVE_FILE) {
            (void)snprintf(name, sizeof(name), "%s", content[i].name);
            rc = path_join(path, restore->draft, name, err);
            rc = rc ? rc : give_away(restore, path, err);
        }
    }
    return rc;
}

static int publish(const struct restore *restore, struct err *err)
{
    int rc = give_away_certificates(restore, err);
    for (size_t i = 0; rc == 0 && i < PARTS; i++) {
        char from[PATH_MAX], to[PATH_MAX];
        rc = path_join(from, restore->draft, part_names[i], err);
        rc = rc ? rc : path_join(to, restore->directory, part_names[i], err);
        if (rc || access(from, F_OK)) {
            continue; /* there are no certificates without init */
        }
        rc = give_away(restore, from, err);
        if (rc == 0 && rename(from, to)) {
            rc = fail("rename to", to, err);
        }
        rc = rc ? rc : file_sync_directory_of(to, err);
    }
    return rc;
}

static int run(struct restore *restore, const char *path, uint64_t min_free_bytes,
               struct backup_report *report, struct err *err)
{
    struct archive_facts facts;
    int rc = archive_open(path, &restore->archive, &facts, err);
    if (rc) {
        return rc;
    }
    if (backup_check_contents(restore->archive, &facts, report, err)) {
        return err_wrap(err, "'%s'", path);
    }
    FD_AUTO int owner = -1;
    rc = file_make_directory(restore->directory, 0700, err);
    rc = rc ? rc : owner_take(restore->directory, "state.lock", "coordinator", &owner, err);
    rc = rc ? rc
            : backup_check_room(restore->directory,
                                report->bytes + report->bytes / OVERHEAD_SHARE + OVERHEAD_BYTES,
                                min_free_bytes, err);
    rc = rc ? rc : path_join(restore->draft, restore->directory, DRAFT_NAME, err);
    rc = rc ? rc : make_draft(restore, err);
    if (rc) {
        return rc;
    }
    rc = fill(restore, min_free_bytes, err);
    if (rc) {
        remove_draft(restore);
        return rc;
    }
    if (geteuid() == 0 && fchown(owner, restore->user, restore->group)) {
        return fail("change the owner of the lock of", restore->directory, err);
    }
    rc = publish(restore, err);
    if (rc == 0) {
        remove_draft(restore);
    }
    return rc; /* a remaining draft shows that the published parts are not the user's */
}

int backup_restore(const char *path, const char *directory, uint64_t min_free_bytes,
                   struct backup_report *out, struct err *err)
{
    struct restore restore = {.directory = directory,
                              .lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    struct backup_report report = {0};
    const int rc = run(&restore, path, min_free_bytes, &report, err);
    archive_free(&restore.archive);
    if (rc == 0) {
        *out = report;
    }
    return rc;
}
