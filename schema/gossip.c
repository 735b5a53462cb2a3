#include "schema/gossip.h"

#include "schema/check.h"
#include "schema/job.h"

/* Default number of mixes between two averages: USUAL_ROUNDS in schedule `rounds`, else one mix per
 * GROUPS_OF_A_MIX groups, because an average takes longer with more groups. */
#define USUAL_ROUNDS 4
#define GROUPS_OF_A_MIX 3

const char *const gossip_schedule_names[] = {
    [SCHEDULE_ASYNC] = "async", [SCHEDULE_ROUNDS] = "rounds", NULL};
const char *const gossip_pairs_names[] = {
    [PAIRS_BANDWIDTH] = "bandwidth", [PAIRS_UNIFORM] = "uniform", NULL};
const char *const gossip_weights_names[] = {
    [WEIGHTS_EQUAL] = "equal", [WEIGHTS_ACCURACY] = "accuracy", NULL};
const char *const gossip_average_by_names[] = {
    [AVERAGE_GROUPS] = "groups", [AVERAGE_SAMPLES] = "samples", NULL};

/* ---- options ---- */

static const struct field options_fields[] = {
    MEMBER_ENUM(struct gossip_options, schedule, "schedule", 0, gossip_schedule_names,
                .about = "`async`: no group waits for another. `rounds`: after its steps each "
                         "group waits until it has mixed. All groups are paired at once."),
    MEMBER_BOOL(struct gossip_options, level, "level", 0,
                .about =
                    "True: a fast group makes more steps between two mixes, so that all groups "
                    "take the same time. False: each group makes one pass of its part of the data.",
                .rule = "false only with `rounds`"),
    MEMBER_ENUM(struct gossip_options, split, "split", FIELD_NULLABLE | FIELD_PRESENCE,
                shards_split_names, .presence_offset = offsetof(struct gossip_options, has_split),
                .about = "How the training data are divided among the groups: equally (`even`), by "
                         "the speed of their devices (`speed`), in random proportions of each "
                         "class (`dirichlet`), or some classes each (`by_class`); null: equally.",
                .rule = "not with `dataset.train.local`"),
    MEMBER_DOUBLE(
        struct gossip_options, alpha, "alpha", FIELD_NULLABLE, SHARDS_ALPHA_MIN, SHARDS_ALPHA_MAX,
        .about =
            "The parameter of the Dirichlet distribution: how alike the classes of the groups are. "
            "null: 0.3 with `dirichlet`; with `speed` each group has the classes of the whole.",
        .rule = "only with `dirichlet` and `speed`"),
    MEMBER_INT(struct gossip_options, classes_per_shard, "classes_per_shard", 0, 1,
               COUNTED_CLASSES_MAX, .about = "Number of classes of a group.",
               .rule = "2 unless `split` is `by_class`"),
    MEMBER_ENUM(struct gossip_options, pairs, "pairs", 0, gossip_pairs_names,
                .about = "Which pairs mix: pairs with fast links more often (`bandwidth`), or all "
                         "pairs equally often (`uniform`)."),
    MEMBER_ENUM(struct gossip_options, weights, "weights", 0, gossip_weights_names,
                .about = "How far each side of a pair moves. `equal`: both move to the middle. "
                         "`accuracy`: the less accurate side moves further, by the losses of 256 "
                         "training samples at each average.",
                .rule = "`accuracy` not with `average_by` `samples`, nor with "
                        "`dataset.train.local`"),
    MEMBER_DOUBLE(struct gossip_options, critical, "critical", 0, 0, 1,
                  .about = "For a group that is too slow to train all of its samples between two "
                           "averages: it chooses this share of the samples that it trains by loss, "
                           "the largest first. The others follow in turn."),
    MEMBER_ENUM(
        struct gossip_options, average_by, "average_by", FIELD_NULLABLE | FIELD_PRESENCE,
        gossip_average_by_names, .presence_offset = offsetof(struct gossip_options, has_average_by),
        .about = "The weights of groups in averages and mixes: equal (`groups`), or by their "
                 "samples (`samples`). null: `samples` with `dataset.train.local`, else `groups`."),
    MEMBER_INT(struct gossip_options, average_every, "average_every", FIELD_NULLABLE, 1, 10000,
               .about = "Mixes of each group between two averages. null: in `async` one for every "
                        "three groups, at least 1; in `rounds` 4."),
    MEMBER_BOOL(
        struct gossip_options, adopt, "adopt", 0,
        .about =
            "True: groups move to each average. False: the average is only stored and evaluated."),
    MEMBER_DOUBLE(
        struct gossip_options, target_accuracy, "target_accuracy", FIELD_NULLABLE, 1e-6, 1,
        .about = "The job ends when three averages in a row have this accuracy. null: no target.",
        .rule = "needs `dataset.test`"),
};
const struct record gossip_options_record =
    RECORD_WITH(struct gossip_options, "gossip", options_fields,
                .about = "A job of groups that train apart. See docs/jobs.md.");

int64_t gossip_average_every(const struct gossip_options *options, size_t groups)
{
    const bool rounds = options->schedule == SCHEDULE_ROUNDS;
    const size_t usual = rounds ? USUAL_ROUNDS : groups / GROUPS_OF_A_MIX;
    return options->average_every > 0 ? options->average_every : usual > 1 ? (int64_t)usual : 1;
}

/* ---- the row of the parent ---- */

/* Counter 0 in xid: there is no average yet. */
static const struct field tests_fields[] = {
    MEMBER_RECORD(struct gossip_tests, xid, "xid", 0, &mix_xid_record),
    MEMBER_INT(struct gossip_tests, step, "step", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct gossip_tests, samples, "samples", 0, 0, INTEGER_MAX),
    MEMBER_DOUBLE(struct gossip_tests, loss, "loss", 0, 0, 0),
    MEMBER_DOUBLE(struct gossip_tests, accuracy, "accuracy", 0, 0, 1),
};
static const struct record tests_record = RECORD(struct gossip_tests, "gossip_tests", tests_fields);

static const struct field member_fields[] = {
    MEMBER_INT(struct gossip_member, samples, "samples", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct gossip_member, window, "window", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct gossip_member, held, "held", 0, 0, INTEGER_MAX),
    MEMBER_RECORD(struct gossip_member, tests, "tests", 0, &tests_record),
    MEMBER_DOUBLE(struct gossip_member, speed, "speed", 0, 0, 0),
    MEMBER_INT(struct gossip_member, incarnation, "incarnation", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct gossip_member, rate_step, "rate_step", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct gossip_member, steps, "steps", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct gossip_member, lost, "lost", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct gossip_member, lost_to, "lost_to", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct gossip_member, failures, "failures", 0, 0, INTEGER_MAX),
    MEMBER_RECORD(struct gossip_member, origin, "origin", 0, &mix_xid_record),
    MEMBER_RECORD(struct gossip_member, origin_author, "origin_author", 0, &mix_member_record),
};
static const struct record member_record =
    RECORD(struct gossip_member, "gossip_member", member_fields);

static const struct field average_fields[] = {
    MEMBER_RECORD(struct gossip_average, xid, "xid", FIELD_REQUIRED, &mix_xid_record),
    MEMBER_RECORD(struct gossip_average, author, "author", 0, &mix_member_record),
    MEMBER_FORM(struct gossip_average, checkpoint.text, "checkpoint", FIELD_REQUIRED,
                &checkpoint_id_form),
    MEMBER_FORM(struct gossip_average, sha256, "sha256", FIELD_REQUIRED, &sha256_form),
    MEMBER_INT(struct gossip_average, bytes, "size_bytes", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_INT(struct gossip_average, step, "step", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_DOUBLE_OPTIONAL(struct gossip_average, accuracy, has_accuracy, "accuracy", 0, 0, 1),
};
static const struct record average_record =
    RECORD(struct gossip_average, "gossip_average", average_fields);

static const struct field state_fields[] = {
    MEMBER_INT(struct gossip_state, life, "life", 0, 0, INTEGER_MAX),
    MEMBER_RECORDS(struct gossip_state, member, member_count, "members", 0, &member_record),
    MEMBER_RECORDS(struct gossip_state, average, average_count, "averages", 0, &average_record),
    MEMBER_INT(struct gossip_state, averages, "averages_stored", 0, 0, INTEGER_MAX),
    MEMBER_INT(struct gossip_state, good, "averages_on_target", 0, 0, INTEGER_MAX),
};
const struct record gossip_state_record = RECORD(struct gossip_state, "gossip_state", state_fields);

/* ---- rules ---- */

bool gossip_by_samples(const struct job_spec *spec)
{
    return spec->gossip.has_average_by ? spec->gossip.average_by == AVERAGE_SAMPLES
                                       : job_is_local(spec);
}

static void check_others(struct check *check, const struct job_spec *spec)
{
    static const char none[] = "is not for jobs of groups that train apart";
    if (spec->pipeline != JOB_SYNC) {
        check_fault(check, "/pipeline", "'async' %s: each group is one device", none);
    }
    if (spec->compression != CODEC_NONE) {
        check_fault(check, "/compression", "'%s' %s: copies of the state travel whole",
                    compression_names[spec->compression], none);
    }
    if (spec->cut_count > 0) {
        check_fault(check, "/cuts", "%s: each device has the whole model", none);
    }
    if (spec->has_view) {
        check_fault(check, "/view", "%s: gossip.split divides the data", none);
    }
    if (spec->has_stop) {
        check_fault(check, "/stop", "%s; use gossip.target_accuracy", none);
    }
    if (spec->has_checkpoint) {
        check_fault(check, "/checkpoint", "%s: averages become checkpoints", none);
    }
    if (spec->devices_min < 2) {
        check_fault(check, "/devices/min", "must be at least 2: a group mixes with others");
    }
    if (spec->devices_max > GROUPS_MAX) {
        check_fault(check, "/devices/max", "must be at most %d: each device is a group",
                    GROUPS_MAX);
    }
}

static void check_split(struct check *check, const struct job_spec *spec)
{
    static const char other[] = "is not for the split '%s'";
    const struct gossip_options *options = &spec->gossip;
    const char *split = shards_split_names[options->split];
    if (options->has_split && job_is_local(spec)) {
        check_fault(check, "/gossip/split",
                    "is not for data that stay on devices: each group has those of its device");
    }
    if (options->alpha > 0 && options->split != SHARDS_DIRICHLET &&
        options->split != SHARDS_SPEED) {
        check_fault(check, "/gossip/alpha", other, split);
    }
    if (options->classes_per_shard != job_spec_default.gossip.classes_per_shard &&
        options->split != SHARDS_BY_CLASS) {
        check_fault(check, "/gossip/classes_per_shard", other, split);
    }
}

static void check_options(struct check *check, const struct job_spec *spec)
{
    const struct gossip_options *options = &spec->gossip;
    if (options->critical > 0 && job_is_local(spec)) {
        check_fault(check, "/gossip/critical", "must be 0 with data that stay on devices");
    }
    if (!options->level && options->schedule != SCHEDULE_ROUNDS) {
        check_fault(check, "/gossip/level",
                    "must be true: without rounds no group waits for "
                    "another");
    }
    if (options->weights == WEIGHTS_ACCURACY && options->average_by == AVERAGE_SAMPLES) {
        check_fault(check, "/gossip/weights",
                    "must be 'equal' with average_by 'samples', by which "
                    "pairs move as well");
    }
    if (options->target_accuracy > 0 && !job_has_test(spec)) {
        check_fault(check, "/gossip/target_accuracy", "needs dataset.test");
    }
}

int gossip_check(const struct job_spec *spec, struct record_faults *faults, struct err *err)
{
    struct check check = {.faults = faults, .err = err};
    if (spec->strategy == STRATEGY_GOSSIP) {
        check_others(&check, spec);
        check_split(&check, spec);
        check_options(&check, spec);
    } else if (spec->has_gossip) {
        check_fault(&check, "/gossip", "is for strategy 'gossip' only");
    }
    return check.rc;
}
