#include "coordinator/init.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/file.h"
#include "base/secret.h"
#include "base/user.h"
#include "coordinator/access/setup.h"
#include "coordinator/certificates.h"
#include "coordinator/config.h"
#include "coordinator/store/state.h"
#include "net/origin.h"

#define NAME_BYTES 256

struct options {
    char state_dir[512];
    struct conf_list name;
    bool no_tls;
};

static const struct conf_option option_table[] = {
    {.name = "state-dir",
     .type = CONF_TEXT,
     .offset = offsetof(struct options, state_dir),
     .size = sizeof(((struct options *)0)->state_dir),
     .value_name = "DIR",
     .help = "As the coordinator's. Default: $XDG_STATE_HOME/paceline/coordinator."},
    {.name = "name",
     .type = CONF_LIST,
     .offset = offsetof(struct options, name),
     .value_name = "NAME",
     .help = "Host name or address by which agents and users call the coordinator. Repeatable.\n"
             "Where there are certificates, it is added to that of the server, and nothing else\n"
             "changes. Default: the host name and the addresses of this machine."},
    {.name = "no-tls",
     .type = CONF_FLAG,
     .offset = offsetof(struct options, no_tls),
     .help = "Make only another token: the certificates are there, or a reverse proxy on this\n"
             "machine speaks TLS. Default: off."},
};

static const struct conf_program program = {
    .name = "paceline-coordinator init",
    .summary = "Make certificates and the first token; print them and what to do next.",
    .usage = "",
    .options = option_table,
    .option_count = sizeof(option_table) / sizeof(option_table[0]),
};

/* The names of the server certificate. */
struct names {
    char text[CERTIFICATE_NAMES_MAX][NAME_BYTES];
    const char *item[CERTIFICATE_NAMES_MAX];
    size_t count;
};

/* Once; false: it does not fit. */
static bool add_name(struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->item[i], name) == 0) {
            return true;
        }
    }
    if (names->count == CERTIFICATE_NAMES_MAX || strlen(name) >= NAME_BYTES) {
        return false;
    }
    memcpy(names->text[names->count], name, strlen(name) + 1);
    names->item[names->count] = names->text[names->count];
    names->count++;
    return true;
}

static void add_address(struct names *names, const struct sockaddr *address)
{
    char text[INET6_ADDRSTRLEN] = "";
    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, address, sizeof(v4));
        (void)inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, address, sizeof(v6));
        if (!IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) {
            (void)inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
        }
    }
    if (text[0]) {
        (void)add_name(names, text); /* found, not asked for: as many as fit */
    }
}

/* The host name and the addresses of the interfaces that are up. */
static void find_names(struct names *names)
{
    char host[NAME_BYTES] = "";
    struct ifaddrs *first = NULL;
    struct err err;
    if (gethostname(host, sizeof(host) - 1) == 0 && origin_check_name(host, &err) == 0) {
        (void)add_name(names, host);
    }
    if (getifaddrs(&first)) {
        return;
    }
    for (const struct ifaddrs *at = first; at; at = at->ifa_next) {
        if (at->ifa_addr && (at->ifa_flags & IFF_UP) && !(at->ifa_flags & IFF_LOOPBACK)) {
            add_address(names, at->ifa_addr);
        }
    }
    freeifaddrs(first);
}

static int add_given(struct names *names, const struct conf_list *given, struct err *err)
{
    for (size_t i = 0; i < given->count; i++) {
        if (!add_name(names, given->item[i])) {
            return err_set(err, ERR_LIMIT,
                           "--name '%.64s': a certificate has at most %d names of at most %d bytes",
                           given->item[i], CERTIFICATE_NAMES_MAX, NAME_BYTES - 1);
        }
    }
    return 0;
}

static int collect_names(struct names *names, const struct conf_list *given, struct err *err)
{
    static const char *const own[] = {"localhost", "127.0.0.1", "::1"};
    const int rc = add_given(names, given, err);
    if (given->count == 0) {
        find_names(names);
    }
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        (void)add_name(names, own[i]); /* a certificate full of given names does without */
    }
    return rc;
}

/* What init has made, to show once. */
struct made {
    char fingerprint[HASH_TEXT_SIZE]; /* "": no certificates */
    char admin[TOKEN_TEXT_SIZE];
    struct join_token join;
};

static void print_next(const struct options *options, const struct names *names,
                       const struct made *made)
{
    const char *host = names->item[0];
    const char *bracket = strchr(host, ':') ? "[" : "";
    const char *end = strchr(host, ':') ? "]" : "";
    char join[JOIN_TOKEN_SIZE];
    join_token_write(&made->join, join);
    printf("\nStart the coordinator, by its service or by hand:\n"
           "    systemctl enable --now paceline-coordinator\n"
           "    paceline-coordinator --state-dir '%s' --listen 0.0.0.0:7410\n"
           "On each machine that shall train, within a day and on at most %d, run this, and\n"
           "'paceline-agent' where no service starts it:\n"
           "    paceline-agent join https://%s%s%s:7410 %s\n"
           "('paceline token create --join' makes further tokens). Log in to it, or ask by curl:\n"
           "    paceline login --ca-sha256 %s https://%s%s%s:7410\n"
           "    curl --cacert '%s/tls/ca.pem' -H 'Authorization: Bearer TOKEN' "
           "https://%s%s%s:7410/v1/devices\n",
           options->state_dir, SETUP_JOIN_USES, bracket, host, end, join, made->fingerprint,
           bracket, host, end, options->state_dir, bracket, host, end);
    explicit_bzero(join, sizeof(join));
}

static void print_made(const struct options *options, const struct names *names,
                       const struct made *made)
{
    if (!options->no_tls) {
        printf("certificates: %s/tls\nca_sha256: %s\nnames:", options->state_dir,
               made->fingerprint);
        for (size_t i = 0; i < names->count; i++) {
            printf(" %s", names->item[i]);
        }
        printf("\n");
    }
    printf("token: %s\n", made->admin);
    printf("The token is shown once: it may do everything. Only its hash is stored.\n");
    if (!options->no_tls) {
        print_next(options, names, made);
    }
}

/* What was printed, and can be read nowhere else, has arrived. */
static int check_printed(const char *remedy, struct err *err)
{
    return fflush(stdout) || ferror(stdout)
               ? err_set(err, ERR_IO, "standard output: %s; %s", strerror(errno), remedy)
               : 0;
}

/* The certificates become visible last, in one step: a failure before leaves nothing half made. */
static int make(const struct options *options, struct err *err)
{
    struct names names = {.count = 0};
    struct made made = {.fingerprint = ""};
    const int64_t wall_ms = clock_wall_ms();
    int rc = 0;
    if (!options->no_tls) {
        rc = collect_names(&names, &options->name, err);
        rc = rc ? rc
                : certificates_draft(options->state_dir, names.item, names.count, wall_ms,
                                     made.fingerprint, err);
    }
    if (rc) {
        return rc;
    }
    memcpy(made.join.ca_sha256, made.fingerprint, sizeof(made.join.ca_sha256));
    rc = access_make_tokens(options->state_dir, made.admin,
                            options->no_tls ? NULL : made.join.secret, err);
    if (!rc && !options->no_tls) {
        rc = certificates_keep(options->state_dir, err);
    }
    if (rc) {
        certificates_drop(options->state_dir);
        return rc;
    }
    print_made(options, &names, &made);
    explicit_bzero(&made, sizeof(made));
    return check_printed("the token was not shown: 'paceline-coordinator init --no-tls' makes "
                         "another",
                         err);
}

static void print_name(void *arg, const char *name)
{
    (void)arg;
    printf(" %s", name);
}

/* Further names for the server certificate. A running coordinator, which renews it, would overwrite
 * them. */
static int add_names(const struct options *options, struct err *err)
{
    AUTO(state_close) struct state_store *state = NULL;
    struct certificates certificates;
    struct names names = {.count = 0};
    struct coordinator_config config = {0};
    (void)snprintf(config.state_dir, sizeof(config.state_dir), "%s", options->state_dir);
    int rc = state_open(options->state_dir, &state, err);
    rc = rc == ERR_STATE ? err_wrap(err, "stop the coordinator first") : rc;
    rc = rc ? rc : add_given(&names, &options->name, err);
    rc = rc ? rc : certificates_open(&config, clock_wall_ms(), &certificates, err);
    if (rc) {
        return rc;
    }
    rc = certificates_add_names(&certificates, names.item, names.count, clock_wall_ms(), err);
    if (!rc) {
        printf("certificate: %s/tls/server.pem\nnames:", options->state_dir);
        rc = certificate_each_name(certificates.server.certificate.data, print_name, NULL, err);
        printf("\n");
    }
    certificates_close(&certificates);
    return rc ? rc : check_printed("the names are in the certificate", err);
}

static int run(const struct options *options, struct err *err)
{
    int rc = user_become_owner(options->state_dir, err);
    secret_hide_memory();
    rc = rc ? rc : file_make_directory(options->state_dir, 0700, err);
    if (rc) {
        return rc;
    }
    const bool adds =
        !options->no_tls && options->name.count > 0 && certificates_exist(options->state_dir);
    return adds ? add_names(options, err) : make(options, err);
}

int init_run(int argc, char **argv, bool *misused, struct err *err)
{
    struct options options = {.no_tls = false};
    struct conf_list positional = {0};
    bool done = false;
    int rc = conf_parse(&program, argc, argv, &options, &positional, &done, err);
    *misused = rc != 0;
    if (!rc && !done && !options.state_dir[0]) {
        rc = file_default_state_directory("coordinator", options.state_dir,
                                          sizeof(options.state_dir), err);
    }
    if (!rc && !done) {
        rc = run(&options, err);
    }
    conf_list_done(&options.name);
    conf_list_done(&positional);
    return rc;
}
