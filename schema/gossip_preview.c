#include "schema/gossip_preview.h"

static const char *const way_names[] = {[GOSSIP_WAY_NONE] = "none",
                                        [GOSSIP_WAY_GOSSIP] = "gossip",
                                        [GOSSIP_WAY_PIPELINE] = "pipeline",
                                        [GOSSIP_WAY_SINGLE] = "single",
                                        NULL};

static const struct field mixer_fields[] = {
    MEMBER_FORM(struct preview_mixer, device.text, "device", FIELD_REQUIRED | FIELD_NULLABLE,
                &device_id_form, .about = "null: a hypothetical device."),
    MEMBER_TEXT(struct preview_mixer, name, "name", FIELD_REQUIRED, .about = "Of the device."),
    MEMBER_INT(struct preview_mixer, samples, "samples", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Of its part of the data."),
    MEMBER_DOUBLE(struct preview_mixer, samples_per_second, "samples_per_second", FIELD_REQUIRED, 0,
                  0),
    MEMBER_INT(struct preview_mixer, every, "every", FIELD_REQUIRED, 1, INTEGER_MAX,
               .about = "Steps between two mixes."),
    MEMBER_BOOL(struct preview_mixer, slows, "slows", FIELD_SKIP_EMPTY,
                .about = "It makes them in less than a period, and waits for its mix."),
    MEMBER_DOUBLE(struct preview_mixer, given_bytes_per_second, "given_bytes_per_second",
                  FIELD_REQUIRED, 0, 0,
                  .about = "That its link gives others for mixes and averages, in the mean. The "
                           "group that is expected to compute the averages gives them to all."),
    MEMBER_DOUBLE(struct preview_mixer, taken_bytes_per_second, "taken_bytes_per_second",
                  FIELD_REQUIRED, 0, 0,
                  .about = "That it takes from them. That group takes the copies of all."),
    MEMBER_DOUBLE(struct preview_mixer, link_share, "link_share", FIELD_NULLABLE, 0, 0,
                  .about = "The greater of both over the bandwidth of its link, as measured or "
                           "assumed; null: that is not known."),
};
static const struct record mixer_record =
    RECORD_WITH(struct preview_mixer, "gossip_preview_group", mixer_fields, .answer = true,
                .about = "A group and the device that would train it.");

static const struct field preview_fields[] = {
    MEMBER_RECORDS(struct gossip_preview, group, group_count, "groups", FIELD_REQUIRED,
                   &mixer_record, .about = "Empty: too few devices are free."),
    MEMBER_DOUBLE(struct gossip_preview, period_seconds, "period_seconds", FIELD_NULLABLE, 0, 0,
                  .about = "Between two mixes of a group."),
    MEMBER_INT(struct gossip_preview, copy_bytes, "copy_bytes", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "That a group gives, and takes, in each period."),
    MEMBER_DOUBLE(struct gossip_preview, epoch_seconds, "epoch_seconds", FIELD_NULLABLE, 0, 0,
                  .about = "In which all groups together train as many samples as there are."),
    MEMBER_DOUBLE(struct gossip_preview, total_seconds, "total_seconds", FIELD_NULLABLE, 0, 0,
                  .about = "Until they have made the steps of the job, without the last average."),
    MEMBER_DOUBLE(struct gossip_preview, rounds_seconds, "rounds_seconds", FIELD_NULLABLE, 0, 0,
                  .about = "Of the same steps in `rounds` without levels, with equal parts of the "
                           "data."),
    MEMBER_DOUBLE(struct gossip_preview, sized_rounds_seconds, "sized_rounds_seconds",
                  FIELD_NULLABLE, 0, 0, .about = "The same with parts by speed."),
    MEMBER_DOUBLE(struct gossip_preview, pipeline_seconds, "pipeline_seconds", FIELD_NULLABLE, 0, 0,
                  .about =
                      "Of the same steps as a pipeline, by `stages`; null: there is no plan, or "
                      "the data are local."),
    MEMBER_DOUBLE(struct gossip_preview, single_seconds, "single_seconds", FIELD_NULLABLE, 0, 0,
                  .about = "The same on the fastest device alone; null: the data are local."),
    MEMBER_ENUM(struct gossip_preview, fastest, "fastest", FIELD_REQUIRED, way_names,
                .about = "The way whose model has made the steps first. An average of groups has "
                         "made the mean of their steps, so their `total_seconds` count as many "
                         "times as there are groups."),
};
const struct record gossip_preview_record =
    RECORD_WITH(struct gossip_preview, "gossip_preview", preview_fields, .answer = true,
                .about = "A job of groups that train apart, as predicted.");
