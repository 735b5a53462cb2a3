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

/* Posted to the loop, because an action's effect must not begin a turn of its own. */
struct derived {
    struct work_job job; /* first */
    struct coordinator *coordinator;
    struct job_id id;
    struct event event;
    struct derived_set set; /* until the core has taken the models */
    struct err err;
};

/* ---- models ---- */

static void add(struct derived_set *set, const struct catalog_entry *entry)
{
    const size_t at = set->count++;
    catalog_pin(set->coordinator->catalog, entry->sha256);
    set->model[at].model = entry->model;
    memcpy(set->model[at].sha256, entry->sha256, SHA256_SIZE);
    set->description[at].text = entry->text.data;
    set->description[at].size = entry->text.size;
    memcpy(set->description[at].sha256, entry->sha256, SHA256_SIZE);
}

void derived_let_go(struct derived_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        catalog_unpin(set->coordinator->catalog, set->model[i].sha256);
    }
    set->count = 0;
}

/* Set the names of a group's outputs, as for an ordinary job with its view; none if the target's
 * outputs have none. */
static int name_outputs(const struct model *target, const struct class_groups *groups, size_t group,
                        struct name_list *out, struct err *err)
{
    const struct class_group *one = &groups->group[group];
    return target->class_names.count >= target->classes
               ? class_names_select(&target->class_names, groups->class_of + one->class_first,
                                    (size_t)one->class_count, out, err)
               : 0;
}

static int derive_group(struct derived_set *set, const struct slim_split *split,
                        const struct class_groups *groups, size_t group, struct err *err)
{
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
            : catalog_resolve(set->coordinator->catalog, description, NULL, &change, &entry,
                              &faults, err);
    if (!rc) {
        add(set, entry);
    }
    return rc ? err_wrap(err, "group %zu", group) : 0;
}

int derived_add_groups(struct derived_set *set, const struct submodel_options *options,
                       const struct class_groups *groups, const struct catalog_entry *target,
                       struct err *err)
{
    struct slim_group group[GROUPS_MAX];
    for (size_t g = 0; g < groups->count; g++) {
        group[g] = (struct slim_group){.classes = (uint32_t)groups->group[g].class_count,
                                       .width = groups->group[g].width};
    }
    const struct slim_split split = {.target = target->model,
                                     .stem = (size_t)options->stem,
                                     .group = group,
                                     .group_count = groups->count};
    int rc = 0;
    for (size_t g = 0; !rc && g < groups->count; g++) {
        rc = derive_group(set, &split, groups, g, err);
    }
    return rc;
}

/* Add the target, with the units frozen that the joint phase does not train. */
int derived_add_joint(struct derived_set *set, const struct submodel_options *options,
                      const struct catalog_entry *target, struct err *err)
{
    const struct catalog_entry *entry = target;
    bool frozen[MODEL_UNITS_MAX];
    bool any = false;
    (void)submodel_joint_frozen(options, target->model, frozen);
    for (size_t u = 0; u < target->model->unit_count; u++) {
        any = any || frozen[u];
    }
    int rc = any ? catalog_derive(set->coordinator->catalog, target,
                                  &(struct catalog_change){.frozen = frozen}, &entry, err)
                 : 0;
    if (!rc) {
        add(set, entry);
    }
    return rc;
}

/* ---- the answer ---- */

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
    const struct submodel_options *options = &job->spec.submodel;
    if (!rc && parent->phase == PARENT_GROUPS) {
        rc = derived_add_groups(&derived->set, options, &parent->groups, target, &derived->err);
    } else if (!rc) {
        rc = derived_add_joint(&derived->set, options, target, &derived->err);
    }
    out->failed = rc != 0;
    snprintf(out->message, sizeof(out->message), "%.*s", MESSAGE_SIZE - 1, derived->err.text);
    out->model = derived->set.model;
    out->model_count = derived->set.count;
    const struct turn_extra extra = {.parts = derived->set.description,
                                     .part_count = derived->set.count};
    turn_event(coordinator->turn, &derived->event, NULL, &extra);
}

static void derived_done(struct work_job *job)
{
    struct derived *derived = (struct derived *)job;
    if (!derived->coordinator->stopping) {
        answer(derived);
    }
    derived_let_go(&derived->set);
    free(derived);
}

int derived_start(struct coordinator *coordinator, const char *job_id, struct err *err)
{
    struct derived *derived = calloc(1, sizeof(*derived));
    if (!derived) {
        return err_set(err, ERR_MEMORY, "parts of '%s': out of memory", job_id);
    }
    derived->job.done = derived_done;
    derived->coordinator = derived->set.coordinator = coordinator;
    memcpy(derived->id.text, job_id, sizeof(derived->id.text));
    work_post(coordinator->work, &derived->job);
    return 0;
}
