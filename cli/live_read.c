#include "cli/live_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

#define PATH_SIZE 256
#define PAGE_ITEMS 500 /* items per page */

static int read_page(struct api *api, const char *path, json_t **out, struct err *err)
{
    int rc = api_call(api, "GET", path, NULL, 0, 0, err);
    return rc ? rc : api_json(api, out, err);
}

static int read_losses(struct api *api, const struct job *job, struct live_curve *curve,
                       struct err *err)
{
    char path[PATH_SIZE];
    json_auto_t *page = NULL;
    int64_t since = live_curve_last(curve);
    int64_t oldest = job->progress.step - LIVE_POINTS;
    if (since > job->progress.step) {
        since = job->progress.step - 1; /* the job went back to an earlier version */
    }
    since = since > oldest ? since : oldest;
    (void)snprintf(path, sizeof(path), "/v1/jobs/%s/metrics?name=loss&limit=%d&since=%" PRId64,
                   job->id.text, PAGE_ITEMS, since > 0 ? since : 0);
    int rc = read_page(api, path, &page, err);
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(page, "items"), index, item)
    {
        live_curve_add(curve, json_integer_value(json_object_get(item, "step")),
                       json_number_value(json_object_get(item, "value")));
    }
    return rc;
}

/* The newest incidents are the last of all pages. */
static int read_incidents(struct api *api, const struct job *job, struct live *live,
                          struct err *err)
{
    char cursor[PATH_SIZE] = "";
    live->incident_count = 0;
    for (;;) {
        char path[2 * PATH_SIZE];
        json_auto_t *page = NULL;
        (void)snprintf(path, sizeof(path), "/v1/jobs/%s/incidents?limit=%d%s%s", job->id.text,
                       PAGE_ITEMS, cursor[0] != '\0' ? "&cursor=" : "", cursor);
        int rc = read_page(api, path, &page, err);
        const json_t *items = json_object_get(page, "items");
        for (size_t i = 0; !rc && i < json_array_size(items); i++) {
            struct incident incident = {.revision = 0};
            rc = record_read(&incident_record, json_array_get(items, i), "", &incident, NULL, err);
            if (!rc && live->incident_count == LIVE_INCIDENTS) {
                memmove(live->incident, live->incident + 1,
                        (LIVE_INCIDENTS - 1) * sizeof(incident));
                live->incident_count--;
            }
            if (!rc) {
                live->incident[live->incident_count++] = incident;
            }
        }
        const char *next = json_string_value(json_object_get(page, "next_cursor"));
        if (rc || !next) {
            return rc;
        }
        (void)snprintf(cursor, sizeof(cursor), "%s", next);
    }
}

int live_read(struct api *api, const struct job *job, bool changed, struct live *live,
              struct err *err)
{
    int rc = read_losses(api, job, &live->loss, err);
    return rc || !changed ? rc : read_incidents(api, job, live, err);
}
