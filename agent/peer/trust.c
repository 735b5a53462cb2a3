#include "agent/peer/trust.h"

#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/parse.h"

/* Only output for people depends on the clock. A clock is usually wrong by years or not at all. */
static void check_clock(const struct certificate_times *times)
{
    const int64_t now_s = clock_wall_ms() / 1000;
    if (now_s < times->begin || now_s > times->end) {
        char clock[CLOCK_RFC3339_SIZE], made[CLOCK_RFC3339_SIZE];
        clock_format_rfc3339(now_s * 1000, clock);
        clock_format_rfc3339(times->begin * 1000, made);
        log_warn("clock_wrong",
                 "clock=%s certificate_of_ca_begins=%s hint=\"set the clock of this device; the "
                 "coordinator is trusted all the same\"",
                 clock, made);
    }
}

int trust_open(const char *ca_file, const struct certificate_pair *own, struct trust *out,
               struct err *err)
{
    *out = (struct trust){.tls = true};
    buf_init(&out->ca, CERTIFICATE_PEM_MAX);
    out->server = (struct tls_server){own->certificate.data, own->key.data};
    out->coordinator.certificate = own->certificate.data;
    out->coordinator.key = own->key.data;
    if (ca_file[0] == '\0') {
        return 0;
    }
    struct certificate_times times;
    int rc = file_read(ca_file, &out->ca, err);
    rc = rc ? rc : certificate_read_times(out->ca.data ? out->ca.data : "", &times, err);
    if (rc) {
        trust_done(out);
        return err_wrap(err, "--ca '%s'", ca_file);
    }
    out->coordinator.ca = out->ca.data;
    check_clock(&times);
    return 0;
}

void trust_done(struct trust *trust)
{
    buf_done(&trust->ca);
    *trust = (struct trust){.tls = false};
}

void trust_peer(const struct trust *trust, const char *public_key, struct tls_client *out)
{
    *out = (struct tls_client){.ca = NULL};
    if (trust && trust->tls) {
        *out = (struct tls_client){
            .certificate = trust->server.certificate, .key = trust->server.key, .pinned = true};
        if (parse_hex(public_key, out->server_key, HASH_SIZE, NULL)) {
            memset(out->server_key, 0, HASH_SIZE); /* matches no key */
        }
    }
}
