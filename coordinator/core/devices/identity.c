/* Which boot speaks for a device. A new boot takes over at once, so that a restarted agent need not
 * wait for the lease of the previous boot. If a boot returns after it was replaced, two agents use
 * the identity. They would replace each other for ever, and each time abort the work of the other.
 * From then on no boot replaces a live boot. The agent that ran first stays, because it is the one
 * that returns. docs/protocol.md, "Two agents with one identity". */
#include "coordinator/core/devices/identity.h"

#include <string.h>

#include "coordinator/core/state/act.h"
#include "coordinator/core/state/state.h"
#include "coordinator/core/state/text.h"

#define AGENT_TEXT_SIZE 100

static bool lives(const struct core *core, const struct device_slot *device)
{
    return core->now_ms - device->lease.seen_ms < core->config.lease_ms;
}

/* Describe one of the two agents for people: its machine, its own address and the address of its
 * calls. Copies of a disk share the first two. */
static void describe(char out[AGENT_TEXT_SIZE], const struct device_inventory *inventory,
                     const char *address, const char *source)
{
    bool known = source && source[0];
    text_set(out, AGENT_TEXT_SIZE, "'%.20s' at %.40s%s%.24s%s", inventory->hostname, address,
             known ? " (from " : "", known ? source : "", known ? ")" : "");
}

void identity_note_source(struct device_slot *device, const char *source)
{
    text_set(device->identity.source, sizeof(device->identity.source), "%s", source ? source : "");
}

/* Reject a boot that claims the identity of a device. A call that arrives more than half a
 * heartbeat after the claim shows that the present boot lives; earlier calls may have been in
 * flight. Several claims are settled one after the other. */
static void refuse(struct core *core, struct device_slot *device, const char *boot)
{
    bool same = strcmp(device->identity.claim_boot, boot) == 0;
    if (same && device->lease.seen_ms > device->identity.claim_ms + core->config.heartbeat_ms / 2) {
        char there[AGENT_TEXT_SIZE];
        describe(there, &device->device.inventory, device->device.address, device->identity.source);
        act_problem(core, PROBLEM_IDENTITY_IN_USE,
                    "the agent %s uses the identity of device '%.40s' too: give each its own "
                    "--state-dir; of a copied disk, remove 'identity' there and join",
                    there, device->device.name);
        return;
    }
    if (!same && (device->identity.claim_boot[0] == '\0' ||
                  core->now_ms - device->identity.claim_ms >= core->config.lease_ms)) {
        memcpy(device->identity.claim_boot, boot, ID_SIZE);
        device->identity.claim_ms = core->now_ms;
    }
    act_problem(core, PROBLEM_TOO_MANY,
                "another agent may use the identity of device '%.60s': retry in one lease",
                device->device.name);
}

static void publish_shared(struct core *core, const struct device_slot *device,
                           const struct enroll_request *request, const char *source)
{
    char first[AGENT_TEXT_SIZE], second[AGENT_TEXT_SIZE];
    describe(first, &request->inventory, request->address, source);
    describe(second, &device->device.inventory, device->device.address, device->identity.source);
    act_publish(core, "device_shared", device->device.id.text,
                "two agents use the identity of '%.20s': %s keeps it; give %s its own",
                device->device.name, first, second);
}

bool identity_takes(struct core *core, struct device_slot *device,
                    const struct enroll_request *request, const char *source)
{
    const char *boot = request->boot;
    if (device->identity.shared && lives(core, device)) {
        refuse(core, device, boot);
        return false;
    }
    bool back = false;
    for (size_t i = 0; i < PAST_BOOTS; i++) {
        back = back || strcmp(device->identity.past_boot[i], boot) == 0;
    }
    if (back && !device->identity.shared) {
        publish_shared(core, device, request, source);
    }
    memcpy(device->identity.past_boot[device->identity.next_past], device->device.boot, ID_SIZE);
    device->identity.next_past = (device->identity.next_past + 1) % PAST_BOOTS;
    device->identity.shared = back;
    device->identity.claim_boot[0] = '\0';
    return true;
}
