#include "agent/pipeline/pipeline_work.h"

#include "agent/core/repeat.h"
#include "agent/pipeline/sender.h"
#include "agent/pipeline/stage_loop.h"
#include "agent/pipeline/stage_parts.h"
#include "schema/job_check.h"

/* Return the codec of the link to a neighbour. assignment_check has verified its name. */
static enum codec peer_codec(bool there, const struct peer *peer)
{
    enum codec codec = CODEC_NONE;
    if (there && peer->codec[0] != '\0') {
        (void)codec_find(peer->codec, &codec);
    }
    return codec;
}

static size_t fill_memory(const struct assignment_run *run, const struct model *model,
                          struct memory_request out[WORK_STAGES_MAX], uint64_t *more)
{
    *more = run->has_mix ? mixer_bytes(model, &run->mix) : 0;
    out->first = (size_t)run->first;
    out->end = (size_t)run->end;
    out->in_flight = (size_t)run->in_flight;
    out->versions = job_versions(&run->job_spec, (size_t)run->stage_count, (size_t)run->in_flight);
    out->codec[MEMORY_OUTPUT] = peer_codec(run->has_next, &run->next);
    out->codec[MEMORY_INPUT] = peer_codec(run->has_previous, &run->previous);
    return 1;
}

static int make(const struct work_config *config, struct model **model, struct work **out,
                struct err *err)
{
    const struct assignment_run *run = config->run;
    const struct stage_config stage_config = {
        .job = run->job,
        .generation = run->generation,
        .index = (size_t)run->stage_index,
        .count = (size_t)run->stage_count,
        .first = (size_t)run->first,
        .end = (size_t)run->end,
        .in_flight = (size_t)run->in_flight,
        .previous_in_flight = (size_t)run->previous_in_flight,
        .strict = run->strict,
        .codec = {[STAGE_TO_NEXT] = peer_codec(run->has_next, &run->next),
                  [STAGE_TO_PREVIOUS] = peer_codec(run->has_previous, &run->previous)},
        .resume_version = run->resume_version,
        .total_steps = run->total_steps,
        .early_stop = run->early_stop,
        .spec = &run->job_spec,
        .samples = run->data,
        .data = config->data,
        .threads = config->threads,
        .slowdown = config->slowdown,
        .park_ms = repeat_park_ms(run->peer_ms),
        .has_neighbor = run->has_neighbor,
        .room_fd = config->room_fd,
    };
    struct stage *stage = NULL;
    int rc = stage_new(&stage_config, model, &stage, err);
    if (rc == 0 && run->has_mix) {
        rc = stage_make_mixer(stage, config, err);
    }
    if (rc == 0) {
        *out = stage_work(stage);
    } else if (stage) {
        stage_release(&stage);
    }
    return rc;
}

static int start_sender(struct stage *stage, const struct work_config *config,
                        enum stage_direction direction, const struct peer *peer, struct err *err)
{
    const struct sender_config sender = {
        .stage = stage,
        .direction = direction,
        .peer = *peer,
        .plan = config->run->plan,
        .ways = config->ways,
        .trust = config->trust,
        .peer_ms = config->run->peer_ms,
        .troubles = config->troubles,
        .failed = config->failed,
        .arg = config->arg,
    };
    struct sender *started = NULL;
    int rc = sender_start(&sender, &started, err);
    (void)pthread_mutex_lock(&stage->lock); /* for measure */
    stage->sender[direction] = started;
    (void)pthread_mutex_unlock(&stage->lock);
    return rc;
}

static int start(struct work *work, const struct work_config *config, struct err *err)
{
    const struct assignment_run *run = config->run;
    struct stage *stage = stage_of(work);
    int rc = run->has_next ? start_sender(stage, config, STAGE_TO_NEXT, &run->next, err) : 0;
    rc = rc == 0 && work->mixer ? mixer_start(work->mixer, err) : rc;
    return rc == 0 && run->has_previous
               ? start_sender(stage, config, STAGE_TO_PREVIOUS, &run->previous, err)
               : rc;
}

static int loop(struct work *work, const struct work_listener *listener, int64_t *version,
                struct err *err)
{
    return stage_loop(stage_of(work), listener, version, err);
}

static void release(struct work *work)
{
    sender_free(&stage_of(work)->sender[STAGE_TO_NEXT]);
    sender_free(&stage_of(work)->sender[STAGE_TO_PREVIOUS]);
    if (work->mixer) {
        mixer_stop(work->mixer);
    }
}

static void follow(struct work *work, const struct orders *orders)
{
    stage_follow(stage_of(work), orders);
}

static void take_rounds(struct work *work, const struct round round[REPLICA_KINDS])
{
    stage_take_rounds(stage_of(work), round);
}

static void cancel(struct work *work)
{
    stage_cancel(stage_of(work));
}

static void measure(struct work *work, struct heartbeat *out)
{
    struct stage *stage = stage_of(work);
    stage_measure(stage, out);
    (void)pthread_mutex_lock(&stage->lock);
    for (int direction = 0; direction < 2; direction++) {
        if (stage->sender[direction]) {
            sender_report_link(stage->sender[direction], out);
        }
    }
    (void)pthread_mutex_unlock(&stage->lock);
    if (work->mixer) {
        mixer_report(work->mixer, out);
    }
}

static void mix(struct work *work, const struct mix_duty *duty)
{
    if (work->mixer) {
        mixer_take(work->mixer, duty);
    }
}

static void mixes_stored(struct work *work, const struct mix_report *report)
{
    if (work->mixer) {
        mixer_stored(work->mixer, report);
    }
}

static const struct work_tensors tensors = {
    .expect = stage_expects,
    .offer = stage_offer,
    .holds = stage_holds,
    .received = stage_received,
    .abandon = stage_abandon,
    .mark = stage_mark,
};

const struct work_row pipeline_work = {
    .needs = needs_data,
    .memory = fill_memory,
    .peers = needs_neighbours,
    .make = make,
    .start = start,
    .loop = loop,
    .release = release,
    .free = stage_free,
    .follow = follow,
    .take_rounds = take_rounds,
    .cancel = cancel,
    .measure = measure,
    .mix = mix,
    .mixes_stored = mixes_stored,
    .linger = stage_linger,
    .tensors = &tensors,
};
