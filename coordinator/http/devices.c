#include <string.h>

#include "coordinator/coordinator.h"
#include "coordinator/http/answer.h"
#include "coordinator/http/edge.h"
#include "coordinator/http/replay.h"
#include "coordinator/http/routes.h"
#include "coordinator/http/wait.h"
#include "schema/brief.h"

static const struct list_form device_list_form = {.key = &device_id_form,
                                                  .states = device_state_names,
                                                  .names = true,
                                                  .labels = true,
                                                  .brief = &device_brief_record,
                                                  .waits = true};

/* false: the page is full. */
static bool add_device(struct list *list, const struct device *device)
{
    if (!list_reaches(list, device->id.text) ||
        !list_wants(list, device->state, device->name, device->label, device->label_count)) {
        return true;
    }
    return list->brief ? list_brief(list, device->id.text, device)
                       : list_object(list, device->id.text, OBJECT_DEVICE, device);
}

static bool look_at_devices(void *context, struct http_exchange *exchange, const char *id,
                            int64_t after, bool last)
{
    (void)id;
    const struct coordinator *coordinator = context;
    const size_t count = core_device_count(coordinator->core);
    struct list list;
    if (!wait_list_is_new(coordinator, OBJECT_DEVICE, after, last)) {
        return false;
    }
    if (list_begin(exchange, &device_list_form, &list)) {
        list.revision = edge_list_revision(coordinator->edge, OBJECT_DEVICE);
        for (size_t i = 0; i < count; i++) {
            const size_t at = list.descending ? count - 1 - i : i;
            if (!add_device(&list, core_device_at(coordinator->core, at))) {
                break;
            }
        }
        list_end(exchange, &list);
    }
    return true;
}

void serve_devices(void *context, struct http_exchange *exchange)
{
    wait_for_list(context, exchange, OBJECT_DEVICE, &device_list_form, look_at_devices);
}

static bool look_at_device(void *context, struct http_exchange *exchange, const char *id,
                           int64_t after, bool last)
{
    struct coordinator *coordinator = context;
    const struct device *device = core_device(coordinator->core, id);
    if (!device) {
        answer_unknown(exchange, PROBLEM_UNKNOWN_DEVICE, id);
        return true;
    }
    if (device->revision <= after && !last) {
        return false;
    }
    answer_kind(exchange, OBJECT_DEVICE, device);
    return true;
}

void serve_device(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    wait_for_object(coordinator->edge->parked, exchange, OBJECT_DEVICE, http_param(exchange, "id"),
                    look_at_device);
}

/* Whether a request to change a device has no parameters and is not a repeated one; false: it was
 * answered. */
static bool takes_change(struct coordinator *coordinator, struct http_exchange *exchange,
                         struct event_device_verb *verb, struct turn_extra *extra)
{
    static const char *const allowed[] = {NULL};
    return answer_check_query(exchange, allowed) &&
           (verb->verb == DEVICE_RENAME || answer_no_body(exchange)) &&
           answer_if_match(exchange, &verb->if_revision) &&
           (verb->verb == DEVICE_DELETE || replay_check(coordinator, exchange, extra));
}

static void change_device(struct coordinator *coordinator, struct http_exchange *exchange,
                          struct event *event, const struct turn_extra *extra)
{
    const char *text = http_param(exchange, "id");
    if (!id_valid(text, "dev_") || !core_device(coordinator->core, text)) {
        answer_unknown(exchange, PROBLEM_UNKNOWN_DEVICE, text);
        return;
    }
    memcpy(event->device_verb.device.text, text, strlen(text) + 1);
    turn_event(coordinator->turn, event, exchange, extra);
}

static void device_verb(struct coordinator *coordinator, struct http_exchange *exchange,
                        enum device_verb verb)
{
    struct event event = {.type = EVENT_DEVICE_VERB, .device_verb = {.verb = verb}};
    struct turn_extra extra = {0};
    if (takes_change(coordinator, exchange, &event.device_verb, &extra) &&
        ((verb != DEVICE_ACCEPT && verb != DEVICE_UNCORDON && verb != DEVICE_UNDRAIN) ||
         edge_takes_rows(coordinator, exchange))) {
        change_device(coordinator, exchange, &event, &extra);
    }
}

void serve_device_patch(void *context, struct http_exchange *exchange)
{
    struct coordinator *coordinator = context;
    struct event event = {.type = EVENT_DEVICE_VERB, .device_verb = {.verb = DEVICE_RENAME}};
    struct turn_extra extra = {0};
    struct device_patch patch = {.name = ""};
    if (takes_change(coordinator, exchange, &event.device_verb, &extra) &&
        answer_read_body(exchange, &device_patch_record, false, &patch)) {
        memcpy(event.device_verb.name, patch.name, sizeof(patch.name));
        change_device(coordinator, exchange, &event, &extra);
    }
}

void serve_device_accept(void *context, struct http_exchange *exchange)
{
    device_verb(context, exchange, DEVICE_ACCEPT);
}

void serve_device_delete(void *context, struct http_exchange *exchange)
{
    device_verb(context, exchange, DEVICE_DELETE);
}

void serve_device_cordon(void *context, struct http_exchange *exchange)
{
    device_verb(context, exchange, DEVICE_CORDON);
}

void serve_device_uncordon(void *context, struct http_exchange *exchange)
{
    device_verb(context, exchange, DEVICE_UNCORDON);
}

void serve_device_drain(void *context, struct http_exchange *exchange)
{
    device_verb(context, exchange, DEVICE_DRAIN);
}

void serve_device_undrain(void *context, struct http_exchange *exchange)
{
    device_verb(context, exchange, DEVICE_UNDRAIN);
}
