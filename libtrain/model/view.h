/* view.h: the subset of a data set that a job trains on, and its label numbering (docs/jobs.md,
 * "Views"): all samples of some classes, and in each epoch a draw of the others; or a shard: a
 * range of the samples of some classes (shards.h), each once in every epoch, or in shorter epochs
 * those of the largest losses more often. Used by schema (a field of jobs), the coordinator
 * (sizes), and the sampler (samples). Only the labels depend on the order in which classes are
 * listed. Pure; any thread. */
#ifndef LIBTRAIN_MODEL_VIEW_H
#define LIBTRAIN_MODEL_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define VIEW_CLASSES_MAX 1024 /* = DATASET_COUNTED_CLASSES_MAX: class numbers are below it */
#define VIEW_NEGATIVES_MAX 100
#define VIEW_HOLDOUT_MAX 0.5

/* The label of a sample. */
enum view_numbers {
    VIEW_NUMBERS_VIEW, /* the index of its class among the own classes; of every other class:
                          class_count */
    VIEW_NUMBERS_DATA, /* its class number in the data set: the model knows all classes */
};
extern const char *const view_numbers_names[];

/* Samples of a class, in the order that shards_order gives them. */
struct view_range {
    uint32_t class, first, count;
};

/* Classes with a draw of the others, or a shard; the members of the other kind are 0. */
struct view {
    bool is_shard;
    union {
        int64_t class[VIEW_CLASSES_MAX]; /* own classes, distinct, in the order of their places */
        struct view_range range[VIEW_CLASSES_MAX]; /* of a shard: of distinct classes */
    };
    size_t class_count;
    double negatives; /* samples of other classes in an epoch, per own sample; 0 to
                         VIEW_NEGATIVES_MAX */
    double holdout;   /* the share of each own class that is not trained on; 0 to
                         VIEW_HOLDOUT_MAX */
    int numbers;      /* enum view_numbers */
    /* of a shard */
    size_t range_count;
    int64_t seed;               /* of shards_order; not the job's seed */
    int64_t shard, shard_count; /* its index and their number, for people */
    int64_t window;             /* samples of an epoch; 0: all */
    double critical;            /* share of a window that is chosen by losses; 0 to 1 */
};
/* Return whether an epoch has only a part of a shard, which depends on losses. */
static inline bool view_has_window(const struct view *view)
{
    return view->is_shard && view->window > 0;
}

/* Return whether labels are indices among the view's classes, not class numbers. */
static inline bool view_has_places(const struct view *view)
{
    return !view->is_shard && view->numbers == VIEW_NUMBERS_VIEW;
}

/* Numbers of samples. */
struct view_sizes {
    uint64_t own;    /* of own classes, without the hold-out, or of the shard: all of them in each
                        epoch */
    uint64_t held;   /* the hold-out: of own classes, in no epoch */
    uint64_t others; /* of other classes; 0 for a shard */
    uint64_t drawn;  /* samples of other classes in an epoch */
    uint64_t window; /* of a shard: samples of an epoch; 0: all */
};

/* Return the hold-out of an own class with `samples` samples: the share, rounded down, but at least
 * one; 0 if the view has no hold-out. */
uint64_t view_held(const struct view *view, uint64_t samples);

/* Return the first range of a shard that does not fit count[class_count], the samples of each
 * class: it ends after them, or an earlier range has the same class. range_count: all fit. */
size_t view_misfit(const struct view *view, const int64_t *count, size_t class_count);

/* Compute the sizes from the samples of each class, count[class_count]. Classes from class_count on
 * have none.
 * drawn = negatives * own, rounded to the nearest number, but at least one with negatives above 0,
 * and at most `others`. */
void view_sizes(const struct view *view, const int64_t *count, size_t class_count,
                struct view_sizes *out);
/* Return the number of samples of an epoch. */
static inline uint64_t view_epoch(const struct view_sizes *sizes)
{
    return sizes->window > 0 ? sizes->window : sizes->own + sizes->drawn;
}

/* Labels by class number. */
struct view_labels {
    int32_t of[VIEW_CLASSES_MAX];
    int32_t other; /* of larger class numbers */
};
void view_labels(const struct view *view, struct view_labels *out);
/* Return the label of a class of the data set. */
static inline int32_t view_label(const struct view_labels *labels, int32_t class)
{
    return class >= 0 && class < VIEW_CLASSES_MAX ? labels->of[class] : labels->other;
}

/* Count the samples of each class; larger numbers are not counted. stored: I32, little-endian, of
 * any alignment, one label a sample. */
void view_count(const unsigned char *stored, uint64_t samples, int64_t count[VIEW_CLASSES_MAX]);

/* Samples by their index in the data set, rising; arrays of the caller with the view's sizes. */
struct view_samples {
    uint32_t *own, *held, *others;
};
/* Split a data set by a view that is not a shard. The hold-out of each class is drawn as a function
 * of (seed, class). count: of view_count. */
void view_split(const struct view *view, uint64_t seed, const unsigned char *stored,
                uint64_t samples, const int64_t count[VIEW_CLASSES_MAX],
                const struct view_samples *out);

/* List the samples of a shard that fits `count`, class by class. order: scratch of `samples`; out:
 * [view_sizes.own]. */
void view_list_shard(const struct view *view, const unsigned char *stored, uint64_t samples,
                     const int64_t count[VIEW_CLASSES_MAX], uint32_t *order, uint32_t *out);

/* Choose sizes->drawn samples of others[sizes->others], rising and without repetition, as a
 * function of (seed, epoch). */
void view_draw(const struct view_sizes *sizes, uint64_t seed, int64_t epoch, const uint32_t *others,
               uint32_t *out);

#endif
