#include "schema/gossip_preview.h"

static const char *const way_names[] = {[GOSSIP_WAY_NONE] = "none",
                                        [GOSSIP_WAY_GOSSIP] = "gossip",
                                        [GOSSIP_WAY_PIPELINE] = "pipeline",
                                        [GOSSIP_WAY_SINGLE] = "single",
                                        NULL};

static const struct field mixer_fields[] = {
    MEMBER_FORM(struct preview_mixer, device.text, "device", FIELD_REQUIRED | FIELD_NULLABLE,
                &device_id_form,
                .about = "The device that would train the group; null: a hypothetical device."),
    MEMBER_TEXT(struct preview_mixer, name, "name", FIELD_REQUIRED, .about = "The device's name."),
    MEMBER_INT(struct preview_mixer, samples, "samples", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Samples in the group's part of the data."),
    MEMBER_DOUBLE(struct preview_mixer, samples_per_second, "samples_per_second", FIELD_REQUIRED, 0,
                  0),
    MEMBER_INT(struct preview_mixer, every, "every", FIELD_REQUIRED, 1, INTEGER_MAX,
               .about = "Steps of the group between two mixes."),
    MEMBER_BOOL(struct preview_mixer, slows, "slows", FIELD_SKIP_EMPTY,
                .about =
                    "The group makes these steps in less than a period, then waits for its mix."),
    MEMBER_DOUBLE(
        struct preview_mixer, given_bytes_per_second, "given_bytes_per_second", FIELD_REQUIRED, 0,
        0,
        .about = "Mean bytes per second that the group's link sends to others for mixes and "
                 "averages. The group that is expected to compute the averages sends them to all."),
    MEMBER_DOUBLE(struct preview_mixer, taken_bytes_per_second, "taken_bytes_per_second",
                  FIELD_REQUIRED, 0, 0,
                  .about = "Mean bytes per second that the group's link receives for them. The "
                           "group that computes the averages receives the copies of all."),
    MEMBER_DOUBLE(struct preview_mixer, link_share, "link_share", FIELD_NULLABLE, 0, 0,
                  .about = "The greater of these two rates, divided by the measured or assumed "
                           "bandwidth of the link; null: the bandwidth is not known."),
};
static const struct record mixer_record =
    RECORD_WITH(struct preview_mixer, "gossip_preview_group", mixer_fields, .answer = true,
                .about = "A group and the device that would train it.");

static const struct field preview_fields[] = {
    MEMBER_RECORDS(struct gossip_preview, group, group_count, "groups", FIELD_REQUIRED,
                   &mixer_record, .about = "Empty: too few devices are free."),
    MEMBER_DOUBLE(struct gossip_preview, period_seconds, "period_seconds", FIELD_NULLABLE, 0, 0,
                  .about = "Seconds between two mixes of a group."),
    MEMBER_INT(struct gossip_preview, copy_bytes, "copy_bytes", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Bytes of a copy. A group sends one and receives one in each period."),
    MEMBER_DOUBLE(
        struct gossip_preview, epoch_seconds, "epoch_seconds", FIELD_NULLABLE, 0, 0,
        .about = "Seconds in which all groups together train as many samples as an epoch has."),
    MEMBER_DOUBLE(
        struct gossip_preview, total_seconds, "total_seconds", FIELD_NULLABLE, 0, 0,
        .about =
            "Seconds until the groups have made the steps of the job, without the last average."),
    MEMBER_DOUBLE(
        struct gossip_preview, rounds_seconds, "rounds_seconds", FIELD_NULLABLE, 0, 0,
        .about =
            "Seconds for the same steps with `rounds`, `level` false and equal parts of the data."),
    MEMBER_DOUBLE(
        struct gossip_preview, sized_rounds_seconds, "sized_rounds_seconds", FIELD_NULLABLE, 0, 0,
        .about = "The same, with parts of the data in proportion to the speed of the devices."),
    MEMBER_DOUBLE(struct gossip_preview, pipeline_seconds, "pipeline_seconds", FIELD_NULLABLE, 0, 0,
                  .about = "Seconds for the same steps in a pipeline with the plan of `stages`; "
                           "null: there is no plan, or the data are local."),
    MEMBER_DOUBLE(
        struct gossip_preview, single_seconds, "single_seconds", FIELD_NULLABLE, 0, 0,
        .about =
            "Seconds for the same steps on the fastest device alone; null: the data are local."),
    MEMBER_ENUM(struct gossip_preview, fastest, "fastest", FIELD_REQUIRED, way_names,
                .about = "The way whose model is the first to have made the steps of the job. An "
                         "average has made the mean of its groups' steps, so `total_seconds` is "
                         "multiplied by the number of groups for this comparison."),
};
const struct record gossip_preview_record =
    RECORD_WITH(struct gossip_preview, "gossip_preview", preview_fields, .answer = true,
                .about = "The prediction for a job of groups that train apart.");
