#include "coordinator/content/derived.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/content/catalog.h"
#include "coordinator/content/work.h"
#include "coordinator/coordinator.h"
#include "libtrain/description/description.h"
#include "libtrain/formats/class_names.h"
#include "libtrain/model/slim.h"

/* Posted to the loop: an action's effect begins no turn of its own. */
struct derived {
    struct work_job job; /* first */
    struct coordinator *coordinator;
    struct job_id id;
    struct event event;
    struct derived_model model[GROUPS_MAX];
    struct turn_description description[GROUPS_MAX];
    size_t pinned;
    struct err err;
};

/* Entries stay until the core has taken their models. */
static void add(struct derived *derived, const struct catalog_entry *entry)
{
    const size_t at = derived->pinned++;
    catalog_pin(derived->coordinator->catalog, entry->sha256);
    derived->model[at].model = entry->model;
    memcpy(derived->model[at].sha256, entry->sha256, SHA256_SIZE);
    derived->description[at].text = entry->text.data;
    derived->description[at].size = entry->text.size;
    memcpy(derived->description[at].sha256, entry->sha256, SHA256_SIZE);
}

/* The names of a group's outputs, as those of an ordinary job with its view; none if the target's
 * have none. */
static int name_outputs(const struct model *target, const struct class_groups *groups, size_t group,
                        struct name_list *out, struct err *err)
{
    const struct class_group *one = &groups->group[group];
    return target->class_names.count >= target->classes
               ? class_names_select(&target->class_names, groups->class_of + one->class_first,
                                    (size_t)one->class_count, out, err)
               : 0;
}

static int derive_group(struct derived *derived, const struct slim_split *split,
                        const struct class_groups *groups, size_t group)
{
    struct err *err = &derived->err;
    const struct catalog_entry *entry = NULL;
    struct record_faults faults = {0};
    json_auto_t *description = NULL;
    BUF_AUTO struct buf text;
    struct name_list names AUTO(name_list_done) = {0};
    const struct model_samples samples = {.class_names = &names, .reading = ""};
    const struct catalog_change change = {.samples = &samples};
    buf_init(&text, JSON_BODY_MAX);
    int rc = name_outputs(split->target, groups, group, &names, err);
    rc = rc ? rc : description_write_slice(split, group, &text, err);
    rc = rc ? rc : json_parse(text.data, text.size, &description, err);
    rc = rc ? rc
            : catalog_resolve(derived->coordinator->catalog, description, NULL, &change, &entry,
                              &faults, err);
    if (!rc) {
        add(derived, entry);
    }
    return rc ? err_wrap(err, "group %zu", group) : 0;
}

static int derive_groups(struct derived *derived, const struct job *job,
                         const struct class_groups *groups, const struct catalog_entry *target)
{
    struct slim_group group[GROUPS_MAX];
    for (size_t g = 0; g < groups->count; g++) {
        group[g] = (struct slim_group){.classes = (uint32_t)groups->group[g].class_count,
                                       .width = groups->group[g].width};
    }
    const struct slim_split split = {.target = target->model,
                                     .stem = (size_t)job->spec.submodel.stem,
                                     .group = group,
                                     .group_count = groups->count};
    int rc = 0;
    for (size_t g = 0; !rc && g < groups->count; g++) {
        rc = derive_group(derived, &split, groups, g);
    }
    return rc;
}

/* The target, with all units frozen but the last that has parameters. */
static int derive_joint(struct derived *derived, const struct job *job,
                        const struct catalog_entry *target)
{
    const struct catalog_entry *entry = target;
    bool frozen[MODEL_UNITS_MAX];
    size_t head = target->model->unit_count;
    int rc = 0;
    do {
        head--;
    } while (head > 0 && !model_trains(target->model, head));
    for (size_t u = 0; u < target->model->unit_count; u++) {
        frozen[u] = u != head;
    }
    if (job->spec.submodel.joint_units == JOINT_HEAD) {
        rc = catalog_derive(derived->coordinator->catalog, target,
                            &(struct catalog_change){.frozen = frozen}, &entry, &derived->err);
    }
    if (!rc) {
        add(derived, entry);
    }
    return rc;
}

static void answer(struct derived *derived)
{
    struct coordinator *coordinator = derived->coordinator;
    const struct parent *parent = core_parent(coordinator->core, derived->id.text);
    const struct job *job = core_job(coordinator->core, derived->id.text);
    const struct catalog_entry *target = NULL;
    struct event_derived *out = &derived->event.derived;
    if (!parent) {
        return;
    }
    derived->event.type = EVENT_DERIVED;
    out->job = derived->id;
    out->phase = parent->phase;
    int rc = catalog_find(coordinator->catalog, job->spec.model.sha256, &target, &derived->err);
    if (!rc && parent->phase == PARENT_GROUPS) {
        rc = derive_groups(derived, job, &parent->groups, target);
    } else if (!rc) {
        rc = derive_joint(derived, job, target);
    }
    out->failed = rc != 0;
    snprintf(out->message, sizeof(out->message), "%.*s", MESSAGE_SIZE - 1, derived->err.text);
    out->model = derived->model;
    out->model_count = derived->pinned;
    const struct turn_extra extra = {.parts = derived->description, .part_count = derived->pinned};
    turn_event(coordinator->turn, &derived->event, NULL, &extra);
}

static void derived_done(struct work_job *job)
{
    struct derived *derived = (struct derived *)job;
    struct catalog *catalog = derived->coordinator->catalog;
    if (!derived->coordinator->stopping) {
        answer(derived);
    }
    for (size_t i = 0; i < derived->pinned; i++) {
        catalog_unpin(catalog, derived->model[i].sha256);
    }
    free(derived);
}

int derived_start(struct coordinator *coordinator, const char *job_id, struct err *err)
{
    struct derived *derived = calloc(1, sizeof(*derived));
    if (!derived) {
        return err_set(err, ERR_MEMORY, "parts of '%s': out of memory", job_id);
    }
    derived->job.done = derived_done;
    derived->coordinator = coordinator;
    memcpy(derived->id.text, job_id, sizeof(derived->id.text));
    work_post(coordinator->work, &derived->job);
    return 0;
}
