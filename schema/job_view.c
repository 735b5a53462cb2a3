#include "schema/job_view.h"

#include <inttypes.h>
#include <stdio.h>

#include "libtrain/model/shards.h"
#include "schema/limits.h"

/* ---- the fields ---- */

static const struct field class_element = {
    .type = FIELD_INT, .min = 0, .max = VIEW_CLASSES_MAX - 1};

static const struct field range_fields[] = {
    MEMBER_UINT32(struct view_range, class, "class", FIELD_REQUIRED, 0, VIEW_CLASSES_MAX - 1,
                  .about = "The number of the class in the training data."),
    MEMBER_UINT32(struct view_range, first, "first", FIELD_REQUIRED, 0, UINT32_MAX,
                  .about = "The index of the first sample in the order of the class, from 0."),
    MEMBER_UINT32(struct view_range, count, "count", FIELD_REQUIRED, 1, UINT32_MAX,
                  .about = "The number of samples from the first one on, in this order.",
                  .rule = "within the samples of the class"),
};
static const struct record range_record =
    RECORD_WITH(struct view_range, "class_range", range_fields,
                .about = "Samples of one class, in the order that the seed of the shard gives it.");

static const struct field shard_fields[] = {
    MEMBER_INT(struct view, shard, "index", FIELD_REQUIRED, 0, SHARDS_MAX - 1,
               .about = "The number of this shard. It only informs readers: `class_ranges` "
                        "determines the samples.",
               .rule = "below `view.shard.count`"),
    MEMBER_INT(struct view, shard_count, "count", FIELD_REQUIRED, 1, SHARDS_MAX,
               .about = "The number of shards. It only informs readers, too."),
    MEMBER_INT(struct view, seed, "seed", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Seed of the order of each class's samples. All shards of one division "
                        "have the same seed. `init.seed` does not change the order."),
    MEMBER_RECORDS(struct view, range, range_count, "class_ranges", FIELD_REQUIRED, &range_record,
                   .min = 1,
                   .about = "The samples: `[{\"class\": 3, \"first\": 0, \"count\": 500}, ...]` "
                            "has the first 500 of class 3 in its order.",
                   .rule = "distinct classes"),
    MEMBER_INT(struct view, window, "window", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "The number of samples in an epoch, if an epoch has only a part of the "
                        "shard. The samples follow in turn. Left out: all.",
               .rule = "at most those of the shard; with `devices.max` 1 and `pipeline` `sync`"),
    MEMBER_DOUBLE(struct view, critical, "critical", FIELD_SKIP_EMPTY, 0, 1,
                  .about = "The share of a window for the samples whose loss was largest when they "
                           "were last used.",
                  .rule = "with `window`"),
};
static const struct record shard_record =
    RECORD_WITH(struct view, "view_shard", shard_fields,
                .about = "Some samples of some classes, each once in an epoch.");

static const struct field view_fields[] = {
    MEMBER_LIST(struct view, class, class_count, "classes", FIELD_REQUIRED, &class_element,
                .unless = "shard", .min = 1,
                .about = "Class numbers of the training data: the view's own classes.",
                .rule = "distinct classes that have samples; required without `shard`"),
    MEMBER_DOUBLE(struct view, negatives, "negatives", 0, 0, VIEW_NEGATIVES_MAX, .unless = "shard",
                  .about = "Samples of other classes in an epoch, for each sample of an own class. "
                           "They are drawn again for each epoch, without repetition; at most all.",
                  .rule = "0 if no other class has samples; above 0 with one class"),
    MEMBER_DOUBLE(struct view, holdout, "holdout", 0, 0, VIEW_HOLDOUT_MAX, .unless = "shard",
                  .about = "The share of each own class that is not trained on. Evaluations report "
                           "the mean recall of these samples, `recall`; 0: none.",
                  .rule = "0 if an own class has one sample"),
    MEMBER_ENUM(struct view, numbers, "numbers", 0, view_numbers_names, .unless = "shard",
                .about = "The label of a sample. `view`: the index of its class in `classes`, from "
                         "0; the label of all other classes is the length of the list. `data`: its "
                         "class number. The model then keeps an output for each class."),
    MEMBER_GROUP_OPTIONAL(
        struct view, is_shard, "shard", FIELD_SKIP_EMPTY, &shard_record, .since = 6,
        .about = "One part of the training data, if several jobs divide it. Labels "
                 "are class numbers. Left out: a view of classes.",
        .rule = "without the other members of `view`"),
};
const struct record job_view_record = RECORD_WITH(
    struct view, "job_view", view_fields,
    .about = "The samples of the training data that the job trains on: a shard, or some classes, "
             "which the job learns to tell apart from each other and from all others.");

/* ---- classes: those of the view, or those of its shard ---- */

static int64_t class_of(const struct view *view, size_t index)
{
    return view->is_shard ? (int64_t)view->range[index].class : view->class[index];
}

static const char *list_of(const struct view *view)
{
    return view->is_shard ? "/view/shard/class_ranges" : "/view/classes";
}

/* Describe the fault of the class at `index` of the list; "" if the class is valid. */
static void describe_fault(const struct view *view, const struct job_view_data *data, size_t index,
                           char out[RECORD_MESSAGE_MAX])
{
    const int64_t class = class_of(view, index);
    const struct view_range range = view->is_shard ? view->range[index] : (struct view_range){0};
    size_t earlier = 0;
    while (class_of(view, earlier) != class) {
        earlier++;
    }
    *out = '\0';
    if (class >= data->classes) {
        (void)snprintf(out, RECORD_MESSAGE_MAX,
                       "'%s' has no class %" PRId64 "; its classes are 0 to %" PRId64, data->name,
                       class, data->classes - 1);
    } else if (earlier < index) {
        (void)snprintf(out, RECORD_MESSAGE_MAX, "is the same class as %s/%zu", list_of(view),
                       earlier);
    } else if (data->count[class] == 0) {
        (void)snprintf(out, RECORD_MESSAGE_MAX, "class %" PRId64 " of '%s' has no samples", class,
                       data->name);
    } else if ((int64_t)range.first + range.count > data->count[class]) {
        (void)snprintf(out, RECORD_MESSAGE_MAX,
                       "first + count is %" PRId64 ", but class %" PRId64 " of '%s' has %" PRId64
                       " samples",
                       (int64_t)range.first + range.count, class, data->name, data->count[class]);
    }
}

static void check_classes(const struct view *view, const struct job_view_data *data,
                          struct record_faults *faults)
{
    const size_t count = view->is_shard ? view->range_count : view->class_count;
    for (size_t i = 0; i < count && !faults->more; i++) {
        char message[RECORD_MESSAGE_MAX], pointer[RECORD_POINTER_MAX];
        describe_fault(view, data, i, message);
        if (message[0] != '\0') {
            (void)snprintf(pointer, sizeof(pointer), "%s/%zu", list_of(view), i);
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

/* A window chooses samples by their losses. The first stage chooses samples, but only the last
 * stage knows losses, so both must be one stage. */
static void check_window(const struct job_spec *spec, const struct view_sizes *sizes,
                         struct record_faults *faults)
{
    const struct view *view = &spec->view;
    const bool alone =
        spec->strategy == STRATEGY_PIPELINE && spec->pipeline == JOB_SYNC && spec->devices_max == 1;
    if (view->window > 0 && !alone) {
        record_fault(faults, "/view/shard/window",
                     "needs devices.max 1, strategy 'pipeline' and pipeline 'sync'");
    } else if ((uint64_t)view->window > sizes->own) {
        record_fault(faults, "/view/shard/window", "is more than the shard's %" PRIu64 " samples",
                     sizes->own);
    }
    if (view->critical > 0 && view->window == 0) {
        record_fault(faults, "/view/shard/critical", "needs view.shard.window");
    }
}

static void check_shard(const struct view *view, struct record_faults *faults)
{
    if (view->shard >= view->shard_count) {
        record_fault(faults, "/view/shard/index",
                     "must be below /view/shard/count, which is %" PRId64, view->shard_count);
    }
}

/* Whether the data set supports a view. */
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
    if (view->is_shard) {
        check_shard(view, faults);
    }
    const bool valid = faults->count == before && !faults->more;
    if (valid) {
        view_sizes(view, data->count, data->counted, &sizes);
    }
    if (valid && view->is_shard) {
        check_window(spec, &sizes, faults);
    }
    if (valid && !view->is_shard) {
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
