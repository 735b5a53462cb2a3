#include "schema/job_view.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- the fields ---- */

static const struct field class_element = {
    .type = FIELD_INT, .min = 0, .max = VIEW_CLASSES_MAX - 1};

static const struct field view_fields[] = {
    MEMBER_LIST(struct view, class, class_count, "classes", FIELD_REQUIRED, &class_element,
                .min = 1, .about = "Class numbers of the training data: the view's own classes.",
                .rule = "distinct classes that have samples"),
    MEMBER_DOUBLE(struct view, negatives, "negatives", 0, 0, VIEW_NEGATIVES_MAX,
                  .about = "Samples of other classes in an epoch, by samples of own classes. They "
                           "are drawn again for each epoch, without repetition; at most all.",
                  .rule = "0 if no other class has samples; above 0 with one class"),
    MEMBER_DOUBLE(struct view, holdout, "holdout", 0, 0, VIEW_HOLDOUT_MAX,
                  .about = "The share of each own class that is not trained on. Evaluations report "
                           "its mean recall, `recall`; 0: none.",
                  .rule = "0 if an own class has one sample"),
    MEMBER_ENUM(struct view, numbers, "numbers", 0, view_numbers_names,
                .about = "The label of a sample. `view`: the place of its class in `classes`, from "
                         "0; that of every other class is the length of the list. `data`: its "
                         "class number; the model keeps an output for each class."),
};
const struct record job_view_record =
    RECORD_WITH(struct view, "job_view", view_fields,
                .about = "The classes of the training data that the job learns to tell apart, and "
                         "from all others.");

/* ---- own classes ---- */

/* What is wrong with the class at `index` of the list; nothing: "". */
static void describe_fault(const struct view *view, const struct job_view_data *data, size_t index,
                           char out[RECORD_MESSAGE_MAX])
{
    const int64_t class = view->class[index];
    size_t earlier = 0;
    while (view->class[earlier] != class) {
        earlier++;
    }
    *out = '\0';
    if (class >= data->classes) {
        (void)snprintf(out, RECORD_MESSAGE_MAX,
                       "'%s' has no class %" PRId64 "; its classes are 0 to %" PRId64, data->name,
                       class, data->classes - 1);
    } else if (earlier < index) {
        (void)snprintf(out, RECORD_MESSAGE_MAX, "is the same class as /view/classes/%zu", earlier);
    } else if (data->count[class] == 0) {
        (void)snprintf(out, RECORD_MESSAGE_MAX, "class %" PRId64 " of '%s' has no samples", class,
                       data->name);
    }
}

static void check_classes(const struct view *view, const struct job_view_data *data,
                          struct record_faults *faults)
{
    for (size_t i = 0; i < view->class_count && !faults->more; i++) {
        char message[RECORD_MESSAGE_MAX], pointer[RECORD_POINTER_MAX];
        describe_fault(view, data, i, message);
        if (message[0] != '\0') {
            (void)snprintf(pointer, sizeof(pointer), "/view/classes/%zu", i);
            record_fault(faults, pointer, "%s", message);
        }
    }
}

/* ---- the other members; the classes are valid ---- */

static void check_negatives(const struct view *view, const struct job_view_data *data,
                            const struct view_sizes *sizes, struct record_faults *faults)
{
    if (view->negatives > 0 && sizes->others == 0) {
        record_fault(faults, "/view/negatives",
                     "no other class of '%s' has samples; use 0, or leave classes out", data->name);
    } else if (view->negatives <= 0 && view->class_count == 1) {
        record_fault(faults, "/view/negatives",
                     "must be above 0 with one class: without samples of others there is nothing "
                     "to tell it apart from");
    }
}

static void check_holdout(const struct view *view, const struct job_view_data *data,
                          struct record_faults *faults)
{
    for (size_t i = 0; i < view->class_count && view->holdout > 0; i++) {
        if (data->count[view->class[i]] == 1) {
            record_fault(faults, "/view/holdout",
                         "class %" PRId64 " of '%s' has one sample, which cannot be both trained "
                         "on and held out; use 0, or leave the class out",
                         view->class[i], data -> name);
            return;
        }
    }
}

/* Whether the data can have a view at all. */
static bool check_data(const struct job_view_data *data, struct record_faults *faults)
{
    if (data->positions > 1) {
        record_fault(faults, "/view",
                     "a view needs one label a sample; the samples of '%s' have %" PRId64,
                     data->name, data->positions);
    } else if (data->classes > VIEW_CLASSES_MAX) {
        record_fault(faults, "/view",
                     "a view needs a data set with at most %d classes; '%s' has %" PRId64,
                     VIEW_CLASSES_MAX, data->name, data->classes);
    } else if (data->counted == 0) {
        record_fault(faults, "/view",
                     "the classes of '%s' were not counted when it was stored; upload it again",
                     data->name);
    } else {
        return true;
    }
    return false;
}

int job_view_check(const struct job_spec *spec, const struct job_view_data *data,
                   struct view_sizes *out, struct record_faults *faults, struct err *err)
{
    const struct view *view = &spec->view;
    const size_t before = faults->count;
    struct view_sizes sizes = {0};
    if (check_data(data, faults)) {
        check_classes(view, data, faults);
    }
    if (faults->count == before && !faults->more) {
        view_sizes(view, data->count, data->counted, &sizes);
        check_negatives(view, data, &sizes, faults);
        check_holdout(view, data, faults);
    }
    if (faults->count > before || faults->more) {
        const struct record_fault *first = &faults->fault[before < faults->count ? before : 0];
        return err_set(err, ERR_INVALID, "%s: %s", first->pointer, first->message);
    }
    *out = sizes;
    return 0;
}
