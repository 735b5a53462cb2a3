#include "coordinator/plan/levels.h"

#include <math.h>

#include "base/assert.h"
#include "base/elementary.h"
#include "base/sort.h"

#define LEAST_SECONDS 0.05
#define SECONDS_PER_GROUP 0.01 /* the coordinator answers 100 requests for a match per second */
#define COPIES 2
#define SLOWEST 16 /* of the median speed */
#define PASSES 4   /* between two mixes */

#define UNIFORM_PART 0.3
#define GAP 0.5 /* of uniform pairs */
#define HALVINGS 30
#define SQUARINGS 40 /* eigenvalues within 1e-12 are as good as equal */

#define CONNECTED 2 /* times the seconds of copies of the best connected group */

#define ACCURACY_SCALE 0.1
#define ACCURACY_ALPHA_MIN 0.2
#define STALE_WEIGHT 4
_Static_assert(2 * STALE_WEIGHT <= LEVELS_STALE_PERIODS,
               "a stale side moves further than a fresh one");

/* ---- levels ---- */

static double median_copy(const struct levels_problem *problem)
{
    double seconds[LEVELS_GROUPS_MAX * (LEVELS_GROUPS_MAX - 1) / 2];
    size_t pairs = 0;
    for (size_t i = 0; i < problem->count; i++) {
        for (size_t j = i + 1; j < problem->count; j++) {
            seconds[pairs++] = problem->seconds[i * problem->count + j];
        }
    }
    return sort_median(seconds, pairs);
}

double levels_period(const struct levels_problem *problem)
{
    double speed[LEVELS_GROUPS_MAX];
    ASSERT(problem->count >= 2 && problem->count <= LEVELS_GROUPS_MAX);
    for (size_t i = 0; i < problem->count; i++) {
        speed[i] = problem->speed[i];
    }
    const double middle = sort_median(speed, problem->count); /* speed[0] is the slowest now */
    const double step = (double)problem->batch / fmax(speed[0], middle / SLOWEST);
    const double least = fmax(LEAST_SECONDS, SECONDS_PER_GROUP * (double)problem->count);
    return fmax(fmax(step, COPIES * median_copy(problem)), least);
}

int64_t levels_steps(double speed, double period, int64_t batch)
{
    const double steps = floor(speed * period / (double)batch + 0.5);
    return steps > 1 ? (int64_t)fmin(steps, 1e9) : 1;
}

int64_t levels_pass(int64_t samples, int64_t batch)
{
    const int64_t steps = (samples + batch / 2) / batch;
    return steps > 1 ? steps : 1;
}

int64_t levels_every(double speed, double period, int64_t samples, int64_t batch, bool *slows)
{
    const int64_t steps = levels_steps(speed, period, batch);
    const int64_t most = PASSES * levels_pass(samples, batch);
    if (slows) {
        *slows = steps > most;
    }
    return steps < most ? steps : most;
}

double levels_round(const struct levels_problem *problem, const int64_t *samples)
{
    double pass = 0, copy = 0;
    for (size_t i = 0; i < problem->count; i++) {
        const double steps = (double)levels_pass(samples[i], problem->batch);
        pass = fmax(pass, steps * (double)problem->batch / problem->speed[i]);
        for (size_t j = 0; j < problem->count; j++) {
            copy = i == j ? copy : fmax(copy, problem->seconds[i * problem->count + j]);
        }
    }
    return pass + copy;
}

/* ---- pairs ---- */

static void fill_chances(const struct levels_problem *problem, double uniform, double *chance)
{
    const size_t count = problem->count;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t j = 0; j < count; j++) {
            sum += i == j ? 0 : 1 / problem->seconds[i * count + j];
        }
        for (size_t j = 0; j < count; j++) {
            const double by_link = 1 / problem->seconds[i * count + j] / sum;
            chance[i * count + j] =
                i == j ? 0 : (1 - uniform) * by_link + uniform / (double)(count - 1);
        }
    }
}

/* Of n groups one is drawn, and it draws its partner. Of the mean mix, I - L / (2 n), L is the
 * Laplacian of the chances of both directions. */
static void apply(size_t count, const double *chance, const double *in, double *out)
{
    for (size_t i = 0; i < count; i++) {
        double moved = 0;
        for (size_t j = 0; j < count; j++) {
            moved += (chance[i * count + j] + chance[j * count + i]) * (in[j] - in[i]);
        }
        out[i] = in[i] + moved / (2 * (double)count);
    }
}

/* Remove the part that all groups share, whose eigenvalue is 1, and scale to length 1, unless the
 * rest is 0. */
static void centre(size_t count, double *value)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        mean += value[i] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        value[i] -= mean;
        squares += value[i] * value[i];
    }
    const double length = sqrt(squares);
    for (size_t i = 0; i < count && length > 0; i++) {
        value[i] /= length;
    }
}

/* Square the symmetric matrix and scale it: its largest member becomes 1, unless all are 0. */
static void square(size_t count, double matrix[LEVELS_GROUPS_MAX][LEVELS_GROUPS_MAX])
{
    double squared[LEVELS_GROUPS_MAX][LEVELS_GROUPS_MAX], most = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            double sum = 0;
            for (size_t k = 0; k < count; k++) {
                sum += matrix[i][k] * matrix[j][k];
            }
            squared[i][j] = sum;
            most = fmax(most, fabs(sum));
        }
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            matrix[i][j] = most > 0 ? squared[i][j] / most : 0;
        }
    }
}

/* All eigenvalues are between 0 and 1. Without the part that all groups share, the columns of a
 * high power of the mean mix are multiples of its eigenvector; the largest column is that of the
 * largest diagonal element. */
double levels_second_eigenvalue(size_t count, const double *chance)
{
    double matrix[LEVELS_GROUPS_MAX][LEVELS_GROUPS_MAX];
    double vector[LEVELS_GROUPS_MAX], next[LEVELS_GROUPS_MAX], eigenvalue = 0;
    size_t largest = 0;
    ASSERT(count >= 2 && count <= LEVELS_GROUPS_MAX);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < count; k++) {
            vector[k] = k == i;
        }
        apply(count, chance, vector, next);
        for (size_t k = 0; k < count; k++) {
            matrix[i][k] = next[k] - 1 / (double)count;
        }
    }
    for (int i = 0; i < SQUARINGS; i++) {
        square(count, matrix);
    }
    for (size_t i = 0; i < count; i++) {
        largest = matrix[i][i] > matrix[largest][largest] ? i : largest;
    }
    for (size_t k = 0; k < count; k++) {
        vector[k] = matrix[largest][k];
    }
    centre(count, vector);
    apply(count, chance, vector, next);
    for (size_t k = 0; k < count; k++) {
        eigenvalue += vector[k] * next[k];
    }
    return eigenvalue;
}

/* Of L / (2 n) - gap (I - J / n) + J / n, where all of J are 1: what all groups share has the
 * eigenvalue 1, and the least of the others is how much the gap of the mean mix exceeds this one.
 */
static double excess(size_t count, const double *chance, double gap, size_t i, size_t j)
{
    const double groups = (double)count;
    double meets = 0; /* of L */
    for (size_t k = 0; k < count && i == j; k++) {
        meets += k == i ? 0 : chance[i * count + k] + chance[k * count + i];
    }
    meets -= i == j ? 0 : chance[i * count + j] + chance[j * count + i];
    return meets / (2 * groups) + (1 + gap) / groups - (i == j ? gap : 0);
}

/* By Cholesky's factors, which exist only if all eigenvalues are above 0. */
bool levels_has_gap(size_t count, const double *chance, double gap)
{
    double factor[LEVELS_GROUPS_MAX][LEVELS_GROUPS_MAX];
    ASSERT(count >= 2 && count <= LEVELS_GROUPS_MAX);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j <= i; j++) {
            double left = excess(count, chance, gap, i, j);
            for (size_t k = 0; k < j; k++) {
                left -= factor[i][k] * factor[j][k];
            }
            if (i == j && !(left > 0)) {
                return false;
            }
            factor[i][j] = i == j ? sqrt(left) : left / factor[j][j];
        }
    }
    return true;
}

static bool reaches(const struct levels_problem *problem, double uniform, double gap,
                    double *chance)
{
    fill_chances(problem, uniform, chance);
    return levels_has_gap(problem->count, chance, gap);
}

/* The gap is a minimum of functions that are linear in the equal part, so it is concave: once it
 * reaches half of the last gap, it stays above it. */
double levels_chances(const struct levels_problem *problem, double *chance)
{
    ASSERT(problem->count >= 2 && problem->count <= LEVELS_GROUPS_MAX);
    if (problem->uniform) {
        fill_chances(problem, 1, chance);
        return 1;
    }
    const double enough = GAP / (double)(problem->count - 1);
    double low = UNIFORM_PART, high = 1;
    if (reaches(problem, low, enough, chance)) {
        return low;
    }
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (low + high) / 2;
        const bool reached = reaches(problem, middle, enough, chance);
        low = reached ? low : middle;
        high = reached ? middle : high;
    }
    fill_chances(problem, high, chance);
    return high;
}

size_t levels_partner(const double *row, const bool *free, size_t count, double at)
{
    double sum = 0, until = 0;
    size_t last = count;
    for (size_t j = 0; j < count; j++) {
        sum += free[j] ? row[j] : 0;
    }
    for (size_t j = 0; j < count; j++) {
        if (free[j] && row[j] > 0) {
            until += row[j];
            last = j;
            if (at * sum < until) {
                break;
            }
        }
    }
    return last;
}

/* ---- averages ---- */

static double seconds_of_copies(const struct levels_problem *problem, size_t group,
                                const bool *member)
{
    double seconds = 0;
    for (size_t g = 0; g < problem->count; g++) {
        seconds += g != group && member[g] ? problem->seconds[group * problem->count + g] : 0;
    }
    return seconds;
}

size_t levels_averager(const struct levels_problem *problem, const bool *member, const bool *may)
{
    double seconds[LEVELS_GROUPS_MAX], least = INFINITY;
    size_t best = problem->count;
    for (size_t g = 0; g < problem->count; g++) {
        seconds[g] = seconds_of_copies(problem, g, member);
        least = may[g] ? fmin(least, seconds[g]) : least;
    }
    for (size_t g = 0; g < problem->count; g++) {
        const bool connected = may[g] && seconds[g] <= CONNECTED * least;
        const bool better = best == problem->count || problem->speed[g] > problem->speed[best];
        best = connected && better ? g : best;
    }
    return best;
}

/* ---- how far each side moves ---- */

static double alpha_of(enum levels_weights weights, const struct levels_side *own,
                       const struct levels_side *other)
{
    switch (weights) {
    case LEVELS_EQUAL: break;
    case LEVELS_SAMPLES:
        return (double)other->samples / ((double)own->samples + (double)other->samples);
    case LEVELS_ACCURACY: {
        const double alpha = 1 / (1 + elementary_exp((other->loss - own->loss) / ACCURACY_SCALE));
        return fmin(fmax(alpha, ACCURACY_ALPHA_MIN), 1 - ACCURACY_ALPHA_MIN);
    }
    }
    return 0.5;
}

static bool is_stale(const struct levels_side *side)
{
    return side->missed_periods > LEVELS_STALE_PERIODS;
}

/* The share of a side that takes over the other's state regardless of weights; 0: it does not. */
static double taken(const struct levels_side *own, const struct levels_side *other)
{
    if (own->successor != other->successor) {
        return own->successor ? 1 : 0;
    }
    return is_stale(own) && !is_stale(other)
               ? 1 - (double)STALE_WEIGHT / (double)own->missed_periods
               : 0;
}

void levels_alphas(enum levels_weights weights, const struct levels_side side[2], double alpha[2])
{
    const double first = taken(&side[0], &side[1]), second = taken(&side[1], &side[0]);
    alpha[0] = first > 0 ? first : second > 0 ? 1 - second : alpha_of(weights, &side[0], &side[1]);
    alpha[1] = 1 - alpha[0];
}
