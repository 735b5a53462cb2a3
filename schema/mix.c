#include "schema/mix.h"

#include "schema/id.h"

const char *const mix_kind_names[] = {
    [MIX_PAIR] = "pair",   [MIX_AVERAGE] = "average", [MIX_ADOPT] = "adopt",
    [MIX_START] = "start", [MIX_STORED] = "stored",   NULL,
};

static const struct field xid_fields[] = {
    MEMBER_INT(struct mix_xid, life, "life", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "The life of the coordinator: a number that rises with each start."),
    MEMBER_INT(struct mix_xid, counter, "counter", FIELD_REQUIRED, 0, INTEGER_MAX),
};
const struct record mix_xid_record =
    RECORD_WITH(struct mix_xid, "mix_xid", xid_fields,
                .about = "Identifies a match; no identifier is used twice.");

static const struct field member_fields[] = {
    MEMBER_INT(struct mix_member, group, "group", FIELD_REQUIRED, 0, GROUPS_MAX - 1),
    MEMBER_INT(
        struct mix_member, generation, "generation", FIELD_REQUIRED, 0, INTEGER_MAX,
        .about =
            "Generation of the group: it rises with each of the group's jobs and their plans."),
    MEMBER_INT(struct mix_member, version, "version", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "Steps of the group before the copy."),
    MEMBER_INT(struct mix_member, mixes, "mixes", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "Mixes of this generation of the group before the copy."),
    MEMBER_DOUBLE(struct mix_member, weight, "weight", FIELD_SKIP_EMPTY, 0, 1,
                  .about = "The copy's share of an average; absent: all shares are equal."),
};
const struct record mix_member_record = RECORD_WITH(struct mix_member, "mix_member", member_fields,
                                                    .about = "A copy of the state of a group.");

static const struct field record_fields[] = {
    MEMBER_RECORD(struct mix_record, xid, "xid", FIELD_REQUIRED, &mix_xid_record),
    MEMBER_ENUM(
        struct mix_record, kind, "kind", FIELD_REQUIRED, mix_kind_names,
        .about =
            "What happened. `pair`: the group moved towards another one. `average`: the group "
            "computed an average. `adopt`: the group moved to an average. `start`: a generation of "
            "the group began. `stored`: the group's average became a checkpoint."),
    MEMBER_RECORD(struct mix_record, own, "own", FIELD_REQUIRED, &mix_member_record,
                  .about =
                      "The copy of the group that the record is about. `stored`: the group whose "
                      "average became a checkpoint, if several groups have computed it."),
    MEMBER_RECORDS(struct mix_record, peer, peer_count, "peers", 0, &mix_member_record,
                   .about =
                       "`pair`: the copy of the other group. `average`: all copies, in order. "
                       "`adopt`: the group that computed the average. `start`: the group that "
                       "computed the average with which the new generation begins. With counter 0 "
                       "it is instead an earlier generation of the same group, whose state "
                       "continues. Empty: the new generation begins with version 0 of the job."),
    MEMBER_DOUBLE(struct mix_record, alpha, "alpha", FIELD_SKIP_EMPTY, 0, 1,
                  .about = "The share of the difference by which the parameters moved."),
    MEMBER_DOUBLE(struct mix_record, statistics_alpha, "statistics_alpha", FIELD_SKIP_EMPTY, 0, 1,
                  .about = "The same for the running statistics."),
    MEMBER_INT(struct mix_record, applied_step, "applied_step", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "The group's last step before the mix."),
    MEMBER_INT(struct mix_record, applied_mixes, "applied_mixes", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "Mixes of this generation of the group before this mix."),
    MEMBER_INT(struct mix_record, rate_step, "rate_step", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "The step of the job whose learning rate the group uses after the mix."),
    MEMBER_INT(struct mix_record, samples, "samples", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "`start` of a group on local data: the generation trains on this number of "
                        "samples, the first of its device's data."),
    MEMBER_FORM(struct mix_record, sha256, "sha256", FIELD_SKIP_EMPTY, &sha256_form,
                .about = "`start` of a group on local data: the hash of these samples as a data "
                         "set of their own."),
    MEMBER_INT(struct mix_record, steps, "steps", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "`start` of a group on local data: all steps of the job, which determine "
                        "its learning rates."),
};
const struct record mix_record_record = RECORD_WITH(
    struct mix_record, "mix_record", record_fields,
    .about = "What a group did. The job and its records determine every bit of the result.");
