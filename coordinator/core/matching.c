#include "coordinator/core/matching.h"

#include <string.h>

#include "coordinator/core/state.h"
#include "libtrain/kernels/kernel_table.h"

/* The first version of the protocol whose agents overlap steps, and know the strict order. */
#define ASYNC_PROTOCOL 2
/* The first version that has views. */
#define VIEW_PROTOCOL 3
/* The first version that judges evaluations and stores checkpoints while a job trains. */
#define STOP_PROTOCOL 4
/* The first version that has the op select, and winograd4 for all channels from 16. */
#define SLICE_PROTOCOL 3

bool matching_labels(const struct job_spec *spec, const struct device *device)
{
    for (size_t i = 0; i < spec->device_label_count; i++) {
        size_t k = 0;
        while (k < device->label_count &&
               (strcmp(spec->device_label[i].key, device->label[k].key) != 0 ||
                strcmp(spec->device_label[i].value, device->label[k].value) != 0)) {
            k++;
        }
        if (k == device->label_count) {
            return false;
        }
    }
    return true;
}

bool matching_class(const struct job_spec *spec, const struct device *device)
{
    return spec->numeric_class[0] == '\0' ||
           strcmp(spec->numeric_class, device->numeric_class) == 0;
}

bool matching_protocol(const struct placement_request *request, const struct device *device)
{
    const struct job_spec *spec = request->spec;
    return (spec->pipeline != JOB_ASYNC || device->protocol >= ASYNC_PROTOCOL) &&
           (!spec->has_view || device->protocol >= VIEW_PROTOCOL) &&
           (!(spec->has_stop || spec->has_checkpoint) || device->protocol >= STOP_PROTOCOL) &&
           (device->protocol >= SLICE_PROTOCOL ||
            !(model_has(request->model, OP_SELECT) || kernel_table_fills_channels(request->model)));
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
