#include "coordinator/core/placement/matching.h"

#include <string.h>

#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"
#include "libtrain/kernels/kernel_table.h"

/* First protocol version whose agents overlap steps and know the strict order. */
#define ASYNC_PROTOCOL 2

static bool has_labels(const struct device *device, const struct label *label, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < device->label_count && (strcmp(label[i].key, device->label[k].key) != 0 ||
                                           strcmp(label[i].value, device->label[k].value) != 0)) {
            k++;
        }
        if (k == device->label_count) {
            return false;
        }
    }
    return true;
}

bool matching_servers(const struct job_spec *spec, const struct device *device)
{
    const struct server_options *options = &spec->parameter_server;
    return has_labels(device, options->server_label, options->server_label_count);
}

bool matching_workers(const struct job_spec *spec, const struct device *device)
{
    const struct server_options *options = &spec->parameter_server;
    return has_labels(device, options->worker_label, options->worker_label_count);
}

bool matching_labels(const struct job_spec *spec, const struct device *device)
{
    return has_labels(device, spec->device_label, spec->device_label_count) &&
           (matching_servers(spec, device) || matching_workers(spec, device));
}

bool matching_class(const struct job_spec *spec, const struct device *device)
{
    return spec->numeric_class[0] == '\0' ||
           strcmp(spec->numeric_class, device->numeric_class) == 0;
}

enum matching_offer matching_offer(const struct job_spec *spec, const struct device *device)
{
    const struct local_train *local = &spec->train_local;
    const struct offer *offer = offer_find(device->offer, device->offer_count, local->name);
    char form[OFFER_FORM_SIZE];
    if (!offer ||
        (local->device.text[0] != '\0' && !id_equal(local->device.text, device->id.text)) ||
        (local->sha256[0] != '\0' && !offer_has(offer, local->sha256))) {
        return OFFER_NONE;
    }
    offer_form(offer, form);
    return strcmp(form, local->form) != 0                         ? OFFER_OF_OTHER_FORM
           : offer->classes > local->classes                      ? OFFER_OF_MORE_CLASSES
           : offer->samples - job_held(spec, offer) < spec->batch ? OFFER_OF_FEW_SAMPLES
                                                                  : OFFER_FITS;
}

bool matching_data(const struct placement_request *request, const struct device *device)
{
    return !job_is_local(request->spec) || matching_offer(request->spec, device) == OFFER_FITS;
}

static bool has_local(const struct placement_request *request)
{
    return job_is_local(request->spec);
}

static bool has_shard(const struct placement_request *request)
{
    return request->spec->has_view && request->spec->view.is_shard;
}

static bool has_view(const struct placement_request *request)
{
    return request->spec->has_view;
}

static bool overlaps(const struct placement_request *request)
{
    return request->spec->pipeline == JOB_ASYNC;
}

static bool judges(const struct placement_request *request)
{
    return request->spec->has_stop || request->spec->has_checkpoint;
}

/* Whether the model needs the op select, or winograd4 for all channels from 16. */
static bool has_slices(const struct placement_request *request)
{
    return model_has(request->model, OP_SELECT) || kernel_table_fills_channels(request->model);
}

/* The needs of a job beside its strategy, and the first protocol version that meets each. */
static const struct requirement {
    int64_t protocol;
    bool (*has)(const struct placement_request *request);
    const char *words; /* an agent trains ... */
} requirements[] = {
    {6, has_local, "on a data set of its own"},
    {6, has_shard, "on a shard of a data set"},
    {3, has_view, "with a view"},
    {ASYNC_PROTOCOL, overlaps, "pipeline 'async'"},
    {4, judges, "with 'stop' or 'checkpoint'"},
    {3, has_slices, "slices of models"},
};
#define REQUIREMENTS (sizeof(requirements) / sizeof(requirements[0]))

bool matching_protocol(const struct placement_request *request, const struct device *device)
{
    bool speaks = device->protocol >= strategy_since(request->spec->strategy);
    for (size_t i = 0; i < REQUIREMENTS && device->protocol < PROTOCOL_VERSION && speaks; i++) {
        speaks = device->protocol >= requirements[i].protocol || !requirements[i].has(request);
    }
    return speaks;
}

void matching_protocol_words(const struct placement_request *request, char *out, size_t size)
{
    const int strategy = request->spec->strategy;
    size_t i = 0;
    if (strategy_since(strategy) > PROTOCOL_VERSION_MIN) {
        text_set(out, size, "with strategy '%s'", job_strategy_names[strategy]);
        return;
    }
    while (i + 1 < REQUIREMENTS && !requirements[i].has(request)) {
        i++;
    }
    text_set(out, size, "%s", requirements[i].words);
}

bool matching_strict_order(const struct device *device)
{
    return device->protocol >= ASYNC_PROTOCOL;
}

bool matching_kernels(const struct placement_request *request, const struct device *device)
{
    bool measured = request->job && request->job->job.data.tune;
    return measured || conv2d_backend_of(device->numeric_class) == CONV2D_BACKEND_ONEDNN ||
           !kernel_table_needs_onednn(request->model);
}
