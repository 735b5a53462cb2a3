#include "agent/pipeline/stage_parts.h"

/* Return the number of micro-batches of the test set, or of the device's hold-out, even if the job
 * has no evaluations of its own. */
static size_t test_batches(const struct stage *stage)
{
    const struct work_data *data = &stage->config.data;
    const size_t samples = (size_t)stage->config.samples.test_samples;
    return (data->test_inputs && data->test_labels) || stage->spec->test_local.holdout > 0
               ? (samples + stage->micro_batch - 1) / stage->micro_batch
               : 0;
}

/* Evaluate the stage's state on these samples as an evaluation of the job does. No micro-batch is
 * in flight. */
static bool evaluate(void *arg, struct mix_figures *out)
{
    struct stage *stage = arg;
    unsigned char *input = stage->slot[LANE_ACTIVATION][0];
    struct err err = {0};
    int rc = 0;
    const size_t batches = test_batches(stage);
    for (size_t i = 0; rc == 0 && i < batches; i++) {
        samples_test_inputs(stage->samples, i, input);
        rc = cancel_is_set(stage->cancel) ? ERR_CANCELLED
                                          : samples_evaluate_next(stage->samples, stage->train, i,
                                                                  input, stage->labels, &err);
    }
    if (rc == 0) {
        const struct tally *tally = samples_tally(stage->samples);
        out->loss = tally_metric(tally, JUDGED_TEST_LOSS);
        out->accuracy = tally_metric(tally, JUDGED_TEST_ACCURACY);
        out->sums.samples = stage->config.samples.test_samples;
        tally_sums(tally, &out->sums.loss, &out->sums.correct);
    }
    return rc == 0;
}

/* Compute the loss on samples that are the same for all groups: losses on a group's own samples
 * could not be compared with those of other groups. */
static bool probe(void *arg, double *loss)
{
    struct stage *stage = arg;
    unsigned char *input = stage->slot[LANE_ACTIVATION][0];
    struct err err = {0};
    double sum = 0;
    uint64_t correct = 0;
    int rc = 0;
    size_t done = 0;
    while (rc == 0 && done < MIX_PROBE_SAMPLES) {
        const size_t left = MIX_PROBE_SAMPLES - done;
        const size_t count = left < stage->micro_batch ? left : stage->micro_batch;
        samples_drawn(stage->samples, done, count, input, stage->labels);
        rc = cancel_is_set(stage->cancel) ? ERR_CANCELLED
                                          : train_evaluate(stage->train, count, input, NULL,
                                                           stage->labels, &sum, &correct, &err);
        done += count;
    }
    *loss = sum / MIX_PROBE_SAMPLES;
    return rc == 0;
}

static void wake(void *arg)
{
    struct stage *stage = arg;
    (void)pthread_mutex_lock(&stage->lock);
    (void)pthread_cond_broadcast(&stage->changed);
    (void)pthread_mutex_unlock(&stage->lock);
}

int stage_make_mixer(struct stage *stage, const struct work_config *config, struct err *err)
{
    const struct mixer_config mixer = {.work = config,
                                       .keeper = stage->work.keeper,
                                       .evaluate = test_batches(stage) > 0 ? evaluate : NULL,
                                       .probe = probe,
                                       .wake = wake,
                                       .arg = stage};
    if (stage->config.count != 1 || stage->versions != 1) {
        return err_set(err, ERR_INVALID, "a group that mixes has one synchronous stage");
    }
    return mixer_new(&mixer, &stage->work.mixer, err);
}

void stage_mix(struct stage *stage, int64_t version)
{
    struct mixer *mixer = stage->work.mixer;
    if (mixer && mixer_is_due(mixer, version)) {
        mixer_boundary(mixer, version);
        stage->step_began_seconds = 0; /* the next step is timed from its own beginning */
        task_clock_free(&stage->clock);
    }
}

/* Continue the mixer's work at the boundary after a stop, until the stage is cancelled or the
 * records are stored. */
static void wait_for_mixes(struct stage *stage, int64_t version, bool until_logged)
{
    struct mixer *mixer = stage->work.mixer;
    (void)pthread_mutex_lock(&stage->lock);
    while (!cancel_is_set(stage->cancel) && !(until_logged && mixer_is_logged(mixer))) {
        if (mixer && mixer_is_due(mixer, version)) {
            (void)pthread_mutex_unlock(&stage->lock);
            mixer_boundary(mixer, version);
            (void)pthread_mutex_lock(&stage->lock);
        } else {
            (void)pthread_cond_wait(&stage->changed, &stage->lock);
        }
    }
    (void)pthread_mutex_unlock(&stage->lock);
}

void stage_settle(struct stage *stage, int64_t version)
{
    if (stage->work.mixer) {
        mixer_close(stage->work.mixer);
        wait_for_mixes(stage, version, true);
    }
}

void stage_linger(struct work *work)
{
    struct stage *stage = stage_of(work);
    wait_for_mixes(stage, stage_step(stage), false);
}
