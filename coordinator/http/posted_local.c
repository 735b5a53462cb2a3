#include "coordinator/http/posted_local.h"

#include <stdio.h>
#include <string.h>

/* Return the device's offer for the job, or NULL. */
static const struct offer *offer_of(const struct device *device, const struct job_spec *spec)
{
    const bool there = device->state != DEVICE_REMOVED && !device->pending;
    return there ? offer_find(device->offer, device->offer_count, spec->train_local.name) : NULL;
}

static size_t count_form(const struct core *core, const struct job_spec *spec, const char *wanted)
{
    size_t count = 0;
    for (size_t i = 0; i < core_device_count(core); i++) {
        const struct offer *offer = offer_of(core_device_at(core, i), spec);
        char form[OFFER_FORM_SIZE] = "";
        if (offer) {
            offer_form(offer, form);
        }
        count += offer && strcmp(form, wanted) == 0;
    }
    return count;
}

/* Choose the form that most devices offer, the first one in a tie. Return one such offer or NULL.
 */
static const struct offer *choose_form(const struct core *core, struct job_spec *spec)
{
    const struct offer *best = NULL;
    size_t most = 0;
    for (size_t i = 0; i < core_device_count(core); i++) {
        const struct offer *offer = offer_of(core_device_at(core, i), spec);
        char form[OFFER_FORM_SIZE];
        if (!offer) {
            continue;
        }
        offer_form(offer, form);
        const size_t count = count_form(core, spec, form);
        if (count > most) {
            most = count;
            best = offer;
            memcpy(spec->train_local.form, form, sizeof(form));
        }
    }
    return best;
}

static void add_up(const struct core *core, struct posted_job *posted)
{
    const struct job_spec *spec = &posted->spec;
    struct dataset *out = &posted->local;
    int64_t held = 0;
    for (size_t i = 0; i < core_device_count(core); i++) {
        const struct offer *offer = offer_of(core_device_at(core, i), spec);
        char form[OFFER_FORM_SIZE] = "";
        if (offer) {
            offer_form(offer, form);
        }
        if (offer && strcmp(form, spec->train_local.form) == 0) {
            out->samples += offer->samples;
            out->classes = offer->classes > out->classes ? offer->classes : out->classes;
            for (size_t c = 0; c < offer->class_count_count; c++) {
                out->class_count[c] += offer->class_count[c];
            }
            held += job_held(spec, offer);
        }
    }
    if (held > 0) {
        posted->data.test_samples = held;
        posted->data.epoch_samples = out->samples - held;
    }
}

const struct dataset *posted_local(const struct coordinator *coordinator, struct posted_job *posted,
                                   const struct dataset *test, struct record_faults *faults)
{
    struct job_spec *spec = &posted->spec;
    struct dataset *out = &posted->local;
    const char *name = spec->train_local.name;
    spec->train_local.device.text[0] = spec->train_local.sha256[0] = '\0';
    spec->test_local.classes = 0;
    const struct offer *offer = choose_form(coordinator->core, spec);
    if (!offer) {
        record_fault(faults, "/dataset/train/local",
                     "no device offers a data set '%s'; start agents with --data %s=PATH", name,
                     name);
        return NULL;
    }
    *out = (struct dataset){.height = offer->height,
                            .width = offer->width,
                            .channels = offer->channels,
                            .positions = offer->positions};
    snprintf(out->name, sizeof(out->name), "%s", name);
    memcpy(out->dtype, offer->dtype, sizeof(out->dtype));
    memcpy(out->class_names_sha256, offer->class_names_sha256, SHA256_SIZE);
    memcpy(out->reading, offer->reading, sizeof(out->reading));
    add_up(coordinator->core, posted);
    const bool named = out->class_names_sha256[0] != '\0';
    if (test && named && test->class_names_sha256[0] != '\0' &&
        strcmp(test->class_names_sha256, out->class_names_sha256) != 0) {
        record_fault(faults, "/dataset/test",
                     "its class names are not those that devices have "
                     "for '%s'",
                     name);
        return NULL;
    }
    if (test && !named && test->classes > out->classes) {
        out->classes = test->classes; /* devices may lack the last classes */
    }
    spec->train_local.classes = out->classes;
    if (out->classes <= OFFER_CLASSES_MAX && out->positions <= 1) {
        out->class_count_count = (size_t)out->classes; /* otherwise devices do not count them */
    }
    return out;
}
