/* view.h: the subset of a data set that a job trains on, and its label numbering: all samples of
 * some classes, and in each epoch a draw of the others (docs/jobs.md, "Views"). Used by schema (a
 * field of jobs), the coordinator (sizes), and the sampler (samples). Nothing here depends on the
 * order in which classes are listed but the labels. Pure; any thread. */
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
    VIEW_NUMBERS_VIEW, /* the place of its class among the own ones; of every other: class_count */
    VIEW_NUMBERS_DATA, /* its class number in the data set: the model knows all classes */
};
extern const char *const view_numbers_names[];

/* A view's own classes, distinct, in the order of their places. */
struct view {
    int64_t class[VIEW_CLASSES_MAX];
    size_t class_count;
    double negatives; /* samples of other classes in an epoch, by own samples; 0 to
                         VIEW_NEGATIVES_MAX */
    double holdout;   /* the share of each own class that is not trained on; 0 to
                         VIEW_HOLDOUT_MAX */
    int numbers;      /* enum view_numbers */
};

/* Numbers of samples. */
struct view_sizes {
    uint64_t own;    /* of own classes, without the hold-out: all of them in each epoch */
    uint64_t held;   /* the hold-out: of own classes, in no epoch */
    uint64_t others; /* of other classes */
    uint64_t drawn;  /* those of them in an epoch */
};

/* The hold-out of an own class of that many samples: the share, rounded down, and at least one; 0
 * if the view has no hold-out. */
uint64_t view_held(const struct view *view, uint64_t samples);

/* Compute the sizes from the samples of each class, count[class_count]. Classes from class_count on
 * have none.
 * drawn = negatives * own, rounded to the nearest number, but at least one with negatives above 0,
 * and at most `others`. */
void view_sizes(const struct view *view, const int64_t *count, size_t class_count,
                struct view_sizes *out);
/* The samples of an epoch. */
static inline uint64_t view_epoch(const struct view_sizes *sizes)
{
    return sizes->own + sizes->drawn;
}

/* Labels by class number. */
struct view_labels {
    int32_t of[VIEW_CLASSES_MAX];
    int32_t other; /* of larger class numbers */
};
void view_labels(const struct view *view, struct view_labels *out);
/* The label of a class of the data set. */
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
/* Split a data set. The hold-out of each class is drawn as a function of (seed, class). count: of
 * view_count. */
void view_split(const struct view *view, uint64_t seed, const unsigned char *stored,
                uint64_t samples, const int64_t count[VIEW_CLASSES_MAX],
                const struct view_samples *out);

/* Choose sizes->drawn of others[sizes->others], rising and without repetition, as a function of
 * (seed, epoch). */
void view_draw(const struct view_sizes *sizes, uint64_t seed, int64_t epoch, const uint32_t *others,
               uint32_t *out);

#endif
