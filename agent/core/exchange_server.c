#include "agent/core/exchange_server.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* ---- life ---- */

int exchange_server_init(struct exchange_server *server, const struct exchange_plan *plan,
                         struct exchange_course *course, struct err *err)
{
    *server = (struct exchange_server){.plan = plan, .course = course};
    const size_t blocks = plan->config.blocks;
    int rc =
        exchange_arrivals_init(&server->contribution, blocks * (1 + plan->end - plan->first), err);
    if (rc == 0) {
        rc = exchange_arrivals_init(&server->number, 2, err);
    }
    if (rc != 0) {
        return rc;
    }
    server->covers = calloc(blocks, sizeof(*server->covers));
    return server->covers ? 0 : err_set(err, ERR_MEMORY, "%zu blocks", blocks);
}

void exchange_server_done(struct exchange_server *server)
{
    exchange_arrivals_done(&server->contribution);
    exchange_arrivals_done(&server->number);
    free(server->covers);
    server->covers = NULL;
}

/* ---- what has arrived ---- */

static size_t layer_count(const struct exchange_server *server)
{
    return server->plan->end - server->plan->first;
}

static struct exchange_parts parts_of_block(const struct exchange_server *server, size_t block)
{
    const size_t first = block * (1 + layer_count(server));
    return (struct exchange_parts){first + 1, first + 1 + layer_count(server)};
}

static struct exchange_arrivals *arrivals_of(struct exchange_server *server,
                                             const struct exchange_message *message)
{
    return message->kind == EXCHANGE_CONTRIBUTION ? &server->contribution : &server->number;
}

static struct exchange_parts parts_of(const struct exchange_server *server,
                                      const struct exchange_message *message)
{
    if (message->kind != EXCHANGE_CONTRIBUTION) {
        const size_t part = message->kind == EXCHANGE_NORM_TOTAL;
        return (struct exchange_parts){part, part + 1};
    }
    struct exchange_parts parts = parts_of_block(server, message->block);
    parts.end = parts.first + message->end - server->plan->first;
    parts.first =
        message->done ? parts.first - 1 : parts.first + message->first - server->plan->first;
    return parts;
}

static bool is_whole(const struct exchange_server *server, size_t block)
{
    return exchange_arrivals_here(&server->contribution, parts_of_block(server, block)) ==
           layer_count(server);
}

/* Return whether all contributions of the sender are here once this message is. */
static bool is_all(const struct exchange_server *server, const struct exchange_message *message)
{
    const size_t first = server->plan->share[message->from].first;
    for (size_t i = first; layer_count(server) > 0 && i < message->block; i++) {
        if (!is_whole(server, i)) {
            return false;
        }
    }
    const struct exchange_parts block = parts_of_block(server, message->block);
    const struct exchange_parts others = {parts_of(server, message).end, block.end};
    return others.first == others.end ||
           exchange_arrivals_here(&server->contribution, others) == others.end - others.first;
}

/* Judge the step of a message, regardless of its kind. */
static enum exchange_verdict judge_step(const struct exchange_server *server,
                                        const struct exchange_message *message)
{
    const struct exchange_course *course = server->course;
    if (message->step > course->stop_version) {
        return EXCHANGE_OUTDATED;
    }
    if (message->step <= course->version) {
        return message->step > server->plan->config.resume_version ? EXCHANGE_STORED
                                                                   : EXCHANGE_OUTDATED;
    }
    if (message->step > course->version + 1) {
        return message->step > course->committed + 1 ? EXCHANGE_REFUSE : EXCHANGE_NOT_YET;
    }
    return EXCHANGE_TAKE;
}

enum exchange_verdict exchange_server_offer(struct exchange_server *server,
                                            const struct exchange_message *message,
                                            struct exchange_claim *claim)
{
    const enum exchange_verdict verdict = judge_step(server, message);
    if (verdict != EXCHANGE_TAKE) {
        return verdict;
    }
    struct exchange_arrivals *arrivals = arrivals_of(server, message);
    const struct exchange_parts parts = parts_of(server, message);
    const size_t here = exchange_arrivals_here(arrivals, parts);
    if (here == parts.end - parts.first) {
        return EXCHANGE_STORED;
    }
    if (here > 0) {
        return EXCHANGE_REFUSE;
    }
    *claim = (struct exchange_claim){exchange_arrivals_claim(arrivals, parts)};
    return EXCHANGE_TAKE;
}

bool exchange_server_holds(const struct exchange_server *server,
                           const struct exchange_message *message,
                           const struct exchange_claim *claim)
{
    const struct exchange_arrivals *arrivals =
        message->kind == EXCHANGE_CONTRIBUTION ? &server->contribution : &server->number;
    return exchange_arrivals_holds(arrivals, parts_of(server, message), claim->number);
}

/* Take a block whose last layers have arrived. */
static void take_block(struct exchange_server *server, size_t block)
{
    if (layer_count(server) > 0 && is_whole(server, block)) {
        ASSERT(server->covers[block] == 0);
        server->covers[block] = server->plan->block[block].range.end;
        server->whole++;
    }
}

void exchange_server_abandon(struct exchange_server *server, const struct exchange_message *message)
{
    exchange_arrivals_fill(arrivals_of(server, message), parts_of(server, message), false);
}

/* A worker reports `done` after everything else was acknowledged. So all contributions are here,
 * unless a stop has discarded the step while the data was on its way. */
enum exchange_verdict exchange_server_receive(struct exchange_server *server,
                                              const struct exchange_message *message)
{
    const bool discarded = judge_step(server, message) != EXCHANGE_TAKE;
    if (discarded || (message->done && !is_all(server, message))) {
        exchange_server_abandon(server, message);
        return discarded ? EXCHANGE_OUTDATED : EXCHANGE_REFUSE;
    }
    exchange_arrivals_fill(arrivals_of(server, message), parts_of(server, message), true);
    if (message->kind == EXCHANGE_CONTRIBUTION) {
        take_block(server, message->block);
    }
    return EXCHANGE_STORED;
}

/* ---- the commit ---- */

bool exchange_server_is_complete(const struct exchange_server *server)
{
    return layer_count(server) == 0 || server->whole == server->plan->config.blocks;
}

bool exchange_server_is_done(const struct exchange_server *server, size_t stage)
{
    const struct exchange_plan *plan = server->plan;
    const size_t part = parts_of_block(server, plan->share[stage].end - 1).first - 1;
    return exchange_arrivals_here(&server->contribution, (struct exchange_parts){part, part + 1});
}

void exchange_server_take_commit(struct exchange_server *server, const struct round_mark *mark)
{
    ASSERT(server->course->committed == server->course->version);
    ASSERT(exchange_server_is_complete(server));
    server->course->committed++;
    server->mark = *mark;
}

enum exchange_verdict exchange_server_commit(struct exchange_server *server,
                                             const struct exchange_message *message)
{
    struct exchange_course *course = server->course;
    if (message->step < server->plan->config.resume_version) {
        return EXCHANGE_OUTDATED;
    }
    if (message->step > course->committed + 1 ||
        (message->last && message->step < course->committed) ||
        (message->step > course->committed && exchange_course_ends(course))) {
        return EXCHANGE_REFUSE;
    }
    if (message->step > course->committed) {
        if (course->committed > course->version) {
            return EXCHANGE_NOT_YET;
        }
        if (!exchange_server_is_complete(server)) {
            return EXCHANGE_REFUSE;
        }
        exchange_server_take_commit(server, &message->mark);
    }
    if (message->last) {
        course->stop_version = message->step;
    }
    return layer_count(server) == 0 && message->step > course->version ? EXCHANGE_NOT_YET
                                                                       : EXCHANGE_STORED;
}

/* ---- tasks ---- */

static bool number_is_here(const struct exchange_server *server, enum exchange_kind kind)
{
    const size_t part = kind == EXCHANGE_NORM_TOTAL;
    return exchange_arrivals_here(&server->number, (struct exchange_parts){part, part + 1});
}

static bool next_add(const struct exchange_server *server, struct exchange_task *task)
{
    const struct exchange_plan *plan = server->plan;
    for (size_t i = 0; i + 1 < plan->config.blocks; i++) {
        const struct exchange_add *add = &plan->add[i];
        if (server->covers[add->left] == add->added.first &&
            server->covers[add->right] == add->added.end) {
            *task = (struct exchange_task){.work = EXCHANGE_ADD,
                                           .step = server->course->version + 1,
                                           .block = add->left,
                                           .right = add->right};
            return true;
        }
    }
    return false;
}

/* Choose the tasks after the step was committed and all sums were added: the update or, if the job
 * clips, first the tasks that lead to the total. */
static bool next_update(const struct exchange_server *server, struct exchange_task *task,
                        enum exchange_wait *why)
{
    const struct exchange_config *config = &server->plan->config;
    const bool first = config->index == 0;
    const bool last = config->index + 1 == config->servers;
    *why = EXCHANGE_WAITS_FOR_NORM;
    *task = (struct exchange_task){
        .work = EXCHANGE_UPDATE, .step = server->course->committed, .mark = server->mark};
    task->opens_round = first && server->mark.kinds != 0;
    if (!config->clips_norm) {
        return true;
    }
    if (!server->summed) {
        *task = (struct exchange_task){.work = EXCHANGE_SUM, .step = task->step};
        const bool room = (first ? server->total : server->norm).state == NUMBER_NONE;
        *why = room ? EXCHANGE_WAITS_FOR_NORM : EXCHANGE_WAITS_FOR_ROOM;
        return room && (last || number_is_here(server, EXCHANGE_NORM));
    }
    if (first) {
        return true;
    }
    if (!number_is_here(server, EXCHANGE_NORM_TOTAL)) {
        return false;
    }
    if (!last && !server->passed_on) {
        *task = (struct exchange_task){.work = EXCHANGE_TOTAL, .step = task->step};
        *why = EXCHANGE_WAITS_FOR_ROOM;
        return server->total.state == NUMBER_NONE;
    }
    return true;
}

bool exchange_server_next(const struct exchange_server *server, struct exchange_task *task,
                          enum exchange_wait *why)
{
    *why = EXCHANGE_WAITS_FOR_BLOCKS;
    if (next_add(server, task)) {
        return true;
    }
    if (server->course->committed == server->course->version) {
        return false;
    }
    ASSERT(layer_count(server) == 0 || server->covers[0] == server->plan->config.micro_batches);
    return next_update(server, task, why);
}

void exchange_server_begin(struct exchange_server *server, const struct exchange_task *task)
{
    server->updating = task->work == EXCHANGE_UPDATE;
}

static void end_update(struct exchange_server *server)
{
    const size_t blocks = server->plan->config.blocks;
    server->course->version++;
    server->updating = server->summed = server->passed_on = false;
    server->mark = (struct round_mark){0};
    server->whole = 0;
    memset(server->covers, 0, blocks * sizeof(*server->covers));
    exchange_arrivals_clear(&server->contribution);
    exchange_arrivals_clear(&server->number);
}

void exchange_server_end(struct exchange_server *server, const struct exchange_task *task)
{
    const struct exchange_config *config = &server->plan->config;
    const struct exchange_number ready = {NUMBER_READY, task->step};
    if (task->work == EXCHANGE_ADD) {
        server->covers[task->block] = server->covers[task->right];
        server->covers[task->right] = 0;
    } else if (task->work == EXCHANGE_SUM) {
        server->summed = true;
        if (config->index > 0) {
            server->norm = ready;
        } else if (config->servers > 1) {
            server->total = ready;
        }
    } else if (task->work == EXCHANGE_TOTAL) {
        server->passed_on = true;
        server->total = ready;
    } else if (task->work == EXCHANGE_UPDATE) {
        end_update(server);
    }
}

/* ---- numbers for other servers ---- */

bool exchange_server_message(struct exchange_server *server, struct exchange_message *out)
{
    const size_t index = server->plan->config.index;
    const bool back = server->norm.state == NUMBER_READY;
    struct exchange_number *number = back ? &server->norm : &server->total;
    if (number->state != NUMBER_READY) {
        return false;
    }
    number->state = NUMBER_SENDING;
    *out = (struct exchange_message){.kind = back ? EXCHANGE_NORM : EXCHANGE_NORM_TOTAL,
                                     .from = index,
                                     .to = back ? index - 1 : index + 1,
                                     .step = number->step};
    return true;
}

void exchange_server_sent(struct exchange_server *server, const struct exchange_message *message)
{
    struct exchange_number *number =
        message->kind == EXCHANGE_NORM ? &server->norm : &server->total;
    ASSERT(number->state == NUMBER_SENDING && number->step == message->step);
    number->state = NUMBER_NONE;
}
