#include "cli/version.h"

#include "cli/answer.h"
#include "schema/limits.h"

int version_show(struct session *session, struct err *err)
{
    json_auto_t *both = json_pack("{s:[{s:s,s:s,s:i}]}", "versions", "name", "paceline", "version",
                                  PACELINE_VERSION, "protocol", PROTOCOL_VERSION);
    if (!both) {
        return err_set(err, ERR_MEMORY, "no memory for the versions");
    }
    json_t *server = NULL;
    int rc = session_request(session, err);
    rc = rc ? rc : api_json(&session->api, &server, err);
    if (server) {
        (void)json_array_append_new(json_object_get(both, "versions"), server);
    }
    struct err shown = {0};
    if (answer_show(session, both, &shown) && !rc) {
        *err = shown;
        return shown.code;
    }
    return rc;
}
