#include "schema/mix_duty.h"

#include <inttypes.h>

/* A required integer from 0 to the largest one that JSON represents exactly. */
#define COUNT(T, m, n, ...) MEMBER_INT(T, m, n, FIELD_REQUIRED, 0, INTEGER_MAX, __VA_ARGS__)

const char *const mix_progress_names[] = {
    [MIX_NONE] = "none",         [MIX_MATCHED] = "matched",
    [MIX_COPIED] = "copied",     [MIX_FETCHED] = "fetched",
    [MIX_APPLIED] = "applied",   [MIX_EXPIRED] = "expired",
    [MIX_REJECTED] = "rejected", NULL,
};

/* ---- orders and duties ---- */

static const struct field source_fields[] = {
    MEMBER_INT(struct mix_source, group, "group", FIELD_REQUIRED, 0, GROUPS_MAX - 1),
    COUNT(struct mix_source, generation, "generation", .about = "The generation of the group."),
    MEMBER_DOUBLE(struct mix_source, weight, "weight", FIELD_SKIP_EMPTY, 0, 1,
                  .about = "The copy's share of an average; absent: all shares are equal."),
    MEMBER_FORM(struct mix_source, job.text, "job", FIELD_REQUIRED, &job_id_form,
                .about = "The job that trains the group."),
    MEMBER_INT(struct mix_source, job_generation, "job_generation", FIELD_REQUIRED, 1, INTEGER_MAX),
    MEMBER_FORM(struct mix_source, plan.text, "plan", FIELD_REQUIRED, &plan_id_form,
                .about = "The plan of that job. Relays identify the device by it."),
    MEMBER_RECORD(struct mix_source, peer, "peer", FIELD_REQUIRED, &peer_record,
                  .about = "The group's device. `url` is absent for the group itself."),
};
static const struct record source_record = RECORD_WITH(
    struct mix_source, "mix_source", source_fields, .about = "A group whose copy is needed.");

static const struct field order_fields[] = {
    MEMBER_RECORD(struct mix_order, xid, "xid", FIELD_REQUIRED, &mix_xid_record),
    MEMBER_ENUM(struct mix_order, kind, "kind", FIELD_REQUIRED, mix_kind_names),
    MEMBER_BOOL(struct mix_order, averages, "averages", FIELD_SKIP_EMPTY,
                .about = "`average`: this group computes it, evaluates it and sends it to the "
                         "coordinator."),
    MEMBER_DOUBLE(struct mix_order, alpha, "alpha", FIELD_REQUIRED, 0, 1,
                  .about = "The share of the difference by which the parameters move. For an "
                           "average 0: it is not adopted."),
    MEMBER_DOUBLE(struct mix_order, statistics_alpha, "statistics_alpha", FIELD_REQUIRED, 0, 1,
                  .about = "The same for the running statistics."),
    COUNT(struct mix_order, rate_step, "rate_step",
          .about = "The step of the parent whose learning rate the group uses after the mix."),
    COUNT(struct mix_order, left_ms, "left_ms",
          .about =
              "Milliseconds to the deadline, counted from when the group first sees the order."),
    MEMBER_RECORDS(struct mix_order, source, source_count, "sources", 0, &source_record,
                   .about = "`pair`: the other group. `average`, for the group that computes it: "
                            "all groups, in order. `adopt`: the group that has the average."),
};
static const struct record order_record =
    RECORD_WITH(struct mix_order, "mix_order", order_fields, .about = "A match of a group.");

static const struct field duty_fields[] = {
    MEMBER_INT(struct mix_duty, group, "group", FIELD_REQUIRED, 0, GROUPS_MAX - 1),
    COUNT(struct mix_duty, generation, "generation",
          .about = "The generation of the group: it rises whenever the group begins again."),
    MEMBER_INT(struct mix_duty, groups, "groups", FIELD_REQUIRED, 1, GROUPS_MAX),
    MEMBER_INT(struct mix_duty, every, "every", FIELD_REQUIRED, 1, INTEGER_MAX,
               .about = "Steps of the group between two mixes."),
    MEMBER_INT(struct mix_duty, passed, "passed", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "The steps are counted from this step if it is later than the last mix."),
    MEMBER_BOOL(struct mix_duty, probes, "probes", FIELD_SKIP_EMPTY,
                .about = "The group reports the loss of each copy for an average."),
    MEMBER_BOOL(struct mix_duty, holds, "holds", FIELD_SKIP_EMPTY,
                .about = "After these steps the group makes no further step before its mix."),
    MEMBER_BOOL(struct mix_duty, slows, "slows", FIELD_SKIP_EMPTY,
                .about = "After these steps the group makes a step every 0.2 s, for 2 s at most, "
                         "until it has mixed."),
    COUNT(struct mix_duty, rate_step, "rate_step",
          .about =
              "The step of the parent whose learning rate the group uses until its first mix."),
    MEMBER_INT(struct mix_duty, steps, "steps", FIELD_REQUIRED, 1, INTEGER_MAX,
               .about = "All steps of the parent, which determine its learning rate."),
    MEMBER_RECORDS(struct mix_duty, order, order_count, "orders", 0, &order_record),
};
const struct record mix_duty_record =
    RECORD_WITH(struct mix_duty, "mix_duty", duty_fields,
                .about = "The assignment of a group in a job of groups that train apart.");

static int check_sources(const struct mix_duty *duty, size_t at, struct err *err)
{
    const struct mix_order *order = &duty->order[at];
    const bool gives = order->kind == MIX_AVERAGE && !order->averages;
    const size_t least = gives ? 0 : 1;
    const size_t most = order->averages ? (size_t)duty->groups : least;
    if (order->source_count < least || order->source_count > most) {
        return err_set(err, ERR_INVALID, "/run/mix/orders/%zu/sources: expected %zu to %zu", at,
                       least, most);
    }
    for (size_t i = 0; i < order->source_count; i++) {
        const struct mix_source *source = &order->source[i];
        const bool own = source->group == duty->group;
        if (own ? !order->averages || source->generation != duty->generation
                : source->peer.url[0] == '\0') {
            return err_set(err, ERR_INVALID, "/run/mix/orders/%zu/sources/%zu: %s", at, i,
                           own ? "is the group itself" : "has no url");
        }
        if (source->group >= duty->groups ||
            (i > 0 && source->group <= order->source[i - 1].group)) {
            return err_set(err, ERR_INVALID,
                           "/run/mix/orders/%zu/sources/%zu: groups rise, below %" PRId64, at, i,
                           duty->groups);
        }
    }
    return 0;
}

int mix_duty_check(const struct mix_duty *duty, struct err *err)
{
    size_t pairs = 0;
    if (duty->group >= duty->groups) {
        return err_set(err, ERR_INVALID, "/run/mix/group: must be below groups");
    }
    for (size_t i = 0; i < duty->order_count; i++) {
        const struct mix_order *order = &duty->order[i];
        pairs += order->kind == MIX_PAIR;
        if (mix_kind_is_central(order->kind) || (order->averages && order->kind != MIX_AVERAGE)) {
            return err_set(err, ERR_INVALID, "/run/mix/orders/%zu/kind: is no kind of an order", i);
        }
        if (order->xid.counter < 1) {
            return err_set(err, ERR_INVALID, "/run/mix/orders/%zu/xid/counter: must be at least 1",
                           i);
        }
        const int rc = check_sources(duty, i, err);
        if (rc != 0) {
            return rc;
        }
    }
    return pairs > 1 || duty->order_count - pairs > 1
               ? err_set(err, ERR_INVALID, "/run/mix/orders: one pair and one average at most")
               : 0;
}

/* ---- reports ---- */

static const struct field status_fields[] = {
    MEMBER_RECORD(struct mix_status, xid, "xid", FIELD_REQUIRED, &mix_xid_record),
    MEMBER_ENUM(struct mix_status, state, "state", FIELD_REQUIRED, mix_progress_names),
    MEMBER_BOOL(struct mix_status, copied, "copied", FIELD_SKIP_EMPTY,
                .about = "Other groups can fetch the group's copy."),
    MEMBER_DOUBLE(struct mix_status, seconds, "seconds", FIELD_SKIP_EMPTY, 0, MIX_SECONDS_MAX,
                  .about = "Seconds that the mix took in addition to the training."),
};
static const struct record status_record =
    RECORD_WITH(struct mix_status, "mix_status", status_fields,
                .about = "The newest match of its kind; counter 0: none yet.");

static const struct field tests_fields[] = {
    COUNT(struct mix_tests, samples, "samples",
          .about = "0: the loss was not finite, or the evaluation failed."),
    COUNT(struct mix_tests, correct, "correct",
          .about = "Labels that the average predicted correctly."),
    MEMBER_DOUBLE(struct mix_tests, loss, "loss_sum", FIELD_REQUIRED, 0, 0x1p1000),
};
static const struct record tests_record =
    RECORD_WITH(struct mix_tests, "mix_tests", tests_fields,
                .about = "The newest average, evaluated on the samples that the device holds out.");

static const struct field report_fields[] = {
    MEMBER_INT(struct mix_report, group, "group", FIELD_REQUIRED, 0, GROUPS_MAX - 1),
    COUNT(struct mix_report, generation, "generation", .about = "The generation of the group."),
    MEMBER_BOOL(struct mix_report, wants, "wants", FIELD_SKIP_EMPTY,
                .about = "The group has made its steps since the last mix."),
    MEMBER_INT(struct mix_report, mixes, "mixes", FIELD_SKIP_EMPTY, 0, INTEGER_MAX),
    MEMBER_RECORD(struct mix_report, pair, "pair", FIELD_REQUIRED, &status_record),
    MEMBER_RECORD(struct mix_report, average, "average", FIELD_REQUIRED, &status_record),
    MEMBER_DOUBLE_OPTIONAL(struct mix_report, loss, has_loss, "loss", FIELD_SKIP_EMPTY, 0, 0,
                           .about =
                               "Loss of the group's copy for the newest average: the mean over 256 "
                               "samples of the training data that are the same for all groups."),
    MEMBER_DOUBLE_OPTIONAL(struct mix_report, distance, has_distance, "distance", FIELD_SKIP_EMPTY,
                           0, MIX_DISTANCE_MAX,
                           .about = "Distance of the group's copy for the newest average from this "
                                    "average, divided by the norm of the average."),
    MEMBER_DOUBLE(struct mix_report, gap_seconds, "gap_seconds", FIELD_SKIP_EMPTY, 0,
                  MIX_SECONDS_MAX,
                  .about = "The longest time between the ends of two steps of this generation."),
    MEMBER_OPTIONAL(struct mix_report, tests, has_tests, "held_out", FIELD_SKIP_EMPTY,
                    &tests_record, .about = "Sums over the device's held-out samples."),
    MEMBER_INT(struct mix_report, lacks, "lacks", FIELD_SKIP_EMPTY | FIELD_PRESENCE, 0,
               GROUPS_MAX - 1, .presence_offset = offsetof(struct mix_report, has_lacks),
               .about = "The group whose copy this group needs, or could not get, for the average "
                        "that it computes."),
    MEMBER_RECORDS(struct mix_report, record, record_count, "records", FIELD_SKIP_EMPTY,
                   &mix_record_record,
                   .about = "The agent keeps these records until a reply comes."),
};
const struct record mix_report_record =
    RECORD_WITH(struct mix_report, "mix_report", report_fields,
                .about = "What a group has done with its matches.");
