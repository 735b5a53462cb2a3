#include "agent/offline/replay_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/runtime/keeper.h"
#include "agent/runtime/samples.h"
#include "libtrain/memory/memory.h"
#include "libtrain/optim/mix.h"
#include "schema/job_check.h"

/* The samples of an incarnation of a group. In a window (libtrain/model/view.h) they depend on the
 * losses of this incarnation. */
struct run_samples {
    int64_t group, generation;
    struct samples *samples;
};

struct replay_run {
    struct replay_run_config config;
    struct job_spec spec; /* the job as one pipeline; its description is borrowed */
    struct keeper *keeper;
    struct train_stage *train;
    struct train_state state;    /* the stage's own */
    size_t floats;               /* of a copy: parameters, then statistics */
    size_t present;              /* the place of the state that is in the stage */
    size_t state_bytes;          /* of all units */
    unsigned char **blob;        /* [states] the states that are not in the stage */
    float **copy;                /* [copies] */
    float *part[MIX_SUMS_MAX];   /* parts of a sum; the first one is the average itself */
    float *scratch;              /* [train_scratch_floats] */
    struct run_samples *samples; /* [incarnations] that train */
    size_t incarnations;
    size_t micro_batch;
    unsigned char *inputs; /* of a micro-batch */
    int32_t *labels;
    int64_t total_steps, steps;
};

/* ---- whole states ---- */

static size_t unit_count(const struct replay_run *run)
{
    return run->config.model->model->unit_count;
}

static void save(struct replay_run *run, size_t place)
{
    unsigned char *at = run->blob[place];
    for (size_t unit = 0; unit < unit_count(run); unit++) {
        keeper_save_unit(run->keeper, unit, at);
        at += keeper_unit_bytes(run->keeper, unit);
    }
}

static int load(struct replay_run *run, size_t place, struct err *err)
{
    const unsigned char *at = run->blob[place];
    int rc = 0;
    for (size_t unit = 0; rc == 0 && unit < unit_count(run); unit++) {
        const size_t bytes = keeper_unit_bytes(run->keeper, unit);
        rc = keeper_load_unit(run->keeper, unit, at, bytes, err);
        at += bytes;
    }
    return rc;
}

/* Move the state of a place into the stage. */
static int enter(struct replay_run *run, size_t place, struct err *err)
{
    if (run->present == place) {
        return 0;
    }
    if (run->present != REPLAY_NONE) {
        save(run, run->present);
    }
    run->present = place;
    return load(run, place, err);
}

static struct train_state copy_of(const struct replay_run *run, float *copy)
{
    struct train_state state = run->state;
    state.parameter = copy;
    state.statistic = copy + state.parameters;
    return state;
}

static void move_floats(float *to, const float *from, size_t count)
{
    if (count > 0) {
        memcpy(to, from, count * sizeof(float));
    }
}

static int start_units(struct replay_run *run, struct err *err)
{
    const struct model *model = run->config.model->model;
    int rc = 0;
    for (size_t unit = 0; rc == 0 && unit < model->unit_count; unit++) {
        rc = job_from_checkpoint(run->config.spec, model->unit[unit].name)
                 ? keeper_start_unit(run->keeper, unit, run->config.model->checkpoint, err)
                 : keeper_load_unit(run->keeper, unit, NULL, 0, err);
    }
    return rc;
}

static int start(struct replay_run *run, const struct replay_action *action, struct err *err)
{
    if (run->present != REPLAY_NONE && run->present != action->state) {
        save(run, run->present);
    }
    run->present = action->state;
    int rc = start_units(run, err);
    if (rc == 0 && action->peer != REPLAY_NONE) {
        const struct train_state from = copy_of(run, run->copy[action->peer]);
        move_floats(run->state.parameter, from.parameter, from.parameters);
        move_floats(run->state.statistic, from.statistic, from.statistics);
        train_state_changed(run->train);
    }
    return rc;
}

static int fork_state(struct replay_run *run, const struct replay_action *action, struct err *err)
{
    int rc = enter(run, action->own, err);
    if (rc == 0) {
        save(run, action->state);
    }
    return rc;
}

/* ---- steps ---- */

/* Return the samples of the incarnation that an action trains, or NULL. */
static struct samples **samples_of(struct replay_run *run, const struct replay_action *action)
{
    const struct mix_member *own = &action->record->own;
    for (size_t i = 0; i < run->incarnations; i++) {
        struct run_samples *samples = &run->samples[i];
        if (samples->group == own->group && samples->generation == own->generation) {
            return &samples->samples;
        }
    }
    return NULL;
}

static int pass(struct replay_run *run, struct samples *samples, struct train_position position,
                struct err *err)
{
    const size_t first = position.micro_batch * run->micro_batch;
    double loss_sum = 0;
    samples_inputs(samples, position.step, first, run->micro_batch, run->inputs);
    samples_labels(samples, position.step, first, run->micro_batch, run->labels);
    int rc = train_forward(run->train, 0, position, run->inputs, NULL, run->labels, &loss_sum, err);
    if (rc == 0) {
        samples_note(samples, position.step, first, run->micro_batch, train_losses(run->train));
        train_backward(run->train, 0, NULL, NULL);
    }
    return rc;
}

static int clip(struct replay_run *run, struct err *err)
{
    double squares = 0;
    if (run->spec.optimizer.clip_norm <= 0) {
        return 0;
    }
    int rc = train_sum_squares(run->train, 0, &squares, err);
    return rc ? rc : train_clip(run->train, squares, err);
}

static int step(struct replay_run *run, const struct replay_action *action, int64_t number,
                struct err *err)
{
    struct samples *samples = *samples_of(run, action);
    const double rate =
        learning_rate_at(&run->spec.learning_rate, action->rate_step, run->total_steps);
    int rc = 0;
    for (int64_t m = 0; rc == 0 && m < run->spec.micro_batches; m++) {
        rc = pass(run, samples, (struct train_position){number, (size_t)m}, err);
    }
    rc = rc ? rc : clip(run, err);
    return rc ? rc : train_update(run->train, number, rate, err);
}

static int train(struct replay_run *run, const struct replay_action *action, struct err *err)
{
    int rc = enter(run, action->state, err);
    for (int64_t number = action->first + 1; rc == 0 && number <= action->last; number++) {
        rc = step(run, action, number, err);
        if (rc != 0) {
            return err_wrap(err, "group %" PRId64 ", step %" PRId64, action->group, number);
        }
        run->config.stepped(run->config.arg, ++run->steps);
    }
    return rc;
}

/* ---- copies ---- */

static int take_copy(struct replay_run *run, const struct replay_action *action, struct err *err)
{
    int rc = enter(run, action->state, err);
    if (rc == 0) {
        const struct train_state to = copy_of(run, run->copy[action->own]);
        move_floats(to.parameter, run->state.parameter, to.parameters);
        move_floats(to.statistic, run->state.statistic, to.statistics);
    }
    return rc;
}

static int mix(struct replay_run *run, const struct replay_action *action, struct err *err)
{
    const struct mix_record *record = action->record;
    int rc = enter(run, action->state, err);
    if (rc == 0) {
        const struct train_state own = copy_of(run, run->copy[action->own]);
        const struct train_state peer = copy_of(run, run->copy[action->peer]);
        const struct train_state *state = &run->state;
        mix_parameters(state->parameters, record->alpha, own.parameter, peer.parameter,
                       state->parameter);
        mix_statistics(state->statistics, record->statistics_alpha, peer.statistic,
                       state->statistic);
        train_state_changed(run->train);
    }
    return rc;
}

/* Add the copies in the way of the group that computed the average. */
static void add_up(struct replay_run *run, const struct replay_action *action)
{
    const struct mix_record *record = action->record;
    const size_t *source = &run->config.plan->source[action->first];
    double weight[GROUPS_MAX];
    bool weighted = false;
    struct mix_sum sum = {.groups = record->peer_count, .count = run->floats};
    for (size_t i = 0; i < record->peer_count; i++) {
        weight[i] = record->peer[i].weight;
        weighted = weighted || weight[i] > 0;
    }
    sum.weight = weighted ? weight : NULL;
    sum.part[0] = run->copy[action->own];
    for (size_t i = 1; i < mix_sums(record->peer_count); i++) {
        sum.part[i] = run->part[i];
    }
    for (size_t i = 0; i < record->peer_count; i++) {
        move_floats(mix_sum_next(&sum), run->copy[source[i]], run->floats);
        mix_sum_add(&sum);
    }
}

struct average {
    struct replay_run *run;
    float *copy;
};

static int export_unit(void *of, size_t unit, train_write_fn write, void *arg, struct err *err)
{
    const struct average *average = of;
    const struct replay_run *run = average->run;
    const struct train_state state = copy_of(run, average->copy);
    int rc = 0;
    for (size_t i = 0; rc == 0; i++) {
        size_t count = 0;
        const float *tensor = train_state_tensor(run->train, &state, unit, i, run->scratch, &count);
        if (!tensor) {
            break;
        }
        rc = write(arg, tensor, count * sizeof(float), err);
    }
    return rc;
}

static int hand_over(struct replay_run *run, const struct replay_action *action, struct err *err)
{
    struct average average = {run, run->copy[action->own]};
    const struct model_source source = {.export_unit = export_unit, .of = &average};
    return run->config.averaged(run->config.arg, action->record, &source, err);
}

static int act(struct replay_run *run, const struct replay_action *action, struct err *err)
{
    switch (action->work) {
    case REPLAY_START: return start(run, action, err);
    case REPLAY_FORK: return fork_state(run, action, err);
    case REPLAY_TRAIN: return train(run, action, err);
    case REPLAY_COPY: return take_copy(run, action, err);
    case REPLAY_MIX: return mix(run, action, err);
    case REPLAY_AVERAGE: add_up(run, action); return 0;
    case REPLAY_WRITE: return hand_over(run, action, err);
    }
    return 0;
}

int replay_run_all(struct replay_run *run, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < run->config.plan->count; i++) {
        rc = act(run, &run->config.plan->action[i], err);
    }
    return rc;
}

/* ---- life ---- */

static int make_stage(struct replay_run *run, struct err *err)
{
    const struct keeper_config config = {.generation = 1,
                                         .end = unit_count(run),
                                         .spec = &run->spec,
                                         .in_flight = 1,
                                         .versions = 1,
                                         .threads = run->config.threads,
                                         .slowdown = 1};
    struct model *model = NULL;
    int rc = local_model_copy(run->config.model->model, &model, err);
    rc = rc ? rc : keeper_new(&config, &model, &run->keeper, err);
    if (rc != 0) {
        return rc;
    }
    run->train = keeper_train(run->keeper);
    run->state = train_state(run->train);
    run->floats = run->state.parameters + run->state.statistics;
    for (size_t unit = 0; unit < unit_count(run); unit++) {
        run->state_bytes += keeper_unit_bytes(run->keeper, unit);
    }
    return 0;
}

/* Return the number of blobs. If the plan has only one state, it stays in the stage. */
static size_t blobs(const struct replay_run *run)
{
    return run->config.plan->states > 1 ? run->config.plan->states : 0;
}

static size_t parts(const struct replay_run *run)
{
    return mix_sums(run->config.plan->groups) - 1;
}

static int make_places(struct replay_run *run, struct err *err)
{
    const struct replay_plan *plan = run->config.plan;
    run->blob = calloc(plan->states + 1, sizeof(run->blob[0]));
    run->copy = calloc(plan->copies + 1, sizeof(run->copy[0]));
    run->scratch = calloc(train_scratch_floats(run->train) + 1, sizeof(float));
    bool full = run->blob && run->copy && run->scratch;
    for (size_t i = 0; full && i < blobs(run); i++) {
        full = (run->blob[i] = calloc(1, run->state_bytes)) != NULL;
    }
    for (size_t i = 0; full && i < plan->copies; i++) {
        full = (run->copy[i] = calloc(run->floats + 1, sizeof(float))) != NULL;
    }
    for (size_t i = 1; full && i <= parts(run); i++) {
        full = (run->part[i] = calloc(run->floats + 1, sizeof(float))) != NULL;
    }
    return full ? 0
                : err_set(err, ERR_MEMORY, "%zu states of %zu bytes and %zu copies of %zu",
                          blobs(run), run->state_bytes, plan->copies + parts(run),
                          run->floats * sizeof(float));
}

static int add_samples(struct replay_run *run, const struct mix_member *own, struct err *err)
{
    const struct replay_run_config *config = &run->config;
    const struct local_job_data *data = replay_data_of(config->data, (size_t)own->group);
    const struct job_spec *spec = &config->group[own->group];
    struct samples_config samples = {.model = config->model->model,
                                     .spec = spec,
                                     .data = {.train_inputs = data_inputs(data->train),
                                              .train_labels = data_labels(data->train)},
                                     .micro_batch = run->micro_batch};
    struct run_samples *more =
        realloc(run->samples, (run->incarnations + 1) * sizeof(run->samples[0]));
    if (!more) {
        return err_set(err, ERR_MEMORY, "the samples of %zu incarnations", run->incarnations + 1);
    }
    run->samples = more;
    struct run_samples *added = &more[run->incarnations];
    *added = (struct run_samples){.group = own->group, .generation = own->generation};
    int rc = replay_data_count(config->data, own, &samples.counts, err);
    rc = rc ? rc : samples_new(&samples, &added->samples, err);
    run->incarnations += rc == 0;
    return rc == 0 ? 0 : err_wrap(err, "group %" PRId64, own->group);
}

static int make_samples(struct replay_run *run, struct err *err)
{
    const struct replay_run_config *config = &run->config;
    const struct model *model = config->model->model;
    run->inputs =
        calloc(run->micro_batch, shape_elements(model->input) * dtype_size(model->input_dtype));
    run->labels = calloc(run->micro_batch * model->positions, sizeof(run->labels[0]));
    if (!run->inputs || !run->labels) {
        return err_set(err, ERR_MEMORY, "a micro-batch of %zu samples", run->micro_batch);
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < config->plan->count; i++) {
        const struct replay_action *action = &config->plan->action[i];
        if (action->work == REPLAY_TRAIN && !samples_of(run, action)) {
            rc = add_samples(run, &action->record->own, err);
        }
    }
    return rc;
}

static int fill(struct replay_run *run, struct err *err)
{
    const struct replay_run_config *config = &run->config;
    run->spec = *config->spec;
    run->spec.strategy = STRATEGY_PIPELINE;
    run->micro_batch = (size_t)(run->spec.batch / run->spec.micro_batches);
    run->total_steps = config->data->steps;
    run->present = REPLAY_NONE;
    int rc = make_stage(run, err);
    rc = rc ? rc : make_places(run, err);
    return rc ? rc : make_samples(run, err);
}

int replay_run_new(const struct replay_run_config *config, struct replay_run **out, struct err *err)
{
    struct replay_run *run AUTO(replay_run_free) = calloc(1, sizeof(*run));
    if (!run) {
        return err_set(err, ERR_MEMORY, "a replay");
    }
    run->config = *config;
    int rc = fill(run, err);
    if (rc == 0) {
        *out = run;
        run = NULL;
    }
    return rc;
}

void replay_run_free(struct replay_run **pointer)
{
    struct replay_run *run = *pointer;
    if (!run) {
        return;
    }
    for (size_t i = 0; run->blob && i < run->config.plan->states; i++) {
        free(run->blob[i]);
    }
    for (size_t i = 0; run->copy && i < run->config.plan->copies; i++) {
        free(run->copy[i]);
    }
    for (size_t i = 0; i < MIX_SUMS_MAX; i++) {
        free(run->part[i]);
    }
    for (size_t i = 0; i < run->incarnations; i++) {
        samples_free(&run->samples[i].samples);
    }
    free(run->blob);
    free(run->copy);
    free(run->scratch);
    free(run->samples);
    free(run->inputs);
    free(run->labels);
    keeper_free(&run->keeper);
    free(run);
    *pointer = NULL;
}

uint64_t replay_run_bytes(const struct replay_run *run)
{
    const struct memory_request request = {.end = unit_count(run),
                                           .micro_batch = run->micro_batch,
                                           .in_flight = 1,
                                           .threads = run->config.threads,
                                           .recompute = run->spec.recompute,
                                           .backend = train_backend()};
    struct memory_bytes bytes = {0};
    struct err err = {0};
    if (memory_of_stage(run->config.model->model, &run->spec.optimizer, &request, &bytes, &err)) {
        bytes.total = 0;
    }
    const size_t copies = run->config.plan->copies + parts(run);
    return bytes.total - bytes.snapshot + (uint64_t)blobs(run) * run->state_bytes +
           (uint64_t)copies * run->floats * sizeof(float);
}
