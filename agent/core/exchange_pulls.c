#include "agent/core/exchange_pulls.h"

#include <stdlib.h>
#include <string.h>

/* The repeats of a whole window may be parked together with the requests that they replace, until
 * both are answered. */
#define PARKED_PER_WORKER (2 * EXCHANGE_WINDOW_MAX)

int exchange_pulls_init(struct exchange_pulls *pulls, const struct exchange_plan *plan,
                        const struct exchange_course *course, struct err *err)
{
    *pulls = (struct exchange_pulls){
        .plan = plan, .course = course, .capacity = plan->config.count * PARKED_PER_WORKER};
    pulls->parked = calloc(pulls->capacity, sizeof(*pulls->parked));
    return pulls->parked ? 0 : err_set(err, ERR_MEMORY, "%zu parked requests", pulls->capacity);
}

void exchange_pulls_done(struct exchange_pulls *pulls)
{
    free(pulls->parked);
    pulls->parked = NULL;
}

/* Judge a request regardless of the parked ones. The evaluation of the last version begins no
 * further step, so it is allowed while steps are held. */
static enum exchange_verdict judge(const struct exchange_pulls *pulls,
                                   const struct exchange_pulls_state *state,
                                   const struct exchange_message *message)
{
    const struct exchange_course *course = pulls->course;
    if (message->step >= course->stop_version) {
        return EXCHANGE_LAST;
    }
    if (message->step < course->version || (message->step == course->version && state->updating)) {
        return EXCHANGE_OUTDATED;
    }
    if (message->step > course->version + 1) {
        return EXCHANGE_REFUSE;
    }
    const bool open = state->open || message->step == pulls->plan->config.total_steps;
    return open && message->step == course->version ? EXCHANGE_SERVE : EXCHANGE_PARK;
}

static bool is_repeat(const struct exchange_message *a, const struct exchange_message *b)
{
    return a->from == b->from && a->step == b->step && a->first == b->first && a->end == b->end;
}

static void take_out(struct exchange_pulls *pulls, size_t index)
{
    pulls->count--;
    memmove(pulls->parked + index, pulls->parked + index + 1,
            (pulls->count - index) * sizeof(*pulls->parked));
}

enum exchange_verdict exchange_pulls_ask(struct exchange_pulls *pulls,
                                         const struct exchange_pulls_state *state,
                                         const struct exchange_message *message, uint64_t handle)
{
    const enum exchange_verdict verdict = judge(pulls, state, message);
    if (verdict != EXCHANGE_PARK) {
        return verdict;
    }
    size_t same = 0;
    for (size_t i = 0; i < pulls->count; i++) {
        same += pulls->parked[i].message.from == message->from;
    }
    if (same == PARKED_PER_WORKER) {
        return EXCHANGE_NOT_YET;
    }
    for (size_t i = 0; i < pulls->count; i++) {
        if (is_repeat(&pulls->parked[i].message, message)) {
            pulls->parked[i].replaced = true;
        }
    }
    pulls->parked[pulls->count++] = (struct exchange_parked){*message, handle, false};
    return EXCHANGE_PARK;
}

bool exchange_pulls_answer(struct exchange_pulls *pulls, const struct exchange_pulls_state *state,
                           struct exchange_answer *out)
{
    for (size_t i = 0; i < pulls->count; i++) {
        const struct exchange_parked *parked = &pulls->parked[i];
        const enum exchange_verdict verdict =
            parked->replaced ? EXCHANGE_OUTDATED : judge(pulls, state, &parked->message);
        if (verdict != EXCHANGE_PARK) {
            *out = (struct exchange_answer){parked->handle, verdict, parked->message};
            take_out(pulls, i);
            return true;
        }
    }
    return false;
}

void exchange_pulls_forget(struct exchange_pulls *pulls, uint64_t handle)
{
    for (size_t i = 0; i < pulls->count; i++) {
        if (pulls->parked[i].handle == handle) {
            take_out(pulls, i);
            return;
        }
    }
}
