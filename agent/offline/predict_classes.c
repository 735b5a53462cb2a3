#include "agent/offline/predict_classes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libtrain/formats/class_names.h"

/* Return the view on which the model was trained; NULL: none. */
static const struct view *view_of(const struct model_file *file)
{
    const struct view *view = file->trained ? &file->trained->evaluation.view : NULL;
    return view && view->class_count > 0 ? view : NULL;
}

/* "class 3", "class 7", "other" for a model whose classes have only numbers. */
static int name_outputs(const struct view *view, struct name_list *out, struct err *err)
{
    static const char other[] = "other";
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < view->class_count; i++) {
        char name[32];
        const int length = snprintf(name, sizeof(name), "class %" PRId64, view->class[i]);
        rc = name_list_append(out, name, (size_t)length, err);
    }
    return rc ? rc : name_list_append(out, other, strlen(other), err);
}

/* Match classes by name, because the data and the model may number the same names differently. With
 * a view, all classes that the model does not know map to its last output. */
static int match_names(const struct model *model, const struct view *view,
                       const struct name_list *names, int32_t *out, struct err *err)
{
    char unknown[CLASS_NAMES_LISTED_MAX], known[CLASS_NAMES_LISTED_MAX];
    int rc = class_names_map(names, &model->class_names, out, err);
    if (rc == 0 && !view && class_names_absent(names, &model->class_names, unknown) > 0) {
        class_names_list(&model->class_names, known);
        return err_set(err, ERR_INVALID,
                       "the data has classes unknown to the model '%s': %s; it knows %s",
                       model->name, unknown, known);
    }
    for (size_t i = 0; rc == 0 && i < names->count; i++) {
        out[i] = out[i] < 0 ? (int32_t)model->classes - 1 : out[i];
    }
    return rc;
}

static void match_numbers(const struct view *view, size_t count, int32_t *out)
{
    struct view_labels labels;
    view_labels(view, &labels);
    for (size_t i = 0; i < count; i++) {
        out[i] = view_label(&labels, (int32_t)i);
    }
}

/* Warn because the model's class numbers are those of its training set, and the data may number its
 * classes differently. */
static void warn_of_numbers(const struct model *model, const struct name_list *names)
{
    if (names->count > 0 && model->class_names.count == 0 && names->count != model->classes) {
        (void)fprintf(stderr,
                      "the model does not name its %" PRIu32
                      " classes; the data's classes are numbered 0 ('%s') to "
                      "%zu ('%s')\n",
                      model->classes, names->item[0], names->count - 1,
                      names->item[names->count - 1]);
    }
}

int predict_classes_match(const struct model_file *file, const struct dataset_info *info,
                          const struct name_list *names, struct predict_classes *out,
                          struct err *err)
{
    const struct model *model = file->model;
    const struct view *view = view_of(file);
    const bool by_name = names->count > 0 && model->class_names.count > 0;
    const size_t count = by_name ? names->count : info->classes;
    if (!by_name && !view && info->classes > model->classes) {
        return err_set(err, ERR_INVALID,
                       "the data has labels up to %u, the model '%s' only up to %u",
                       info->classes - 1, model->name, model->classes - 1);
    }
    warn_of_numbers(model, names);
    int rc = model->class_names.count > 0 ? class_names_copy(&model->class_names, &out->names, err)
             : view                       ? name_outputs(view, &out->names, err)
                                          : 0;
    if (rc || (!by_name && !view)) {
        return rc;
    }
    out->output_of = calloc(count + 1, sizeof(out->output_of[0]));
    if (!out->output_of) {
        return err_set(err, ERR_MEMORY, "no memory for %zu classes", count);
    }
    if (by_name) {
        return match_names(model, view, names, out->output_of, err);
    }
    match_numbers(view, count, out->output_of);
    return 0;
}

void predict_classes_done(struct predict_classes *classes)
{
    free(classes->output_of);
    classes->output_of = NULL;
    name_list_done(&classes->names);
}

void predict_classes_translate(const struct predict_classes *classes, int32_t *labels, size_t count)
{
    for (size_t i = 0; classes->output_of && i < count; i++) {
        labels[i] = classes->output_of[labels[i]];
    }
}
