#include "agent/gossip/mix_fetch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/peer/message.h"
#include "base/clock.h"
#include "libtrain/formats/safetensors.h"

#define PREFIX 8                 /* bytes of a safetensors file that state the size of its header */
#define MEASURED_SECONDS_MIN 0.5 /* shortest measurement of a part of a copy */

bool mix_fetch_is_open(const struct mix_fetch *fetch)
{
    const struct mixer_worker *worker = fetch->worker;
    const struct mixing_slot *slot = &worker->mixer->mixing.slot[worker->place];
    /* A group that computes an average may later adopt the average of another group, with the same
     * xid. */
    const bool same = mix_xid_is(slot->match.xid, fetch->xid) &&
                      (slot->match.kind == MIX_ADOPT) == fetch->average;
    return same && mixing_fetch(&worker->mixer->mixing, worker->place) &&
           slot->fetched <= fetch->index && clock_now_ms() < fetch->deadline_ms;
}

static bool is_wanted(void *arg)
{
    const struct mix_fetch *fetch = arg;
    struct mixer *mixer = fetch->worker->mixer;
    (void)pthread_mutex_lock(&mixer->lock);
    const bool wanted = mix_fetch_is_open(fetch);
    (void)pthread_mutex_unlock(&mixer->lock);
    return wanted && !mixer_is_cancelled(mixer);
}

static int spoil(struct mix_fetch *fetch, const char *why)
{
    return err_set(&fetch->err, ERR_FORMAT, "%s", why);
}

/* Find how many bytes of the header are missing; 0: it is whole. */
static int header_left(struct mix_fetch *fetch, size_t *left)
{
    const struct buf *head = &fetch->worker->head;
    uint64_t bytes = PREFIX;
    if (head->size >= PREFIX) {
        const int rc = safetensors_header_bytes((const uint8_t *)head->data, &bytes, &fetch->err);
        if (rc != 0) {
            return rc;
        }
        if (bytes > MIX_BODY_HEADER_MAX) {
            return spoil(fetch, "its header is too long");
        }
    }
    *left = (size_t)bytes - head->size;
    return 0;
}

/* Take bytes of the header; *taken: how many. */
static int take_header(struct mix_fetch *fetch, const char *data, size_t size, size_t *taken)
{
    struct buf *head = &fetch->worker->head;
    size_t left = 0;
    *taken = 0;
    int rc = header_left(fetch, &left);
    while (rc == 0 && left > 0 && *taken < size) {
        const size_t count = size - *taken < left ? size - *taken : left;
        rc = buf_append(head, data + *taken, count, &fetch->err);
        *taken += count;
        rc = rc ? rc : header_left(fetch, &left);
        if (rc == 0 && left == 0) {
            rc = mix_body_read_header(head->data, head->size, &fetch->worker->mixer->body,
                                      &fetch->worker->text, fetch->worker->note, &fetch->err);
        }
    }
    /* Any error means that the data is not a copy, except a lack of memory on this device. */
    return rc == 0 || rc == ERR_MEMORY ? rc : spoil(fetch, fetch->err.text);
}

static void note_time(struct mix_fetch *fetch, size_t size)
{
    fetch->last_ms = clock_now_ms();
    if (fetch->first_ms == 0) {
        fetch->first_ms = fetch->last_ms;
    } else {
        fetch->after_first += size;
    }
}

bool mix_fetch_measure(const struct mix_fetch *fetch, bool whole, double *bytes, double *seconds)
{
    const double part_seconds = (double)(fetch->last_ms - fetch->first_ms) / 1e3;
    *bytes = (double)(whole ? fetch->worker->head.size + fetch->at : fetch->after_first);
    *seconds = whole ? fetch->seconds : part_seconds;
    return whole || part_seconds >= MEASURED_SECONDS_MIN;
}

static int write_answer(void *arg, const void *bytes, size_t size)
{
    struct mix_fetch *fetch = arg;
    const size_t all = mix_body_bytes(&fetch->worker->mixer->body);
    size_t taken = 0;
    if (!is_wanted(fetch)) {
        return ERR_STALE;
    }
    note_time(fetch, size);
    int rc = take_header(fetch, bytes, size, &taken);
    if (rc == 0 && size - taken > all - fetch->at) {
        rc = spoil(fetch, "it continues after its tensors");
    }
    if (rc == 0 && size > taken) {
        memcpy(fetch->out + fetch->at, (const char *)bytes + taken, size - taken);
        fetch->at += size - taken;
    }
    return rc;
}

/* One try: the code of repeat.h. */
static int try_once(void *arg, struct err *err)
{
    struct mix_fetch *fetch = arg;
    struct mixer_worker *worker = fetch->worker;
    struct http_result result;
    mix_body_forget(&worker->head);
    fetch->at = fetch->after_first = 0;
    fetch->first_ms = fetch->last_ms = 0;
    fetch->err = (struct err){0};
    int rc = reach_try(&fetch->reach, &worker->caller, &fetch->call, &result, err);
    if (fetch->err.code != 0) {
        return err_set(err, fetch->err.code, "%s", fetch->err.text);
    }
    rc = rc ? rc : reach_judge(&fetch->reach, &worker->caller, REPEAT_MIX, result.status, err);
    if (rc != 0) {
        return rc;
    }
    size_t left = 0;
    rc = header_left(fetch, &left);
    if (rc == 0 && (left > 0 || fetch->at != mix_body_bytes(&worker->mixer->body))) {
        return err_set(err, ERR_FORMAT, "it is too short"); /* though the answer is whole */
    }
    const double parked = worker->note->parked_seconds;
    fetch->seconds = result.seconds > parked ? result.seconds - parked : 0;
    return rc;
}

int mix_fetch_run(struct mix_fetch *fetch, struct err *err)
{
    struct mixer_worker *worker = fetch->worker;
    struct mixer *mixer = worker->mixer;
    const struct mix_source *source = &fetch->source;
    const enum trouble_source trouble =
        worker->place == MIXING_AVERAGES ? TROUBLE_MIX_AVERAGE : TROUBLE_MIX_PAIR;
    char url[MESSAGE_PATH_MAX];
    (void)snprintf(url, sizeof(url), "%s/peer/v1/%s/%" PRId64 "/%s/%" PRId64 "-%" PRId64 "/0/%zu",
                   source->peer.url, source->job.text, source->job_generation,
                   fetch->average ? "averages" : "mixes", fetch->xid.life, fetch->xid.counter,
                   keeper_model(mixer->config.keeper)->unit_count);
    const struct reach_config reach = {
        .peer = &fetch->source.peer,
        .plan = &fetch->source.plan,
        .job = &fetch->source.job,
        .generation = source->job_generation,
        .ways = mixer->work.ways,
        .trust = mixer->work.trust,
        .troubles = mixer->work.troubles,
        .source = trouble,
        .cancel = mixer->cancel,
        .peer_ms = mixer->peer_ms,
    };
    reach_init(&fetch->reach, &reach);
    struct repeat repeat;
    repeat_begin(&repeat, REPEAT_MIX, mixer->peer_ms);
    fetch->call = reach_call(&fetch->reach, &worker->caller, "GET", url, repeat_stall_ms(&repeat));
    fetch->call.write = write_answer;
    fetch->call.write_arg = fetch;
    const struct reach_tries tries = {.once = try_once, .wanted = is_wanted, .arg = fetch};
    const int rc = reach_repeat(&fetch->reach, &worker->caller, &repeat, &tries, err);
    if (rc != 0) {
        /* Others may reach the device, and this group does not depend on it. */
        troubles_forget(mixer->work.troubles, trouble);
    }
    return rc;
}
