#include "cli/diagnosis.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/layout.h"
#include "schema/limits.h"

#define TEXT_SIZE 512
#define NAMES_SIZE 200
/* The last request and the newest heartbeat are some seconds old at most. */
#define CLOCK_SECONDS_MAX 60
#define DISK_WARNING_BYTES 0x1p30
#define DISK_FAILED_BYTES 0x1p28 /* the default of --min-free */

enum result { OK, WARNING, FAILED };

struct diagnosis {
    const struct facts *facts;
    json_t *items;
    bool failed;
    int rc;
};

PRINTF_LIKE(4, 5)
static void find(struct diagnosis *diagnosis, enum result result, const char *check,
                 const char *format, ...)
{
    static const char *const names[] = {"ok", "warning", "failed"};
    char text[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    json_t *item =
        json_pack("{s:s,s:s,s:s}", "result", names[result], "check", check, "message", text);
    diagnosis->failed = diagnosis->failed || result == FAILED;
    if (json_array_append_new(diagnosis->items, item)) {
        diagnosis->rc = ERR_MEMORY;
    }
}

static const char *text_of(const json_t *object, const char *path)
{
    const char *text = json_string_value(layout_value(object, path));
    return text ? text : "";
}

static bool is_online(const json_t *device)
{
    return strcmp(text_of(device, "state"), "online") == 0;
}

/* Append a name to a list such as "a, b". The end of a long list is left out. */
static void add_name(char names[NAMES_SIZE], const char *name)
{
    size_t used = strlen(names);
    (void)snprintf(names + used, NAMES_SIZE - used, "%s%s", used > 0 ? ", " : "", name);
}

static void judge_versions(struct diagnosis *diagnosis)
{
    const json_t *version = diagnosis->facts->version;
    const char *theirs = text_of(version, "version");
    char others[NAMES_SIZE] = "";
    size_t index;
    json_t *device;
    json_array_foreach(diagnosis->facts->devices, index, device)
    {
        const char *agent = text_of(device, "inventory/agent_version");
        if (is_online(device) && strcmp(agent, theirs) != 0) {
            add_name(others, text_of(device, "name"));
        }
    }
    if (strcmp(theirs, PACELINE_VERSION) != 0) {
        find(diagnosis, WARNING, "versions", "the coordinator is %s, this program %s", theirs,
             PACELINE_VERSION);
    }
    if (others[0] != '\0') {
        find(diagnosis, WARNING, "versions", "agents of another version than %s: %s", theirs,
             others);
    } else if (strcmp(theirs, PACELINE_VERSION) == 0) {
        find(diagnosis, OK, "versions", "coordinator, agents and this program are %s", theirs);
    }
}

/* The coordinator stamped the newest heartbeat a moment ago, so its time shows the coordinator's
 * clock. */
static void judge_clocks(struct diagnosis *diagnosis)
{
    int64_t newest_ms = 0;
    size_t index;
    json_t *device;
    json_array_foreach(diagnosis->facts->devices, index, device)
    {
        int64_t seen_ms = 0;
        if (is_online(device) &&
            clock_parse_rfc3339(text_of(device, "last_seen_at"), &seen_ms, NULL) == 0) {
            newest_ms = seen_ms > newest_ms ? seen_ms : newest_ms;
        }
    }
    if (newest_ms == 0) {
        find(diagnosis, OK, "clocks", "not known: no device is online");
        return;
    }
    int64_t ahead = (newest_ms - diagnosis->facts->now_ms) / 1000;
    if (ahead > CLOCK_SECONDS_MAX || ahead < -CLOCK_SECONDS_MAX) {
        find(diagnosis, WARNING, "clocks",
             "the coordinator's clock is %" PRId64 " s %s that of this machine; set both by NTP",
             ahead > 0 ? ahead : -ahead, ahead > 0 ? "ahead of" : "behind");
    } else {
        find(diagnosis, OK, "clocks", "the coordinator and this machine agree");
    }
}

static void judge_disk(struct diagnosis *diagnosis)
{
    double bytes = diagnosis->facts->disk_free_bytes;
    enum result result = bytes < DISK_FAILED_BYTES    ? FAILED
                         : bytes < DISK_WARNING_BYTES ? WARNING
                                                      : OK;
    if (bytes < 0) {
        find(diagnosis, WARNING, "disk", "the coordinator does not say how much is free");
    } else {
        find(diagnosis, result, "disk", "%.1f GiB are free on the coordinator", bytes / 0x1p30);
    }
}

static void judge_devices(struct diagnosis *diagnosis)
{
    size_t online = 0, index;
    json_t *device;
    json_array_foreach(diagnosis->facts->devices, index, device)
    {
        online += is_online(device);
        if (json_is_true(json_object_get(device, "pending"))) {
            find(diagnosis, WARNING, "devices",
                 "%s waits to be accepted: paceline device accept %s", text_of(device, "name"),
                 text_of(device, "name"));
        } else if (strcmp(text_of(device, "state"), "joined") == 0) {
            find(diagnosis, WARNING, "devices", "%s has joined, but its agent has not started",
                 text_of(device, "name"));
        } else if (!is_online(device)) {
            find(diagnosis, WARNING, "devices", "%s is %s since %s", text_of(device, "name"),
                 text_of(device, "state"), text_of(device, "last_seen_at"));
        } else if (json_is_true(json_object_get(device, "cordoned"))) {
            find(diagnosis, WARNING, "devices", "%s is cordoned: no plan uses it",
                 text_of(device, "name"));
        }
    }
    find(diagnosis, online > 0 ? OK : FAILED, "devices", "%zu of %zu are online", online,
         json_array_size(diagnosis->facts->devices));
}

/* Report the pairs that did not reach each other, from the open incidents. */
static void judge_pairs(struct diagnosis *diagnosis)
{
    bool found = false;
    size_t index, place;
    json_t *incident, *device;
    json_array_foreach(diagnosis->facts->incidents, index, incident)
    {
        char names[NAMES_SIZE] = "";
        if (strcmp(text_of(incident, "state"), "open") != 0 ||
            strcmp(text_of(incident, "cause"), "link") != 0) {
            continue;
        }
        json_array_foreach(json_object_get(incident, "devices"), place, device)
        {
            add_name(names, text_of(device, "name"));
        }
        found = true;
        find(diagnosis, FAILED, "pairs", "%s do not reach each other (%s)", names,
             text_of(incident, "id"));
    }
    if (!found) {
        find(diagnosis, OK, "pairs", "no open incident of a link");
    }
}

static const char *name_of(const json_t *devices, const char *id)
{
    size_t index;
    json_t *device;
    json_array_foreach(devices, index, device)
    {
        if (strcmp(text_of(device, "id"), id) == 0) {
            return text_of(device, "name");
        }
    }
    return id;
}

/* Warn about pairs that need a relay: they work, but cost more than others. */
static void judge_relays(struct diagnosis *diagnosis)
{
    const json_t *devices = diagnosis->facts->devices;
    size_t index, place;
    json_t *device, *other;
    json_array_foreach(devices, index, device)
    {
        char names[NAMES_SIZE] = "";
        json_array_foreach(json_object_get(device, "relayed"), place, other)
        {
            if (json_is_string(other)) {
                add_name(names, name_of(devices, json_string_value(other)));
            }
        }
        if (names[0] && is_online(device)) {
            find(diagnosis, WARNING, "relays", "%s reaches %s through a relay only",
                 text_of(device, "name"), names);
        }
    }
}

static void judge_jobs(struct diagnosis *diagnosis)
{
    size_t waiting = 0, index;
    json_t *job;
    json_array_foreach(diagnosis->facts->jobs, index, job)
    {
        bool stalled = json_is_true(json_object_get(job, "stalled"));
        if (stalled || strcmp(text_of(job, "state"), "waiting_for_devices") == 0) {
            waiting++;
            find(diagnosis, WARNING, "jobs", "%s %s: %s", text_of(job, "spec/name"),
                 stalled ? "is stalled" : "waits", text_of(job, "message"));
        }
    }
    if (waiting == 0) {
        find(diagnosis, OK, "jobs", "none waits or is stalled");
    }
}

int diagnosis_make(const struct facts *facts, json_t **out, bool *failed, struct err *err)
{
    static void (*const judges[])(struct diagnosis *) = {
        judge_versions, judge_clocks, judge_disk, judge_devices,
        judge_pairs,    judge_relays, judge_jobs,
    };
    struct diagnosis diagnosis = {.facts = facts, .items = json_array()};
    for (size_t i = 0; diagnosis.items && i < sizeof(judges) / sizeof(judges[0]); i++) {
        judges[i](&diagnosis);
    }
    json_t *document = json_pack("{s:o}", "items", diagnosis.items);
    if (!document || diagnosis.rc) {
        json_decref(document);
        return err_set(err, ERR_MEMORY, "no memory for a diagnosis");
    }
    *out = document;
    *failed = diagnosis.failed;
    return 0;
}
