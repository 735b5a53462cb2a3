/* A machine that joins knows only a URL and a token. The token contains the SHA-256 of the
 * coordinator's CA, so the CA may come from an untrusted server (GET /ca.pem). The CA then verifies
 * all further calls, regardless of the clock. Files change only after the coordinator has accepted
 * the key, so a failure leaves an earlier configuration unchanged. */
#include "agent/join.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/config.h"
#include "agent/identity.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/secret.h"
#include "base/user.h"
#include "net/http_client.h"
#include "schema/problem.h"
#include "schema/token.h"
#include "schema/wire.h"

#define CALL_MS 30000
#define CONNECT_MS 10000
#define REPLY_BYTES_MAX 65536
#define CONFIG_BYTES_MAX 65536
#define AUTHORITY_FILE "ca.pem"
#define PEER_PORT 7411
/* A smaller difference between clocks does not matter for any certificate. */
#define CLOCK_MS_MAX (INT64_C(300) * 1000)

struct joining {
    struct config config;
    struct join_token token;
    struct identity identity;
    struct buf authority; /* CA as PEM; empty: the coordinator has none of its own */
    struct tls_client tls;
    struct http_client *client;
    struct buf reply;
};

static void joining_done(struct joining **pointer)
{
    struct joining *joining = *pointer;
    if (joining) {
        http_client_free(&joining->client);
        identity_done(&joining->identity);
        buf_done(&joining->authority);
        buf_done(&joining->reply);
        explicit_bzero(&joining->token, sizeof(joining->token));
        config_done(&joining->config);
        free(joining);
        *pointer = NULL;
    }
}

/* ---- the token ---- */

/* Copy the word and overwrite it: other users can read the command lines of all processes. */
static void take_word(char *word, char out[JOIN_TOKEN_SIZE + 1])
{
    (void)snprintf(out, JOIN_TOKEN_SIZE + 1, "%s", word);
    memset(word, '*', strlen(word));
}

static int take_line(char out[JOIN_TOKEN_SIZE + 1], struct err *err)
{
    size_t used = 0;
    ssize_t got = 1;
    if (isatty(STDIN_FILENO)) {
        fprintf(stderr, "Token: ");
    }
    while (used < JOIN_TOKEN_SIZE && (got = read(STDIN_FILENO, out + used, 1)) == 1 &&
           out[used] != '\n') {
        used++;
    }
    out[used] = '\0';
    return used > 0 ? 0
                    : err_set(err, ERR_INVALID, "no TOKEN in the command line or standard input");
}

static int read_token(char *word, struct join_token *out, struct err *err)
{
    char text[JOIN_TOKEN_SIZE + 1];
    int rc = 0;
    if (word) {
        take_word(word, text);
    } else {
        rc = take_line(text, err);
    }
    if (rc == 0 && !join_token_read(text, out)) {
        rc = err_set(err, ERR_INVALID,
                     "TOKEN has not the form pl_...: it is cut off, or no join token; 'paceline "
                     "token create --join' prints one");
    }
    explicit_bzero(text, sizeof(text));
    return rc;
}

/* ---- calls ---- */

/* Make the call and keep its answer as text. */
static int call(struct joining *joining, const struct http_call *what, struct http_result *result,
                struct err *err)
{
    struct http_call http = *what;
    http.reply = &joining->reply;
    http.connect_timeout_ms = CONNECT_MS;
    http.timeout_ms = CALL_MS;
    int rc = http_client_call(joining->client, &http, result, err);
    return rc ? rc : buf_append(&joining->reply, "", 1, err);
}

/* Return an unsuccessful answer as an error for the user. */
static int refused(const struct joining *joining, int status, struct err *err)
{
    char message[MESSAGE_SIZE];
    (void)problem_read(joining->reply.data, joining->reply.size - 1, message);
    return err_set(err, ERR_STATE, "%s answers %d: %s", joining->config.coordinator, status,
                   message[0] ? message : "is it a Paceline coordinator of this version?");
}

/* Fetch the CA from an unverified server, and compare it with the hash in the token. */
static int fetch_authority(struct joining *joining, struct err *err)
{
    static const struct tls_client anybody = {.unverified = true};
    const char *coordinator = joining->config.coordinator;
    struct http_result result;
    char url[URL_SIZE + 16];
    (void)snprintf(url, sizeof(url), "%s/ca.pem", coordinator);
    const struct http_call fetch = {.method = "GET", .url = url, .tls = &anybody};
    int rc = call(joining, &fetch, &result, err);
    if (rc != 0) {
        return rc;
    }
    if (result.status != 200) {
        return refused(joining, result.status, err);
    }
    rc = certificate_take_pinned(joining->reply.data, joining->token.ca_sha256, &joining->authority,
                                 err);
    return rc ? err_wrap(err,
                         "%s is not the coordinator of this token, or somebody stands between: "
                         "nothing was sent to it",
                         coordinator)
              : 0;
}

/* Choose the CA to trust: that of the token, else that of --ca, else the system's. */
static int find_trust(struct joining *joining, struct err *err)
{
    const struct config *config = &joining->config;
    int rc = 0;
    if (config->tls && joining->token.ca_sha256[0]) {
        rc = fetch_authority(joining, err);
    } else if (config->ca[0]) {
        rc = file_read(config->ca, &joining->authority, err);
        rc = rc ? err_wrap(err, "--ca") : 0;
    }
    rc = rc || joining->authority.size == 0 ? rc : buf_append(&joining->authority, "", 1, err);
    joining->tls =
        (struct tls_client){.ca = joining->authority.data,
                            .certificate = joining->identity.certificate.certificate.data,
                            .key = joining->identity.certificate.key.data};
    return rc;
}

static int ask(struct joining *joining, struct join_reply *out, struct err *err)
{
    BUF_AUTO struct buf body;
    struct join_request request = {.protocol = PROTOCOL_VERSION};
    struct http_result result;
    char url[URL_SIZE + 32];
    buf_init(&body, REPLY_BYTES_MAX);
    (void)snprintf(url, sizeof(url), "%s/v1/agent/join", joining->config.coordinator);
    (void)snprintf(request.token, sizeof(request.token), "%s", joining->token.secret);
    (void)snprintf(request.name, sizeof(request.name), "%s", joining->config.name);
    memcpy(request.public_key, joining->identity.public_key, sizeof(request.public_key));
    int rc = wire_write(&join_request_record, &request, &body, err);
    const struct http_call post = {.method = "POST",
                                   .url = url,
                                   .tls = &joining->tls,
                                   .content_type = "application/json",
                                   .body = {{body.data, body.size}}};
    rc = rc ? rc : call(joining, &post, &result, err);
    explicit_bzero(&request, sizeof(request));
    if (body.data) {
        explicit_bzero(body.data, body.size);
    }
    if (rc != 0) {
        return rc;
    }
    if (result.status != 200 && result.status != 201) {
        return refused(joining, result.status, err);
    }
    rc =
        wire_read(&join_reply_record, joining->reply.data, joining->reply.size - 1, out, NULL, err);
    return rc ? err_wrap(err, "the answer of %s", joining->config.coordinator) : 0;
}

/* ---- the configuration ---- */

/* A device whose coordinator is on another machine must be reachable from other machines. */
static void choose_listen(struct config *config, const struct address *own)
{
    const char *host = own->storage.ss_family == AF_INET6 ? "[::]" : "0.0.0.0";
    if (config->tls && !address_is_loopback(own) && address_is_loopback(&config->listen) &&
        config->listen.port == PEER_PORT) {
        (void)snprintf(config->listen_text, sizeof(config->listen_text), "%s:%d", host, PEER_PORT);
    }
}

/* The agent may start in another directory, so paths must be absolute. */
static int make_absolute(char path[CONFIG_PATH_MAX], struct err *err)
{
    char *real = realpath(path, NULL);
    const bool fits = real && strlen(real) < CONFIG_PATH_MAX;
    if (fits) {
        (void)snprintf(path, CONFIG_PATH_MAX, "%s", real);
    }
    free(real);
    return fits ? 0 : err_set(err, ERR_IO, "'%s' has no absolute path", path);
}

static int write_files(struct joining *joining, char path[CONFIG_PATH_MAX], struct err *err)
{
    BUF_AUTO struct buf text;
    struct config *config = &joining->config;
    buf_init(&text, CONFIG_BYTES_MAX);
    int rc = make_absolute(config->state_directory, err);
    if (rc == 0 && config->tls && joining->token.ca_sha256[0]) {
        rc = config_path(config, AUTHORITY_FILE, config->ca, err);
        rc = rc ? rc
                : file_write_atomic(config->ca, joining->authority.data,
                                    joining->authority.size - 1, 0644, err);
    } else if (rc == 0 && config->ca[0]) {
        rc = make_absolute(config->ca, err);
    }
    if (rc == 0 && config->replica_directory[0]) {
        rc = file_make_directory(config->replica_directory, 0700, err);
        rc = rc ? rc : make_absolute(config->replica_directory, err);
    }
    rc = rc ? rc : config_write_joined(config, &text, err);
    rc = rc ? rc : config_path(config, CONFIG_JOINED, path, err);
    return rc ? rc : file_write_atomic(path, text.data, text.size, 0644, err);
}

/* ---- the report ---- */

/* Only output for people depends on the clock of a device. */
static void print_clock(const struct join_reply *reply)
{
    const int64_t own_ms = clock_wall_ms();
    char own[CLOCK_RFC3339_SIZE], theirs[CLOCK_RFC3339_SIZE];
    if (own_ms - reply->time_ms > -CLOCK_MS_MAX && own_ms - reply->time_ms < CLOCK_MS_MAX) {
        return;
    }
    clock_format_rfc3339(own_ms, own);
    clock_format_rfc3339(reply->time_ms, theirs);
    printf("clock: wrong here or there: it is %s here and %s there.\n"
           "    The machine has joined all the same. Set the clock.\n",
           own, theirs);
}

static void print_joined(const struct joining *joining, const struct join_reply *reply,
                         const char *path)
{
    printf("joined: %s\ndevice: %s\nname: %s\nkey: %s\n", joining->config.coordinator,
           reply->device.text, reply->name, joining->identity.public_key);
    print_clock(reply);
    printf("configuration: %s\n", path);
    if (reply->pending) {
        printf("pending: compare the key with that of 'paceline device get %s', then\n"
               "    paceline device accept %s\n",
               reply->name, reply->name);
    }
    printf("\nThe service paceline-agent starts by itself. Where there is none, start the agent:\n"
           "    paceline-agent --state-dir '%s'\n",
           joining->config.state_directory);
}

/* ---- the whole ---- */

/* Do not send a token over a connection that others can read. */
static int check_way(const struct joining *joining, const struct address *own, struct err *err)
{
    const struct config *config = &joining->config;
    if (!config->tls && joining->token.ca_sha256[0]) {
        return err_set(err, ERR_INVALID,
                       "the token is of a coordinator with TLS: use https:// in place of '%s'",
                       config->coordinator);
    }
    if (!config->tls && !address_is_loopback(own) && !config->insecure) {
        return err_set(err, ERR_INVALID,
                       "refusing to send a token to '%s' without TLS: run 'paceline-coordinator "
                       "init' there, or confirm with --insecure",
                       config->coordinator);
    }
    return 0;
}

static int join(struct joining *joining, struct err *err)
{
    struct address own;
    struct join_reply reply = {.pending = false};
    char path[CONFIG_PATH_MAX];
    int rc = address_toward(joining->config.coordinator, &own, err);
    rc = rc ? rc : check_way(joining, &own, err);
    rc = rc ? rc : user_become_owner(joining->config.state_directory, err);
    secret_hide_memory();
    rc = rc ? rc : identity_open(joining->config.state_directory, &joining->identity, err);
    rc = rc == ERR_STATE ? err_wrap(err, "stop the agent before it joins") : rc;
    rc = rc ? rc : http_client_new(&joining->client, err);
    rc = rc ? rc : find_trust(joining, err);
    rc = rc ? rc : ask(joining, &reply, err);
    if (rc != 0) {
        return rc;
    }
    choose_listen(&joining->config, &own);
    rc = write_files(joining, path, err);
    if (rc != 0) {
        return err_wrap(err,
                        "the machine has joined as %s, but its configuration is not written; "
                        "repeat the command",
                        reply.device.text);
    }
    print_joined(joining, &reply, path);
    return fflush(stdout) || ferror(stdout)
               ? err_set(err, ERR_IO, "the machine has joined as %s, but standard output: %s",
                         reply.device.text, strerror(errno))
               : 0;
}

int join_command(int argc, char **argv, bool *misused, struct err *err)
{
    struct joining *joining AUTO(joining_done) = calloc(1, sizeof(*joining));
    char *word = NULL;
    bool done = false;
    if (!joining) {
        return err_set(err, ERR_MEMORY, "join");
    }
    joining->identity.lock = -1;
    certificate_pair_init(&joining->identity.certificate);
    buf_init(&joining->authority, CERTIFICATE_PEM_MAX);
    buf_init(&joining->reply, REPLY_BYTES_MAX);
    int rc = config_read_join(argc, argv, &joining->config, &word, &done, err);
    if (rc == 0 && !done) {
        log_set_level(joining->config.log_level);
        rc = read_token(word, &joining->token, err);
    }
    *misused = rc != 0;
    return rc || done ? rc : join(joining, err);
}
