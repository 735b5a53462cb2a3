#include "tests/sim/course.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* One plan, played to the end of the job: versions before `from` are those of the plans before. */
struct part {
    struct plan plan;
    int64_t from;
    bool forgotten;  /* by a coordinator that was given an older backup */
    uint64_t *state; /* [(steps + 1) * units] */
};

struct course {
    struct reference_job job;
    const struct job_spec *spec;
    uint64_t *initial;
    struct part *part;
    size_t count;
};

int course_new(const struct reference_job *job, const struct job_spec *spec,
               const uint64_t *initial, struct course **out, struct err *err)
{
    struct course *course = calloc(1, sizeof(*course));
    if (course) {
        *course = (struct course){.job = *job, .spec = spec};
        course->initial = calloc(job->units, sizeof(*initial));
    }
    if (!course || !course->initial) {
        free(course);
        return err_set(err, ERR_MEMORY, "course");
    }
    memcpy(course->initial, initial, job->units * sizeof(*initial));
    *out = course;
    return 0;
}

void course_free(struct course **pointer)
{
    struct course *course = *pointer;
    for (size_t i = 0; course && i < course->count; i++) {
        free(course->part[i].state);
    }
    if (course) {
        free(course->part);
        free(course->initial);
        free(course);
    }
    *pointer = NULL;
}

static uint64_t *state_of(const struct course *course, const struct part *part, int64_t version)
{
    return part->state + (size_t)version * course->job.units;
}

/* How many versions the stage of a unit keeps. */
static int64_t versions_of(const struct course *course, const struct plan *plan, size_t unit)
{
    size_t s = 0;
    while (plan->stage[s].end <= (int64_t)unit) {
        s++;
    }
    return (int64_t)job_versions(course->spec, plan->stage_count, (size_t)plan->stage[s].in_flight);
}

/* Every so many updates the mean of a unit's kept versions takes the place of the newest. */
static void aggregate(const struct course *course, const struct part *part, size_t unit,
                      int64_t step)
{
    const int64_t every = course->spec->aggregate_every;
    const int64_t versions = versions_of(course, &part->plan, unit);
    uint64_t kept[DIGEST_SLOTS_MAX];
    size_t count = 0;
    if (versions == 1 || every == 0 || step % every != 0) {
        return;
    }
    for (int64_t version = step - versions + 1; version <= step; version++) {
        if (version >= part->from) {
            kept[count++] = state_of(course, part, version)[unit];
        }
    }
    state_of(course, part, step)[unit] = digest_mean(kept, count);
}

static void play_step(const struct course *course, const struct part *part, int64_t step)
{
    struct digest_stage stage = {.end = course->job.units, .units = course->job.units};
    uint64_t *state = state_of(course, part, step);
    for (size_t u = 0; u < stage.units; u++) {
        const int64_t version = step - versions_of(course, &part->plan, u);
        stage.state[u] = state_of(course, part, version > part->from ? version : part->from)[u];
    }
    (void)digest_forward(&stage, 0, step, digest_samples(course->job.samples_seed, step, 0));
    (void)digest_backward(&stage, 0, 0);
    memcpy(stage.state, state_of(course, part, step - 1), stage.units * sizeof(stage.state[0]));
    digest_update(&stage, step, 0);
    memcpy(state, stage.state, stage.units * sizeof(stage.state[0]));
    for (size_t u = 0; u < stage.units; u++) {
        aggregate(course, part, u, step);
    }
}

/* The states up to `from`: those of the newest plan that began before it. Plans that began later
 * are not on the line of this one. */
static void take_before(const struct course *course, const struct part *part)
{
    size_t i = course->count;
    while (i > 0 && (course->part[i - 1].forgotten || course->part[i - 1].from > part->from)) {
        i--;
    }
    if (i > 0) {
        memcpy(part->state, course->part[i - 1].state,
               ((size_t)part->from + 1) * course->job.units * sizeof(*part->state));
    } else {
        memcpy(part->state, course->initial, course->job.units * sizeof(*part->state));
    }
}

static size_t find(const struct course *course, const struct plan *plan)
{
    size_t at = 0;
    while (at < course->count && !id_equal(course->part[at].plan.id.text, plan->id.text)) {
        at++;
    }
    return at;
}

void course_forget(struct course *course, const struct plan *newest)
{
    for (size_t i = newest ? find(course, newest) + 1 : 0; i < course->count; i++) {
        course->part[i].forgotten = true;
    }
}

int course_add(struct course *course, const struct plan *plan, struct err *err)
{
    if (find(course, plan) < course->count) {
        return 0;
    }
    struct part *grown = realloc(course->part, (course->count + 1) * sizeof(*grown));
    course->part = grown ? grown : course->part;
    const size_t versions = (size_t)course->job.steps + 1;
    struct part part = {.plan = *plan,
                        .from = plan->resume_version,
                        .state = calloc(versions * course->job.units, sizeof(uint64_t))};
    if (!grown || !part.state) {
        free(part.state);
        return err_set(err, ERR_MEMORY, "a plan of a course");
    }
    take_before(course, &part);
    for (int64_t step = part.from + 1; step <= course->job.steps; step++) {
        play_step(course, &part, step);
    }
    course->part[course->count++] = part;
    return 0;
}

bool course_has_unit(const struct course *course, int64_t version, size_t unit, uint64_t digest)
{
    bool found = version == 0 && course->initial[unit] == digest;
    for (size_t i = 0; !found && i < course->count; i++) {
        found = state_of(course, &course->part[i], version)[unit] == digest;
    }
    return found;
}

bool course_has_model(const struct course *course, int64_t version, const char *sha256)
{
    bool found = false;
    for (size_t i = 0; !found && i < course->count; i++) {
        char text[SHA256_SIZE];
        digest_text(digest_model(state_of(course, &course->part[i], version), course->job.units),
                    text);
        found = strcmp(text, sha256) == 0;
    }
    return found;
}
