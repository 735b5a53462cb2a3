#include "coordinator/certificates.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "coordinator/config.h"
#include "net/http_server.h"

#define DAY_S INT64_C(86400)
#define AUTHORITY_S (20 * 365 * DAY_S)
#define SERVER_S (365 * DAY_S)
#define RENEW_S (SERVER_S / 3)
/* Clients that look at the clock may have one that is late. */
#define SKEW_S DAY_S
/* 2026-01-01: this program is younger, so a clock before it is wrong. */
#define YOUNGEST_S INT64_C(1767225600)

static const char *const file_names[] = {"ca.pem", "ca.key", "server.pem", "server.key"};
#define FILE_COUNT (sizeof(file_names) / sizeof(file_names[0]))
#define FILE_SERVER_PEM 2
#define FILE_SERVER_KEY 3

static void path_of(char out[CERTIFICATES_PATH_MAX], const char *directory, const char *name)
{
    /* Too long a path is truncated, and does not exist. */
    (void)snprintf(out, CERTIFICATES_PATH_MAX, "%.4000s/%s", directory, name);
}

static unsigned mode_of(size_t file)
{
    return strstr(file_names[file], ".key") ? 0600 : 0644;
}

/* ---- making ---- */

/* A clock that is wrong by years still makes certificates that are valid today. */
static struct certificate_times times_from(int64_t wall_ms, int64_t seconds)
{
    const int64_t now_s = wall_ms / 1000 > YOUNGEST_S ? wall_ms / 1000 : YOUNGEST_S;
    return (struct certificate_times){now_s - SKEW_S, now_s + seconds};
}

bool certificates_exist(const char *state_dir)
{
    char path[CERTIFICATES_PATH_MAX];
    path_of(path, state_dir, "tls");
    return access(path, F_OK) == 0;
}

void certificates_drop(const char *state_dir)
{
    char directory[CERTIFICATES_PATH_MAX], path[CERTIFICATES_PATH_MAX];
    path_of(directory, state_dir, "tls.new");
    for (size_t i = 0; i < FILE_COUNT; i++) {
        path_of(path, directory, file_names[i]);
        (void)unlink(path);
    }
    (void)rmdir(directory);
}

static int write_files(const char *directory, const struct certificate_pair *authority,
                       const struct certificate_pair *server, struct err *err)
{
    const struct buf *content[FILE_COUNT] = {&authority->certificate, &authority->key,
                                             &server->certificate, &server->key};
    int rc = file_make_directory(directory, 0700, err);
    for (size_t i = 0; !rc && i < FILE_COUNT; i++) {
        char path[CERTIFICATES_PATH_MAX];
        path_of(path, directory, file_names[i]);
        rc = file_write_atomic(path, content[i]->data, content[i]->size, mode_of(i), err);
    }
    return rc;
}

int certificates_draft(const char *state_dir, const char *const *name, size_t count,
                       int64_t wall_ms, char fingerprint[HASH_TEXT_SIZE], struct err *err)
{
    struct certificate_pair authority AUTO(certificate_pair_done);
    struct certificate_pair server AUTO(certificate_pair_done);
    char directory[CERTIFICATES_PATH_MAX];
    certificate_pair_init(&authority);
    certificate_pair_init(&server);
    if (certificates_exist(state_dir)) {
        return err_set(err, ERR_EXISTS,
                       "'%s/tls' has certificates already, which agents trust; --name adds "
                       "names to that of the server, --no-tls makes another token",
                       state_dir);
    }
    certificates_drop(state_dir);
    const struct certificate_times years = times_from(wall_ms, AUTHORITY_S);
    const struct certificate_times year = times_from(wall_ms, SERVER_S);
    int rc = certificate_make_authority("paceline authority", &years, &authority, err);
    rc = rc ? rc : certificate_make_server(&authority, name, count, &year, &server, err);
    rc = rc ? rc : certificate_fingerprint(authority.certificate.data, fingerprint, err);
    path_of(directory, state_dir, "tls.new");
    rc = rc ? rc : write_files(directory, &authority, &server, err);
    if (rc) {
        certificates_drop(state_dir);
    }
    return rc;
}

int certificates_keep(const char *state_dir, struct err *err)
{
    char from[CERTIFICATES_PATH_MAX], to[CERTIFICATES_PATH_MAX];
    path_of(from, state_dir, "tls.new");
    path_of(to, state_dir, "tls");
    FD_AUTO int directory = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0 || rename(from, to) || fsync(directory)) {
        return err_set(err, err_from_errno(errno), "rename '%s': %s", from, strerror(errno));
    }
    return 0;
}

/* ---- reading ---- */

static int read_pair(const char *certificate, const char *key, struct certificate_pair *out,
                     struct err *err)
{
    int rc = file_read(certificate, &out->certificate, err);
    rc = rc ? rc : file_read(key, &out->key, err);
    rc = rc ? rc : certificate_check(out, err);
    return rc ? err_wrap(err, "certificate '%s' with key '%s'", certificate, key) : 0;
}

static int read_in(const char *directory, const char *certificate, const char *key,
                   struct certificate_pair *out, struct err *err)
{
    char certificate_path[CERTIFICATES_PATH_MAX], key_path[CERTIFICATES_PATH_MAX];
    path_of(certificate_path, directory, certificate);
    path_of(key_path, directory, key);
    return read_pair(certificate_path, key_path, out, err);
}

/* Serve with the pair, which is checked. */
static int serve(struct certificates *certificates, struct err *err)
{
    int rc =
        certificate_read_times(certificates->server.certificate.data, &certificates->times, err);
    certificates->served =
        (struct tls_server){certificates->server.certificate.data, certificates->server.key.data};
    return rc;
}

static void say_times(struct certificates *certificates, int64_t wall_ms)
{
    const struct certificate_times *times = &certificates->times;
    const int64_t now_s = wall_ms / 1000;
    const bool before = now_s<times->begin, after = now_s> times->end;
    if ((before || after) && !certificates->told) {
        char clock[CLOCK_RFC3339_SIZE], bound[CLOCK_RFC3339_SIZE];
        clock_format_rfc3339(wall_ms, clock);
        clock_format_rfc3339((before ? times->begin : times->end) * 1000, bound);
        log_warn("certificate_not_valid",
                 "clock=%s certificate_%s=%s hint=\"%s; agents with --ca connect all the same\"",
                 clock, before ? "begins" : "ended", bound,
                 before ? "set the clock of this machine" : "replace the certificate");
    }
    certificates->told = before || after;
}

/* Once for each failure: it is tried again every minute. */
static void say_failure(struct certificates *certificates, const struct err *err)
{
    if (strcmp(certificates->failure, err->text) != 0) {
        log_warn("certificate_not_renewed", "error=%s", log_quote(err->text).text);
        (void)snprintf(certificates->failure, sizeof(certificates->failure), "%s", err->text);
    }
}

static int open_own(struct certificates *certificates, int64_t wall_ms, struct err *err)
{
    int rc = read_in(certificates->directory, "ca.pem", "ca.key", &certificates->authority, err);
    rc = rc ? rc
            : certificate_fingerprint(certificates->authority.certificate.data,
                                      certificates->fingerprint, err);
    if (rc) {
        return rc;
    }
    rc = read_in(certificates->directory, "server.pem", "server.key", &certificates->server, err);
    if (rc == ERR_INVALID) {
        /* A power cut came between the two files of a renewal: make both again. */
        certificates->times = (struct certificate_times){0};
        rc = 0;
    } else if (!rc) {
        rc = serve(certificates, err);
    }
    if (rc) {
        return rc;
    }
    bool renewed;
    rc = certificates_renew(certificates, wall_ms, &renewed, err);
    if (rc && certificates->served.certificate) {
        say_failure(certificates, err);
        rc = 0;
    }
    return rc;
}

int certificates_open(const struct coordinator_config *config, int64_t wall_ms,
                      struct certificates *out, struct err *err)
{
    certificate_pair_init(&out->authority);
    certificate_pair_init(&out->server);
    out->served = (struct tls_server){0};
    out->certificate_file = out->key_file = NULL;
    out->directory[0] = out->fingerprint[0] = out->failure[0] = '\0';
    out->told = false;
    int rc = 0;
    if (config->tls_cert[0]) {
        out->certificate_file = config->tls_cert;
        out->key_file = config->tls_key;
        rc = read_pair(out->certificate_file, out->key_file, &out->server, err);
        rc = rc ? rc : serve(out, err);
    } else if (certificates_exist(config->state_dir)) {
        path_of(out->directory, config->state_dir, "tls");
        rc = open_own(out, wall_ms, err);
    }
    if (rc) {
        certificates_close(out);
        return rc;
    }
    if (out->served.certificate) {
        say_times(out, wall_ms);
    }
    return 0;
}

void certificates_close(struct certificates *certificates)
{
    certificate_pair_done(&certificates->authority);
    certificate_pair_done(&certificates->server);
    certificates->served = (struct tls_server){0};
}

/* ---- renewing ---- */

struct names {
    char text[CERTIFICATE_NAMES_MAX][256];
    const char *item[CERTIFICATE_NAMES_MAX];
    size_t count;
};

static void take_name(void *arg, const char *name)
{
    struct names *names = arg;
    if (names->count < CERTIFICATE_NAMES_MAX) {
        (void)snprintf(names->text[names->count], sizeof(names->text[0]), "%s", name);
        names->item[names->count] = names->text[names->count];
        names->count++;
    }
}

/* Both files are whole on the disk before either of them gets its name: a full disk leaves the old
 * pair. A power cut between the two names leaves a mixed one, which the next start makes anew. */
static int write_server(const struct certificates *certificates,
                        const struct certificate_pair *server, struct err *err)
{
    static const size_t files[] = {FILE_SERVER_KEY, FILE_SERVER_PEM};
    const struct buf *content[] = {&server->key, &server->certificate};
    struct file_draft draft[2];
    char path[2][CERTIFICATES_PATH_MAX];
    size_t opened = 0;
    int rc = 0;
    for (size_t i = 0; !rc && i < 2; i++) {
        path_of(path[i], certificates->directory, file_names[files[i]]);
        rc = file_draft_open(&draft[i], path[i], mode_of(files[i]), err);
        opened = i + 1;
        rc = rc ? rc : file_draft_append(&draft[i], content[i]->data, content[i]->size, err);
        rc = rc ? rc : file_draft_sync(&draft[i], err);
    }
    for (size_t i = 0; !rc && i < 2; i++) {
        rc = file_draft_keep(&draft[i], err);
    }
    for (size_t i = 0; i < opened; i++) {
        file_draft_drop(&draft[i]);
    }
    return rc;
}

/* Replace the server certificate by one of the same and further names. */
static int replace_server(struct certificates *certificates, struct names *names,
                          const struct certificate_times *times, struct err *err)
{
    struct certificate_pair server;
    certificate_pair_init(&server);
    int rc = certificate_make_server(&certificates->authority, names->item, names->count, times,
                                     &server, err);
    rc = rc ? rc : write_server(certificates, &server, err);
    if (rc) {
        certificate_pair_done(&server);
        return err_wrap(err, "renew '%s/server.pem'", certificates->directory);
    }
    certificate_pair_done(&certificates->server);
    certificates->server = server;
    return serve(certificates, err);
}

int certificates_renew(struct certificates *certificates, int64_t wall_ms, bool *renewed,
                       struct err *err)
{
    struct names names = {.count = 0};
    const int64_t now_s = wall_ms / 1000;
    *renewed = false;
    if (!certificates->directory[0] ||
        (certificates->times.end - now_s > RENEW_S && certificates->times.end > 0)) {
        return 0;
    }
    const struct certificate_times times = times_from(wall_ms, SERVER_S);
    if (times.end <= certificates->times.end) {
        return 0; /* the clock went back */
    }
    int rc = certificate_each_name(certificates->server.certificate.data, take_name, &names, err);
    if (!rc && names.count == 0) {
        rc = err_set(err, ERR_FORMAT, "the certificate has no name");
    }
    rc = rc ? rc : replace_server(certificates, &names, &times, err);
    *renewed = rc == 0;
    return rc;
}

int certificates_add_names(struct certificates *certificates, const char *const *name, size_t count,
                           int64_t wall_ms, struct err *err)
{
    struct names names = {.count = 0};
    struct certificate_times times = times_from(wall_ms, SERVER_S);
    int rc = certificate_each_name(certificates->server.certificate.data, take_name, &names, err);
    for (size_t i = 0; !rc && i < count; i++) {
        size_t same = 0;
        while (same < names.count && strcasecmp(names.item[same], name[i]) != 0) {
            same++;
        }
        if (same == names.count && same == CERTIFICATE_NAMES_MAX) {
            rc = err_set(err, ERR_LIMIT, "'%s': a certificate has at most %d names", name[i],
                         CERTIFICATE_NAMES_MAX);
        } else if (same == names.count) {
            take_name(&names, name[i]);
        }
    }
    times.end = times.end > certificates->times.end ? times.end : certificates->times.end;
    return rc ? rc : replace_server(certificates, &names, &times, err);
}

/* ---- now and then ---- */

static int look_at_own(struct certificates *certificates, struct http_server *server,
                       int64_t wall_ms, bool *renewed, struct err *err)
{
    int rc = certificates_renew(certificates, wall_ms, renewed, err);
    return rc || !*renewed ? rc : http_server_use_certificate(server, &certificates->served, err);
}

static bool is_same(const struct buf *a, const struct buf *b)
{
    return a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

/* The contents are compared, not the times of the files: programs that renew them replace links,
 * or one file after the other. A pair that is half replaced does not fit, until the next look. */
static int look_at_files(struct certificates *certificates, struct http_server *server,
                         bool *renewed, struct err *err)
{
    struct certificate_pair *present = &certificates->server;
    struct certificate_pair next AUTO(certificate_pair_done);
    struct certificate_times times;
    certificate_pair_init(&next);
    int rc = read_pair(certificates->certificate_file, certificates->key_file, &next, err);
    if (rc ||
        (is_same(&next.certificate, &present->certificate) && is_same(&next.key, &present->key))) {
        return rc;
    }
    const struct tls_server offered = {next.certificate.data, next.key.data};
    rc = certificate_read_times(next.certificate.data, &times, err);
    rc = rc ? rc : http_server_use_certificate(server, &offered, err);
    if (!rc) {
        const struct certificate_pair former = *present;
        *present = next;
        next = former;
        certificates->times = times;
        certificates->served = offered;
        *renewed = true;
    }
    return rc;
}

void certificates_look(struct certificates *certificates, struct http_server *server,
                       int64_t wall_ms)
{
    struct err err = {0};
    bool renewed = false;
    if (!certificates->served.certificate) {
        return;
    }
    if (certificates->certificate_file
            ? look_at_files(certificates, server, &renewed, &err)
            : look_at_own(certificates, server, wall_ms, &renewed, &err)) {
        say_failure(certificates, &err);
    } else {
        certificates->failure[0] = '\0';
    }
    if (renewed) {
        char end[CLOCK_RFC3339_SIZE];
        clock_format_rfc3339(certificates->times.end * 1000, end);
        log_info("certificate_renewed", "until=%s", end);
    }
    say_times(certificates, wall_ms);
}
