/* The functions with which the receiver and the callers handle messages. */
#include <string.h>

#include "agent/parameter_server/member_parts.h"
#include "agent/runtime/thread.h"
#include "base/assert.h"
#include "base/clock.h"

/* Less than the 10 s after which a server closes a connection without progress
 * (exchange_route_table). */
#define WITHHELD_MS 5000

/* ---- lanes and answers ---- */

static size_t lane_of(const struct exchange_message *message)
{
    switch (message->kind) {
    case EXCHANGE_PARAMETERS: return MEMBER_PULLS;
    case EXCHANGE_CONTRIBUTION:
    case EXCHANGE_RESULT: return MEMBER_PUSHES;
    case EXCHANGE_COMMIT:
    case EXCHANGE_NORM:
    case EXCHANGE_NORM_TOTAL: break;
    }
    return MEMBER_NOTICES + message->to;
}

static void enqueue(struct member *member, const struct exchange_message *message)
{
    struct member_lane *lane = &member->lane[lane_of(message)];
    ASSERT(lane->count < MEMBER_LANE_MAX);
    lane->item[(lane->first + lane->count++) % MEMBER_LANE_MAX] = *message;
    (void)pthread_cond_signal(&lane->filled);
}

void member_settle(struct member *member)
{
    struct exchange_message message;
    struct exchange_answer answer;
    bool of_others = false;
    while (exchange_next_message(member->exchange, &message)) {
        enqueue(member, &message);
    }
    while (exchange_next_answer(member->exchange, &answer)) {
        member->pull[answer.handle].state = PULL_ANSWERED;
        member->pull[answer.handle].verdict = answer.verdict;
        of_others = of_others || answer.handle < MEMBER_PULLS_MAX;
    }
    if (of_others) {
        work_has_room(member->room_fd);
    }
    (void)pthread_cond_signal(&member->changed);
    (void)pthread_cond_broadcast(&member->moved);
}

/* ---- the receiver ---- */

size_t member_stage_of(const struct member *member, const char *device_id)
{
    for (size_t s = 0; s < member->count; s++) {
        if (id_equal(member->run->stage[s].peer.device.text, device_id)) {
            return s;
        }
    }
    return STAGES_MAX;
}

size_t member_index(const struct member *member)
{
    return member->index;
}

enum exchange_verdict member_offer(struct member *member, const struct exchange_message *message,
                                   struct exchange_claim *claim)
{
    (void)pthread_mutex_lock(&member->lock);
    const enum exchange_verdict verdict = exchange_offer(member->exchange, message, claim);
    (void)pthread_mutex_unlock(&member->lock);
    return verdict;
}

bool member_holds(struct member *member, const struct exchange_message *message,
                  const struct exchange_claim *claim)
{
    (void)pthread_mutex_lock(&member->lock);
    const bool holds = exchange_holds(member->exchange, message, claim);
    (void)pthread_mutex_unlock(&member->lock);
    return holds;
}

enum exchange_verdict member_received(struct member *member, const struct exchange_message *message,
                                      const struct exchange_claim *claim)
{
    (void)pthread_mutex_lock(&member->lock);
    const enum exchange_verdict verdict = exchange_received(member->exchange, message, claim);
    member_settle(member);
    (void)pthread_mutex_unlock(&member->lock);
    return verdict;
}

void member_abandon(struct member *member, const struct exchange_message *message,
                    const struct exchange_claim *claim)
{
    (void)pthread_mutex_lock(&member->lock);
    exchange_abandon(member->exchange, message, claim);
    (void)pthread_mutex_unlock(&member->lock);
}

enum exchange_verdict member_commit(struct member *member, const struct exchange_message *message)
{
    (void)pthread_mutex_lock(&member->lock);
    const enum exchange_verdict verdict = exchange_commit(member->exchange, message);
    member_settle(member);
    (void)pthread_mutex_unlock(&member->lock);
    return verdict;
}

/* Under the lock. */
static enum exchange_verdict pull(struct member *member, const struct exchange_message *message,
                                  size_t handle)
{
    const enum exchange_verdict verdict = exchange_pull(member->exchange, message, handle);
    if (verdict == EXCHANGE_PARK) {
        member->pull[handle].state = PULL_PARKED;
    }
    member_settle(member); /* the pull may have replaced another one */
    return verdict;
}

enum exchange_verdict member_pull(struct member *member, const struct exchange_message *message,
                                  size_t handle)
{
    (void)pthread_mutex_lock(&member->lock);
    const enum exchange_verdict verdict = pull(member, message, handle);
    (void)pthread_mutex_unlock(&member->lock);
    return verdict;
}

bool member_answered(struct member *member, size_t handle, enum exchange_verdict *verdict)
{
    (void)pthread_mutex_lock(&member->lock);
    const bool answered = member->pull[handle].state == PULL_ANSWERED;
    if (answered) {
        *verdict = member->pull[handle].verdict;
        member->pull[handle].state = PULL_NONE;
    }
    (void)pthread_mutex_unlock(&member->lock);
    return answered;
}

void member_forget(struct member *member, size_t handle)
{
    (void)pthread_mutex_lock(&member->lock);
    if (member->pull[handle].state == PULL_PARKED) {
        exchange_forget(member->exchange, handle);
    }
    member->pull[handle].state = PULL_NONE;
    (void)pthread_mutex_unlock(&member->lock);
}

int64_t member_last(struct member *member)
{
    (void)pthread_mutex_lock(&member->lock);
    const int64_t last = exchange_last(member->exchange);
    (void)pthread_mutex_unlock(&member->lock);
    return last;
}

bool member_serve(struct member *member, const struct exchange_message *message,
                  const struct member_view *view, size_t offset, void *out, size_t size)
{
    size_t got = 0;
    /* The lock keeps an update from beginning. */
    (void)pthread_mutex_lock(&member->lock);
    const bool serves = exchange_serves(member->exchange, message);
    while (serves && got < size) {
        const struct member_piece piece = member_piece(view, offset + got);
        const size_t count = piece.size < size - got ? piece.size : size - got;
        memcpy((char *)out + got, piece.data, count);
        got += count;
    }
    (void)pthread_mutex_unlock(&member->lock);
    return serves;
}

/* ---- the callers ---- */

bool member_is_cancelled(struct member *member)
{
    return cancel_is_set(member->cancel);
}

bool member_next_message(struct member *member, size_t lane_index, int64_t wait_ns,
                         struct exchange_message *out)
{
    struct member_lane *lane = &member->lane[lane_index];
    (void)pthread_mutex_lock(&member->lock);
    int rc = 0;
    while (lane->count == 0 && rc == 0 && !cancel_is_set(member->cancel)) {
        rc = thread_condition_wait(&lane->filled, &member->lock, wait_ns);
    }
    const bool found = lane->count > 0 && !cancel_is_set(member->cancel);
    if (found) {
        *out = lane->item[lane->first];
        lane->first = (lane->first + 1) % MEMBER_LANE_MAX;
        lane->count--;
    }
    (void)pthread_mutex_unlock(&member->lock);
    return found;
}

bool member_wants(struct member *member, const struct exchange_message *message)
{
    (void)pthread_mutex_lock(&member->lock);
    const bool wants = exchange_wants(member->exchange, message);
    (void)pthread_mutex_unlock(&member->lock);
    return wants;
}

bool member_has_sums(struct member *member, const struct exchange_message *message)
{
    (void)pthread_mutex_lock(&member->lock);
    const bool has = exchange_sendable(member->exchange, message) <= message->first;
    (void)pthread_mutex_unlock(&member->lock);
    return has;
}

enum member_sums member_wait_sums(struct member *member, const struct exchange_message *message,
                                  size_t layer)
{
    const int64_t until_ms = clock_now_ms() + WITHHELD_MS;
    bool goes_on, late = false;
    (void)pthread_mutex_lock(&member->lock);
    while (
        (goes_on = !cancel_is_set(member->cancel) && exchange_wants(member->exchange, message)) &&
        exchange_sendable(member->exchange, message) > layer && !late) {
        const int64_t left_ms = until_ms - clock_now_ms();
        late = left_ms <= 0 && exchange_withholds(member->exchange, message);
        if (!late) { /* every change of these conditions is signalled */
            (void)thread_condition_wait(&member->moved, &member->lock,
                                        (left_ms > 0 ? left_ms : WITHHELD_MS) * NS_PER_MS);
        }
    }
    (void)pthread_mutex_unlock(&member->lock);
    return !goes_on ? MEMBER_SUMS_UNWANTED : late ? MEMBER_SUMS_WITHHELD : MEMBER_SUMS_READY;
}

void member_moved(struct member *member, size_t bytes)
{
    /* Repeats of data that has already arrived are no progress. */
    if (atomic_fetch_sub(&member->moves_left, (int64_t)bytes) > 0) {
        task_clock_moved(&member->clock);
    }
}

void member_pull_began(struct member *member, double began_seconds)
{
    (void)pthread_mutex_lock(&member->lock);
    member->pull_began_seconds = began_seconds;
    (void)pthread_mutex_unlock(&member->lock);
}

void member_pulled(struct member *member, const struct exchange_message *message, size_t end)
{
    (void)pthread_mutex_lock(&member->lock);
    exchange_pulled(member->exchange, message, end);
    member_settle(member);
    (void)pthread_mutex_unlock(&member->lock);
}

int member_ended(struct member *member, const struct exchange_message *message, int64_t version,
                 struct err *err)
{
    (void)pthread_mutex_lock(&member->lock);
    const bool possible = exchange_ended(member->exchange, message, version);
    member_settle(member);
    (void)pthread_mutex_unlock(&member->lock);
    return possible ? 0
                    : err_set(err, ERR_PROTOCOL,
                              "stage %zu says that a version ends the generation "
                              "that cannot be its last",
                              message->to);
}

void member_sent(struct member *member, const struct exchange_message *message)
{
    (void)pthread_mutex_lock(&member->lock);
    exchange_sent(member->exchange, message);
    if (message->done) {
        member->push_seconds = clock_now_seconds() - member->push_began_seconds;
        member->pushed_step = message->step;
    }
    member_settle(member);
    (void)pthread_mutex_unlock(&member->lock);
}

void member_add_link(struct member *member, const struct exchange_message *message,
                     const struct member_transfer *transfer)
{
    const bool noted = member->transfers && message->to < member->servers;
    double seconds = transfer->seconds;
    (void)pthread_mutex_lock(&member->lock);
    if (noted && transfer->parked) {
        seconds = transfers_parked_seconds(member->transfers, message->to, seconds,
                                           transfer->answer_seconds);
    }
    timing_transfer_add(&member->links, LINK_TENSOR, &member->run->stage[message->to].peer.device,
                        transfer->bytes, seconds);
    if (noted) {
        transfers_note_link(member->transfers, message->kind == EXCHANGE_PARAMETERS, message->to,
                            transfer->bytes, seconds);
    }
    (void)pthread_mutex_unlock(&member->lock);
}

/* ---- from this stage to itself ---- */

static size_t free_handle(const struct member *member)
{
    size_t handle = MEMBER_OWN_PULLS;
    while (member->pull[handle].state != PULL_NONE) {
        handle++;
    }
    return handle;
}

static enum exchange_verdict pull_own(struct member *member, const struct exchange_message *message)
{
    (void)pthread_mutex_lock(&member->lock);
    const size_t handle = free_handle(member);
    enum exchange_verdict verdict = pull(member, message, handle);
    if (verdict == EXCHANGE_PARK) {
        while (member->pull[handle].state == PULL_PARKED && !cancel_is_set(member->cancel)) {
            (void)pthread_cond_wait(&member->moved, &member->lock);
        }
        verdict = member->pull[handle].state == PULL_ANSWERED ? member->pull[handle].verdict
                                                              : EXCHANGE_NOT_YET;
        if (member->pull[handle].state == PULL_PARKED) {
            exchange_forget(member->exchange, handle);
        }
        member->pull[handle].state = PULL_NONE;
    }
    (void)pthread_mutex_unlock(&member->lock);
    return verdict;
}

static int deliver_pull(struct member *member, const struct exchange_message *message, bool *done,
                        struct err *err)
{
    const enum exchange_verdict verdict = pull_own(member, message);
    if (verdict == EXCHANGE_REFUSE) {
        return err_set(err, ERR_PROTOCOL, "this stage refuses its own request");
    }
    *done = verdict == EXCHANGE_SERVE || verdict == EXCHANGE_LAST;
    if (verdict == EXCHANGE_LAST) {
        return member_ended(member, message, member_last(member), err);
    }
    if (verdict == EXCHANGE_SERVE) {
        const struct member_view from = member_view(member, message, true);
        const struct member_view to = member_view(member, message, false);
        if (message->first == 0) {
            member_pull_began(member, clock_now_seconds());
        }
        member_copy(&from, &to);
        member_pulled(member, message, message->end);
    }
    return 0;
}

/* Wait for the sums of a message to this stage itself. No connection is open, so withheld sums may
 * take any time. false: unwanted. */
static bool wait_own_sums(struct member *member, const struct exchange_message *message)
{
    if (message->kind != EXCHANGE_CONTRIBUTION) {
        return true;
    }
    enum member_sums sums = MEMBER_SUMS_WITHHELD;
    while (sums == MEMBER_SUMS_WITHHELD) {
        sums = member_wait_sums(member, message, message->first);
    }
    return sums == MEMBER_SUMS_READY;
}

int member_deliver(struct member *member, const struct exchange_message *message, bool *done,
                   struct err *err)
{
    struct exchange_claim claim;
    if (message->kind == EXCHANGE_PARAMETERS) {
        return deliver_pull(member, message, done, err);
    }
    *done = true;
    if (!wait_own_sums(member, message)) {
        return 0;
    }
    enum exchange_verdict verdict = member_offer(member, message, &claim);
    if (verdict == EXCHANGE_TAKE) {
        const struct member_view from = member_view(member, message, true);
        const struct member_view to = member_view(member, message, false);
        member_copy(&from, &to);
        verdict = member_received(member, message, &claim);
    }
    if (verdict == EXCHANGE_REFUSE) {
        return err_set(err, ERR_PROTOCOL, "this stage refuses its own sums");
    }
    *done = verdict != EXCHANGE_NOT_YET;
    if (*done) {
        member_sent(member, message);
    }
    return 0;
}
