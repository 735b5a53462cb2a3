#include "schema/groups_view.h"

#include <string.h>

static const struct field part_fields[] = {
    MEMBER_ENUM(struct part_view, state, "state", FIELD_REQUIRED, part_state_names,
                .about =
                    "`missing`: the part was not trained, because of failures or the deadline."),
    MEMBER_FORM(struct part_view, job.text, "job", FIELD_NULLABLE, &job_id_form,
                .about = "The part's newest job; null: the part has not begun."),
    MEMBER_INT(struct part_view, attempts, "attempts", 0, 0, INTEGER_MAX,
               .about = "Jobs of the part so far: a group that fails is retrained."),
    MEMBER_FORM(struct part_view, checkpoint.text, "checkpoint", FIELD_NULLABLE,
                &checkpoint_id_form, .about = "The part's model; null until the part is trained."),
};
static const struct record part_view_record =
    RECORD_WITH(struct part_view, "part", part_fields, .answer = true,
                .about = "A part of a job, itself a job.");

static const struct field class_element = {
    .type = FIELD_INT, .min = 0, .max = COUNTED_CLASSES_MAX - 1};

static const struct field tests_fields[] = {
    MEMBER_INT(struct group_tests, step, "step", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Steps of all groups together at this average, as in `averages`."),
    MEMBER_INT(struct group_tests, samples, "samples", FIELD_REQUIRED, 0, INTEGER_MAX),
    MEMBER_DOUBLE(struct group_tests, loss, "test_loss", FIELD_REQUIRED, 0, 0),
    MEMBER_DOUBLE(struct group_tests, accuracy, "test_accuracy", FIELD_REQUIRED, 0, 1),
};
static const struct record group_tests_record =
    RECORD_WITH(struct group_tests, "group_tests", tests_fields, .answer = true,
                .about = "An average, evaluated on the samples that one device holds out.");

static const struct field mixes_fields[] = {
    MEMBER_FORM(struct group_mixes, device.text, "device", FIELD_NULLABLE, &device_id_form,
                .about = "The device that trains the group now; null: none."),
    MEMBER_INT(struct group_mixes, samples, "samples", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Samples in the group's part of the data, without held-out ones."),
    MEMBER_INT(struct group_mixes, steps, "steps", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Steps that the group has made."),
    MEMBER_INT(struct group_mixes, every, "every", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Steps of the group between two mixes; 0: the group does not train."),
    MEMBER_BOOL(struct group_mixes, slows, "slows", FIELD_SKIP_EMPTY,
                .about =
                    "The group makes these steps in less than a period, then waits for its mix."),
    MEMBER_INT(struct group_mixes, mixes, "mixes", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Mixes since the group's present job began or moved."),
    MEMBER_INT(struct group_mixes, missed_periods, "missed_periods", FIELD_SKIP_EMPTY, 0,
               INTEGER_MAX,
               .about = "Since its last mix. Above 8 it makes most of the move of its next mix."),
    MEMBER_DOUBLE(struct group_mixes, samples_per_second, "samples_per_second", FIELD_NULLABLE, 0,
                  0),
    MEMBER_DOUBLE(struct group_mixes, mix_seconds, "mix_seconds", FIELD_SKIP_EMPTY, 0, 0,
                  .about = "Seconds of the group's newest mix, without waits for other groups."),
    MEMBER_BOOL(struct group_mixes, averages, "averages", FIELD_SKIP_EMPTY,
                .about = "The group computes an average now."),
    MEMBER_DOUBLE_OPTIONAL(struct group_mixes, loss, has_loss, "loss", 0, 0, 0,
                           .about = "The group's training loss on its own data; null: not known."),
    MEMBER_DOUBLE_OPTIONAL(struct group_mixes, distance, has_distance, "distance", 0, 0, 0,
                           .about = "Distance of the group's parameters from the last average, "
                                    "divided by the norm of the average; null: not known."),
    MEMBER_DOUBLE(struct group_mixes, gap_seconds, "gap_seconds", FIELD_SKIP_EMPTY, 0, 0,
                  .about = "The longest time between the ends of two steps since the group's "
                           "present plan began. It includes mixes and evaluations of averages."),
    MEMBER_OPTIONAL(struct group_mixes, tests, has_tests, "held_out", FIELD_SKIP_EMPTY,
                    &group_tests_record,
                    .about = "With `dataset.test.holdout`: the last average that the group's "
                             "device has evaluated on its held-out samples. Left out: none yet."),
};
static const struct record group_mixes_record =
    RECORD_WITH(struct group_mixes, "group_mixes", mixes_fields, .answer = true,
                .about = "A group that trains apart from the others.");

static const struct field average_fields[] = {
    MEMBER_FORM(struct average_view, checkpoint.text, "checkpoint", FIELD_REQUIRED,
                &checkpoint_id_form),
    MEMBER_INT(struct average_view, step, "step", FIELD_REQUIRED, 0, INTEGER_MAX,
               .about = "Steps of all groups together at this average."),
    MEMBER_DOUBLE_OPTIONAL(struct average_view, accuracy, has_accuracy, "accuracy", 0, 0, 1),
};
static const struct record average_view_record =
    RECORD_WITH(struct average_view, "average", average_fields, .answer = true,
                .about = "An average of all groups.");

static const struct field group_fields[] = {
    MEMBER_INT(struct group_view, group, "group", FIELD_REQUIRED, 0, GROUPS_MAX - 1,
               .about = "The group's number, from 0."),
    MEMBER_LIST(
        struct group_view, class_of, class_count, "classes", FIELD_REQUIRED, &class_element,
        .about = "The classes that the group tells apart; its last output stands for all others."),
    MEMBER_DOUBLE(struct group_view, width, "width", 0, 0, 1,
                  .about = "The group's share of the channels."),
    MEMBER_MAP(struct group_view, label, label_count, "labels", 0, &label_record,
               .shared = "labels",
               .about = "Only devices with all of these labels train the group."),
    MEMBER_FORM(struct group_view, device.text, "device", FIELD_NULLABLE | FIELD_SKIP_EMPTY,
                &device_id_form,
                .about = "The device that the group is planned for. It trains the group if it is "
                         "free when the group begins. Left out: none."),
    MEMBER_DOUBLE(struct group_view, flops_per_sample, "flops_per_sample",
                  FIELD_ADDED | FIELD_NULLABLE, 0, 0,
                  .about = "Operations for one training sample, counted as in `compute`; null: the "
                           "group has not begun."),
    MEMBER_RECORD(struct group_view, part, "part", FIELD_REQUIRED, &part_view_record),
    MEMBER_OPTIONAL(struct group_view, mixes, has_mixes, "mixes", FIELD_SKIP_EMPTY,
                    &group_mixes_record,
                    .about = "The group's training and mixes, in a job of strategy `gossip`."),
};
static const struct record group_view_record = RECORD_WITH(
    struct group_view, "group", group_fields, .answer = true, .about = "A group of a job.");

static const struct field groups_fields[] = {
    MEMBER_FORM(struct groups_view, job.text, "job", FIELD_REQUIRED, &job_id_form),
    MEMBER_ENUM(struct groups_view, phase, "phase", FIELD_REQUIRED, parent_phase_names,
                .about = "A job of strategy `gossip` has only `mixing` and `ended`. For the other "
                         "phases see [sub-models](jobs.md#sub-models)."),
    MEMBER_RECORD(struct groups_view, stem, "stem", FIELD_REQUIRED, &part_view_record),
    MEMBER_RECORDS(struct groups_view, group, group_count, "groups", FIELD_REQUIRED,
                   &group_view_record, .about = "Empty until the phase of the groups begins."),
    MEMBER_INT(struct groups_view, divisions, "divisions", FIELD_SKIP_EMPTY, 0, INTEGER_MAX,
               .about = "How often classes and channels were divided among the devices. Above 1: "
                        "the first steps of the groups showed a faster division. Left out: the "
                        "coordinator has not divided them."),
    MEMBER_FORM(struct groups_view, harvest.text, "harvest", FIELD_NULLABLE, &checkpoint_id_form,
                .about = "The model assembled from the groups; null: not assembled yet."),
    MEMBER_RECORD(struct groups_view, joint, "joint", FIELD_REQUIRED, &part_view_record),
    MEMBER_LIST(struct groups_view, missing, missing_count, "missing_classes", FIELD_REQUIRED,
                &class_element, .about = "Classes that the result never predicts."),
    MEMBER_RECORD(struct groups_view, compute, "compute", FIELD_ADDED, &submodel_compute_record,
                  .about = "Covers all plans that have ended. A retrained group counts as often as "
                           "it was trained; steps repeated after a failure count once."),
    MEMBER_RECORDS(struct groups_view, average, average_count, "averages", FIELD_SKIP_EMPTY,
                   &average_view_record,
                   .about = "The averages that a job of strategy `gossip` keeps, the newest last."),
    MEMBER_INT(struct groups_view, averages, "averages_stored", FIELD_SKIP_EMPTY, 0, INTEGER_MAX),
};
const struct record groups_view_record =
    RECORD_WITH(struct groups_view, "groups", groups_fields, .answer = true,
                .about = "The parts of a job that consists of groups.");

static struct part_view show_part(const struct parent_part *part)
{
    return (struct part_view){.state = part->state,
                              .job = part->job,
                              .attempts = part->attempts,
                              .checkpoint = part->checkpoint};
}

void groups_view_fill(const struct parent *parent, struct groups_view *out)
{
    out->job = parent->job;
    out->phase = parent->phase;
    out->stem = show_part(&parent->stem);
    out->joint = show_part(&parent->joint);
    out->harvest = parent->harvest;
    out->divisions = parent->divisions;
    out->compute = parent->compute;
    for (size_t g = 0; g < parent->groups.count; g++) {
        const struct class_group *group = &parent->groups.group[g];
        struct group_view *view = &out->group[out->group_count++];
        view->group = (int64_t)g;
        view->width = group->width;
        view->class_count = (size_t)group->class_count;
        memcpy(view->class_of, &parent->groups.class_of[group->class_first],
               view->class_count * sizeof(view->class_of[0]));
        memcpy(view->label, group->label, sizeof(view->label));
        view->label_count = group->label_count;
        view->device = group->device;
        view->flops_per_sample = parent->part[g].flops_per_sample;
        view->part = show_part(&parent->part[g]);
    }
    out->missing_count = parent_missing(parent, out->missing);
    out->averages = parent->gossip.averages;
    for (size_t i = 0; i < parent->gossip.average_count; i++) {
        const struct gossip_average *average = &parent->gossip.average[i];
        out->average[out->average_count++] =
            (struct average_view){.checkpoint = average->checkpoint,
                                  .step = average->step,
                                  .accuracy = average->accuracy,
                                  .has_accuracy = average->has_accuracy};
    }
    for (size_t g = 0; g < parent->gossip.member_count; g++) {
        out->group[g].has_mixes = true;
        out->group[g].mixes.samples = parent->gossip.member[g].samples;
        out->group[g].mixes.steps = parent->gossip.member[g].steps;
        const struct gossip_tests *tests = &parent->gossip.member[g].tests;
        out->group[g].mixes.has_tests = tests->xid.counter > 0;
        out->group[g].mixes.tests = (struct group_tests){.step = tests->step,
                                                         .samples = tests->samples,
                                                         .loss = tests->loss,
                                                         .accuracy = tests->accuracy};
    }
}
