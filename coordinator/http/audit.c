#include "coordinator/http/audit.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "coordinator/http/access.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/list.h"
#include "coordinator/http/routes.h"
#include "schema/audit.h"
#include "schema/wire.h"

#define ROWS_KEPT 100000
#define TRIMS 10 /* each after a tenth of the rows */
#define DAYS_KEPT 366
#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define ROW_BYTES_MAX 4096

static bool note_newest(void *arg, const struct state_row *row)
{
    int64_t *newest_ms = arg;
    *newest_ms = row->created_ms;
    return false;
}

int audit_open(struct coordinator *coordinator, uint64_t seed, struct err *err)
{
    struct edge_audit *audit = &coordinator->edge->audit;
    audit->words = rng_stream(seed, RNG_ID, 2, 0);
    audit->since_trim = ROWS_KEPT / TRIMS; /* restarts count as many rows */
    int rc = state_list(coordinator->state, STATE_AUDIT, NULL, "", 1, true, note_newest,
                        &audit->ids.ms, err);
    audit->ids.ms++;
    return rc;
}

void audit_origin(const struct coordinator *coordinator, const struct http_exchange *exchange,
                  struct audit_entry *out)
{
    const struct token *token = access_token(coordinator, exchange);
    struct address address;
    http_client_address(exchange, &address);
    *out = (struct audit_entry){0};
    if (token) {
        memcpy(out->token, token->id, sizeof(out->token));
        memcpy(out->token_name, token->name, sizeof(out->token_name));
    }
    memcpy(out->address, address.text, sizeof(out->address));
    (void)snprintf(out->method, sizeof(out->method), "%s", http_method(exchange));
    (void)snprintf(out->path, sizeof(out->path), "%s", http_path(exchange));
}

/* Drop the oldest rows: rows older than DAYS_KEPT once a day, rows beyond ROWS_KEPT from time to
 * time. */
static int trim(struct coordinator *coordinator, int64_t wall_ms, struct err *err)
{
    struct edge_audit *audit = &coordinator->edge->audit;
    const int64_t day = wall_ms / DAY_MS;
    int rc = 0;
    if (++audit->since_trim >= ROWS_KEPT / TRIMS) {
        audit->since_trim = 0;
        rc = state_trim(coordinator->state, STATE_AUDIT, ROWS_KEPT, err);
    }
    if (!rc && day > audit->day) {
        char oldest[ID_SIZE];
        id_make(oldest, "aud_", wall_ms - DAYS_KEPT * DAY_MS, (struct rng_block){{0}});
        audit->day = day;
        rc = state_delete_children(coordinator->state, STATE_AUDIT, "", oldest, err);
    }
    return rc;
}

int audit_add(struct coordinator *coordinator, const struct http_exchange *exchange,
              const struct audit_entry *origin, const char *subject, int status, struct err *err)
{
    struct edge_audit *audit = &coordinator->edge->audit;
    struct audit_entry entry;
    BUF_AUTO struct buf document;
    buf_init(&document, ROW_BYTES_MAX);
    if (!origin && exchange && http_role(exchange) == ROLE_DEVICE) {
        return 0;
    }
    if (origin) {
        entry = *origin;
    } else {
        audit_origin(coordinator, exchange, &entry);
    }
    entry.created_ms =
        id_series_next(&audit->ids, &audit->words, "aud_", clock_wall_ms(), entry.id);
    (void)snprintf(entry.subject, sizeof(entry.subject), "%s", subject);
    entry.status = status;
    int rc = wire_write(&audit_entry_record, &entry, &document, err);
    if (rc) {
        return rc;
    }
    const struct state_row row = {entry.id, "", 1, entry.created_ms, document.data, document.size};
    rc = state_put(coordinator->state, STATE_AUDIT, &row, err);
    return rc ? rc : trim(coordinator, entry.created_ms, err);
}

static bool list_entry(void *arg, const struct state_row *row)
{
    return list_text(arg, row->id, row->document, row->document_size);
}

void serve_audit(void *context, struct http_exchange *exchange)
{
    static const struct list_form form = {.key = &audit_id_form, .newest_first = true};
    struct coordinator *coordinator = context;
    struct list list;
    if (list_begin(exchange, &form, &list)) {
        list_rows(exchange, &list, coordinator->state, STATE_AUDIT, NULL, list_entry, &list);
    }
}
