#include "schema/peer.h"

/* A document of many peers stays small if unneeded members are left out. */
#define LEFT_OUT (FIELD_NULLABLE | FIELD_SKIP_EMPTY)

static const struct field peer_fields[] = {
    MEMBER_FORM(struct peer, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_FORM(struct peer, url, "url", LEFT_OUT, &url_form),
    MEMBER_FORM(struct peer, ticket, "ticket", LEFT_OUT, &word_form),
    MEMBER_FORM(struct peer, codec, "codec", LEFT_OUT, &word_form),
    MEMBER_FORM(struct peer, public_key, "public_key", LEFT_OUT, &public_key_form, .since = 4,
                .about = "With an https URL: the key of the only device that is trusted there."),
    MEMBER_FORM(struct peer, relay_ticket, "relay_ticket", LEFT_OUT, &word_form, .since = 4,
                .about = "Lets call the device through a relay."),
};
const struct record peer_record =
    RECORD_WITH(struct peer, "peer", peer_fields, .about = "Another device of the plan.");
