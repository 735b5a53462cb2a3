#include "libtrain/state/trained.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/record.h"
#include "libtrain/description/description.h"
#include "libtrain/memory/arena.h"
#include "libtrain/state/state.h"

#define SHAPE_TEXT_MAX 96

struct document {
    json_t *model;
    struct evaluation evaluation;
};

static const struct field class_element = {
    .type = FIELD_INT, .min = 0, .max = VIEW_CLASSES_MAX - 1};
static const struct field evaluation_field[] = {
    MEMBER_INT(struct evaluation, micro_batch, "micro_batch", 0, 1, ARENA_MICRO_BATCH_MAX),
    MEMBER_LIST(struct evaluation, view.class, view.class_count, "classes", FIELD_SKIP_EMPTY,
                &class_element),
};
static const struct record evaluation_record =
    RECORD(struct evaluation, "evaluation", evaluation_field);

static const struct field document_field[] = {
    MEMBER_JSON(struct document, model, "model", FIELD_REQUIRED),
    MEMBER_RECORD(struct document, evaluation, "evaluation", 0, &evaluation_record),
};
static const struct record document_record =
    RECORD(struct document, "trained model", document_field);

/* ---- writing ---- */

int trained_header(const struct model *model, const struct evaluation *evaluation, struct buf *out,
                   struct err *err)
{
    BUF_AUTO struct buf text;
    buf_init(&text, STATE_NOTE_MAX);
    struct document document = {.model = description_write(model), .evaluation = *evaluation};
    json_auto_t *value = document.model ? record_write(&document_record, &document) : NULL;
    record_done(&document_record, &document);
    int rc = value ? json_write(value, &text, err)
                   : err_set(err, ERR_MEMORY, "no memory for a model's description");
    return rc ? rc : state_export_header(model, text.data, out, err);
}

/* ---- reading ---- */

void trained_free(struct trained_file **file)
{
    if (*file) {
        free((*file)->header.tensor);
        model_free(&(*file)->model);
        free(*file);
        *file = NULL;
    }
}

static int check_classes(const struct model *model, const struct view *view, struct err *err)
{
    return view->class_count == 0 || view->class_count + 1 == model->classes
               ? 0
               : err_set(err, ERR_INVALID,
                         "/evaluation/classes: %zu for a model of %u outputs, of which the last is "
                         "for other classes",
                         view->class_count, model->classes);
}

int trained_read_note(const char *text, struct model **model, struct evaluation *evaluation,
                      struct err *err)
{
    json_auto_t *value = NULL;
    struct document document = {.evaluation.micro_batch = EVALUATION_MICRO_BATCH};
    int rc = json_parse(text, strlen(text), &value, err);
    rc = rc ? rc : record_read(&document_record, value, "", &document, NULL, err);
    rc = rc ? rc : description_parse(document.model, NULL, model, NULL, err);
    rc = rc ? rc : check_classes(*model, &document.evaluation.view, err);
    if (rc == 0) {
        *evaluation = document.evaluation;
    } else {
        model_free(model);
    }
    record_done(&document_record, &document);
    return rc;
}

static void free_text(char **text)
{
    free(*text);
}

int trained_read(const void *bytes, size_t size, struct trained_file **out, struct err *err)
{
    struct trained_file *file AUTO(trained_free) = calloc(1, sizeof(*file));
    char *text AUTO(free_text) = malloc(size + 1);
    if (file) {
        file->header.tensor = calloc(MODEL_TENSORS_MAX, sizeof(*file->header.tensor));
    }
    if (!file || !text || !file->header.tensor) {
        return err_set(err, ERR_MEMORY, "no memory for the header of a model");
    }
    file->evaluation = (struct evaluation){.micro_batch = EVALUATION_MICRO_BATCH};
    file->header.tensor_capacity = MODEL_TENSORS_MAX;
    file->header.text = text;
    file->header.text_capacity = size + 1;
    int rc = safetensors_parse(bytes, size, &file->header, err);
    const char *document = rc ? NULL : safetensors_metadata(&file->header, STATE_NOTE_KEY);
    if (document && (rc = trained_read_note(document, &file->model, &file->evaluation, err))) {
        rc = err ? err_wrap(err, "what the file says of its model") : rc;
    }
    if (rc) {
        return rc;
    }
    /* The text lives only during this call. Everything in it has been read. */
    file->header.text = NULL;
    file->header.text_capacity = file->header.metadata_count = 0;
    *out = file;
    file = NULL;
    return 0;
}

/* ---- comparing ---- */

/* "64 x 3 x 3 x 3 F32" */
static void write_shape(const struct safetensors_tensor *tensor, char out[SHAPE_TEXT_MAX])
{
    size_t size = 0;
    out[0] = '\0';
    for (size_t i = 0; i < tensor->rank && size < SHAPE_TEXT_MAX; i++) {
        size += (size_t)snprintf(out + size, SHAPE_TEXT_MAX - size, "%s%llu", i ? " x " : "",
                                 (unsigned long long)tensor->dim[i]);
    }
    if (size < SHAPE_TEXT_MAX) {
        (void)snprintf(out + size, SHAPE_TEXT_MAX - size, " %s", dtype_name(tensor->dtype));
    }
}

/* Counts differences and keeps the first. */
struct differences {
    size_t count;
    char first[SAFETENSORS_NAME_MAX + 2 * SHAPE_TEXT_MAX + 64];
};

static void compare(const struct trained_file *file, const struct safetensors_tensor *wanted,
                    struct differences *differences)
{
    const struct safetensors_tensor *found = safetensors_find(&file->header, wanted->name);
    char expected[SHAPE_TEXT_MAX];
    char actual[SHAPE_TEXT_MAX];
    bool same = found && found->dtype == wanted->dtype && found->rank == wanted->rank;
    for (size_t i = 0; same && i < wanted->rank; i++) {
        same = found->dim[i] == wanted->dim[i];
    }
    if (same || differences->count++ > 0) {
        return;
    }
    write_shape(wanted, expected);
    if (found) {
        write_shape(found, actual);
        (void)snprintf(differences->first, sizeof(differences->first),
                       "tensor '%s' is %s, the model's is %s", wanted->name, actual, expected);
    } else {
        (void)snprintf(differences->first, sizeof(differences->first),
                       "tensor '%s' (%s) is missing", wanted->name, expected);
    }
}

/* The file has more tensors than the model: name one of them. */
static void find_extra(const struct trained_file *file, const struct model *model,
                       struct differences *differences)
{
    for (size_t i = 0; i < file->header.tensor_count; i++) {
        const char *name = file->header.tensor[i].name;
        if (!state_has_tensor(model, name)) {
            (void)snprintf(differences->first, sizeof(differences->first),
                           "tensor '%s' is not part of the model", name);
            return;
        }
    }
}

int trained_check(const struct trained_file *file, const struct model *model, struct err *err)
{
    static const struct optimizer none = {.type = OPTIMIZER_SGD};
    struct differences differences = {0};
    size_t known = 0;
    for (size_t unit = 0; unit < model->unit_count; unit++) {
        struct state_layout *layout AUTO(state_layout_free) = NULL;
        int rc = state_layout_new(model, unit, &none, &layout, err);
        if (rc) {
            return rc;
        }
        for (size_t i = 0; i < layout->header.tensor_count; i++, known++) {
            compare(file, &layout->header.tensor[i], &differences);
        }
    }
    if (differences.count == 0 && file->header.tensor_count > known) {
        differences.count = file->header.tensor_count - known;
        find_extra(file, model, &differences);
    }
    if (differences.count == 0) {
        return 0;
    }
    char more[48] = "";
    if (differences.count > 1) {
        (void)snprintf(more, sizeof(more), "; %zu more tensors differ", differences.count - 1);
    }
    return err_set(err, ERR_INVALID, "%s%s", differences.first, more);
}
