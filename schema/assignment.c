#include "schema/assignment.h"

#include <inttypes.h>

#include "libtrain/quant/codec.h"
#include "schema/strategy_rules.h"

const char *const phase_names[] = {
    [PHASE_IDLE] = "idle",         [PHASE_PREPARE] = "prepare",
    [PHASE_READY] = "ready",       [PHASE_RUN] = "run",
    [PHASE_STOPPING] = "stopping", [PHASE_STOPPED] = "stopped",
    [PHASE_FINISHED] = "finished", NULL,
};

const char *const source_from_names[] = {
    [SOURCE_SEED] = "seed",     [SOURCE_CHECKPOINT] = "checkpoint", [SOURCE_SELF] = "self",
    [SOURCE_DEVICE] = "device", [SOURCE_CENTER] = "center",         NULL,
};

/* A document of many units stays small if unneeded members of a source are left out. */
#define LEFT_OUT (FIELD_NULLABLE | FIELD_SKIP_EMPTY)

static const struct field source_fields[] = {
    MEMBER_INT(struct source, unit, "unit", FIELD_REQUIRED, 0, UNITS_MAX - 1),
    MEMBER_ENUM(struct source, from, "from", FIELD_REQUIRED, source_from_names),
    MEMBER_FORM(struct source, device.text, "device", LEFT_OUT, &device_id_form),
    MEMBER_FORM(struct source, url, "url", LEFT_OUT, &url_form),
    MEMBER_FORM(struct source, ticket, "ticket", LEFT_OUT, &word_form),
    MEMBER_FORM(struct source, public_key, "public_key", LEFT_OUT, &public_key_form, .since = 4),
    MEMBER_FORM(struct source, relay_ticket, "relay_ticket", LEFT_OUT, &word_form, .since = 4),
    MEMBER_FORM(struct source, sha256, "sha256", LEFT_OUT, &sha256_form),
    MEMBER_INT(struct source, bytes, "size_bytes", FIELD_SKIP_EMPTY, 0, INTEGER_MAX),
};
static const struct record source_record = RECORD_WITH(
    struct source, "source", source_fields, .about = "Where the state of one unit comes from.");

static const struct field drop_fields[] = {
    MEMBER_FORM(struct drop, job.text, "job", FIELD_REQUIRED, &job_id_form),
    MEMBER_INT(struct drop, below_version, "below_version", FIELD_REQUIRED, 0, 0x1p63),
};
static const struct record drop_record =
    RECORD_WITH(struct drop, "drop", drop_fields,
                .about = "Snapshots that may go: those older than below_version.");

static const struct field caller_fields[] = {
    MEMBER_FORM(struct caller, job.text, "job", FIELD_REQUIRED, &job_id_form),
    MEMBER_INT(struct caller, generation, "generation", FIELD_REQUIRED, 1, INTEGER_MAX),
    MEMBER_FORM(struct caller, device.text, "device", FIELD_REQUIRED, &device_id_form),
    MEMBER_FORM(struct caller, ticket, "ticket", LEFT_OUT, &word_form),
    MEMBER_FORM(struct caller, public_key, "public_key", LEFT_OUT, &public_key_form, .since = 4,
                .about = "With TLS: the key that the caller's certificate must have."),
    MEMBER_FORM(struct caller, plan.text, "plan", LEFT_OUT, &plan_id_form, .since = 4,
                .about = "With relay_ticket: the plan of the generation."),
    MEMBER_FORM(struct caller, relay_ticket, "relay_ticket", LEFT_OUT, &word_form, .since = 4,
                .about = "Lets this device park at relays, for the callers of the plan."),
};
static const struct record caller_record = RECORD(struct caller, "caller", caller_fields);

static const struct field relay_fields[] = {
    MEMBER_FORM(struct relay_place, url, "url", LEFT_OUT, &origin_form,
                .about = "Absent: the host of the coordinator, with `port`."),
    MEMBER_INT(struct relay_place, port, "port", FIELD_SKIP_EMPTY, 0, 65535),
};
static const struct record relay_record =
    RECORD_WITH(struct relay_place, "relay", relay_fields,
                .about = "A relay of connections to devices that others cannot reach.");

static const struct field stage_fields[] = {
    MEMBER_INT(struct assignment_run, stage_index, "index", FIELD_REQUIRED, 0, STAGES_MAX - 1),
    MEMBER_INT(struct assignment_run, stage_count, "count", FIELD_REQUIRED, 1, STAGES_MAX),
    MEMBER_INT(struct assignment_run, first, "first", FIELD_REQUIRED, 0, UNITS_MAX,
               .about = "Units [first, end)."),
    MEMBER_INT(struct assignment_run, end, "end", FIELD_REQUIRED, 0, UNITS_MAX),
    MEMBER_INT(struct assignment_run, in_flight, "in_flight", FIELD_REQUIRED, 1, MICRO_BATCHES_MAX),
    MEMBER_INT(struct assignment_run, previous_in_flight, "previous_in_flight", FIELD_REQUIRED, 0,
               MICRO_BATCHES_MAX),
    MEMBER_BOOL(struct assignment_run, strict, "strict_order", FIELD_SKIP_EMPTY, .since = 2,
                .about = "Alternate forward and backward passes: forward until `in_flight` "
                         "micro-batches are between the two, then one backward. Always so for "
                         "`async` jobs."),
    MEMBER_BOOL(
        struct assignment_run, tune, "tune", 0,
        .about = "With prepare: measure the kernels of the stage's convolutions, build nothing."),
};
static const struct record stage_group =
    RECORD(struct assignment_run, "assignment_stage", stage_fields);

static const struct field assigned_fields[] = {
    MEMBER_RECORD(struct assigned_stage, peer, "peer", FIELD_REQUIRED, &peer_record),
    MEMBER_INT(struct assigned_stage, first, "first", FIELD_REQUIRED, 0, UNITS_MAX,
               .about = "Units [first, end); equal: it keeps none."),
    MEMBER_INT(struct assigned_stage, end, "end", FIELD_REQUIRED, 0, UNITS_MAX),
    MEMBER_INT(struct assigned_stage, share_first, "share_first", FIELD_REQUIRED, 0,
               MICRO_BATCHES_MAX,
               .about = "Micro-batches [share_first, share_end); equal: it computes none."),
    MEMBER_INT(struct assigned_stage, share_end, "share_end", FIELD_REQUIRED, 0, MICRO_BATCHES_MAX),
};
static const struct record assigned_record =
    RECORD_WITH(struct assigned_stage, "assigned_stage", assigned_fields,
                .about = "A stage of a plan of servers and workers. `url` is absent where this "
                         "device does not call the other.");

static const struct field deadlines_fields[] = {
    MEMBER_INT(struct assignment_run, step_ms, "step_ms", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct assignment_run, peer_ms, "peer_ms", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct assignment_run, lease_ms, "lease_ms", FIELD_REQUIRED, 0, INTEGER_MAX),
};
static const struct record deadlines_group =
    RECORD(struct assignment_run, "assignment_deadlines", deadlines_fields);

static const struct field run_fields[] = {
    MEMBER_FORM(struct assignment_run, job.text, "job", FIELD_REQUIRED, &job_id_form),
    MEMBER_INT(struct assignment_run, generation, "generation", FIELD_REQUIRED, 1, INTEGER_MAX),
    MEMBER_FORM(
        struct assignment_run, plan.text, "plan", FIELD_REQUIRED, &plan_id_form,
        .about =
            "The plan of the generation: its number alone may repeat after a restored backup."),
    MEMBER_ENUM(struct assignment_run, phase, "phase", FIELD_REQUIRED, phase_names,
                .about = "prepare, run, stopping or finished."),
    MEMBER_INT(struct assignment_run, resume_version, "resume_version", FIELD_REQUIRED, 0,
               INTEGER_MAX,
               .about = "prepare, run: the version to start from; finished: the version to upload "
                        "to the center."),
    MEMBER_GROUP("stage", FIELD_REQUIRED, &stage_group),
    MEMBER_RECORDS(struct assignment_run, source, source_count, "sources", 0, &source_record),
    MEMBER_RECORDS(struct assignment_run, stage, stages_listed, "stages", FIELD_SKIP_EMPTY,
                   &assigned_record, .since = 5,
                   .about = "`parameter_server`: all stages of the plan, servers first."),
    MEMBER_OPTIONAL(struct assignment_run, previous, has_previous, "previous", 0, &peer_record),
    MEMBER_OPTIONAL(struct assignment_run, next, has_next, "next", 0, &peer_record),
    MEMBER_OPTIONAL(struct assignment_run, neighbor, has_neighbor, "neighbor", 0, &peer_record,
                    .about = "The target of copies of the stage's snapshots; null: none."),
    MEMBER_INT(struct assignment_run, replica_bytes, "replica_bytes", 0, 0, INTEGER_MAX,
               .about = "The limit of replicas of the previous stage."),
    MEMBER_GROUP("deadlines", FIELD_REQUIRED, &deadlines_group),
    MEMBER_INT(struct assignment_run, total_steps, "total_steps", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_OPTIONAL(struct assignment_run, early_stop, has_early_stop, "early_stop",
                    FIELD_SKIP_EMPTY, &early_stop_record, .since = 4,
                    .about = "The evaluations judged before this generation."),
    MEMBER_OPTIONAL(struct assignment_run, mix, has_mix, "mix", FIELD_SKIP_EMPTY, &mix_duty_record,
                    .since = 6, .about = "The part of a group in a job of strategy `gossip`."),
    MEMBER_RECORD(struct assignment_run, job_spec, "job_spec", FIELD_REQUIRED, &job_spec_record),
    MEMBER_RECORD(struct assignment_run, data, "data", FIELD_REQUIRED, &job_data_record),
};
static const struct record run_record = RECORD(struct assignment_run, "assignment_run", run_fields);

static const struct field assignment_fields[] = {
    MEMBER_INT(struct assignment, revision, "revision", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct assignment, interval_ms, "interval_ms", FIELD_REQUIRED, 1, 3600000),
    MEMBER_RECORDS(struct assignment, drop, drop_count, "drop", 0, &drop_record),
    MEMBER_RECORDS(struct assignment, caller, caller_count, "callers", 0, &caller_record,
                   .about = "Who may call the device's own listener."),
    MEMBER_RECORDS(struct assignment, relay, relay_count, "relays", FIELD_SKIP_EMPTY, &relay_record,
                   .since = 4, .about = "The best first."),
    MEMBER_FORM(struct assignment, challenge, "challenge", FIELD_NULLABLE, &word_form),
    MEMBER_OPTIONAL(struct assignment, run, has_run, "run", 0, &run_record,
                    .about = "null: nothing."),
};
const struct record assignment_record = RECORD_WITH(
    struct assignment, "assignment", assignment_fields, .about = "The desired state of a device.");

void assignment_start(struct assignment *assignment)
{
    assignment->run.job_spec = job_spec_default;
}

static bool is_assigned(int phase)
{
    return phase == PHASE_PREPARE || phase == PHASE_RUN || phase == PHASE_STOPPING ||
           phase == PHASE_FINISHED;
}

void assignment_loads(const struct assignment_run *run, size_t *first, size_t *end)
{
    *first = (size_t)run->first;
    *end = (size_t)run->end;
    const struct assigned_stage *own = &run->stage[run->stage_index];
    if (run->stages_listed > 0 && own->share_first < own->share_end) {
        *first = 0;
        for (size_t s = 0; s < run->stages_listed; s++) {
            *end = (size_t)run->stage[s].end > *end ? (size_t)run->stage[s].end : *end;
        }
    }
}

static int check_sources(const struct assignment_run *run, struct err *err)
{
    if (run->source_count == 0) {
        return 0;
    }
    size_t first, end;
    assignment_loads(run, &first, &end);
    if (run->source_count != end - first) {
        return err_set(err, ERR_INVALID, "/run/sources: has %zu for %zu units", run->source_count,
                       end - first);
    }
    for (size_t i = 0; i < run->source_count; i++) {
        const struct source *source = &run->source[i];
        if (source->unit != (int64_t)(first + i)) {
            return err_set(err, ERR_INVALID, "/run/sources/%zu/unit: must be %zu", i, first + i);
        }
        if (source->from != SOURCE_SEED && source->sha256[0] == '\0') {
            return err_set(err, ERR_INVALID, "/run/sources/%zu/sha256: is required from '%s'", i,
                           source_from_names[source->from]);
        }
        if (source->from == SOURCE_DEVICE && source->url[0] == '\0') {
            return err_set(err, ERR_INVALID, "/run/sources/%zu/url: is required from 'device'", i);
        }
    }
    return 0;
}

static bool has_codec(const struct peer *peer)
{
    enum codec codec;
    return peer->codec[0] == '\0' || (codec_find(peer->codec, &codec) && codec_available(codec));
}

int assignment_check_neighbours(const struct assignment_run *run, struct err *err)
{
    if (run->first >= run->end) {
        return err_set(err, ERR_INVALID, "/run/stage: units %" PRId64 " to %" PRId64 " are none",
                       run->first, run->end);
    }
    if (run->has_previous != (run->stage_index > 0)) {
        return err_set(err, ERR_INVALID, "/run/previous: stage 0 has none, every other has one");
    }
    if (run->has_next != (run->stage_index + 1 < run->stage_count)) {
        return err_set(err, ERR_INVALID, "/run/next: the last stage has none, every other has one");
    }
    if ((run->has_previous && run->previous.url[0] == '\0') ||
        (run->has_next && run->next.url[0] == '\0')) {
        return err_set(err, ERR_INVALID, "/run: a neighbour without url");
    }
    if ((run->has_previous && !has_codec(&run->previous)) ||
        (run->has_next && !has_codec(&run->next))) {
        return err_set(err, ERR_INVALID, "/run/%s/codec: this build has no codec '%s'",
                       has_codec(&run->previous) ? "next" : "previous",
                       has_codec(&run->previous) ? run->next.codec : run->previous.codec);
    }
    return 0;
}

struct stage_role assignment_role(const struct assignment_run *run, size_t stage)
{
    const struct assigned_stage *listed = &run->stage[stage];
    return (struct stage_role){.index = stage,
                               .serves = listed->first < listed->end,
                               .works = listed->share_first < listed->share_end};
}

/* A group trains the whole model on one device, as a synchronous pipeline of one stage. */
static int check_mix(const struct assignment_run *run, struct err *err)
{
    if (!run->has_mix) {
        return 0;
    }
    if (run->job_spec.strategy != STRATEGY_PIPELINE || run->stage_count != 1 ||
        run->job_spec.pipeline != JOB_SYNC) {
        return err_set(err, ERR_INVALID,
                       "/run/mix: a group is a synchronous pipeline of one stage");
    }
    return mix_duty_check(&run->mix, err);
}

int assignment_check(const struct assignment *assignment, struct err *err)
{
    const struct assignment_run *run = &assignment->run;
    if (!assignment->has_run) {
        return 0;
    }
    if (!is_assigned(run->phase)) {
        return err_set(err, ERR_INVALID, "/run/phase: '%s' is only reported by agents",
                       phase_names[run->phase]);
    }
    if (run->stage_index >= run->stage_count) {
        return err_set(err, ERR_INVALID, "/run/stage/index: must be below count (%" PRId64 ")",
                       run->stage_count);
    }
    if (run->has_neighbor && run->neighbor.url[0] == '\0') {
        return err_set(err, ERR_INVALID, "/run/neighbor: has no url");
    }
    const struct job_spec *spec = &run->job_spec;
    if (spec->learning_rate.type == LEARNING_RATE_STEP && spec->learning_rate.step_size < 1) {
        return err_set(err, ERR_INVALID,
                       "/run/job_spec/learning_rate/step_size: is required with type 'step'");
    }
    if (spec->batch < 1 || spec->micro_batches < 1 || spec->batch % spec->micro_batches != 0) {
        return err_set(err, ERR_INVALID,
                       "/run/job_spec/micro_batches: batch %" PRId64
                       " is not divisible by %" PRId64,
                       spec->batch, spec->micro_batches);
    }
    int rc = strategy_rules_assignment(run, err);
    rc = rc ? rc : check_mix(run, err);
    return rc == 0 ? check_sources(run, err) : rc;
}
