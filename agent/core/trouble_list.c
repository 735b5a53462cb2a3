#include "agent/core/trouble_list.h"

bool trouble_list_add(struct trouble_list *list, enum trouble_source source,
                      const struct device_id *device, enum peer_trouble kind, int64_t now_ms)
{
    struct trouble_entry *trouble = &list->item[source];
    const bool same = trouble->active && id_equal(trouble->device.text, device->text);
    const bool news = !same || trouble->kind != kind;
    *trouble = (struct trouble_entry){.active = true,
                                      .device = *device,
                                      .kind = kind,
                                      .since_ms = same ? trouble->since_ms : now_ms};
    return news;
}

bool trouble_list_clear(struct trouble_list *list, enum trouble_source source)
{
    const bool news = list->item[source].active;
    list->item[source].active = false;
    return news;
}

static void add_report(struct heartbeat *out, const struct trouble_entry *trouble, int64_t for_ms)
{
    size_t at = 0;
    while (at < out->peer_report_count &&
           !id_equal(out->peer_report[at].device.text, trouble->device.text)) {
        at++;
    }
    if (at == PEER_REPORTS_MAX) {
        return;
    }
    struct peer_report *report = &out->peer_report[at];
    if (at == out->peer_report_count) {
        *report = (struct peer_report){
            .device = trouble->device, .kind = (int)trouble->kind, .for_ms = for_ms};
        out->peer_report_count++;
        return;
    }
    /* Lower kinds are stronger evidence. */
    report->kind = (int)trouble->kind < report->kind ? (int)trouble->kind : report->kind;
    report->for_ms = for_ms > report->for_ms ? for_ms : report->for_ms;
}

void trouble_list_report(const struct trouble_list *list, int64_t now_ms, struct heartbeat *out)
{
    out->peer_report_count = 0;
    for (size_t i = 0; i < TROUBLE_SOURCES; i++) {
        if (list->item[i].active) {
            add_report(out, &list->item[i], now_ms - list->item[i].since_ms);
        }
    }
}
