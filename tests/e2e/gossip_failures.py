"""Failures of groups that train apart: whichever device is lost, frozen or late, the others train
on, the job ends, and its log gives the bits of its result.
"""

import signal
import statistics
import time

from commits import restart_until_commit, wait_for_death
from gossip import (
    check_log,
    check_replay,
    gossip_fleet,
    gossip_job,
    groups_of,
    mixes_of,
    of_kind,
    wait_for_averages,
)
from paceline import Fleet, fill, must, small_disk
from runner import run

LEASE_MS = 2000
OF_COORDINATOR = ("--heartbeat-ms", 200, "--lease-ms", LEASE_MS)
GROUPS = 3
EPOCHS = 40  # some 20 s
EPOCHS_OF_AN_OUTAGE = 240
EPOCHS_OF_A_MINUTE = 160
COMMITS_KILLED = 40
KEEP_FREE = ("--min-free", 4 << 20)
SUCCESSOR_SECONDS = 2  # after the lease
GAP_STEPS, GAP_SECONDS = 3, 0.2  # between two steps of a group that goes on
UNTESTED = {"train": "fashion-train"}  # an evaluation of an average is a gap, too


def training(fleet, groups=GROUPS, averages=1, **fields):
    """A job that has stored an average. (the job, its spec)"""
    spec = gossip_job(groups, **{"epochs": EPOCHS, **fields})
    job = fleet.submit(spec)
    wait_for_averages(fleet, job, averages)
    return job, spec


def group_views(fleet, job):
    return groups_of(fleet, job)["groups"]


def agent_of_group(fleet, view):
    name = fleet.get(f"/v1/devices/{view['mixes']['device']}")["name"]
    return next(agent for agent in fleet.agents if agent.name == name and agent.running())


def kill_groups(fleet, job, groups):
    views = group_views(fleet, job)
    for agent in [agent_of_group(fleet, views[group]) for group in groups]:
        agent.kill()


def wait_for(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        must(time.monotonic() < deadline, what)
        time.sleep(0.02)


def parts_of(fleet, job):
    return [view["part"]["job"] for view in group_views(fleet, job)]


def check_no_gaps(fleet, parts):
    """Of the jobs of groups that nothing happened to: their agents measured the longest time from
    the end of a step to that of the next.
    """
    for part in parts:
        usual = statistics.median(fleet.metric({"id": part}, "step_seconds").values())
        gaps = fleet.metric({"id": part}, "gap_seconds")
        step, gap = max(gaps.items(), key=lambda item: item[1])
        must(
            gap <= GAP_STEPS * usual + GAP_SECONDS,
            f"{part}: {gap:.3f} s without a step before step {step}, usually {usual:.3f} s",
        )


def finish(fleet, job, spec, groups=GROUPS):
    seen = fleet.wait(job, "succeeded", 300)
    check_log(mixes_of(fleet, job), groups)
    check_replay(fleet, job, spec)
    return seen


def successors(fleet, job):
    """The groups that began again with an average."""
    starts = of_kind(mixes_of(fleet, job), "start")
    again = [start for start in starts if start["xid"]["counter"] > 0]
    must(all(start["peers"] for start in again), f"a start does not name the author: {again}")
    return {start["own"]["group"] for start in again}


def losses_of(fleet, job):
    """(cause, device) of the devices that the job's incidents name. All groups train again."""
    incidents = fleet.get(f"/v1/jobs/{job['id']}/incidents")["items"]
    for one in incidents:
        must(one["state"] == "resolved" and one["seconds"]["resume"] > 0, f"{one}")
    return [(one["cause"], device["id"]) for one in incidents for device in one["devices"]]


def test_a_lost_device_leaves_no_gap_in_the_training_of_the_others():
    with gossip_fleet(GROUPS + 1, lease_ms=LEASE_MS) as fleet:
        job, spec = training(fleet, dataset=UNTESTED)
        parts, lost = parts_of(fleet, job), group_views(fleet, job)[0]["mixes"]["device"]
        killed = time.monotonic()
        kill_groups(fleet, job, [0])
        wait_for(lambda: successors(fleet, job), "no successor", LEASE_MS / 1000 + 10)
        seconds = time.monotonic() - killed
        must(seconds <= LEASE_MS / 1000 + SUCCESSOR_SECONDS, f"a successor after {seconds:.1f} s")
        finish(fleet, job, spec)
        must(successors(fleet, job) == {0}, f"{successors(fleet, job)}")
        losses = losses_of(fleet, job)
        must(losses == [("device_lost", lost)], f"{losses}")
        check_no_gaps(fleet, parts[1:])
        log = fleet.coordinator.log_text()
        lost = log.count("event=group_lost ")
        must(lost == 1, f"{lost} events of a lost group")
        stored = groups_of(fleet, job)["averages_stored"]
        events = log.count("event=average_stored ")
        must(events == stored > 0, f"{events} events of {stored} averages")


def averager_of(fleet, job):
    return next((view for view in group_views(fleet, job) if view["mixes"].get("averages")), None)


def test_another_group_computes_an_average_whose_averager_is_lost():
    with gossip_fleet(GROUPS + 1, lease_ms=LEASE_MS) as fleet:
        job, spec = training(fleet, options={"average_every": 1})
        found = []
        wait_for(lambda: found.append(averager_of(fleet, job)) or found[-1], "nobody averages")
        agent_of_group(fleet, found[-1]).kill()
        stored = groups_of(fleet, job)["averages_stored"]
        wait_for_averages(fleet, job, stored + 2)
        finish(fleet, job, spec)


def test_both_of_a_pair_are_replaced():
    with gossip_fleet(6, lease_ms=LEASE_MS) as fleet:
        job, spec = training(fleet, groups=4, dataset=UNTESTED)
        parts = parts_of(fleet, job)
        newest = of_kind(mixes_of(fleet, job), "pair")[-1]
        both = {newest["own"]["group"], newest["peers"][0]["group"]}
        views = group_views(fleet, job)
        devices = {views[group]["mixes"]["device"] for group in both}
        kill_groups(fleet, job, both)
        finish(fleet, job, spec, groups=4)
        named = {device for _, device in losses_of(fleet, job)}
        must(named == devices, f"{named}, not {devices}")
        must(successors(fleet, job) == both, f"{successors(fleet, job)}, not {both}")
        check_no_gaps(fleet, [part for group, part in enumerate(parts) if group not in both])


def test_the_last_device_ends_the_job_and_names_the_groups_that_are_lost():
    with gossip_fleet(lease_ms=LEASE_MS) as fleet:
        job, spec = training(fleet)
        kill_groups(fleet, job, [0, 2])
        seen = finish(fleet, job, spec)
        must(seen["state_reason"] == "degraded", f"{seen}")
        must(seen["message"] == "trained; not in the last average: group 0, 2", f"{seen}")


def test_groups_of_which_all_devices_were_lost_begin_with_the_newest_average():
    with gossip_fleet(lease_ms=LEASE_MS) as fleet:
        job, spec = training(fleet)
        kill_groups(fleet, job, range(GROUPS))
        fleet.wait(job, "waiting_for_devices")
        for _ in range(GROUPS):
            fleet.start_agent(None, wait=False)
        finish(fleet, job, spec)
        must(successors(fleet, job) == set(range(GROUPS)), f"{successors(fleet, job)}")


def test_a_device_that_was_frozen_for_longer_than_its_lease():
    with gossip_fleet(GROUPS + 1, lease_ms=LEASE_MS) as fleet:
        job, spec = training(fleet, dataset=UNTESTED)
        parts = parts_of(fleet, job)
        frozen = agent_of_group(fleet, group_views(fleet, job)[1])
        frozen.signal(signal.SIGSTOP)
        time.sleep(5)
        frozen.signal(signal.SIGCONT)
        finish(fleet, job, spec)
        check_no_gaps(fleet, [parts[0], parts[2]])


def test_groups_train_on_while_the_coordinator_is_away_for_a_minute():
    with gossip_fleet(lease_ms=LEASE_MS) as fleet:
        job, spec = training(fleet, epochs=EPOCHS_OF_A_MINUTE, dataset=UNTESTED)
        parts = parts_of(fleet, job)
        fleet.coordinator.kill()
        time.sleep(60)
        fleet.restart_coordinator()
        finish(fleet, job, spec)
        check_no_gaps(fleet, parts)


def test_a_coordinator_that_is_killed_at_each_of_its_commits_repeats_no_order():
    with gossip_fleet(lease_ms=LEASE_MS) as fleet:
        job, spec = training(fleet, epochs=EPOCHS_OF_AN_OUTAGE, options={"average_every": 1})
        stored = groups_of(fleet, job)["averages_stored"]
        fleet.coordinator.kill()
        for life in range(COMMITS_KILLED):
            restart_until_commit(fleet, life + 1, *OF_COORDINATOR)
            wait_for_death(fleet, life + 1)
        fleet.restart_coordinator(*OF_COORDINATOR)
        wait_for_averages(fleet, job, stored + 1)
        finish(fleet, job, spec)
        xids = [str(record["xid"]) for record in of_kind(mixes_of(fleet, job), "pair")]
        must(max(xids.count(xid) for xid in xids) <= 2, f"an xid is repeated: {xids}")


def test_everything_loses_power():
    with gossip_fleet(lease_ms=LEASE_MS) as fleet:
        job, spec = training(fleet)
        stored = groups_of(fleet, job)["averages_stored"]
        for process in [fleet.coordinator, *fleet.agents]:
            process.kill()
        fleet.restart_coordinator(*OF_COORDINATOR)
        for agent in list(fleet.agents):
            fleet.start_agent(agent.name, wait=False)
        wait_for_averages(fleet, job, stored + 1)
        finish(fleet, job, spec)


def test_a_device_that_joins_later_gets_the_part_of_a_lost_one():
    with gossip_fleet(lease_ms=LEASE_MS) as fleet:
        job, spec = training(fleet)
        samples = group_views(fleet, job)[2]["mixes"]["samples"]
        kill_groups(fleet, job, [2])
        wait_for(
            lambda: group_views(fleet, job)[2]["mixes"]["device"] is None, "its group still trains"
        )
        late = fleet.start_agent(None)
        wait_for(lambda: group_views(fleet, job)[2]["mixes"]["device"], "nobody takes its part")
        view = group_views(fleet, job)[2]
        must(agent_of_group(fleet, view) is late, f"{view}")
        must(view["mixes"]["samples"] == samples, f"{view}: not {samples} samples")
        finish(fleet, job, spec)
        must(successors(fleet, job) == {2}, f"{successors(fleet, job)}")


def matches(fleet):
    text = fleet.request("GET", "/metrics", expect=200).body.decode()
    name = "paceline_gossip_matches_total "
    return next(float(line[len(name) :]) for line in text.splitlines() if line.startswith(name))


def is_low(fleet):
    text = fleet.request("GET", "/metrics", expect=200).body.decode()
    return "\npaceline_disk_low 1" in text


def steps_of(fleet, job):
    return [view["mixes"]["steps"] for view in group_views(fleet, job)]


def test_a_full_disk_stops_matches_and_not_the_training():
    with Fleet() as fleet, small_disk(fleet.path / "coordinator", "96m") as place:
        fleet.start_coordinator("--heartbeat-ms", 100, "--lease-ms", LEASE_MS, *KEEP_FREE)
        for part in ("train", "test"):
            fleet.upload(f"fashion-{part}", "fashion-mini", part)
        fleet.start_agents(GROUPS)
        job, spec = training(fleet)
        foreign = fill(place)
        wait_for(lambda: is_low(fleet), "the disk is not low")
        seen, steps = matches(fleet), steps_of(fleet, job)
        wait_for(
            lambda: all(now > before + 30 for now, before in zip(steps_of(fleet, job), steps)),
            "a group does not train",
        )
        must(matches(fleet) == seen, "groups were matched on a full disk")
        foreign.unlink()
        wait_for(lambda: matches(fleet) > seen, "no match was made after it was freed")
        finish(fleet, job, spec)


if __name__ == "__main__":
    run(globals())
