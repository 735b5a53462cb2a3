/* GET /v1/devices/{id}/measurements, GET /v1/devices/{id}/links and GET /v1/links. The history
 * comes from the rows, links from the core. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/routes.h"
#include "coordinator/store/measurements.h"
#include "schema/measured.h"

static bool device_known(struct coordinator *coordinator, struct http_exchange *exchange)
{
    const char *id = http_param(exchange, "id");
    if (!core_device(coordinator->core, id)) {
        answer_unknown(exchange, PROBLEM_UNKNOWN_DEVICE, id);
        return false;
    }
    return true;
}

static void answer_list(struct http_exchange *exchange, const struct record *record, void *list)
{
    if (list) {
        answer_record(exchange, 200, record, list);
        free(list);
    } else {
        const struct err err = {.text = "out of memory"};
        answer_err(exchange, &err);
    }
}

/* ---- units ---- */

static bool add_unit(void *arg, const struct state_measurement *row)
{
    struct measured_unit_list *list = arg;
    list->more = list->item_count == MEASURED_ITEMS_MAX;
    if (list->more) {
        return false;
    }
    struct measured_unit *unit = &list->item[list->item_count++];
    *unit = (struct measured_unit){.wall_ms = row->wall_ms,
                                   .unit = row->unit,
                                   .forward_seconds = row->forward_seconds,
                                   .backward_seconds = row->backward_seconds};
    memcpy(unit->job.text, row->job, strnlen(row->job, sizeof(unit->job.text) - 1));
    return true;
}

/* A page holds whole minutes: its last time is where the next one begins. */
static void end_at_whole_minute(struct measured_unit_list *list)
{
    const int64_t last_ms = list->more ? list->item[list->item_count - 1].wall_ms : 0;
    size_t count = list->item_count;
    while (list->more && count > 0 && list->item[count - 1].wall_ms == last_ms) {
        count--;
    }
    list->item_count = count > 0 ? count : list->item_count;
}

void serve_measurements(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {"job", "unit", "since", NULL};
    struct coordinator *coordinator = context;
    const char *job = http_query(exchange, "job");
    int64_t unit, since_ms;
    struct err err = {0};
    if (!answer_check_query(exchange, allowed) || !device_known(coordinator, exchange) ||
        !answer_query_int(exchange, "unit", 0, UNITS_MAX - 1, -1, &unit) ||
        !answer_query_int(exchange, "since", 0, INT64_MAX, 0, &since_ms)) {
        return;
    }
    struct measured_unit_list *list = calloc(1, sizeof(*list));
    if (list && state_measurements(coordinator->state, http_param(exchange, "id"), job, unit,
                                   since_ms, MEASURED_ITEMS_MAX + 1, add_unit, list, &err)) {
        free(list);
        answer_err(exchange, &err);
        return;
    }
    if (list) {
        end_at_whole_minute(list);
    }
    answer_list(exchange, &measured_unit_list_record, list);
}

/* ---- links ---- */

static void add_link(struct measured_link_list *list, const struct link_row *row)
{
    list->more = list->item_count == MEASURED_ITEMS_MAX;
    if (list->more) {
        return;
    }
    const struct partition_link link = link_estimate(&row->sums);
    const double count = fmax(row->sums.count, 1);
    struct measured_link *out = &list->item[list->item_count++];
    *out = (struct measured_link){.from = row->from,
                                  .to = row->to,
                                  .kind = row->kind,
                                  .transfers = row->sums.count,
                                  .mean_seconds = row->sums.seconds / count,
                                  .mean_bytes = row->sums.bytes / count,
                                  .latency_seconds = link.latency_seconds,
                                  .bytes_per_second = link.bytes_per_second,
                                  .wall_ms = row->wall_ms};
    memcpy(out->codec, row->codec, sizeof(out->codec));
}

/* id NULL: of all devices. */
static void list_links(struct coordinator *coordinator, struct http_exchange *exchange,
                       const char *id)
{
    struct measured_link_list *list = calloc(1, sizeof(*list));
    const struct link_row *row;
    size_t at = 0;
    while (list && !list->more && (row = core_next_link(coordinator->core, &at)) != NULL) {
        if (!id || id_equal(row->from.text, id) || id_equal(row->to.text, id)) {
            add_link(list, row);
        }
    }
    answer_list(exchange, &measured_link_list_record, list);
}

void serve_links(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    if (answer_check_query(exchange, allowed)) {
        list_links(context, exchange, NULL);
    }
}

void serve_device_links(void *context, struct http_exchange *exchange)
{
    static const char *const allowed[] = {NULL};
    if (answer_check_query(exchange, allowed) && device_known(context, exchange)) {
        list_links(context, exchange, http_param(exchange, "id"));
    }
}
