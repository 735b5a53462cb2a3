#include "coordinator/relaying.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "coordinator/coordinator.h"
#include "net/relay.h"

/* Every plan has a key of its own, which follows from its id: the relay knows nothing of plans. On
 * the relay's thread; the key of tickets does not change. */
static bool find_key(void *arg, const char *name, uint8_t out[HASH_SIZE])
{
    const uint8_t *ticket_key = arg;
    const char *plan = strchr(name, '.');
    if (!plan) {
        return false;
    }
    relay_key(ticket_key, plan + 1, out);
    return true;
}

int relaying_open(struct coordinator *coordinator, struct err *err)
{
    const struct coordinator_config *config = coordinator->config;
    const struct relay_config relay = {
        .listen = config->relay_address, .key = find_key, .arg = coordinator->ticket_key};
    if (config->relay_address.length == 0) {
        return 0;
    }
    const int rc = relay_open(&relay, &coordinator->relay, err);
    if (rc == ERR_NETWORK && config->relay[0] == '\0') {
        log_warn("relay_off", "address=%s error=%s hint=\"--relay names another address\"",
                 config->relay_address.text, log_quote(err->text).text);
        *err = (struct err){.code = 0};
        return 0;
    }
    if (rc) {
        return err_wrap(err, "--relay");
    }
    log_info("relay_listening", "address=%s", relay_address(coordinator->relay)->text);
    return 0;
}

int relaying_port(const struct coordinator *coordinator)
{
    return coordinator->relay ? relay_address(coordinator->relay)->port : 0;
}

void relaying_close(struct coordinator *coordinator)
{
    if (coordinator->relay) {
        const struct relay_counts counts = relay_counts(coordinator->relay);
        log_info("relay_closed", "streams=%" PRIu64 " bytes=%" PRIu64 " refused=%" PRIu64,
                 counts.joined, counts.bytes, counts.refused);
        relay_close(&coordinator->relay);
    }
}
