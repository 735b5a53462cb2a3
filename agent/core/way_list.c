#include "agent/core/way_list.h"

static size_t find(const struct way_list *list, const struct device_id *device)
{
    size_t i = 0;
    while (i < list->count && !id_equal(list->item[i].device.text, device->text)) {
        i++;
    }
    return i;
}

static struct way_entry *add(struct way_list *list, const struct device_id *device)
{
    size_t at = list->count;
    if (at == WAYS_MAX) {
        at = 0;
        for (size_t i = 1; i < WAYS_MAX; i++) {
            at = list->item[i].used_ms < list->item[at].used_ms ? i : at;
        }
    } else {
        list->count++;
    }
    list->item[at] = (struct way_entry){.device = *device, .way = WAY_DIRECT};
    return &list->item[at];
}

void way_list_set_relays(struct way_list *list, size_t relay_count)
{
    list->relay_count = relay_count;
    for (size_t i = 0; i < list->count; i++) {
        if (list->item[i].way != WAY_DIRECT) {
            list->item[i].way = relay_count > 0 ? 1 : WAY_DIRECT;
        }
    }
}

size_t way_list_choose(const struct way_list *list, const struct device_id *device, bool first,
                       int64_t now_ms)
{
    const size_t i = find(list, device);
    if (i == list->count) {
        return WAY_DIRECT;
    }
    const struct way_entry *entry = &list->item[i];
    const bool again = first && now_ms - entry->direct_ms >= WAY_DIRECT_MS;
    return again ? WAY_DIRECT : entry->way;
}

bool way_list_tried(struct way_list *list, const struct device_id *device, size_t way,
                    enum way_result result, int64_t now_ms)
{
    const size_t i = find(list, device);
    struct way_entry *entry = i < list->count ? &list->item[i] : NULL;
    if (!entry && (result == WAY_REACHED || list->relay_count == 0)) {
        return false; /* no entry is needed for a peer that is directly reachable, or not at all */
    }
    entry = entry ? entry : add(list, device);
    entry->used_ms = now_ms;
    if (result == WAY_REACHED) {
        entry->way = way;
        entry->relayed = way != WAY_DIRECT;
        return false;
    }
    if (way == WAY_DIRECT) {
        entry->direct_ms = now_ms;
    }
    if (entry->way == way) {
        entry->way = (way + 1) % (list->relay_count + 1);
    }
    return entry->way != way;
}

size_t way_list_relayed(const struct way_list *list, struct device_id out[RELAYED_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < list->count && count < RELAYED_MAX; i++) {
        if (list->item[i].relayed) {
            out[count++] = list->item[i].device;
        }
    }
    return count;
}
