#include "coordinator/core/submodel/submodel_local.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "coordinator/core/parts/groups.h"
#include "coordinator/core/parts/local_groups.h"
#include "coordinator/core/placement/local_data.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/slots.h"
#include "coordinator/core/state/text.h"
#include "coordinator/core/submodel/class_owners.h"
#include "coordinator/core/submodel/submodel_divide.h"
#include "coordinator/core/submodel/submodel_parts.h"

_Static_assert(OWNERS_MAX == PLANNING_DEVICES_MAX, "a device has one place in both");

/* ---- which devices ---- */

/* The devices of core->planning, the fastest first, and the data of each. */
struct owners {
    struct class_owner owner[OWNERS_MAX];
    const struct offer *offer[OWNERS_MAX]; /* NULL: nothing that the job can train on */
    size_t order[PLANNING_DEVICES_MAX];
    double speed[PLANNING_DEVICES_MAX];
};

/* The groups, and the place of each group's device in the order. */
struct owned {
    struct class_groups groups;
    size_t place[GROUPS_MAX];
};

static struct class_samples data_of(const struct offer *offer)
{
    return (struct class_samples){.samples = offer->class_count, .count = offer->class_count_count};
}

static void list_owners(const struct core *core, const struct job_spec *spec,
                        const struct model *model, struct owners *out)
{
    const struct planning *planning = core->planning;
    submodel_list_devices(planning, (size_t)spec->submodel.stem, out->order, out->speed);
    for (size_t i = 0; i < planning->device_count; i++) {
        const struct device_slot *slot =
            slots_device(core, planning->device[out->order[i]].id.text);
        out->offer[i] =
            slot && !slot->device.pending ? local_data_fitting(spec, model, &slot->device) : NULL;
        out->owner[i] = (struct class_owner){.speed = fmax(out->speed[i], 1e-9)};
        if (out->offer[i]) {
            out->owner[i].data = data_of(out->offer[i]);
        }
    }
}

static void list_data(const struct owners *owners, const struct owned *owned,
                      struct class_samples data[GROUPS_MAX])
{
    for (size_t g = 0; g < owned->groups.count; g++) {
        data[g] = owners->owner[owned->place[g]].data;
    }
}

/* Bind a group to the offer of its device. */
static void bind(const struct offer *offer, double negatives, struct class_groups *groups,
                 size_t group)
{
    const struct class_samples samples = data_of(offer);
    struct group_data *data = &groups->group[group].data;
    struct view view;
    struct view_sizes sizes;
    submodel_group_view(groups, group, &samples, negatives, &view, &sizes);
    *data = (struct group_data){.own = (int64_t)sizes.own,
                                .held = (int64_t)sizes.held,
                                .others = (int64_t)sizes.others,
                                .drawn = (int64_t)sizes.drawn};
    memcpy(data->sha256, offer->sha256, SHA256_SIZE);
}

/* Choose classes and devices: as many groups as can have a batch each, at most problem->groups_max.
 * Fewer groups have more classes each, and leave out the devices with the fewest samples. */
static int choose_owners(const struct job_spec *spec, const struct owners *owners,
                         struct owner_problem *problem, struct owned *out, struct err *err)
{
    struct class_samples data[GROUPS_MAX];
    const struct class_problem epochs = {.data = data, .negatives = problem->negatives};
    struct err small = {0};
    for (;;) {
        int rc = class_owners_solve(problem, &out->groups, out->place, err);
        if (rc) {
            *err = small.text[0] != '\0' ? small : *err;
            return rc;
        }
        list_data(owners, out, data);
        rc = submodel_check_epochs(&epochs, &out->groups, spec->batch, &small);
        if (rc == 0 || problem->group_count > 0 || out->groups.count <= 2) {
            *err = rc == 0 ? *err : small;
            return rc;
        }
        problem->groups_max = out->groups.count - 1;
    }
}

static struct owner_problem problem_of(const struct core *core, const struct job_spec *spec,
                                       const struct owners *owners, double width_min)
{
    const struct submodel_options *options = &spec->submodel;
    return (struct owner_problem){.owner = owners->owner,
                                  .owner_count = core->planning->device_count,
                                  .class_count = (size_t)spec->train_local.classes,
                                  .replicas = (size_t)options->replicas,
                                  .group_count = (size_t)(options->group_count * options->replicas),
                                  .groups_max = class_widths_most(width_min),
                                  .negatives = options->negatives};
}

int submodel_local_check(struct core *core, const struct event_job_submit *submit, struct err *err)
{
    const struct job_spec *spec = submit->spec;
    struct class_problem widths;
    struct owners owners;
    struct owned owned;
    int rc = submodel_width_min(submit->model, (size_t)spec->submodel.stem, &widths, err);
    if (rc) {
        return rc;
    }
    submodel_fill_devices(core, spec, submit->model, CANDIDATES_KNOWN, NULL);
    list_owners(core, spec, submit->model, &owners);
    struct owner_problem problem = problem_of(core, spec, &owners, widths.width_min);
    return choose_owners(spec, &owners, &problem, &owned, err);
}

/* ---- widths ---- */

/* Each group has a device of its own. Devices are in the order of the groups. */
static int divide_channels(struct dividing *dividing, const struct owners *owners,
                           struct owned *owned, struct err *err)
{
    struct class_samples data[GROUPS_MAX];
    const size_t count = owned->groups.count;
    list_data(owners, owned, data);
    for (size_t g = 0; g < count; g++) {
        dividing->order[g] = owners->order[owned->place[g]];
        dividing->place[g] = g;
        dividing->among[g] = 1;
    }
    dividing->timed = 0;
    dividing->problem.group_count = count;
    dividing->problem.data = data;
    int rc = submodel_time_devices(dividing, count, err);
    memcpy(dividing->cost, dividing->seconds, sizeof(dividing->cost));
    dividing->problem.cost = dividing->cost;
    return rc ? rc : submodel_divide(dividing, class_widths_choose, &owned->groups, err);
}

/* Devices keep the classes that only they have. So a group that does not fit waits for memory. */
static int divide_by_memory(struct dividing *dividing, const struct owners *owners,
                            struct owned *owned, struct err *err)
{
    const double width_min = dividing->problem.width_min;
    dividing->any_memory = false;
    int rc = divide_channels(dividing, owners, owned, err);
    if (rc == ERR_MEMORY) {
        dividing->any_memory = true;
        dividing->problem.width_min = width_min;
        rc = divide_channels(dividing, owners, owned, err);
    }
    return rc;
}

/* Try fewer groups if the slices are too narrow: fewer groups have wider slices. */
static int divide(struct dividing *dividing, const struct owners *owners, struct owned *owned,
                  struct err *err)
{
    const struct parent_slot *parent = dividing->parent;
    const struct job_spec *spec = &parent->job.spec;
    const double width_min = dividing->problem.width_min;
    struct owner_problem problem = problem_of(dividing->core, spec, owners, width_min);
    int rc;
    do {
        rc = choose_owners(spec, owners, &problem, owned, err);
        if (rc) {
            return rc;
        }
        dividing->problem.width_min = width_min;
        rc = divide_by_memory(dividing, owners, owned, err);
        problem.groups_max = owned->groups.count - 1;
    } while (rc && problem.group_count == 0 && problem.groups_max >= 2);
    return rc;
}

static int plan_with(struct core *core, const struct parent_slot *parent,
                     enum candidates candidates, const struct plan_question *question,
                     struct class_groups *out, struct err *err)
{
    const struct job_spec *spec = &parent->job.spec;
    struct owners owners;
    struct owned owned;
    struct dividing dividing = {.core = core,
                                .parent = parent,
                                .question = question,
                                .problem = {.samples = parent->parent.class_samples,
                                            .class_count = parent->parent.class_count,
                                            .negatives = spec->submodel.negatives,
                                            .replicas = (size_t)spec->submodel.replicas}};
    submodel_fill_devices(core, spec, parent->model, candidates, question);
    list_owners(core, spec, parent->model, &owners);
    int rc = submodel_width_min(parent->model, (size_t)spec->submodel.stem, &dividing.problem, err);
    rc = rc ? rc : divide(&dividing, &owners, &owned, err);
    if (rc) {
        return rc;
    }
    for (size_t g = 0; g < owned.groups.count; g++) {
        const size_t at = owned.place[g];
        owned.groups.group[g].device = core->planning->device[owners.order[at]].id;
        bind(owners.offer[at], spec->submodel.negatives, &owned.groups, g);
    }
    *out = owned.groups;
    return 0;
}

/* The samples of the job are those of the devices' samples that a group trains on. */
static void count_samples(struct parent_slot *parent)
{
    const struct class_groups *groups = &parent->parent.groups;
    int64_t own = 0;
    for (size_t g = 0; g < groups->count; g++) {
        own += groups->group[g].data.own + groups->group[g].data.held;
    }
    parent->job.data.train_samples = own / parent->job.spec.submodel.replicas;
    parent->work.job_changed = true;
}

int submodel_local_plan(struct core *core, struct parent_slot *parent,
                        const struct plan_question *question, struct err *err)
{
    struct class_groups *groups = &parent->parent.groups;
    int rc = plan_with(core, parent, CANDIDATES_ONLINE, question, groups, err);
    rc = rc ? plan_with(core, parent, CANDIDATES_KNOWN, question, groups, err) : 0;
    if (rc == 0) {
        count_samples(parent);
    }
    return rc;
}

/* ---- while they train ---- */

bool submodel_local_ready(const struct core *core, const struct parent_slot *parent, size_t group)
{
    return !job_is_local(&parent->job.spec) || local_groups_offer(core, parent, group) != NULL;
}

void submodel_local_begin(const struct core *core, struct parent_slot *parent, size_t group)
{
    const struct offer *offer = local_groups_offer(core, parent, group);
    ASSERT(offer);
    bind(offer, parent->job.spec.submodel.negatives, &parent->parent.groups, group);
    groups_changed(parent);
}

static bool is_removed(const struct core *core, const struct device_id *device)
{
    const struct device_slot *slot = slots_device(core, device->text);
    return !slot || slot->device.state == DEVICE_REMOVED;
}

static void give_up(struct core *core, struct parent_slot *parent, size_t group)
{
    struct parent_part *part = &parent->parent.part[group];
    groups_cancel(core, part, "", "its device was removed");
    part->state = PART_MISSING;
    groups_changed(parent);
    act_publish_job(core, "group_refused", &parent->job, parent->job.id.text,
                    "group %zu of '%s' is left out: the device with its data was removed", group,
                    parent->job.spec.name);
}

/* The attempt does not count, because the group has not failed. */
static void begin_again(struct core *core, struct parent_slot *parent, size_t group)
{
    struct parent_part *part = &parent->parent.part[group];
    struct parent_part gone = *part;
    part->state = PART_WAITING;
    part->attempts--;
    groups_cancel(core, &gone, "replaced", "its device has other data now");
    groups_changed(parent);
}

void submodel_local_follow(struct core *core, struct parent_slot *parent)
{
    const struct class_groups *groups = &parent->parent.groups;
    for (size_t g = 0; job_is_local(&parent->job.spec) && g < groups->count; g++) {
        const struct parent_part *part = &parent->parent.part[g];
        const struct job_slot *job = groups_job(core, part);
        const bool lives = job || part->state == PART_WAITING;
        if (lives && is_removed(core, &groups->group[g].device)) {
            give_up(core, parent, g);
        } else if (job && local_groups_changed(core, parent, job)) {
            begin_again(core, parent, g);
        }
    }
}

/* Whether a group trains, or may begin. */
static bool goes_on(const struct core *core, const struct parent_slot *parent)
{
    bool goes = false;
    for (size_t g = 0; g < parent->parent.groups.count && !goes; g++) {
        const int state = parent->parent.part[g].state;
        goes =
            state == PART_TRAINS || (state == PART_WAITING && local_groups_offer(core, parent, g));
    }
    return goes;
}

void submodel_local_note(const struct core *core, struct parent_slot *parent)
{
    const struct parent *row = &parent->parent;
    parent->work.wait[0] = parent->work.note[0] = '\0';
    if (!job_is_local(&parent->job.spec) || row->phase != PARENT_GROUPS) {
        return;
    }
    local_groups_note(core, parent);
    if (groups_count(row, PART_WAITING) > 0 && !goes_on(core, parent)) {
        text_set(parent->work.wait, sizeof(parent->work.wait),
                 "phase groups: %zu of %zu trained%.180s", groups_count(row, PART_TRAINED),
                 row->groups.count, parent->work.note);
    }
}
