#include "libtrain/model/shards.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/elementary.h"
#include "base/rng.h"

const char *const shards_split_names[] = {[SHARDS_EVEN] = "even",
                                          [SHARDS_SPEED] = "speed",
                                          [SHARDS_DIRICHLET] = "dirichlet",
                                          [SHARDS_BY_CLASS] = "by_class",
                                          NULL};

#define WEIGHTS_MAX (SHARDS_CLASSES_MAX > SHARDS_MAX ? SHARDS_CLASSES_MAX : SHARDS_MAX)

/* ---- draws ---- */

/* A stream of random numbers, read in order. */
struct draws {
    struct rng_stream stream;
    uint64_t next;
};

/* Uniform in (0, 1). */
static double draw(struct draws *draws)
{
    return ((double)rng_word(&draws->stream, draws->next++) + 0.5) / 4294967296.0;
}

/* Source: Box and Muller, "A note on the generation of random normal deviates", 1958. */
static double draw_normal(struct draws *draws)
{
    const double radius = sqrt(-2 * elementary_log(draw(draws)));
    return radius * elementary_cos_turns(draw(draws));
}

/* Draw the logarithm of a Gamma(alpha) variable. The variable itself may be too small for a double.
 * Source: Marsaglia and Tsang, "A simple method for generating gamma variables", 2000, with its
 * power for alpha below 1. */
static double draw_log_gamma(struct draws *draws, double alpha)
{
    const double raised = alpha < 1 ? elementary_log(draw(draws)) / alpha : 0;
    const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = draw_normal(draws), root = 1 + c * x;
        if (root <= 0) {
            continue;
        }
        const double v = root * root * root, log_v = 3 * elementary_log(root);
        if (elementary_log(draw(draws)) < x * x / 2 + d - d * v + d * log_v) {
            return elementary_log(d) + log_v + raised;
        }
    }
}

/* Draw weights of Dirichlet(alpha), scaled so that the largest is 1. */
static void draw_weights(uint64_t seed, size_t row, double alpha, double *weight, size_t count)
{
    struct draws draws = {.stream = rng_stream(seed, RNG_SHARDS, row, 0)};
    double most = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        weight[i] = draw_log_gamma(&draws, alpha);
        most = fmax(most, weight[i]);
    }
    for (size_t i = 0; i < count; i++) {
        weight[i] = elementary_exp(weight[i] - most);
    }
}

/* ---- proportions ---- */

/* Divide a total in proportion to the weights, which are not all 0. Each part differs from its
 * exact proportion by at most one. The remainder after rounding down goes to the parts that lost
 * most by rounding; among equals, to the first. */
static void apportion(const double *weight, size_t count, int64_t total, int64_t *out)
{
    double sum = 0, lost[WEIGHTS_MAX];
    int64_t left = total;
    for (size_t i = 0; i < count; i++) {
        sum += weight[i];
    }
    for (size_t i = 0; i < count; i++) {
        const double part = weight[i] / sum * (double)total;
        out[i] = (int64_t)part < left ? (int64_t)part : left;
        lost[i] = part - (double)out[i];
        left -= out[i];
    }
    for (; left > 0; left--) {
        size_t most = 0;
        for (size_t i = 1; i < count; i++) {
            most = lost[i] > lost[most] ? i : most;
        }
        out[most]++;
        lost[most]--;
    }
}

static int64_t total_of(const int64_t *count, size_t classes)
{
    int64_t total = 0;
    for (size_t c = 0; c < classes; c++) {
        total += count[c];
    }
    return total;
}

/* ---- splits ---- */

/* Divide the samples into shards of the given sizes, each with the class proportions of the whole
 * data set. After each class, every shard has its proportion of the samples divided so far, so that
 * the sizes are met. */
static void spread(const struct shards_problem *problem, const int64_t *size, int64_t *out)
{
    const size_t classes = problem->class_count, shards = problem->shards;
    const double total = (double)total_of(problem->count, classes);
    int64_t given[SHARDS_MAX] = {0}, until = 0;
    for (size_t c = 0; c < classes; c++) {
        int64_t left = problem->count[c];
        until += problem->count[c];
        for (size_t s = 0; s < shards; s++) {
            const int64_t part = (int64_t)((double)size[s] * ((double)problem->count[c] / total));
            out[s * classes + c] = part < left ? part : left;
            given[s] += out[s * classes + c];
            left -= out[s * classes + c];
        }
        for (; left > 0; left--) {
            size_t behind = 0;
            double most = -INFINITY;
            for (size_t s = 0; s < shards; s++) {
                const double missing = (double)size[s] * ((double)until / total) - (double)given[s];
                behind = given[s] < size[s] && missing > most ? s : behind;
                most = given[s] < size[s] ? fmax(most, missing) : most;
            }
            out[behind * classes + c]++;
            given[behind]++;
        }
    }
}

/* Fill a shard with the remaining samples of each class in proportion to the weights. When no class
 * with a weight has samples left, the numbers of remaining samples become the weights. */
static void fill(const struct shards_problem *problem, double *weight, int64_t wanted,
                 int64_t *left, int64_t *out)
{
    int64_t part[SHARDS_CLASSES_MAX];
    while (wanted > 0) {
        double sum = 0;
        for (size_t c = 0; c < problem->class_count; c++) {
            weight[c] = left[c] > 0 ? weight[c] : 0;
            sum += weight[c];
        }
        for (size_t c = 0; c < problem->class_count && !(sum > 0); c++) {
            weight[c] = (double)left[c];
        }
        apportion(weight, problem->class_count, wanted, part);
        for (size_t c = 0; c < problem->class_count; c++) {
            const int64_t taken = part[c] < left[c] ? part[c] : left[c];
            out[c] += taken;
            left[c] -= taken;
            wanted -= taken;
        }
    }
}

/* Draw the mix of classes of each shard. The largest shard chooses first. */
static void mix(const struct shards_problem *problem, const int64_t *size, int64_t *out)
{
    const size_t classes = problem->class_count;
    int64_t left[SHARDS_CLASSES_MAX];
    bool filled[SHARDS_MAX] = {false};
    memcpy(left, problem->count, classes * sizeof(left[0]));
    for (size_t i = 0; i < problem->shards; i++) {
        double weight[SHARDS_CLASSES_MAX];
        size_t largest = SHARDS_MAX;
        for (size_t s = 0; s < problem->shards; s++) {
            largest =
                !filled[s] && (largest == SHARDS_MAX || size[s] > size[largest]) ? s : largest;
        }
        filled[largest] = true;
        draw_weights(problem->seed, largest, problem->alpha, weight, classes);
        fill(problem, weight, size[largest], left, &out[largest * classes]);
    }
}

static void split_sizes(const struct shards_problem *problem, int64_t *out)
{
    double equal[SHARDS_MAX];
    int64_t size[SHARDS_MAX];
    for (size_t s = 0; s < problem->shards; s++) {
        equal[s] = 1;
    }
    const bool by_speed = problem->split == SHARDS_SPEED;
    apportion(by_speed ? problem->speed : equal, problem->shards,
              total_of(problem->count, problem->class_count), size);
    if (by_speed && problem->alpha > 0) {
        mix(problem, size, out);
    } else {
        spread(problem, size, out);
    }
}

static void split_dirichlet(const struct shards_problem *problem, int64_t *out)
{
    for (size_t c = 0; c < problem->class_count; c++) {
        double weight[SHARDS_MAX];
        int64_t part[SHARDS_MAX];
        draw_weights(problem->seed, c, problem->alpha, weight, problem->shards);
        apportion(weight, problem->shards, problem->count[c], part);
        for (size_t s = 0; s < problem->shards; s++) {
            out[s * problem->class_count + c] = part[s];
        }
    }
}

/* Deal the classes to the shards in a random order, round after round, so that no shard gets a
 * class twice. Divide each class equally among its shards. */
static void split_by_class(const struct shards_problem *problem, int64_t *out)
{
    const size_t classes = problem->class_count, each = problem->classes_per_shard;
    const struct rng_stream stream = rng_stream(problem->seed, RNG_SHARDS, 0, 1);
    uint32_t order[SHARDS_CLASSES_MAX];
    for (size_t i = 0; i < classes; i++) {
        order[i] = (uint32_t)i;
    }
    rng_shuffle(&stream, order, classes);
    for (size_t i = 0; i < classes; i++) {
        double weight[SHARDS_MAX] = {0};
        int64_t part[SHARDS_MAX];
        for (size_t slot = i; slot < problem->shards * each; slot += classes) {
            weight[slot / each] = 1;
        }
        apportion(weight, problem->shards, problem->count[order[i]], part);
        for (size_t s = 0; s < problem->shards; s++) {
            out[s * classes + order[i]] = part[s];
        }
    }
}

/* ---- the least number of samples ---- */

static size_t largest_shard(const struct shards_problem *problem, const int64_t *out)
{
    size_t largest = 0;
    for (size_t s = 1; s < problem->shards; s++) {
        largest = shards_size(out, problem->class_count, s) >
                          shards_size(out, problem->class_count, largest)
                      ? s
                      : largest;
    }
    return largest;
}

/* Fill shards below the least number of samples from the largest shard. The donor keeps the least
 * number itself: if there are enough samples for all shards, the largest shard has more. */
static void repair(const struct shards_problem *problem, int64_t *out)
{
    const size_t classes = problem->class_count;
    for (size_t s = 0; s < problem->shards; s++) {
        int64_t missing = problem->least - shards_size(out, classes, s);
        while (missing > 0) {
            const size_t donor = largest_shard(problem, out);
            int64_t *from = &out[donor * classes];
            size_t class = 0;
            for (size_t c = 1; c < classes; c++) {
                class = from[c] > from[class] ? c : class;
            }
            const int64_t spare = shards_size(out, classes, donor) - problem->least;
            int64_t moved = missing < spare ? missing : spare;
            moved = moved < from[class] ? moved : from[class];
            from[class] -= moved;
            out[s * classes + class] += moved;
            missing -= moved;
        }
    }
}

/* ---- the whole ---- */

static int check(const struct shards_problem *problem, struct err *err)
{
    const int64_t total = total_of(problem->count, problem->class_count);
    const int64_t shards = (int64_t)problem->shards;
    if (total / shards < problem->least) {
        return err_set(err, ERR_INVALID,
                       "%" PRId64 " samples for %zu shards: each needs at least %" PRId64, total,
                       problem->shards, problem->least);
    }
    if (problem->split == SHARDS_BY_CLASS &&
        problem->shards * problem->classes_per_shard < problem->class_count) {
        return err_set(err, ERR_INVALID,
                       "%zu shards of %zu classes each leave some of %zu classes out",
                       problem->shards, problem->classes_per_shard, problem->class_count);
    }
    return 0;
}

int shards_divide(const struct shards_problem *problem, int64_t *out, struct err *err)
{
    static void (*const split[])(const struct shards_problem *,
                                 int64_t *) = {[SHARDS_EVEN] = split_sizes,
                                               [SHARDS_SPEED] = split_sizes,
                                               [SHARDS_DIRICHLET] = split_dirichlet,
                                               [SHARDS_BY_CLASS] = split_by_class};
    ASSERT(problem->shards >= 1 && problem->shards <= SHARDS_MAX && problem->class_count >= 1 &&
           problem->class_count <= SHARDS_CLASSES_MAX && problem->least > 0);
    const int rc = check(problem, err);
    if (rc == 0) {
        memset(out, 0, problem->shards * problem->class_count * sizeof(out[0]));
        split[problem->split](problem, out);
        repair(problem, out);
    }
    return rc;
}

int64_t shards_size(const int64_t *out, size_t class_count, size_t shard)
{
    return total_of(&out[shard * class_count], class_count);
}

int64_t shards_first(const int64_t *out, size_t class_count, size_t shard, size_t class)
{
    int64_t first = 0;
    for (size_t s = 0; s < shard; s++) {
        first += out[s * class_count + class];
    }
    return first;
}

void shards_order(uint64_t seed, size_t class, uint32_t *sample, size_t count)
{
    const struct rng_stream stream = rng_stream(seed, RNG_SHARD_ORDER, class, 0);
    rng_shuffle(&stream, sample, count);
}
