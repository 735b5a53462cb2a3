#include "coordinator/core/gossip/gossip_records.h"

#include "base/assert.h"
#include "coordinator/core/state/act.h"
#include "coordinator/core/state/state.h"

/* A group of the parent in an incarnation that has begun. */
static bool has_begun(const struct parent_slot *parent, const struct mix_member *member)
{
    const struct gossip_state *state = &parent->parent.gossip;
    return member->group < (int64_t)state->member_count && member->generation > 0 &&
           member->generation <= state->member[member->group].incarnation;
}

static bool was_made(const struct parent_slot *parent, struct mix_xid xid)
{
    const struct mix_xid last = {parent->parent.gossip.life, parent->mixes.gossip.counter};
    return xid.counter > 0 && !mix_xid_after(xid, last);
}

bool gossip_record_fits(const struct parent_slot *parent, const struct mix_record *record)
{
    bool fits = !mix_kind_is_central(record->kind) && was_made(parent, record->xid) &&
                has_begun(parent, &record->own) && record->peer_count > 0 &&
                (record->kind == MIX_AVERAGE || record->peer_count == 1);
    for (size_t i = 0; i < record->peer_count && fits; i++) {
        fits = has_begun(parent, &record->peer[i]);
    }
    return fits;
}

void gossip_record(struct core *core, const struct parent_slot *parent,
                   const struct mix_record *record)
{
    struct gossip_rows *rows = &core->mix_rows;
    ASSERT(rows->count < GOSSIP_ROWS_MAX);
    struct mix_row *row = &rows->row[rows->count++];
    *row = (struct mix_row){.job = parent->job.id, .created_ms = core->wall_ms, .record = *record};
    mix_row_name(row);
    act_persist(core, OBJECT_MIX, row);
}
