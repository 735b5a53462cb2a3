#include "coordinator/core/placement/assumed.h"

#include <string.h>

#include "base/assert.h"
#include "coordinator/core/capacity/profile.h"
#include "coordinator/core/state/planning.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"

_Static_assert(PLANNING_TIMES_MAX / UNITS_MAX >= WHAT_IF_DEVICES_MAX,
               "a question has room for all devices that it may list");

bool assumed_has(const struct plan_question *question, const struct device_id *id)
{
    bool listed = !question->has_devices;
    for (size_t i = 0; i < question->device_count && !listed; i++) {
        listed = id_equal(question->device[i].id.text, id->text);
    }
    return listed;
}

size_t assumed_count(const struct plan_question *question)
{
    size_t count = 0;
    for (size_t i = 0; question && i < question->device_count; i++) {
        count += question->device[i].id.text[0] == '\0';
    }
    return count;
}

/* ---- devices ---- */

/* Devices train together if they have the same numeric class. A hypothetical device gets the class
 * of the job, else that of the other devices, else that of any device. */
static const char *usual_class(const struct core *core, const struct plan_question *question,
                               const struct planning *planning)
{
    if (planning->numeric_class[0] != '\0') {
        return planning->numeric_class;
    }
    if (planning->device_count > 0) {
        return planning->device[0].numeric_class;
    }
    for (size_t i = 0; i < question->device_count; i++) {
        const struct device_slot *like = slots_device(core, question->device[i].like.text);
        if (like) {
            return like->device.numeric_class;
        }
    }
    return core->devices.count > 0 ? slots_device_at(core, 0)->device.numeric_class : "";
}

/* The agent of a hypothetical device is as new as the coordinator. */
static void add_probed(const struct core *core, const struct plan_question *question, size_t index,
                       struct planning *planning)
{
    const struct what_if_device *assumed = &question->device[index];
    struct planning_device *device = &planning->device[planning->device_count];
    *device = (struct planning_device){.gemm_gflops = assumed->gflops,
                                       .threads = 1,
                                       .codecs = CODECS_ALL,
                                       .may_serve = true,
                                       .may_work = true,
                                       .strict = true};
    text_set(device->numeric_class, sizeof(device->numeric_class), "%s",
             usual_class(core, question, planning));
    profile_probed(core, planning, planning->device_count, assumed->gflops * 1e9,
                   assumed->memory_bytes_per_second);
}

static void add_like(const struct core *core, const struct what_if_device *assumed,
                     const struct device_slot *like, struct planning *planning)
{
    const double speed = assumed->speed > 0 ? assumed->speed : 1;
    const struct device_probe *probe = &like->device.probe;
    struct planning_device *device = &planning->device[planning->device_count];
    *device = (struct planning_device){
        .gemm_gflops = probe->gemm_gflops * speed,
        .memory_bytes = probe->free_memory_bytes > 0 ? (uint64_t)probe->free_memory_bytes : 0,
        .threads = probe->threads > 1 ? (size_t)probe->threads : 1,
        .codecs = codecs_of_device(&like->device),
        .may_serve = matching_servers(&planning->spec, &like->device),
        .may_work = matching_workers(&planning->spec, &like->device),
        .strict = matching_strict_order(&like->device)};
    memcpy(device->numeric_class, like->device.numeric_class, sizeof(device->numeric_class));
    profile_like(core, planning, planning->device_count, like, speed);
}

static void add_device(const struct core *core, const struct plan_question *question, size_t index,
                       struct planning *planning)
{
    const struct what_if_device *assumed = &question->device[index];
    struct planning_device *device = &planning->device[planning->device_count];
    const struct device_slot *like = slots_device(core, assumed->like.text);
    if (assumed->like.text[0] == '\0') {
        add_probed(core, question, index, planning);
    } else if (like) {
        add_like(core, assumed, like, planning);
    } else {
        return; /* removed since */
    }
    what_if_id(index, &device->id);
    text_set(device->name, sizeof(device->name), "%s", assumed->name);
    if (assumed->memory_bytes > 0) {
        device->memory_bytes = (uint64_t)assumed->memory_bytes;
    }
    device->cap_bytes = device->memory_bytes;
    planning->device_count++;
}

/* ---- links ---- */

/* The index of the device with this id or name; device_count: it is not of the planning. */
static size_t find(const struct plan_question *question, const struct planning *planning,
                   const char *text)
{
    for (size_t i = 0; i < question->device_count; i++) {
        const struct what_if_device *assumed = &question->device[i];
        if (assumed->id.text[0] == '\0' && strcmp(assumed->name, text) == 0) {
            struct device_id id;
            what_if_id(i, &id);
            return planning_find(planning, id.text);
        }
    }
    return planning_find(planning, text);
}

void assumed_fill(const struct core *core, const struct plan_question *question,
                  struct planning *planning)
{
    for (size_t i = 0; i < question->device_count; i++) {
        if (question->device[i].id.text[0] == '\0') {
            ASSERT(planning->device_count < PLANNING_DEVICES_MAX);
            add_device(core, question, i, planning);
        }
    }
    for (size_t i = 0; i < question->link_count; i++) {
        const struct what_if_link *link = &question->link[i];
        const size_t a = find(question, planning, link->between[0]);
        const size_t b = find(question, planning, link->between[1]);
        if (a < planning->device_count && b < planning->device_count) {
            ASSERT(planning->measured_count < PLANNING_LINKS_MAX);
            planning->measured[planning->measured_count++] =
                (struct partition_pair){.a = a < b ? a : b,
                                        .b = a < b ? b : a,
                                        .link = {.latency_seconds = link->latency_seconds,
                                                 .bytes_per_second = link->bytes_per_second}};
        }
    }
}
