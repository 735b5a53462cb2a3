#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/rng.h"
#include "base/size.h"
#include "libtrain/data/critical.h"
#include "libtrain/train.h"

struct train_sampler {
    uint64_t seed;
    size_t batch;
    uint32_t samples; /* per epoch */
    int64_t steps_per_epoch;
    int64_t epoch;   /* epoch of `order`; -1: none yet */
    uint32_t *order; /* [samples] */
    /* The samples of a view, or of the data set without held-out samples. view.own NULL: the whole
     * data set. */
    struct view_sizes sizes;
    struct view_samples view;
    /* NULL without a window. */
    struct critical *critical;
    uint32_t *place; /* [samples] the samples of `order` as indices within the shard */
};

int64_t train_steps_per_epoch(uint64_t samples, size_t batch)
{
    return (int64_t)(samples / batch);
}

int train_sampler_new(uint64_t samples, size_t batch, uint64_t seed, struct train_sampler **out,
                      struct err *err)
{
    if (batch < 1 || samples < batch) {
        return err_set(err, ERR_INVALID, "batch of %zu samples: expected 1 to an epoch's %" PRIu64,
                       batch, samples);
    }
    if (samples > UINT32_MAX) {
        return err_set(err, ERR_LIMIT, "%" PRIu64 " samples: at most %u", samples, UINT32_MAX);
    }
    size_t bytes = 0;
    const bool fits = size_multiply((size_t)samples, sizeof(uint32_t), &bytes);
    struct train_sampler *sampler = calloc(1, sizeof(*sampler));
    if (!sampler || !fits || !(sampler->order = malloc(bytes))) {
        free(sampler);
        return err_set(err, ERR_MEMORY, "out of memory for the order of %" PRIu64 " samples",
                       samples);
    }
    sampler->seed = seed;
    sampler->batch = batch;
    sampler->samples = (uint32_t)samples;
    sampler->steps_per_epoch = train_steps_per_epoch(samples, batch);
    sampler->epoch = -1;
    *out = sampler;
    return 0;
}

static bool make_lists(struct train_sampler *sampler)
{
    /* An empty list is no failure: some allocators return NULL for zero bytes. */
    sampler->view.own = malloc((sampler->sizes.own + 1) * sizeof(uint32_t));
    sampler->view.held = malloc((sampler->sizes.held + 1) * sizeof(uint32_t));
    sampler->view.others = malloc((sampler->sizes.others + 1) * sizeof(uint32_t));
    return sampler->view.own && sampler->view.held && sampler->view.others;
}

/* List the samples of the shard as the view's own samples. */
static int list_shard(struct train_sampler *sampler, const struct view *view,
                      const unsigned char *labels, uint64_t samples, const int64_t *count,
                      struct err *err)
{
    uint32_t *order = malloc((size_t)samples * sizeof(*order));
    if (!order) {
        return err_set(err, ERR_MEMORY, "out of memory for a shard of %" PRIu64 " samples",
                       sampler->sizes.own);
    }
    view_list_shard(view, labels, samples, count, order, sampler->view.own);
    free(order);
    return 0;
}

static int make_window(struct train_sampler *sampler, const struct view *view, struct err *err)
{
    if (!view_has_window(view)) {
        return 0;
    }
    sampler->place = malloc(sampler->samples * sizeof(*sampler->place));
    if (!sampler->place) {
        return err_set(err, ERR_MEMORY, "out of memory for a window of %u samples",
                       sampler->samples);
    }
    return critical_new((size_t)sampler->sizes.own, sampler->samples, view->critical, sampler->seed,
                        &sampler->critical, err);
}

/* Check that the data set has the samples of the shard: the job may expect other data. */
static int check_shard(const struct view *view, const int64_t *count, struct err *err)
{
    const size_t misfit = view_misfit(view, count, VIEW_CLASSES_MAX);
    if (misfit == view->range_count) {
        return 0;
    }
    const struct view_range *range = &view->range[misfit];
    return err_set(err, ERR_INVALID,
                   "the shard has %u samples of class %u, from %u in their order; of the %" PRId64
                   " samples of that class in the data set they are too many, or listed twice",
                   range->count, range->class, range->first,
                   range->class < VIEW_CLASSES_MAX ? count[range->class] : 0);
}

int train_sampler_new_view(const struct view *view, const unsigned char *labels, uint64_t samples,
                           size_t batch, uint64_t seed, struct train_sampler **out, struct err *err)
{
    int64_t count[VIEW_CLASSES_MAX];
    struct view_sizes sizes;
    struct train_sampler *sampler AUTO(train_sampler_free) = NULL;
    if (samples > UINT32_MAX) {
        return err_set(err, ERR_LIMIT, "%" PRIu64 " samples: at most %u", samples, UINT32_MAX);
    }
    view_count(labels, samples, count);
    view_sizes(view, count, VIEW_CLASSES_MAX, &sizes);
    int rc = view->is_shard ? check_shard(view, count, err) : 0;
    rc = rc ? rc : train_sampler_new(view_epoch(&sizes), batch, seed, &sampler, err);
    if (rc != 0) {
        return rc;
    }
    sampler->sizes = sizes;
    if (!make_lists(sampler)) {
        return err_set(err, ERR_MEMORY, "out of memory for a view of %" PRIu64 " samples", samples);
    }
    if (view->is_shard) {
        rc = list_shard(sampler, view, labels, samples, count, err);
        rc = rc ? rc : make_window(sampler, view, err);
    } else {
        view_split(view, seed, labels, samples, count, &sampler->view);
    }
    if (rc == 0) {
        *out = sampler;
        sampler = NULL;
    }
    return rc;
}

int train_sampler_new_without(const struct holdout *holdout, const unsigned char *labels,
                              uint64_t samples, size_t batch, uint64_t seed,
                              struct train_sampler **out, struct err *err)
{
    int64_t count[HOLDOUT_CLASSES_MAX];
    struct train_sampler *sampler AUTO(train_sampler_free) = NULL;
    if (samples > UINT32_MAX) {
        return err_set(err, ERR_LIMIT, "%" PRIu64 " samples: at most %u", samples, UINT32_MAX);
    }
    int rc = holdout_classes(holdout, labels, samples, count, err);
    if (rc != 0) {
        return rc;
    }
    const uint64_t held = holdout_count(holdout, count, samples);
    rc = train_sampler_new(samples - held, batch, seed, &sampler, err);
    if (rc != 0) {
        return err_wrap(err, "%" PRIu64 " samples are held out", held);
    }
    sampler->sizes = (struct view_sizes){.own = samples - held, .held = held};
    if (!make_lists(sampler)) {
        return err_set(err, ERR_MEMORY, "out of memory for a list of %" PRIu64 " samples", samples);
    }
    rc = holdout_split(holdout, labels, samples, sampler->view.own, sampler->view.held, err);
    if (rc == 0) {
        *out = sampler;
        sampler = NULL;
    }
    return rc;
}

void train_sampler_free(struct train_sampler **sampler)
{
    if (*sampler) {
        free((*sampler)->view.own);
        free((*sampler)->view.held);
        free((*sampler)->view.others);
        free((*sampler)->order);
        critical_free(&(*sampler)->critical);
        free((*sampler)->place);
    }
    free(*sampler);
    *sampler = NULL;
}

uint64_t train_sampler_epoch(const struct train_sampler *sampler)
{
    return sampler->samples;
}

const uint32_t *train_sampler_held(const struct train_sampler *sampler, size_t *count)
{
    *count = (size_t)sampler->sizes.held;
    return sampler->view.held;
}

/* List the samples of an epoch in the order before the shuffle. */
static void list_samples(struct train_sampler *sampler, int64_t epoch)
{
    if (!sampler->view.own) {
        for (uint32_t i = 0; i < sampler->samples; i++) {
            sampler->order[i] = i;
        }
        return;
    }
    memcpy(sampler->order, sampler->view.own, (size_t)sampler->sizes.own * sizeof(uint32_t));
    view_draw(&sampler->sizes, sampler->seed, epoch, sampler->view.others,
              sampler->order + sampler->sizes.own);
}

static void shuffle(struct train_sampler *sampler, int64_t epoch)
{
    struct rng_stream stream = rng_stream(sampler->seed, RNG_SHUFFLE, (uint64_t)epoch, 0);
    sampler->epoch = epoch;
    if (!sampler->critical) {
        list_samples(sampler, epoch);
        rng_shuffle(&stream, sampler->order, sampler->samples);
        return;
    }
    critical_choose(sampler->critical, epoch, sampler->place);
    rng_shuffle(&stream, sampler->place, sampler->samples);
    for (uint32_t i = 0; i < sampler->samples; i++) {
        sampler->order[i] = sampler->view.own[sampler->place[i]];
    }
}

static size_t place_of(const struct train_sampler *sampler, int64_t step)
{
    return (size_t)((step - 1) % sampler->steps_per_epoch) * sampler->batch;
}

const uint32_t *train_sampler_batch(struct train_sampler *sampler, int64_t step)
{
    ASSERT(step >= 1);
    int64_t epoch = (step - 1) / sampler->steps_per_epoch;
    if (epoch != sampler->epoch) {
        shuffle(sampler, epoch);
    }
    return sampler->order + place_of(sampler, step);
}

void train_sampler_note(struct train_sampler *sampler, int64_t step, size_t first, size_t count,
                        const double *loss)
{
    if (!sampler->critical) {
        return;
    }
    ASSERT((step - 1) / sampler->steps_per_epoch == sampler->epoch &&
           first + count <= sampler->batch);
    for (size_t i = 0; i < count; i++) {
        critical_note(sampler->critical, sampler->place[place_of(sampler, step) + first + i],
                      loss[i]);
    }
}
