/* The view and the groups of a job, against data sets of several sizes: what is accepted serves
 * each class as often as it should be, and its samples are those that its sizes promise. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/buf.h"
#include "schema/groups_view.h"
#include "schema/job.h"
#include "schema/job_check.h"
#include "schema/job_view.h"
#include "schema/records.h"
#include "schema/submodel.h"
#include "schema/wire.h"

#define SAMPLES_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- groups ---- */

static void check_served(const struct class_groups *groups, int64_t class_count, int64_t replicas)
{
    int64_t served[COUNTED_CLASSES_MAX] = {0};
    double width = 0;
    for (size_t g = 0; g < groups->count; g++) {
        const struct class_group *group = &groups->group[g];
        ASSERT(group->class_count >= 2 && group->class_first >= 0 &&
               group->class_first + group->class_count <= (int64_t)groups->class_count);
        width += group->width;
        for (int64_t c = 0; c < group->class_count; c++) {
            const int64_t class = groups->class_of[group->class_first + c];
            ASSERT(class >= 0 && class < class_count);
            served[class]++;
        }
    }
    for (int64_t class = 0; class < class_count; class ++) {
        ASSERT(served[class] == replicas);
    }
    ASSERT(width <= 0 || fabs(width - 1) < 1e-3);
}

/* The row of a parent with these groups is read back as it was written. */
static void check_row(const struct class_groups *groups, int64_t class_count)
{
    struct parent *parent = calloc(2, sizeof(*parent));
    struct groups_view *view = calloc(1, sizeof(*view));
    BUF_AUTO struct buf first, second;
    struct record_faults faults = {0};
    struct err err = {0};
    int64_t missing[COUNTED_CLASSES_MAX];
    ASSERT(parent && view);
    buf_init(&first, 8u << 20);
    buf_init(&second, 8u << 20);
    memcpy(parent->job.text, "job_00000000000000000000000000",
           sizeof("job_00000000000000000000000000"));
    parent->groups = *groups;
    parent->class_count = (size_t)class_count;
    parent->part[0].state = PART_MISSING;
    ASSERT(parent_missing(parent, missing) <= (size_t)groups->group[0].class_count);
    groups_view_fill(parent, view);
    ASSERT(view->group_count == groups->count);
    ASSERT(wire_write(&parent_record, parent, &first, &err) == 0);
    ASSERT(wire_read(&parent_record, first.data, first.size, &parent[1], &faults, &err) == 0);
    ASSERT(wire_write(&parent_record, &parent[1], &second, &err) == 0);
    ASSERT(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    free(parent);
    free(view);
}

static void try_groups(const struct job_spec *spec, int64_t class_count)
{
    static struct class_groups groups;
    struct record_faults faults = {0};
    struct err err = {0};
    int rc = submodel_groups_read(&spec->submodel, class_count, &groups, &faults, &err);
    ASSERT((rc == 0) == (faults.count == 0));
    if (rc == 0 && groups.count > 0) {
        check_served(&groups, class_count, spec->submodel.replicas);
        check_row(&groups, class_count);
    }
}

/* ---- views ---- */

static void check_samples(const struct view *view, const struct view_sizes *sizes,
                          const unsigned char *stored, uint64_t samples, const int64_t *count)
{
    static uint32_t own[SAMPLES_MAX], held[SAMPLES_MAX], others[SAMPLES_MAX], drawn[SAMPLES_MAX];
    static bool seen[SAMPLES_MAX];
    const struct view_samples out = {.own = own, .held = held, .others = others};
    ASSERT(sizes->own + sizes->held + sizes->others == samples && sizes->drawn <= sizes->others);
    view_split(view, 7, stored, samples, count, &out);
    memset(seen, 0, sizeof(seen));
    for (uint64_t i = 0; i < samples; i++) {
        const uint32_t sample = i < sizes->own ? own[i]
                                : i < sizes->own + sizes->held
                                    ? held[i - sizes->own]
                                    : others[i - sizes->own - sizes->held];
        ASSERT(sample < samples && !seen[sample]);
        seen[sample] = true;
    }
    view_draw(sizes, 7, 3, others, drawn);
    for (uint64_t i = 1; i < sizes->drawn; i++) {
        ASSERT(drawn[i] > drawn[i - 1]);
    }
}

/* Each sample of a shard has a class of which it has a range, and none comes twice. */
static void check_shard(const struct view *view, const struct view_sizes *sizes,
                        const unsigned char *stored, uint64_t samples, const int64_t *count)
{
    static uint32_t own[SAMPLES_MAX], order[SAMPLES_MAX];
    static bool seen[SAMPLES_MAX];
    int64_t left[VIEW_CLASSES_MAX] = {0};
    ASSERT(view_misfit(view, count, VIEW_CLASSES_MAX) == view->range_count);
    ASSERT(sizes->own > 0 && sizes->own <= samples && sizes->drawn == 0 && sizes->held == 0);
    view_list_shard(view, stored, samples, count, order, own);
    for (size_t i = 0; i < view->range_count; i++) {
        left[view->range[i].class] = view->range[i].count;
    }
    memset(seen, 0, sizeof(seen));
    for (uint64_t i = 0; i < sizes->own; i++) {
        ASSERT(own[i] < samples && !seen[own[i]]);
        seen[own[i]] = true;
        left[stored[4 * own[i]] | stored[4 * own[i] + 1] << 8]--;
    }
    for (size_t class = 0; class < VIEW_CLASSES_MAX; class ++) {
        ASSERT(left[class] == 0);
    }
}

/* Class c of so many has c % 16 + 1 samples. */
static void try_view(const struct job_spec *spec, int64_t classes)
{
    static unsigned char stored[4 * SAMPLES_MAX];
    int64_t count[VIEW_CLASSES_MAX] = {0};
    uint64_t samples = 0;
    for (int64_t class = 0; class < classes; class ++) {
        for (int64_t i = 0; i <= class % 16 && samples < SAMPLES_MAX; i++) {
            const unsigned char label[4] = {(unsigned char)class, (unsigned char)(class >> 8)};
            memcpy(stored + 4 * samples++, label, sizeof(label));
            count[class]++;
        }
    }
    const struct job_view_data data = {
        .name = "data", .classes = classes, .count = count, .counted = (size_t)classes};
    struct view_sizes sizes;
    struct record_faults faults = {0};
    struct err err = {0};
    int rc = job_view_check(spec, &data, &sizes, &faults, &err);
    ASSERT((rc == 0) == (faults.count == 0));
    if (rc == 0 && spec->view.is_shard) {
        check_shard(&spec->view, &sizes, stored, samples, count);
    } else if (rc == 0) {
        check_samples(&spec->view, &sizes, stored, samples, count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int64_t classes[] = {1, 4, 10, 300, COUNTED_CLASSES_MAX};
    const struct records_entry *entry = records_find("job_spec");
    struct job_spec *spec = records_new(entry);
    struct record_faults faults = {0};
    struct err err = {0};
    ASSERT(spec);
    if (wire_read(entry->record, (const char *)data, size, spec, &faults, &err) == 0) {
        const int rc = job_spec_check(spec, NULL, &err);
        ASSERT(rc == 0 || rc == ERR_INVALID);
        for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
            try_groups(spec, classes[i]);
            if (spec->has_view) {
                try_view(spec, classes[i]);
            }
        }
    }
    record_done(entry->record, spec);
    free(spec);
    return 0;
}
