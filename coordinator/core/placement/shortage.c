/* Explains in one sentence, for people, why a job gets too few devices. The devices are counted
 * when the question is filled. The sentence is written when the planner knows how many are missing.
 */
#include "coordinator/core/placement/shortage.h"

#include <string.h>

#include "coordinator/core/placement/matching.h"
#include "coordinator/core/state/device.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"

/* Whether an online device has all the labels. With `only`: whether an online device has this
 * label. */
static bool any_has(const struct core *core, const struct placement_request *request,
                    const struct label *only)
{
    struct job_spec spec = {.device_label_count = 0};
    if (only) {
        spec.device_label[0] = *only;
        spec.device_label_count = 1;
    }
    for (size_t i = 0; i < core->devices.count; i++) {
        const struct device_slot *device = slots_device_at(core, i);
        if (device_online(device) && !device_absent(&request->without, device) &&
            matching_labels(only ? &spec : request->spec, &device->device)) {
            return true;
        }
    }
    return false;
}

static bool any_speaks(const struct core *core, const struct placement_request *request)
{
    bool any = false;
    for (size_t i = 0; i < core->devices.count; i++) {
        const struct device_slot *device = slots_device_at(core, i);
        any = any || (device_online(device) && matching_protocol(request, &device->device));
    }
    return any;
}

static bool any_offers(const struct core *core, const struct placement_request *request)
{
    bool any = false;
    for (size_t i = 0; i < core->devices.count; i++) {
        const struct device_slot *device = slots_device_at(core, i);
        any = any || (device_online(device) && matching_data(request, &device->device));
    }
    return any;
}

/* Find the first label or id of a server or worker that no device has. */
static void look_for_roles(const struct core *core, const struct placement_request *request,
                           struct shortage *out)
{
    const struct server_options *options = &request->spec->parameter_server;
    const struct {
        const char *what;
        const struct label *label;
        size_t count;
    } role[] = {{"server", options->server_label, options->server_label_count},
                {"worker", options->worker_label, options->worker_label_count}};
    for (size_t r = 0; r < sizeof(role) / sizeof(role[0]); r++) {
        for (size_t i = 0; i < role[r].count; i++) {
            const struct label *label = &role[r].label[i];
            if (!any_has(core, request, label)) {
                text_set(out->role, sizeof(out->role),
                         "no device has the label %s=%s of a %s (%zu online)", label->key,
                         label->value, role[r].what, out->online);
                return;
            }
        }
    }
    for (size_t i = 0; i < options->place_count; i++) {
        const char *id = options->place[i].device.text;
        if (!slots_device(core, id)) {
            text_set(out->role, sizeof(out->role), "no device has the id '%s' of a server", id);
            return;
        }
    }
}

static void nobody_fits(const struct core *core, const struct placement_request *request,
                        struct shortage *fleet)
{
    const struct job_spec *spec = request->spec;
    const size_t online = fleet->online, size = sizeof(fleet->nobody);
    char *out = fleet->nobody;
    for (size_t i = 0; i < spec->device_label_count; i++) {
        const struct label *label = &spec->device_label[i];
        if (!any_has(core, request, label)) {
            text_set(out, size, "no device has the label %s=%s (%zu online)", label->key,
                     label->value, online);
            return;
        }
    }
    if (fleet->role[0] != '\0') {
        text_set(out, size, "%s", fleet->role);
    } else if (spec->train_local.device.text[0] != '\0') {
        const struct device_slot *owner = slots_device(core, spec->train_local.device.text);
        text_set(out, size, "its data are on the device '%.60s', which %s",
                 owner ? owner->device.name : spec->train_local.device.text,
                 owner && device_online(owner) ? "does not offer them as they were"
                                               : "is not online");
    } else if (!any_offers(core, request)) {
        text_set(out, size, "no device offers %s '%s' as the job needs it (%zu online)",
                 fleet->few > 0 ? "a batch of the data set" : "the data set",
                 spec->train_local.name, online);
    } else if (!any_has(core, request, NULL)) {
        text_set(out, size, "no device has all labels of the job (%zu online)", online);
    } else if (!any_speaks(core, request)) {
        char words[64];
        matching_protocol_words(request, words, sizeof(words));
        text_set(out, size, "no device%s has an agent that trains %s (%zu online)",
                 spec->device_label_count > 0 ? " with the labels" : "", words, online);
    } else if (spec->numeric_class[0] == '\0') {
        text_set(out, size, "no device%s has oneDNN, which the job's kernels need (%zu online)",
                 spec->device_label_count > 0 ? " with the labels" : "", online);
    } else {
        text_set(out, size, "no device%s has the numeric class '%.120s' (%zu online)",
                 spec->device_label_count > 0 ? " with the labels" : "", spec->numeric_class,
                 online);
    }
}

void shortage_look(const struct core *core, const struct placement_request *request,
                   struct shortage *out)
{
    *out = (struct shortage){.without = request->without.count};
    for (size_t i = 0; i < core->devices.count; i++) {
        const struct device_slot *device = slots_device_at(core, i);
        bool online = device_online(device);
        bool speaks = matching_protocol(request, &device->device);
        bool able = matching_labels(request->spec, &device->device) &&
                    matching_class(request->spec, &device->device) &&
                    matching_kernels(request, &device->device);
        bool suits = able && matching_data(request, &device->device);
        bool fits = suits && speaks;
        if (device_absent(&request->without, device)) {
            continue;
        }
        out->online += online;
        out->away += fits && !online;
        out->few += able && speaks && online && job_is_local(request->spec) &&
                    matching_offer(request->spec, &device->device) == OFFER_OF_FEW_SAMPLES;
        out->old += suits && online && !speaks;
        if (!online || !fits) {
            continue;
        }
        out->fit++;
        bool busy = device->job && device->job != request->job;
        bool kept = core->in_pass && device->reserved == core->pass;
        bool pending = device->device.pending, cordoned = !pending && device->device.cordoned;
        bool draining = !pending && !cordoned && device_drains(device);
        bool open = !pending && !cordoned && !draining;
        out->pending += pending;
        out->cordoned += cordoned;
        out->draining += draining;
        out->silent += open && device->challenge.silent;
        out->busy += open && !device->challenge.silent && busy;
        out->kept += open && !device->challenge.silent && !busy && kept;
    }
    look_for_roles(core, request, out);
    if (out->online > 0 && out->fit == 0) {
        nobody_fits(core, request, out);
    }
}

/* ---- the sentence ---- */

/* Write how many devices are usable, and why there are no more. */
static void some_are_free(const struct shortage *fleet, const char *there, char *out, size_t size)
{
    const struct {
        size_t count;
        const char *what;
    } other[] = {
        {fleet->busy, "busy"},
        {fleet->kept, "reserved for an earlier job"},
        {fleet->pending, "waiting to be accepted"},
        {fleet->cordoned, "cordoned"},
        {fleet->draining, "draining"},
        {fleet->silent, "silent"},
        {fleet->away, "not online"},
        {fleet->old, "with an older agent"},
        {fleet->few, "with less than a batch of samples"},
    };
    char list[MESSAGE_SIZE] = "";
    size_t length = 0;
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        if (other[i].count > 0) {
            text_set(list + length, sizeof(list) - length, "%s%zu %s", length > 0 ? ", " : "",
                     other[i].count, other[i].what);
            length += strlen(list + length);
        }
    }
    text_set(out, size, "%s%s%.150s%s%s%.120s", there, length > 0 ? " (" : "", list,
             length > 0 ? ")" : "", fleet->role[0] != '\0' ? "; " : "", fleet->role);
}

static void describe(const struct shortage *fleet, const char *there, char *out, size_t size)
{
    if (fleet->online == 0) {
        text_set(out, size, "no %sdevice is online", fleet->without > 0 ? "other " : "");
    } else if (fleet->fit == 0) {
        text_set(out, size, "%s", fleet->nobody);
    } else if (fleet->busy == fleet->fit && fleet->old == 0 && fleet->few == 0 &&
               fleet->role[0] == '\0') {
        text_set(out, size,
                 fleet->fit == 1 ? "%zu device matches, but is busy"
                                 : "%zu devices match, all busy",
                 fleet->fit);
    } else {
        some_are_free(fleet, there, out, size);
    }
}

/* For a question about the loss of devices, the answer counts only the other devices. */
static int shortage_without(const struct shortage *fleet, const struct job_spec *spec,
                            size_t wanted, size_t there, struct err *err)
{
    char who[32] = "this device", why[MESSAGE_SIZE], free[64];
    size_t left_out = fleet->without;
    if (left_out > 1) {
        text_set(who, sizeof(who), "these %zu devices", left_out);
    }
    text_set(free, sizeof(free), "%zu %s free", there, there == 1 ? "is" : "are");
    describe(fleet, free, why, sizeof(why));
    return err_set(err, ERR_STATE,
                   "without %s the job would wait for %zu more: it needs %zu (%s), %.180s", who,
                   wanted - there, wanted,
                   (int64_t)wanted == spec->devices_min ? "devices.min" : "cuts", why);
}

int shortage_explain(const struct shortage *fleet, const struct job_spec *spec, size_t wanted,
                     size_t there, struct err *err)
{
    char why[MESSAGE_SIZE], free[64], cuts[64] = "";
    size_t missing = wanted - there;
    if (fleet->without > 0) {
        return shortage_without(fleet, spec, wanted, there, err);
    }
    text_set(free, sizeof(free), "%zu of %zu are available", there, wanted);
    describe(fleet, free, why, sizeof(why));
    if ((int64_t)wanted > spec->devices_min) {
        text_set(cuts, sizeof(cuts), ", because 'cuts' defines %zu stages", wanted);
    }
    return err_set(err, ERR_STATE, "waits for %zu more device%s%s: %.180s", missing,
                   missing == 1 ? "" : "s", cuts, why);
}
