/* certificates.h: the certificates that the coordinator serves with: those of its own authority in
 * STATE_DIR/tls (ca.pem, ca.key, server.pem, server.key), or a pair of files that the user brought.
 * For the program; the loop's thread only. */
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
    char directory[CERTIFICATES_PATH_MAX];   /* of the authority; "": the user's files */
    const char *certificate_file, *key_file; /* the user's; NULL: those of the authority */
    struct certificate_pair authority, server;
    char fingerprint[HASH_TEXT_SIZE]; /* of the authority; "": none */
    struct tls_server served;         /* its texts are of `server`; certificate NULL: no TLS */
    struct certificate_times times;
    bool told;                  /* the log says that the clock is wrong */
    char failure[ERR_TEXT_MAX]; /* that the log says; "": the last look had none */
};

/* Whether STATE_DIR/tls is there. */
bool certificates_exist(const char *state_dir);
/* Make an authority and a server certificate for the names in STATE_DIR/tls.new. Nothing is used
 * before certificates_keep. ERR_EXISTS: the directory has certificates. */
NODISCARD int certificates_draft(const char *state_dir, const char *const *name, size_t count,
                                 int64_t wall_ms, char fingerprint[HASH_TEXT_SIZE],
                                 struct err *err);
/* Make the draft the state directory's certificates, in one step. */
NODISCARD int certificates_keep(const char *state_dir, struct err *err);
void certificates_drop(const char *state_dir);

/* Read what the options and the state directory say, and renew what is due. No TLS is a success.
 * The configuration stays in place until certificates_close. */
NODISCARD int certificates_open(const struct coordinator_config *config, int64_t wall_ms,
                                struct certificates *out, struct err *err);
void certificates_close(struct certificates *certificates);
/* Make a new server certificate when a third of its time is left; *renewed says whether. Without
 * success the old one stays in use. The user's files are not renewed. */
NODISCARD int certificates_renew(struct certificates *certificates, int64_t wall_ms, bool *renewed,
                                 struct err *err);
/* Make a new server certificate at once, for its names and these. The authority stays. ERR_INVALID,
 * ERR_LIMIT: a name is invalid, or there are too many. Nothing has changed then. */
NODISCARD int certificates_add_names(struct certificates *certificates, const char *const *name,
                                     size_t count, int64_t wall_ms, struct err *err);

/* Now and then: renew what is due, or read the user's files if they have changed; let the server
 * use it, and log it. After a failure the server goes on with the pair that it has. */
void certificates_look(struct certificates *certificates, struct http_server *server,
                       int64_t wall_ms);

#endif
