#include "agent/core/pipeline_check.h"

#include "libtrain/schedule/schedule.h"

/* The strict order would deadlock if in-flight limits rose along the pipeline (schedule.h). */
static int check_strict(const struct pipeline_config *config, struct err *err)
{
    const size_t limit[] = {config->previous_in_flight, config->in_flight, 1};
    const bool first = config->index == 0;
    const bool last = config->index + 1 == config->count;
    if (!schedule_limits_fit(limit + first, (last ? 2 : 3) - (size_t)first)) {
        return err_set(err, ERR_INVALID, "stage %zu of %zu: %zu batches in flight after %zu",
                       config->index, config->count, config->in_flight, config->previous_in_flight);
    }
    return 0;
}

static int check_async(const struct pipeline_config *config, struct err *err)
{
    if (config->micro_batches != 1) {
        return err_set(err, ERR_INVALID, "asynchronous batches of %zu micro-batches",
                       config->micro_batches);
    }
    if (config->clips_norm) {
        return err_set(err, ERR_INVALID, "asynchronous updates clipped by a norm of all stages");
    }
    return 0;
}

static int check_sync(const struct pipeline_config *config, struct err *err)
{
    if (config->in_flight > config->micro_batches) {
        return err_set(err, ERR_INVALID, "%zu micro-batches in flight of %zu", config->in_flight,
                       config->micro_batches);
    }
    if (config->previous_in_flight > config->micro_batches) {
        return err_set(err, ERR_INVALID,
                       "stage %zu: %zu micro-batches in flight in the previous stage",
                       config->index, config->previous_in_flight);
    }
    return 0;
}

int pipeline_check(const struct pipeline_config *config, struct err *err)
{
    if (config->count == 0 || config->index >= config->count) {
        return err_set(err, ERR_INVALID, "stage %zu of %zu", config->index, config->count);
    }
    if (config->micro_batches == 0 || config->in_flight == 0) {
        return err_set(err, ERR_INVALID, "%zu micro-batches in flight of %zu", config->in_flight,
                       config->micro_batches);
    }
    if ((config->index == 0) != (config->previous_in_flight == 0)) {
        return err_set(err, ERR_INVALID,
                       "stage %zu: %zu micro-batches in flight in the previous stage",
                       config->index, config->previous_in_flight);
    }
    int rc = config->async ? check_async(config, err) : check_sync(config, err);
    rc = rc == 0 && (config->async || config->strict) ? check_strict(config, err) : rc;
    if (rc != 0) {
        return rc;
    }
    return rounds_check(config->resume_version, config->total_steps, config->evaluate_every,
                        config->round_every, err);
}
