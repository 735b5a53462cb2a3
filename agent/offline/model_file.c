#include "agent/offline/model_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/runtime/hashed_draft.h"
#include "base/file.h"
#include "base/json.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"

static int read_header(struct model_file *file, struct err *err)
{
    uint8_t prefix[8];
    uint64_t size = 0;
    struct stat status;
    if (fstat(file->fd, &status) != 0) {
        return err_set(err, err_from_errno(errno), "%s", strerror(errno));
    }
    if (status.st_size < (off_t)sizeof(prefix)) {
        return err_set(err, ERR_FORMAT, "it has only %lld bytes", (long long)status.st_size);
    }
    int rc = file_read_at(file->fd, prefix, sizeof(prefix), 0, err);
    rc = rc ? rc : safetensors_header_bytes(prefix, &size, err);
    if (rc == 0 && size > (uint64_t)status.st_size) {
        rc = err_set(err, ERR_FORMAT, "its header has %" PRIu64 " bytes, the file %lld", size,
                     (long long)status.st_size);
    }
    if (rc != 0) {
        return rc;
    }
    char *bytes = malloc((size_t)size);
    rc = bytes ? file_read_at(file->fd, bytes, (size_t)size, 0, err)
               : err_set(err, ERR_MEMORY, "its header");
    rc = rc ? rc : trained_read(bytes, (size_t)size, &file->trained, err);
    free(bytes);
    if (rc != 0) {
        return rc;
    }
    const struct safetensors_header *header = &file->trained->header;
    if (header->data_offset + header->data_bytes != (uint64_t)status.st_size) {
        return err_set(err, ERR_FORMAT, "it has %lld bytes, its header says %" PRIu64,
                       (long long)status.st_size, header->data_offset + header->data_bytes);
    }
    return 0;
}

int model_file_open(const char *path, bool described, struct model_file *out, struct err *err)
{
    *out = (struct model_file){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (out->fd < 0) {
        return err_set(err, err_from_errno(errno), "open '%s': %s", path, strerror(errno));
    }
    int rc = read_header(out, err);
    if (rc != 0) {
        return err_wrap(err, rc == ERR_FORMAT ? "'%s' is not a model" : "model '%s'", path);
    }
    if (described && out->trained->model) {
        return err_set(err, ERR_INVALID, "model '%s' contains its description: omit --model", path);
    }
    if (!described && !out->trained->model) {
        return err_set(
            err, ERR_INVALID,
            "model '%s' does not contain its description: add --model, with a name of the "
            "zoo or a JSON file",
            path);
    }
    if (described && out->trained->header.tensor_count == 0) {
        return err_set(err, ERR_INVALID, "'%s' is not a model: it has no tensors", path);
    }
    out->model = out->trained->model;
    return 0;
}

int model_file_describe(struct model_file *file, const char *name, const struct dataset_info *info,
                        struct err *err)
{
    const char *text = zoo_text(name);
    const struct safetensors_header *header = &file->trained->header;
    const struct safetensors_tensor *last =
        header->tensor_count ? &header->tensor[header->tensor_count - 1] : NULL;
    const bool few =
        last && last->rank > 0 && last->dim[0] >= 1 && last->dim[0] <= MODEL_ELEMENTS_MAX;
    const struct model_fit fit = {.input = {.h = info->h, .w = info->w, .c = info->c},
                                  .dtype = info->dtype,
                                  .classes = few ? (uint32_t)last->dim[0] : 1,
                                  .positions = info->positions};
    json_auto_t *description = NULL;
    BUF_AUTO struct buf read;
    buf_init(&read, MODEL_DESCRIPTION_BYTES_MAX);
    int rc = text ? json_parse(text, strlen(text), &description, err) : file_read(name, &read, err);
    if (rc == 0 && !text) {
        rc = json_parse(read.data ? read.data : "", read.size, &description, err);
    }
    rc = rc ? rc : description_parse(description, &fit, &file->described, NULL, err);
    file->model = file->described;
    return rc == 0 ? 0 : err_wrap(err, "--model '%s'", name);
}

/* Load a unit's state from the file's tensors, which may be in any order. */
static int load_unit(const struct model_file *file, struct train_stage *stage, size_t unit,
                     struct err *err)
{
    static const struct optimizer none = {.type = OPTIMIZER_SGD};
    const struct safetensors_header *from = &file->trained->header;
    struct state_layout *layout AUTO(state_layout_free) = NULL;
    int rc = state_layout_new(file->model, unit, &none, &layout, err);
    char *blob = rc ? NULL : malloc((size_t)layout->blob_bytes);
    if (rc == 0 && !blob) {
        rc = err_set(err, ERR_MEMORY, "unit of %" PRIu64 " bytes", layout->blob_bytes);
    }
    if (rc == 0) {
        memcpy(blob, layout->header_text, (size_t)layout->header.data_offset);
    }
    for (size_t i = 0; rc == 0 && i < layout->header.tensor_count; i++) {
        const struct safetensors_tensor *to = &layout->header.tensor[i];
        const struct safetensors_tensor *tensor = safetensors_find(from, to->name);
        rc = file_read_at(file->fd, blob + layout->header.data_offset + to->begin,
                          (size_t)(to->end - to->begin), from->data_offset + tensor->begin, err);
    }
    rc = rc ? rc : train_unit_load(stage, unit, blob, (size_t)layout->blob_bytes, err);
    free(blob);
    return rc;
}

int model_file_load(const struct model_file *file, struct train_stage *stage, struct err *err)
{
    int rc = 0;
    for (size_t unit = 0; rc == 0 && unit < file->model->unit_count; unit++) {
        rc = load_unit(file, stage, unit, err);
    }
    return rc;
}

void model_file_close(struct model_file *file)
{
    model_free(&file->described);
    trained_free(&file->trained);
    file_close(&file->fd);
}

/* ---- writing ---- */

int model_file_check_output(const char *path, struct err *err)
{
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        return err_set(err, ERR_INVALID, "--output '%s' exists and is not a regular file", path);
    }
    char directory[PATH_MAX];
    (void)snprintf(directory, sizeof(directory), "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash) {
        slash[1] = '\0';
    }
    if (access(slash ? directory : ".", W_OK | X_OK) != 0) {
        return err_set(err, err_from_errno(errno), "--output '%s': its directory: %s", path,
                       strerror(errno));
    }
    return 0;
}

int model_file_write(const char *path, const struct model *model, const struct model_source *source,
                     const struct evaluation *evaluation, char sha256[HASH_TEXT_SIZE],
                     struct err *err)
{
    BUF_AUTO struct buf header;
    buf_init(&header, SIZE_MAX / 2);
    struct hashed_draft draft = HASHED_DRAFT_NONE;
    int rc = trained_header(model, evaluation, &header, err);
    rc = rc ? rc : hashed_draft_open(&draft, path, 0644, err);
    rc = rc ? rc : hashed_draft_append(&draft, header.data, header.size, err);
    for (size_t unit = 0; rc == 0 && unit < model->unit_count; unit++) {
        rc = source->export_unit(source->of, unit, hashed_draft_append, &draft, err);
    }
    rc = rc ? rc : hashed_draft_keep(&draft, sha256, err);
    hashed_draft_drop(&draft);
    return rc;
}
