#include "coordinator/restore_capacities.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/store/measurements.h"

#define ROWS_FIRST 64

/* Rows of one kind. */
struct list {
    void *item;
    size_t element_size, count, capacity;
    bool full; /* out of memory */
};

/* Add a zeroed element; NULL: out of memory, and the visit ends. */
static void *add(struct list *list)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : ROWS_FIRST;
        void *larger = realloc(list->item, capacity * list->element_size);
        if (!larger) {
            list->full = true;
            return NULL;
        }
        list->item = larger;
        list->capacity = capacity;
    }
    void *item = (char *)list->item + list->count++ * list->element_size;
    memset(item, 0, list->element_size);
    return item;
}

static void take_id(struct device_id *out, const char *text)
{
    (void)snprintf(out->text, sizeof(out->text), "%s", text);
}

/* A row with another number of features is of another version: the device starts anew. A row from
 * before the share of a processor lacks the last number before the fits. */
static bool read_capacity(void *arg, const struct state_capacity *row)
{
    const size_t missing = CAPACITY_NUMBERS - row->number_count;
    struct capacity_row *out = missing <= 1 ? add(arg) : NULL;
    if (out) {
        const size_t fixed = CAPACITY_FIXED - missing;
        take_id(&out->device, row->device);
        out->wall_ms = row->wall_ms;
        out->number[CAPACITY_FIXED - 1] = 1;
        memcpy(out->number, row->number, fixed * sizeof(double));
        memcpy(out->number + CAPACITY_FIXED, row->number + fixed,
               (CAPACITY_NUMBERS - CAPACITY_FIXED) * sizeof(double));
    }
    return out || missing > 1;
}

static bool read_unit(void *arg, const struct state_unit_time *row)
{
    struct unit_row *out = add(arg);
    if (out) {
        out->shape = row->shape;
        out->wall_ms = row->wall_ms;
        out->forward_seconds = row->forward_seconds;
        out->backward_seconds = row->backward_seconds;
        take_id(&out->device, row->device);
    }
    return out != NULL;
}

static bool read_link(void *arg, const struct state_link_time *row)
{
    struct link_row *out = add(arg);
    if (out) {
        out->kind = (int)row->kind;
        out->wall_ms = row->wall_ms;
        out->sums = (struct link_sums){.count = row->count,
                                       .seconds = row->seconds,
                                       .bytes = row->bytes,
                                       .bytes_squared = row->bytes_squared,
                                       .bytes_seconds = row->bytes_seconds};
        take_id(&out->from, row->sender);
        take_id(&out->to, row->receiver);
        (void)snprintf(out->codec, sizeof(out->codec), "%s", row->codec);
    }
    return out != NULL;
}

int restore_capacities_read(struct state_store *state, struct capacity_lists *out, struct err *err)
{
    struct list devices = {.element_size = sizeof(struct capacity_row)};
    struct list units = {.element_size = sizeof(struct unit_row)};
    struct list links = {.element_size = sizeof(struct link_row)};
    int rc = state_capacities(state, read_capacity, &devices, err);
    rc = rc ? rc : state_unit_times(state, read_unit, &units, err);
    rc = rc ? rc : state_link_times(state, NULL, read_link, &links, err);
    if (rc == 0 && (devices.full || units.full || links.full)) {
        rc = err_set(err, ERR_MEMORY, "out of memory for the capacities of devices");
    }
    *out = (struct capacity_lists){.device = devices.item,
                                   .unit = units.item,
                                   .link = links.item,
                                   .rows = {.device = devices.item,
                                            .device_count = devices.count,
                                            .unit = units.item,
                                            .unit_count = units.count,
                                            .link = links.item,
                                            .link_count = links.count}};
    return rc;
}

void restore_capacities_free(struct capacity_lists *lists)
{
    free(lists->device);
    free(lists->unit);
    free(lists->link);
    *lists = (struct capacity_lists){0};
}
