#include "agent/core/exchange_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* ---- whether the numbers fit together ---- */

static int check_counts(const struct exchange_config *config, struct err *err)
{
    if (config->count > STAGES_MAX || config->index >= config->count) {
        return err_set(err, ERR_INVALID, "stage %zu of %zu", config->index, config->count);
    }
    if (config->servers == 0 || config->servers > EXCHANGE_SERVERS_MAX ||
        config->servers > config->count) {
        return err_set(err, ERR_INVALID, "%zu servers of %zu stages", config->servers,
                       config->count);
    }
    if (config->micro_batches == 0 || config->micro_batches > REDUCE_COUNT_MAX) {
        return err_set(err, ERR_INVALID, "%zu micro-batches", config->micro_batches);
    }
    if (config->blocks == 0 || config->blocks > config->micro_batches) {
        return err_set(err, ERR_INVALID, "%zu blocks of %zu micro-batches", config->blocks,
                       config->micro_batches);
    }
    return rounds_check(config->resume_version, config->total_steps, config->evaluate_every,
                        config->round_every, err);
}

static int check_layers(const struct exchange_config *config, struct err *err)
{
    size_t first = 0;
    for (size_t i = 0; i < config->servers; i++) {
        if (config->layer_end[i] < first || config->layer_end[i] > EXCHANGE_LAYERS_MAX) {
            return err_set(err, ERR_INVALID, "server %zu: layers [%zu, %zu)", i, first,
                           config->layer_end[i]);
        }
        first = config->layer_end[i];
    }
    return first > 0 ? 0 : err_set(err, ERR_INVALID, "no server keeps a layer");
}

/* ---- life ---- */

static int take_block(struct exchange_plan *plan, size_t index, struct err *err)
{
    const struct exchange_block *block = &plan->block[index];
    const size_t first = index == 0 ? 0 : block[-1].range.end;
    if (block->stage >= plan->config.count || block->range.first != first ||
        !reduce_is_node(plan->config.micro_batches, block->range)) {
        return err_set(err, ERR_INVALID, "block %zu: micro-batches [%zu, %zu) of stage %zu", index,
                       block->range.first, block->range.end, block->stage);
    }
    const bool begun = exchange_plan_is_worker(plan, block->stage);
    if (begun && block[-1].stage != block->stage) {
        return err_set(err, ERR_INVALID, "block %zu: the share of stage %zu is in two parts", index,
                       block->stage);
    }
    if (!begun) {
        plan->share[block->stage].first = index;
    }
    plan->share[block->stage].end = index + 1;
    return 0;
}

/* Each worker's share must have the minimal blocks (reduce_blocks), so that all devices agree. */
static int check_share(const struct exchange_plan *plan, size_t stage, struct err *err)
{
    struct reduce_range fewest[REDUCE_BLOCKS_MAX];
    const size_t blocks = plan->share[stage].end - plan->share[stage].first;
    const size_t count =
        reduce_blocks(plan->config.micro_batches, exchange_plan_share(plan, stage), fewest);
    if (count != blocks) {
        return err_set(err, ERR_INVALID, "stage %zu: %zu blocks where %zu are enough", stage,
                       blocks, count);
    }
    return 0;
}

static int take_blocks(struct exchange_plan *plan, struct err *err)
{
    const struct exchange_config *config = &plan->config;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < config->blocks; i++) {
        rc = take_block(plan, i, err);
    }
    if (rc != 0) {
        return rc;
    }
    const size_t end = plan->block[config->blocks - 1].range.end;
    if (end != config->micro_batches) {
        return err_set(err, ERR_INVALID, "blocks end with micro-batch %zu of %zu", end,
                       config->micro_batches);
    }
    for (size_t i = 0; rc == 0 && i < config->count; i++) {
        if (!exchange_plan_is_server(plan, i) && !exchange_plan_is_worker(plan, i)) {
            return err_set(err, ERR_INVALID, "stage %zu keeps no units and has no share", i);
        }
        rc = check_share(plan, i, err);
    }
    return rc;
}

/* Blocks are leaves from left to right. The stack has the newest nodes without a parent. Its
 * topmost two nodes are joined as soon as they are siblings. */
static void list_adds(struct exchange_plan *plan, size_t *top)
{
    const size_t count = plan->config.micro_batches;
    size_t depth = 0, adds = 0;
    for (size_t i = 0; i < plan->config.blocks; i++) {
        const size_t end = plan->block[i].range.end;
        top[depth++] = i;
        while (depth > 1) {
            const size_t left = top[depth - 2], right = top[depth - 1];
            const struct reduce_range node = {plan->block[right].range.first, end};
            struct reduce_range sibling;
            const struct reduce_range parent = reduce_parent(count, node, &sibling);
            if (parent.end != end || parent.first != plan->block[left].range.first) {
                break;
            }
            plan->add[adds++] = (struct exchange_add){left, right, node};
            depth--;
        }
    }
    ASSERT(depth == 1 && adds + 1 == plan->config.blocks);
}

int exchange_plan_init(struct exchange_plan *plan, const struct exchange_config *config,
                       struct err *err)
{
    *plan = (struct exchange_plan){.config = *config};
    int rc = check_counts(config, err);
    if (rc == 0) {
        rc = check_layers(config, err);
    }
    if (rc != 0) {
        return rc;
    }
    plan->layers = config->layer_end[config->servers - 1];
    if (exchange_plan_is_server(plan, config->index)) {
        plan->first = config->index == 0 ? 0 : config->layer_end[config->index - 1];
        plan->end = config->layer_end[config->index];
    }
    plan->block = calloc(config->blocks, sizeof(*plan->block));
    plan->add = calloc(config->blocks, sizeof(*plan->add));
    size_t *top = calloc(config->blocks, sizeof(*top));
    if (!plan->block || !plan->add || !top) {
        free(top);
        return err_set(err, ERR_MEMORY, "%zu blocks", config->blocks);
    }
    memcpy(plan->block, config->block, config->blocks * sizeof(*plan->block));
    plan->config.block = plan->block;
    rc = take_blocks(plan, err);
    if (rc == 0) {
        list_adds(plan, top);
    }
    free(top);
    return rc;
}

void exchange_plan_done(struct exchange_plan *plan)
{
    free(plan->block);
    free(plan->add);
    *plan = (struct exchange_plan){0};
}

/* ---- roles ---- */

bool exchange_plan_is_lead(const struct exchange_plan *plan)
{
    return plan->config.index == 0;
}

bool exchange_plan_is_server(const struct exchange_plan *plan, size_t stage)
{
    return stage < plan->config.servers;
}

bool exchange_plan_is_worker(const struct exchange_plan *plan, size_t stage)
{
    return plan->share[stage].first < plan->share[stage].end;
}

struct reduce_range exchange_plan_share(const struct exchange_plan *plan, size_t stage)
{
    if (!exchange_plan_is_worker(plan, stage)) {
        return (struct reduce_range){0, 0};
    }
    return (struct reduce_range){plan->block[plan->share[stage].first].range.first,
                                 plan->block[plan->share[stage].end - 1].range.end};
}

bool exchange_plan_server_of(const struct exchange_plan *plan, size_t first, size_t end,
                             size_t *server)
{
    if (first >= end || end > plan->layers) {
        return false;
    }
    size_t i = 0;
    while (first >= plan->config.layer_end[i]) {
        i++;
    }
    *server = i;
    return end <= plan->config.layer_end[i];
}

/* ---- messages ---- */

/* `done` comes with the lowest layer of the last block, or alone if the lead keeps no layers. */
static bool expects_contribution(const struct exchange_plan *plan,
                                 const struct exchange_message *message)
{
    if (message->block >= plan->config.blocks ||
        plan->block[message->block].stage != message->from) {
        return false;
    }
    const bool lead = exchange_plan_is_lead(plan);
    const bool last_block = message->block + 1 == plan->share[message->from].end;
    if (lead && plan->end == 0) {
        return message->done && last_block && message->first == 0 && message->end == 0;
    }
    const bool mine =
        message->first >= plan->first && message->first < message->end && message->end <= plan->end;
    return mine && message->done == (lead && last_block && message->first == 0);
}

static bool expects_pull(const struct exchange_plan *plan, const struct exchange_message *message)
{
    return exchange_plan_is_worker(plan, message->from) && message->first >= plan->first &&
           message->first < message->end && message->end <= plan->end &&
           (!message->statistics || exchange_plan_evaluation_due(plan, message->step));
}

static bool expects_result(const struct exchange_plan *plan, const struct exchange_message *message)
{
    return exchange_plan_is_lead(plan) && exchange_plan_evaluation_due(plan, message->step) &&
           message->micro_batch < plan->config.evaluation_batches &&
           exchange_plan_test(plan, message->from, message->micro_batch) == message->micro_batch;
}

bool exchange_plan_expects(const struct exchange_plan *plan, const struct exchange_message *message)
{
    const struct exchange_config *config = &plan->config;
    const bool server = exchange_plan_is_server(plan, config->index);
    if (message->from >= config->count || message->to != config->index || message->step < 0 ||
        message->step > config->total_steps) {
        return false;
    }
    switch (message->kind) {
    case EXCHANGE_PARAMETERS: return server && expects_pull(plan, message);
    case EXCHANGE_CONTRIBUTION: return server && expects_contribution(plan, message);
    case EXCHANGE_RESULT: return expects_result(plan, message);
    case EXCHANGE_COMMIT:
        return message->from == 0 && config->index != 0 && (server || message->last);
    case EXCHANGE_NORM:
        return config->clips_norm && server && message->from == config->index + 1 &&
               exchange_plan_is_server(plan, message->from);
    case EXCHANGE_NORM_TOTAL:
        return config->clips_norm && server && message->from + 1 == config->index;
    }
    return false;
}

/* ---- evaluations ---- */

bool exchange_plan_evaluation_due(const struct exchange_plan *plan, int64_t version)
{
    const struct exchange_config *config = &plan->config;
    return version > 0 && config->evaluate_every > 0 && config->evaluation_batches > 0 &&
           (version % config->evaluate_every == 0 || version == config->total_steps);
}

size_t exchange_plan_test(const struct exchange_plan *plan, size_t stage, size_t micro_batch)
{
    const size_t batches = plan->config.evaluation_batches;
    if (!exchange_plan_is_worker(plan, stage)) {
        return batches;
    }
    const struct reduce_range share = exchange_plan_share(plan, stage);
    const size_t at = micro_batch % plan->config.micro_batches;
    size_t found = micro_batch;
    if (at < share.first) {
        found += share.first - at;
    } else if (at >= share.end) {
        found += plan->config.micro_batches - at + share.first;
    }
    return found < batches ? found : batches;
}
