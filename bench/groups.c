/* The coordinator's turn while groups mix: its core and its stores, in seconds of the processor
 *
 *   groups [--groups N] [--seconds N] [--rounds] [DIRECTORY]
 *
 * N groups (32) of a job of strategy gossip for N seconds (300) of virtual time, at the shortest
 * period that so many have: 0.01 s for each. Groups are the real core of an agent's mixes; their
 * states have no bytes, and what the network and the training take is virtual time. The coordinator
 * is its real core, with the rows of each turn in a real state.db below DIRECTORY ($TMPDIR, /tmp).
 * A turn is what a pass of its loop does: the events of one millisecond, and the commit. Beside
 * them is the flush of telemetry, once a second. Left out: HTTP, the JSON of requests and answers,
 * and waits for the disk, which take no processor. */
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/parse.h"
#include "bench/groups/member.h"
#include "coordinator/core/core.h"
#include "coordinator/core/event.h"
#include "coordinator/core/placement/placement.h"
#include "coordinator/core/placement/question.h"
#include "coordinator/store/state.h"
#include "coordinator/turn/objects.h"
#include "libtrain/description/description.h"
#include "libtrain/description/zoo.h"
#include "libtrain/model/model.h"
#include "schema/job.h"

#define SECONDS_DEFAULT 300
#define BEGIN_MS 1000
#define BEAT_MS 1000
#define FLUSH_MS 1000 /* of telemetry (coordinator/loop.c) */
#define BATCH 8
#define CLASSES 10
#define TURNS_MAX 1000000

struct bench {
    struct core *core;
    struct state_store *state;
    struct planning *planning;
    struct model *model;
    struct actions actions;
    struct member member[GROUPS_MAX];
    size_t count;
    int64_t now_ms;
    uint64_t question; /* asked, not answered; 0: none */
    double turn_seconds;
    size_t in_turn; /* events of this turn */
    double *turn;
    size_t turns;
    uint64_t events, rows;
    double event_seconds_max, commit_seconds_max, flush_seconds_max;
};

static _Noreturn void die(const char *what, const struct err *err)
{
    (void)fprintf(stderr, "groups: %s: %s\n", what, err->text);
    exit(1);
}

static void must(int rc, const char *what, const struct err *err)
{
    if (rc != 0) {
        die(what, err);
    }
}

static double processor_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- the coordinator: as coordinator/turn, with a clock of its own ---- */

static void begin(struct bench *bench)
{
    struct err err = {0};
    if (!state_in_transaction(bench->state)) {
        must(state_begin(bench->state, &err), "begin", &err);
    }
}

static void persist(struct bench *bench, const struct action *action)
{
    struct err err = {0};
    struct object_row name;
    BUF_AUTO struct buf document;
    object_describe(action->kind, action->object, &name);
    buf_init(&document, JSON_BODY_MAX);
    must(object_write_row(action->kind, action->object, &document, &err), "a row", &err);
    begin(bench);
    const struct state_row row = {name.id,         name.parent,   name.revision,
                                  name.created_ms, document.data, document.size};
    must(state_put(bench->state, object_facts(action->kind)->table, &row, &err), "put", &err);
    bench->rows++;
}

static void carry_out(struct bench *bench, const struct action *action)
{
    struct err err = {0};
    switch (action->type) {
    case ACTION_PERSIST: persist(bench, action); break;
    case ACTION_FORGET:
        begin(bench);
        must(state_delete(bench->state, object_facts(action->kind)->table, action->id, &err),
             "delete", &err);
        break;
    case ACTION_METRIC:
        must(state_metric(bench->state, action->id, action->metric.step,
                          metric_name_names[action->metric.name], action->metric.value, &err),
             "a metric", &err);
        break;
    case ACTION_PLAN: bench->question = action->question; break;
    case ACTION_REPLY:
    case ACTION_PROBLEM:
    case ACTION_MEASURED:
    case ACTION_CAPACITY:
    case ACTION_WAKE:
    case ACTION_EXPORT:
    case ACTION_TUNE:
    case ACTION_DERIVE:
    case ACTION_HARVEST:
    case ACTION_DELETE_BLOB:
    case ACTION_DELETE_CHECKPOINT:
    case ACTION_PUBLISH: break;
    }
}

static void take(struct bench *bench, struct event *event)
{
    const double began = processor_seconds();
    event->now_ms = bench->now_ms;
    event->wall_ms = 1700000000000 + bench->now_ms;
    bench->actions.count = 0;
    core_step(bench->core, event, &bench->actions);
    for (size_t i = 0; i < bench->actions.count; i++) {
        carry_out(bench, &bench->actions.item[i]);
    }
    const double seconds = processor_seconds() - began;
    bench->events++;
    bench->in_turn++;
    bench->turn_seconds += seconds;
    bench->event_seconds_max =
        seconds > bench->event_seconds_max ? seconds : bench->event_seconds_max;
}

static void commit(struct bench *bench)
{
    struct err err = {0};
    const double began = processor_seconds();
    if (state_in_transaction(bench->state)) {
        must(state_commit(bench->state, &err), "commit", &err);
    }
    const double seconds = processor_seconds() - began;
    bench->commit_seconds_max =
        seconds > bench->commit_seconds_max ? seconds : bench->commit_seconds_max;
    bench->turn_seconds += seconds;
    if (bench->in_turn > 0 && bench->turns < TURNS_MAX) {
        bench->turn[bench->turns++] = bench->turn_seconds;
    }
    bench->turn_seconds = 0;
    bench->in_turn = 0;
}

/* As the loop does, after the commit; not by an event, so it is a turn of its own. */
static void flush(struct bench *bench)
{
    struct err err = {0};
    if (bench->now_ms % FLUSH_MS != 0) {
        return;
    }
    const double began = processor_seconds();
    must(state_flush(bench->state, &err), "flush", &err);
    const double seconds = processor_seconds() - began;
    bench->flush_seconds_max =
        seconds > bench->flush_seconds_max ? seconds : bench->flush_seconds_max;
}

static void answer_question(struct bench *bench)
{
    static struct planned planned;
    struct err err = {0};
    while (bench->question != 0) {
        struct event event = {.type = EVENT_PLANNED,
                              .planned = {.question = bench->question, .planned = &planned}};
        const bool asked = core_planning(bench->core, bench->question, bench->planning);
        bench->question = 0;
        if (asked) {
            event.planned.code = placement_solve(bench->planning, &planned, &err);
            take(bench, &event);
        }
    }
}

/* ---- heartbeats ---- */

/* The losses and seconds of the steps since the last one. */
static void add_metrics(struct member *member, struct heartbeat *heartbeat)
{
    for (; member->sent_step < member->step && heartbeat->metric_count + 2 <= METRICS_MAX;
         member->sent_step++) {
        heartbeat->metric[heartbeat->metric_count++] =
            (struct metric){.step = member->sent_step + 1, .name = METRIC_LOSS, .value = 1};
        heartbeat->metric[heartbeat->metric_count++] =
            (struct metric){.step = member->sent_step + 1,
                            .name = METRIC_STEP_SECONDS,
                            .value = (double)member->step_ms / 1000};
    }
}

static void follow(struct bench *bench, struct member *member)
{
    const int64_t revision = core_assignment_revision(bench->core, member->device.text);
    if (revision == member->revision) {
        return;
    }
    memset(member->assignment, 0, sizeof(*member->assignment));
    ASSERT(core_assignment(bench->core, member->device.text, "boot", member->assignment));
    member->revision = revision;
    member_follow(member, bench->now_ms);
}

static void beat(struct bench *bench, struct member *member)
{
    static struct heartbeat heartbeat;
    const struct assignment *assignment = member->assignment;
    const struct assignment_run *run = &assignment->run;
    memset(&heartbeat, 0, sizeof(heartbeat));
    heartbeat.device = member->device;
    (void)snprintf(heartbeat.boot, sizeof(heartbeat.boot), "boot");
    heartbeat.revision = member->revision;
    heartbeat.free_memory_bytes = 1 << 30;
    if (assignment->has_run) {
        heartbeat.job = run->job;
        heartbeat.generation = heartbeat.highest_generation = run->generation;
        heartbeat.plan = run->plan;
        heartbeat.phase = run->phase == PHASE_PREPARE ? PHASE_READY : run->phase;
        heartbeat.step = member->step;
        member->phase = run->phase;
    }
    if (member->begun) {
        heartbeat.has_mix = true;
        heartbeat.mix = member_report(member);
        add_metrics(member, &heartbeat);
    }
    struct event event = {.type = EVENT_HEARTBEAT, .heartbeat = {.heartbeat = &heartbeat}};
    take(bench, &event);
    for (size_t i = 0; i < heartbeat.mix.record_count; i++) {
        mixing_acknowledge(&member->mixing, &heartbeat.mix.record[i]); /* after the commit */
    }
    member->changed = false;
    member->beat_at_ms = bench->now_ms + BEAT_MS;
}

static void store_average(struct bench *bench, struct member *member)
{
    struct event event = {
        .type = EVENT_AVERAGE_STORED,
        .average_stored = {.device = member->device,
                           .average = {.job = member->assignment->run.job,
                                       .generation = member->assignment->run.generation,
                                       .xid = member->average},
                           .bytes = 1 << 20}};
    (void)snprintf(event.average_stored.sha256, SHA256_SIZE, "%064" PRIx64,
                   (uint64_t)member->average.counter);
    member->uploads = false;
    take(bench, &event);
}

static void pass_millisecond(struct bench *bench)
{
    bench->now_ms++;
    for (size_t g = 0; g < bench->count; g++) {
        struct member *member = &bench->member[g];
        follow(bench, member);
        if (member->begun) {
            member_train(bench->member, bench->count, member, bench->now_ms);
        }
    }
    for (size_t g = 0; g < bench->count; g++) {
        struct member *member = &bench->member[g];
        if (member->uploads && mixing_average_is_logged(&member->mixing)) {
            store_average(bench, member);
        }
        if (member->changed || bench->now_ms >= member->beat_at_ms ||
            (member->begun && member_has_news(member))) {
            beat(bench, member);
            if (member->begun) {
                member_told(member);
            }
        }
    }
    if (core_deadline_ms(bench->core) <= bench->now_ms) {
        struct event event = {.type = EVENT_TICK};
        take(bench, &event);
    }
    answer_question(bench);
    commit(bench);
    flush(bench);
}

/* ---- the job ---- */

static void enroll(struct bench *bench)
{
    for (size_t i = 0; i < bench->count; i++) {
        struct enroll_request request = {.protocol = PROTOCOL_VERSION,
                                         .boot = "boot",
                                         .inventory = {.cores = 4, .memory_bytes = 1 << 30},
                                         .probe = {.gemm_gflops = 10,
                                                   .memory_bytes_per_second = 1e10,
                                                   .free_memory_bytes = 1 << 30,
                                                   .threads = 1}};
        (void)snprintf(request.public_key, sizeof(request.public_key), "key-%zu", i);
        (void)snprintf(request.name, sizeof(request.name), "device-%zu", i);
        (void)snprintf(request.address, sizeof(request.address), "http://10.0.0.%zu:7411", i + 1);
        (void)snprintf(request.numeric_class, sizeof(request.numeric_class), "avx2");
        struct event event = {.type = EVENT_ENROLL, .enroll = {.request = &request}};
        take(bench, &event);
    }
    commit(bench);
    ASSERT(core_device_count(bench->core) == bench->count);
    for (size_t i = 0; i < bench->count; i++) {
        struct member *member = &bench->member[i];
        member->device = core_device_at(bench->core, i)->id;
        member->assignment = calloc(1, sizeof(*member->assignment));
        ASSERT(member->assignment);
        member->step_ms = 20 + (int64_t)(i * 60 / bench->count); /* 20 to 80 ms */
        member->changed = true;
    }
}

static void submit(struct bench *bench, bool rounds)
{
    struct job_spec spec = job_spec_default;
    int64_t samples[CLASSES];
    const struct event_classes classes = {.samples = samples, .count = CLASSES};
    const int64_t per_class = 60 * BATCH;
    struct job_data data = {.train_samples = CLASSES * per_class};
    for (size_t c = 0; c < CLASSES; c++) {
        samples[c] = per_class;
    }
    (void)snprintf(spec.name, sizeof(spec.name), "groups");
    (void)snprintf(spec.model.name, sizeof(spec.model.name), "mlp");
    (void)snprintf(spec.dataset_train, sizeof(spec.dataset_train), "train");
    (void)snprintf(data.train_sha256, SHA256_SIZE, "train");
    spec.seed = 1;
    spec.batch = BATCH;
    spec.micro_batches = 1;
    spec.epochs = EPOCHS_MAX;
    spec.evaluate_every_epochs = 0;
    spec.devices_min = spec.devices_max = (int64_t)bench->count;
    spec.strategy = STRATEGY_GOSSIP;
    spec.has_gossip = true;
    spec.gossip = (struct gossip_options)GOSSIP_OPTIONS_DEFAULT;
    spec.gossip.schedule = rounds ? SCHEDULE_ROUNDS : SCHEDULE_ASYNC;
    struct event event = {
        .type = EVENT_JOB_SUBMIT,
        .job_submit = {.spec = &spec, .data = &data, .model = bench->model, .classes = &classes}};
    take(bench, &event);
    answer_question(bench);
    commit(bench);
}

/* ---- figures ---- */

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(struct bench *bench, bool rounds, int64_t seconds)
{
    const struct core_gossip counts = core_gossip_counts(bench->core);
    double sum = 0;
    for (size_t i = 0; i < bench->turns; i++) {
        sum += bench->turn[i];
    }
    qsort(bench->turn, bench->turns, sizeof(bench->turn[0]), compare_doubles);
    const double median = bench->turn[bench->turns / 2];
    const double high = bench->turn[bench->turns - 1 - bench->turns / 1000];
    const double most = bench->turn[bench->turns - 1];
    const char *schedule = rounds ? "rounds" : "async";
    const double share = sum / (double)seconds;
    (void)printf("%zu groups, schedule %s, %" PRId64 " s of virtual time: %" PRIu64
                 " matches, %" PRIu64 " applied, %" PRIu64 " expired, %" PRIu64 " averages\n"
                 "%zu turns of %" PRIu64 " events and %" PRIu64 " rows, %.1f %% of a processor\n\n",
                 bench->count, schedule, seconds, counts.matches, counts.applied, counts.expired,
                 counts.averages, bench->turns, bench->events, bench->rows, 100 * share);
    (void)printf("milliseconds   median   99.9 %%   longest   longest event   longest commit   "
                 "longest flush\n");
    (void)printf("turn         %8.3f %8.3f %9.3f %15.3f %16.3f %15.3f\n\n", 1e3 * median,
                 1e3 * high, 1e3 * most, 1e3 * bench->event_seconds_max,
                 1e3 * bench->commit_seconds_max, 1e3 * bench->flush_seconds_max);
    (void)printf(
        "{\"bench\": \"groups\", \"rows\": [{\"groups\": %zu, \"schedule\": \"%s\", "
        "\"seconds\": %" PRId64 ", \"matches\": %" PRIu64 ", \"applied\": %" PRIu64
        ", \"turns\": %zu, \"events\": %" PRIu64 ", \"rows\": %" PRIu64
        ", \"turn_seconds_median\": %.6f, \"turn_seconds_999\": %.6f, "
        "\"turn_seconds_max\": %.6f, \"flush_seconds_max\": %.6f, \"processor_share\": %.4f}]}\n",
        bench->count, schedule, seconds, counts.matches, counts.applied, bench->turns,
        bench->events, bench->rows, median, high, most, bench->flush_seconds_max, share);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static void run(struct bench *bench, const char *directory, bool rounds, int64_t seconds)
{
    const struct model_fit fit = {.input = {32, 32, 3}, .dtype = DTYPE_U8, .classes = CLASSES};
    const char *text = zoo_text("mlp");
    json_auto_t *description = NULL;
    struct err err = {0};
    must(json_parse(text, strlen(text), &description, &err), "a description", &err);
    must(description_parse(description, &fit, &bench->model, NULL, &err), "a model", &err);
    must(question_new(&bench->planning, &err), "planning", &err);
    must(core_new(&core_config_default, &bench->core, &err), "the core", &err);
    must(state_open(directory, &bench->state, &err), "the store", &err);
    bench->now_ms = BEGIN_MS;
    struct event restored = {.type = EVENT_RESTORED};
    take(bench, &restored);
    enroll(bench);
    submit(bench, rounds);
    while (core_gossip_counts(bench->core).training < bench->count) {
        pass_millisecond(bench);
        ASSERT(bench->now_ms < BEGIN_MS + 60000);
    }
    bench->turns = 0; /* what begins a job is no part of it */
    bench->events = bench->rows = 0;
    bench->event_seconds_max = bench->commit_seconds_max = bench->flush_seconds_max = 0;
    const int64_t until_ms = bench->now_ms + 1000 * seconds;
    while (bench->now_ms < until_ms) {
        pass_millisecond(bench);
    }
    report(bench, rounds, seconds);
    state_close(&bench->state);
    core_free(&bench->core);
    question_free(&bench->planning);
    model_free(&bench->model);
}

int main(int argc, char **argv)
{
    struct err err = {0};
    int64_t count = GROUPS_MAX, seconds = SECONDS_DEFAULT;
    bool rounds = false;
    const char *parent = getenv("TMPDIR");
    char directory[4096];
    parent = parent ? parent : "/tmp";
    for (int i = 1; i < argc; i++) {
        const bool number = i + 1 < argc;
        if (strcmp(argv[i], "--groups") == 0 && number) {
            must(parse_i64(argv[++i], 2, GROUPS_MAX, &count, &err), "--groups", &err);
        } else if (strcmp(argv[i], "--seconds") == 0 && number) {
            must(parse_i64(argv[++i], 1, 3600, &seconds, &err), "--seconds", &err);
        } else if (strcmp(argv[i], "--rounds") == 0) {
            rounds = true;
        } else if (argv[i][0] != '-') {
            parent = argv[i];
        } else {
            (void)fprintf(stderr,
                          "usage: groups [--groups N] [--seconds N] [--rounds] [DIRECTORY]\n");
            return 2;
        }
    }
    struct bench *bench = calloc(1, sizeof(*bench));
    (void)snprintf(directory, sizeof(directory), "%.4000s/paceline-bench-XXXXXX", parent);
    if (!bench || !mkdtemp(directory)) {
        perror("groups: set up");
        return 1;
    }
    bench->count = (size_t)count;
    bench->turn = calloc(TURNS_MAX, sizeof(bench->turn[0]));
    bench->actions.item = calloc(ACTIONS_MAX, sizeof(bench->actions.item[0]));
    ASSERT(bench->turn && bench->actions.item);
    run(bench, directory, rounds, seconds);
    (void)nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    for (size_t i = 0; i < bench->count; i++) {
        free(bench->member[i].assignment);
    }
    free(bench->actions.item);
    free(bench->turn);
    free(bench);
    return 0;
}
