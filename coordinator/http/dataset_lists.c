/* GET /v1/datasets: the uploaded data sets, or with ?local=true those that devices offer, which
 * stay there. */
#include <stdio.h>
#include <string.h>

#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/wait.h"
#include "schema/offer.h"
#include "schema/wire.h"

#define ROW_BYTES_MAX 65536

/* ---- uploaded ---- */

static const struct list_form dataset_list_form = {
    .key = &name_form, .names = true, .waits = true, .local = true};

static bool look_at_datasets(void *context, struct http_exchange *exchange, const char *id,
                             int64_t after, bool last)
{
    (void)id;
    const struct coordinator *coordinator = context;
    const size_t count = core_dataset_count(coordinator->core);
    struct list list;
    if (!wait_list_is_new(coordinator, OBJECT_DATASET, after, last)) {
        return false;
    }
    if (!list_begin(exchange, &dataset_list_form, &list)) {
        return true;
    }
    list.revision = edge_list_revision(coordinator->edge, OBJECT_DATASET);
    for (size_t i = 0, room = 1; i < count && room; i++) {
        const size_t at = list.descending ? count - 1 - i : i;
        const struct dataset *dataset = core_dataset_at(coordinator->core, at);
        room = !list_reaches(&list, dataset->name) ||
               !list_wants(&list, 0, dataset->name, NULL, 0) ||
               list_object(&list, dataset->name, OBJECT_DATASET, dataset);
    }
    list_end(exchange, &list);
    return true;
}

/* ---- offered by devices ---- */

/* A cursor is a device's id and the number of its offer, "dev_...-0". */
static bool key_valid(const char *text)
{
    const size_t length = strlen(text);
    char id[ID_SIZE];
    if (length < 3 || length - 2 >= sizeof(id) || text[length - 2] != '-' ||
        text[length - 1] < '0' || text[length - 1] >= '0' + OFFERS_MAX) {
        return false;
    }
    snprintf(id, sizeof(id), "%.*s", (int)length - 2, text);
    return id_valid(id, "dev_");
}

static const struct text_form key_form = {.valid = key_valid, .expected = "a cursor of this list"};
static const struct list_form local_list_form = {
    .key = &key_form, .names = true, .waits = true, .local = true};

/* false: the page is full. */
static bool add_offer(struct list *list, const struct device *device, size_t index)
{
    char key[NAME_SIZE];
    struct local_dataset row = {
        .device = device->id, .device_state = device->state, .offer = device->offer[index]};
    snprintf(key, sizeof(key), "%s-%zu", device->id.text, index);
    if (!list_reaches(list, key) || !list_wants(list, 0, row.offer.name, NULL, 0)) {
        return true;
    }
    memcpy(row.device_name, device->name, sizeof(row.device_name));
    BUF_AUTO struct buf text;
    buf_init(&text, ROW_BYTES_MAX);
    if (wire_write(&local_dataset_record, &row, &text, &list->err)) {
        list->failed = true;
        return false;
    }
    return list_text(list, key, text.data, text.size);
}

static bool add_device(struct list *list, const struct device *device)
{
    bool room = true;
    for (size_t i = 0; i < device->offer_count && room; i++) {
        room = add_offer(list, device, list->descending ? device->offer_count - 1 - i : i);
    }
    return room;
}

static bool look_at_offers(void *context, struct http_exchange *exchange, const char *id,
                           int64_t after, bool last)
{
    (void)id;
    const struct coordinator *coordinator = context;
    const size_t count = core_device_count(coordinator->core);
    struct list list;
    if (!wait_list_is_new(coordinator, OBJECT_DEVICE, after, last)) {
        return false;
    }
    if (!list_begin(exchange, &local_list_form, &list)) {
        return true;
    }
    list.revision = edge_list_revision(coordinator->edge, OBJECT_DEVICE);
    bool room = true;
    for (size_t i = 0; i < count && room; i++) {
        const size_t at = list.descending ? count - 1 - i : i;
        room = add_device(&list, core_device_at(coordinator->core, at));
    }
    list_end(exchange, &list);
    return true;
}

void serve_datasets(void *context, struct http_exchange *exchange)
{
    bool local;
    if (!answer_query_bool(exchange, "local", &local)) {
        return;
    }
    if (local) {
        wait_for_list(context, exchange, OBJECT_DEVICE, &local_list_form, look_at_offers);
    } else {
        wait_for_list(context, exchange, OBJECT_DATASET, &dataset_list_form, look_at_datasets);
    }
}
