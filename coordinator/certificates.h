/* certificates.h: the coordinator's TLS certificates: those of its own authority in STATE_DIR/tls
 * (ca.pem, ca.key, server.pem, server.key), or a pair of files that the user provides. For the
 * program; the loop's thread only. */
#ifndef COORDINATOR_CERTIFICATES_H
#define COORDINATOR_CERTIFICATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/certificate.h"
#include "net/tls.h"

struct coordinator_config;
struct http_server;

#define CERTIFICATES_PATH_MAX 4096

struct certificates {
    char directory[CERTIFICATES_PATH_MAX];   /* of the authority; "": the user's files are in use */
    const char *certificate_file, *key_file; /* the user's; NULL: those of the authority */
    struct certificate_pair authority, server;
    char fingerprint[HASH_TEXT_SIZE]; /* of the authority; "": none */
    struct tls_server served; /* its texts are borrowed from `server`; certificate NULL: no TLS */
    struct certificate_times times;
    bool told;                  /* the log already says that the clock is wrong */
    char failure[ERR_TEXT_MAX]; /* the last failure in the log; "": the last look succeeded */
};

/* Return whether STATE_DIR/tls exists. */
bool certificates_exist(const char *state_dir);
/* Make an authority and a server certificate for the names in STATE_DIR/tls.new. Nothing is used
 * before certificates_keep. ERR_EXISTS: the directory has certificates. */
NODISCARD int certificates_draft(const char *state_dir, const char *const *name, size_t count,
                                 int64_t wall_ms, char fingerprint[HASH_TEXT_SIZE],
                                 struct err *err);
/* Make the draft the state directory's certificates, in one step. */
NODISCARD int certificates_keep(const char *state_dir, struct err *err);
void certificates_drop(const char *state_dir);

/* Read the certificates by the options and the state directory, and renew those that are due.
 * Returns 0 without TLS too. The configuration must stay valid until certificates_close. */
NODISCARD int certificates_open(const struct coordinator_config *config, int64_t wall_ms,
                                struct certificates *out, struct err *err);
void certificates_close(struct certificates *certificates);
/* Make a new server certificate when a third of its lifetime is left; *renewed: whether it was
 * made. After a failure the old one stays in use. Never renews the user's files. */
NODISCARD int certificates_renew(struct certificates *certificates, int64_t wall_ms, bool *renewed,
                                 struct err *err);
/* Make a new server certificate at once, for its present names and the given ones. The authority
 * stays. ERR_INVALID: a name is invalid; ERR_LIMIT: too many names. On failure nothing changes. */
NODISCARD int certificates_add_names(struct certificates *certificates, const char *const *name,
                                     size_t count, int64_t wall_ms, struct err *err);

/* Renew certificates that are due, or read the user's files if they have changed; hand the result
 * to the server and log it. After a failure the server keeps its present pair. */
void certificates_look(struct certificates *certificates, struct http_server *server,
                       int64_t wall_ms);

#endif
