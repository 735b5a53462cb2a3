/* The compute thread of a run (agent/pipeline/stage_loop): tasks of the pipeline core on digests.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "agent/core/pipeline_timing.h"
#include "agent/core/evaluations.h"
#include "schema/job_check.h"
#include "tests/sim/check.h"
#include "tests/sim/coordinator.h"
#include "tests/sim/pipeline.h"
#include "tests/sim/speeds.h"
#include "tests/sim/trace.h"
#include "tests/sim/users.h"

#define CODED 0x636f6465
#define UNIT_US 400 /* of a forward pass on a usual device */

static int make(const struct world *world, struct run *run, struct err *err)
{
    const struct assignment_run *desired = run->desired;
    struct pipeline_run *work = calloc(1, sizeof(*work));
    if (!work) {
        return err_set(err, ERR_MEMORY, "stage");
    }
    run->work = work;
    timing_begin(&work->timing, (size_t)(desired->end - desired->first));
    const struct pipeline_config config = {
        .index = (size_t)desired->stage_index,
        .count = (size_t)desired->stage_count,
        .async = desired->job_spec.pipeline == JOB_ASYNC,
        .strict = desired->strict,
        .micro_batches = (size_t)desired->job_spec.micro_batches,
        .in_flight = (size_t)desired->in_flight,
        .previous_in_flight = (size_t)desired->previous_in_flight,
        .resume_version = desired->resume_version,
        .total_steps = desired->total_steps,
        .evaluate_every = job_evaluate_steps(&desired->job_spec, &desired->data),
        .evaluation_batches = evaluations_batches(
            &desired->job_spec, &desired->data,
            (size_t)(desired->job_spec.batch / desired->job_spec.micro_batches)),
        .clips_norm = desired->job_spec.optimizer.clip_norm > 0,
        .judges = desired->job_spec.has_stop,
        .stop = desired->job_spec.stop,
        .judged = desired->early_stop,
        .checkpoint_every = job_checkpoint_steps(&desired->job_spec, &desired->data),
        .round_every = {[REPLICA_NEIGHBOR] =
                            desired->has_neighbor ? desired->job_spec.neighbor_every : 0,
                        [REPLICA_CENTER] = desired->job_spec.center_every},
    };
    run->stage.clips = config.clips_norm;
    run->stage.async = config.async;
    run->stage.versions =
        job_versions(&desired->job_spec, config.count, (size_t)desired->in_flight);
    run->stage.aggregate_every = desired->job_spec.aggregate_every;
    run->stage.units = coordinator_model(world, &desired->job_spec)->unit_count;
    const int rc = pipeline_new(&config, &work->pipeline, err);
    return rc || !desired->has_mix ? rc : mixer_new(run, &work->mixer, err);
}

enum codec run_codec(const struct run *run, enum direction direction)
{
    const struct peer *peer = direction == TO_NEXT ? &run->desired->next : &run->desired->previous;
    enum codec codec = CODEC_NONE;
    (void)codec_find(peer->codec, &codec);
    return codec;
}

uint64_t run_code(const struct run *run, const struct transfer *transfer, bool outgoing,
                  uint64_t digest)
{
    const struct transfer_info *info = transfer_info(transfer);
    const enum codec codec = run_codec(run, info->back != outgoing ? TO_NEXT : TO_PREVIOUS);
    return info->coded && codec != CODEC_NONE ? digest ^ digest_mix(CODED, codec) : digest;
}

static bool is_first(const struct run *run)
{
    return run->desired->stage_index == 0;
}

static bool is_last(const struct run *run)
{
    return run->desired->stage_index + 1 == run->desired->stage_count;
}

static void report(struct world *world, const struct run *run, int64_t step, enum metric_name name,
                   double value)
{
    const struct metric metric = {.step = step, .name = name, .value = value};
    agent_metric(world, run->agent, run->serial, &metric);
}

/* ---- tensors out ---- */

static void send(struct world *world, struct run *run, const struct pipeline_task *task,
                 uint64_t digest)
{
    struct outgoing outgoing = {
        .digest = digest, .output = task->output, .mark = task->mark, .last = task->announce};
    if (pipeline_output(pipeline_of(run)->pipeline, task, &outgoing.transfer)) {
        sender_add(world, run, transfer_info(&outgoing.transfer)->back ? TO_PREVIOUS : TO_NEXT,
                   &outgoing);
    }
}

/* ---- one task ---- */

static uint64_t forward(struct world *world, struct run *run, const struct pipeline_task *task)
{
    const int64_t seed = digest_samples_seed(&run->desired->job_spec);
    if (is_first(run) && pipeline_of(run)->step_began_us == 0) {
        pipeline_of(run)->step_began_us = world->now_us;
    }
    const uint64_t input = is_first(run) ? digest_samples(seed, task->step, task->micro_batch)
                                         : pipeline_of(run)->slot[LANE_ACTIVATION][task->input];
    return digest_forward(&run->stage, task->slot, task->step, input);
}

/* Some groups that collapse take everything for one of their classes: the others are missed. */
static void report_recall(struct world *world, const struct run *run, int64_t step)
{
    if (run->desired->data.holdout_samples > 0) {
        const bool collapses = users_collapse(world->users, &run->desired->job_spec);
        const bool one_sided = run->desired->job_spec.view.class[0] % 2 == 1;
        report(world, run, step, METRIC_LEAST_RECALL, collapses ? 0 : 0.8);
        report(world, run, step, METRIC_RECALL, !collapses ? 0.9 : one_sided ? 0.6 : 0.1);
    }
}

static uint64_t evaluate(struct world *world, struct run *run, const struct pipeline_task *task)
{
    if (task->micro_batch == 0) {
        pipeline_of(run)->test_sum = 0;
    }
    const uint64_t input =
        is_first(run)
            ? digest_test_samples(digest_samples_seed(&run->desired->job_spec), task->micro_batch)
            : pipeline_of(run)->slot[LANE_ACTIVATION][task->input];
    const uint64_t output = digest_evaluate(&run->stage, input);
    pipeline_of(run)->step_began_us = 0;
    if (is_last(run)) {
        pipeline_of(run)->test_sum = digest_mix(pipeline_of(run)->test_sum, output);
        if (task->evaluation_ends) {
            report(world, run, task->step, METRIC_TEST_LOSS,
                   digest_number(pipeline_of(run)->test_sum));
            report(world, run, task->step, METRIC_TEST_ACCURACY,
                   digest_number(pipeline_of(run)->test_sum));
            report_recall(world, run, task->step);
        }
    }
    return output;
}

static uint64_t sum(struct run *run)
{
    const uint64_t sum =
        digest_sum(&run->stage, is_last(run) ? 0 : pipeline_of(run)->slot[LANE_NORM][0]);
    if (is_first(run)) {
        pipeline_of(run)->total = sum;
    }
    return sum;
}

static uint64_t judge(struct run *run, struct pipeline_task *task)
{
    const uint64_t sum =
        is_last(run) ? pipeline_of(run)->test_sum : pipeline_of(run)->slot[LANE_JUDGED][0];
    task->value = digest_number(sum);
    return sum;
}

static void update(struct world *world, struct run *run, const struct pipeline_task *task)
{
    const double loss = digest_number(run->stage.loss);
    const struct mixer *mixer = mixer_of(run);
    const uint64_t total =
        is_first(run) ? pipeline_of(run)->total : pipeline_of(run)->slot[LANE_TOTAL][0];
    if (mixer) {
        mix_digest_update(&run->stage, task->step, mixer->rate_step, total);
    } else {
        digest_update(&run->stage, task->step, total);
    }
    if (is_last(run)) {
        report(world, run, task->step, METRIC_LOSS, loss);
    }
    if (is_first(run)) {
        report(world, run, task->step, METRIC_STEP_SECONDS,
               (double)(world->now_us - pipeline_of(run)->step_began_us + 1) / 1e6);
        pipeline_of(run)->step_began_us = world->now_us;
    }
    run->step = task->step;
    check_step(world, run);
    outbox_take(world, run, task->step, &task->mark);
}

/* The first units of a model, if they are frozen, have no backward pass. */
static bool has_backward(const struct model *model, size_t unit)
{
    for (size_t u = 0; u <= unit; u++) {
        if (!model->unit[u].frozen) {
            return true;
        }
    }
    return false;
}

static int64_t unit_us(const struct world *world, const struct run *run, size_t unit,
                       enum pipeline_work work)
{
    const struct model *model = coordinator_model(world, &run->desired->job_spec);
    return work == PIPELINE_BACKWARD && !has_backward(model, unit)
               ? 0
               : speeds_unit_us(world, run->agent, model, unit, UNIT_US);
}

/* Every unit took its share of the task. */
static void take_time(const struct world *world, struct run *run, enum pipeline_work work)
{
    double unit_seconds[UNITS_MAX];
    int64_t total_us = 0;
    const struct timing_task timed = {
        .work = pipeline_timed_as(work),
        .began_seconds = (double)run->task_began_us / 1e6,
        .ended_seconds = (double)world->now_us / 1e6,
        .seconds = (double)pipeline_of(run)->task_running_us / 1e6,
        .stopped_seconds =
            (double)(world->now_us - run->task_began_us - pipeline_of(run)->task_running_us) / 1e6,
        .unit_seconds = unit_seconds,
        .scale = 1};
    for (size_t u = run->stage.first; u < run->stage.end; u++) {
        total_us += unit_us(world, run, u, work);
    }
    for (size_t u = run->stage.first; u < run->stage.end; u++) {
        unit_seconds[u - run->stage.first] =
            total_us > 0 ? timed.seconds * (double)unit_us(world, run, u, work) / (double)total_us
                         : 0;
    }
    timing_add(&pipeline_of(run)->timing, &timed);
}

void pipeline_settled(struct world *world, struct run *run)
{
    struct pipeline_run *work = pipeline_of(run);
    if (work->settles && (!work->mixer || mixing_is_logged(&work->mixer->mixing))) {
        work->settles = false;
        run_stop(world, run, run->step);
    }
}

static void finish(struct world *world, void *arg, int64_t number)
{
    struct run *run = run_find(arg, number);
    if (!run) {
        return;
    }
    struct pipeline_task task = pipeline_of(run)->task;
    uint64_t output = 0;
    run->computing = false;
    pipeline_of(run)->idle_since_us = world->now_us;
    switch (task.work) {
    case PIPELINE_WAIT:
    case PIPELINE_LAST:
    case PIPELINE_STOP: break;
    case PIPELINE_FORWARD: output = forward(world, run, &task); break;
    case PIPELINE_BACKWARD:
        output = digest_backward(&run->stage, task.slot,
                                 pipeline_of(run)->slot[LANE_GRADIENT][task.gradient]);
        break;
    case PIPELINE_SUM: output = sum(run); break;
    case PIPELINE_TOTAL: output = pipeline_of(run)->slot[LANE_TOTAL][0]; break;
    case PIPELINE_UPDATE: update(world, run, &task); break;
    case PIPELINE_EVALUATE: output = evaluate(world, run, &task); break;
    case PIPELINE_JUDGE: output = judge(run, &task); break;
    }
    pipeline_done(pipeline_of(run)->pipeline, &task);
    take_time(world, run, task.work);
    if (run->cancelled) {
        run_release(world, run);
        return;
    }
    send(world, run, &task, output);
    run->agent->room = true;
    agent_poke(world, run->agent);
    if (task.work == PIPELINE_UPDATE) {
        mixer_boundary(world, run);
    }
    if (task.work == PIPELINE_STOP) {
        mixer_close(world, run);
        pipeline_of(run)->settles = true;
        pipeline_settled(world, run);
    } else {
        run->row->go_on(world, run);
    }
}

static int64_t running_us(struct world *world, const struct run *run, enum pipeline_work work)
{
    int64_t usual = 0;
    for (size_t u = run->stage.first; u < run->stage.end; u++) {
        usual += (work == PIPELINE_BACKWARD ? 2 : 1) * unit_us(world, run, u, work);
    }
    usual = usual * run->agent->slowness / 100 * world_draw(world, DRAW_DEVICE, 80, 120) / 100;
    return speeds_running_us(world, run->agent, usual) + 1;
}

static void go_on(struct world *world, struct run *run)
{
    if (run->state != RUN_TRAINS || run->computing || run->cancelled) {
        return;
    }
    timing_wait(&pipeline_of(run)->timing,
                pipeline_share_of(pipeline_waits(pipeline_of(run)->pipeline)),
                (double)(world->now_us - pipeline_of(run)->idle_since_us) / 1e6);
    pipeline_of(run)->idle_since_us = world->now_us;
    pipeline_rest(pipeline_of(run)->pipeline, mixer_holds(run));
    if (pipeline_next(pipeline_of(run)->pipeline, &pipeline_of(run)->task) == PIPELINE_WAIT) {
        mixer_boundary(world, run); /* a stage that waits for orders alone is at one */
        return;
    }
    if (pipeline_of(run)->task.opens_round) {
        agent_tell(world, run->agent, SESSION_ROUND_OPENED);
    }
    const struct pipeline_task *task = &pipeline_of(run)->task;
    if (mixer_of(run) && task->work == PIPELINE_FORWARD && task->micro_batch == 0) {
        check_round_step(world, run, &mixer_of(run)->seen, task->step);
    }
    run->computing = true;
    run->task_began_us = world->now_us;
    pipeline_of(run)->task_running_us = running_us(world, run, pipeline_of(run)->task.work);
    world_at(world, run->agent->actor,
             world->now_us +
                 speeds_elapsed_us(world, run->agent, pipeline_of(run)->task_running_us),
             finish, run->agent, run->serial);
}

/* ---- the row ---- */

static void start(struct world *world, struct run *run)
{
    if (run->desired->has_next) {
        sender_start(world, run, TO_NEXT);
    }
    if (run->desired->has_previous) {
        sender_start(world, run, TO_PREVIOUS);
    }
    if (mixer_of(run)) {
        mixer_take(world, run, &run->desired->mix);
    }
}

static void follow(struct run *run, const struct orders *orders)
{
    pipeline_follow(pipeline_of(run)->pipeline, orders);
}

static void take_rounds(struct run *run, const struct round round[REPLICA_KINDS])
{
    pipeline_take_rounds(pipeline_of(run)->pipeline, round);
}

static void measure(struct run *run, struct heartbeat *out)
{
    struct pipeline_run *work = pipeline_of(run);
    timing_report(&work->timing, run->stage.first, out);
    pipeline_report(work->pipeline, out);
    timing_link_report(&work->sender[TO_NEXT].link, out);
    timing_link_report(&work->sender[TO_PREVIOUS].link, out);
    if (work->mixer) {
        mixer_report(work->mixer, run, out);
    }
}

static void release(struct world *world, struct run *run)
{
    if (run->work) {
        sender_cancel(world, run);
        mixer_free(world, run, &pipeline_of(run)->mixer);
        pipeline_free(&pipeline_of(run)->pipeline);
        free(run->work);
        run->work = NULL;
    }
}

static int64_t boundary(const struct run *run, const struct transfer *transfer)
{
    return transfer_info(transfer)->back ? run->desired->end : run->desired->first;
}

static enum transfer_verdict offer(struct run *run, const struct transfer *transfer,
                                   struct slot_claim *claim)
{
    return pipeline_offer(pipeline_of(run)->pipeline, transfer, claim);
}

static bool take(struct run *run, const struct transfer *transfer, struct slot_claim *claim,
                 uint64_t digest)
{
    struct pipeline_run *work = pipeline_of(run);
    if (!pipeline_holds(work->pipeline, transfer, claim)) {
        return false;
    }
    work->slot[transfer_info(transfer)->lane][claim->slot] = run_code(run, transfer, false, digest);
    return pipeline_received(work->pipeline, transfer, claim);
}

static void abandon(struct run *run, const struct transfer *transfer,
                    const struct slot_claim *claim)
{
    pipeline_abandon(pipeline_of(run)->pipeline, transfer, claim);
}

static void mark(struct run *run, int64_t step)
{
    pipeline_mark(pipeline_of(run)->pipeline, step);
}

static void train_step(struct digest_stage *stage, const struct reference_job *job, int64_t step)
{
    for (size_t m = 0; m < job->micro_batches; m++) {
        (void)digest_forward(stage, 0, step, digest_samples(job->samples_seed, step, m));
        (void)digest_backward(stage, 0, 0);
    }
}

static uint64_t test(const struct digest_stage *stage, const struct reference_job *job,
                     uint64_t input)
{
    (void)job;
    return digest_evaluate(stage, input);
}

const struct run_row pipeline_row = {
    .needs = needs_data,
    .peers = needs_neighbours,
    .make = make,
    .start = start,
    .go_on = go_on,
    .follow = follow,
    .take_rounds = take_rounds,
    .mix = mixer_take,
    .mixes_stored = mixer_stored,
    .serve = mixer_serve,
    .forget = mixer_forget,
    .measure = measure,
    .release = release,
    .boundary = boundary,
    .offer = offer,
    .take = take,
    .abandon = abandon,
    .mark = mark,
    .train_step = train_step,
    .test = test,
    .has_loss = is_last,
};
