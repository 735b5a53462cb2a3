#include "agent/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/file.h"
#include "base/parse.h"
#include "net/hash.h"

#define BOOT_BYTES 10

static int join(char out[PATH_MAX], const char *directory, const char *name, struct err *err)
{
    const int length = snprintf(out, PATH_MAX, "%s/%s", directory, name);
    return length > 0 && length < PATH_MAX
               ? 0
               : err_set(err, ERR_LIMIT, "the path '%s' is too long", directory);
}

static int take_lock(const char *directory, int *out, struct err *err)
{
    char path[PATH_MAX];
    int rc = join(path, directory, "lock", err);
    if (rc != 0) {
        return rc;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_set(err, err_from_errno(errno), "open '%s': %s", path, strerror(errno));
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        const int failed = errno;
        file_close(&fd);
        return failed == EWOULDBLOCK
                   ? err_set(err, ERR_STATE,
                             "another agent uses '%s': give each its own --state-dir", directory)
                   : err_set(err, err_from_errno(failed), "lock '%s': %s", path, strerror(failed));
    }
    *out = fd;
    return 0;
}

static int make_key(const char *path, uint8_t seed[HASH_SIZE], struct err *err)
{
    uint8_t public_key[HASH_SIZE];
    char text[2 * HASH_SIZE + 2];
    int rc = key_make(seed, public_key, err);
    if (rc != 0) {
        return rc;
    }
    parse_to_hex(seed, HASH_SIZE, text);
    text[2 * HASH_SIZE] = '\n';
    rc = file_write_atomic(path, text, 2 * HASH_SIZE + 1, 0600, err);
    explicit_bzero(text, sizeof(text));
    return rc;
}

static int read_key(const char *directory, uint8_t seed[HASH_SIZE], struct err *err)
{
    BUF_AUTO struct buf text;
    char path[PATH_MAX];
    buf_init(&text, 4096);
    int rc = join(path, directory, "identity", err);
    rc = rc ? rc : file_read(path, &text, err);
    if (rc == ERR_NOT_FOUND) {
        return make_key(path, seed, err);
    }
    if (rc != 0) {
        return rc;
    }
    if (text.size == 2 * HASH_SIZE + 1 && text.data[2 * HASH_SIZE] == '\n') {
        text.data[2 * HASH_SIZE] = '\0';
        rc = parse_hex(text.data, seed, HASH_SIZE, NULL);
        explicit_bzero(text.data, text.size);
    } else {
        rc = ERR_FORMAT;
    }
    return rc == 0
               ? 0
               : err_set(err, ERR_FORMAT,
                         "'%s' is not an identity: restore it, or remove it to become a new device",
                         path);
}

int identity_open(const char *state_directory, struct identity *out, struct err *err)
{
    uint8_t seed[HASH_SIZE];
    uint8_t public_key[HASH_SIZE];
    uint8_t boot[BOOT_BYTES];
    char boot_text[2 * BOOT_BYTES + 1];
    FD_AUTO int lock = -1;
    int rc = file_make_directory(state_directory, 0700, err);
    rc = rc ? rc : take_lock(state_directory, &lock, err);
    rc = rc ? rc : read_key(state_directory, seed, err);
    rc = rc ? rc : key_public(seed, public_key, err);
    certificate_pair_init(&out->certificate);
    rc = rc ? rc : certificate_make_device(seed, &out->certificate, err);
    explicit_bzero(seed, sizeof(seed));
    rc = rc ? rc : random_bytes(boot, sizeof(boot), err);
    if (rc != 0) {
        certificate_pair_done(&out->certificate);
        return rc;
    }
    parse_to_hex(public_key, HASH_SIZE, out->public_key);
    parse_to_hex(boot, BOOT_BYTES, boot_text);
    (void)snprintf(out->boot, sizeof(out->boot), "boot_%s", boot_text);
    out->lock = lock;
    lock = -1;
    return 0;
}

void identity_done(struct identity *identity)
{
    file_close(&identity->lock);
    certificate_pair_done(&identity->certificate);
}
