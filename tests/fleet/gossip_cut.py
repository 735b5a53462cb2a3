"""Links of groups that train apart are cut or become slow, on emulated devices (77 if the machine
cannot have them). The others train on, the job ends, and its log gives the bits of its result.
"""

import os
import subprocess
import sys
import time

from gossip import (
    check_log,
    check_replay,
    gossip_job,
    groups_of,
    mixes_of,
    of_kind,
    wait_for_averages,
)
from gossip_failures import check_no_gaps, parts_of, successors
from namespaces import TOOL, NamespaceFleet, run_on
from paceline import must
from runner import run

LEASE_MS = 3000
BOARDS = ("board0", "board1", "board2")
DEVICES = "coord\n" + "".join(f"{name} 0.5 100 1\n" for name in BOARDS)
EPOCHS = 60
SLOW_EPOCHS = 2000
SLOW_MBIT = 0.3  # a copy takes longer than a match waits for one at 100 Mbit/s
SLOW_MIXES = 4


def fleet_tool(*words):
    return subprocess.run(
        [str(TOOL), *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def route(verb, name, other):
    """add: nothing of `name` reaches `other` any more, and no answer either; del: it does again."""
    address = fleet_tool("ip", other)
    fleet_tool("exec", name, "--", "ip", "route", verb, "blackhole", f"{address}/32")


class Course:
    """A job of one group on each board, while it trains."""

    def __init__(self, fleet, epochs=EPOCHS):
        self.fleet = fleet
        fleet.start_coordinator("--heartbeat-ms", 200, "--lease-ms", LEASE_MS)
        for part in ("train", "test"):
            fleet.upload(f"fashion-{part}", "fashion-mini", part)
        for name in BOARDS:
            fleet.start_device(name)
        self.names = {device["id"]: device["name"] for device in fleet.wait_for_agents()}
        self.spec = gossip_job(len(BOARDS), epochs=epochs)
        self.job = fleet.submit(self.spec)
        wait_for_averages(fleet, self.job, 1)
        self.parts = parts_of(fleet, self.job)

    def boards(self):
        """The names of the groups' devices."""
        views = groups_of(self.fleet, self.job)["groups"]
        return [self.names.get(view["mixes"]["device"]) for view in views]

    def finish(self):
        self.fleet.wait(self.job, "succeeded")
        check_log(mixes_of(self.fleet, self.job), len(BOARDS))
        check_replay(self.fleet, self.job, self.spec)


def test_two_groups_that_do_not_reach_each_other_train_on():
    with NamespaceFleet() as fleet:
        course = Course(fleet)
        first, second, _ = course.boards()
        stored = groups_of(fleet, course.job)["averages_stored"]
        route("add", first, second)
        time.sleep(2 * LEASE_MS / 1000)
        route("del", first, second)
        wait_for_averages(fleet, course.job, stored + 1)
        course.finish()
        check_no_gaps(fleet, course.parts)
        must(not successors(fleet, course.job), "a group was replaced")


def cut_off(course, seconds):
    """The device of group 1, which does not reach anybody meanwhile."""
    name = course.boards()[1]
    fleet_tool("cut", name)
    time.sleep(seconds)
    fleet_tool("heal", name)
    course.finish()


def test_a_short_cut_of_a_device_costs_no_group():
    with NamespaceFleet() as fleet:
        course = Course(fleet)
        cut_off(course, 0.3)
        check_no_gaps(fleet, course.parts)
        must(not successors(fleet, course.job), "a group was replaced")


def test_a_device_that_was_cut_off_for_longer_than_its_lease_trains_again():
    with NamespaceFleet() as fleet:
        course = Course(fleet)
        cut_off(course, 2 * LEASE_MS / 1000)
        check_no_gaps(fleet, [course.parts[0], course.parts[2]])
        begun = [start["own"]["group"] for start in of_kind(mixes_of(fleet, course.job), "start")]
        must(sorted(begun) == [0, 1, 1, 2], f"groups begin: {begun}")


def applied(fleet, job):
    return len(of_kind(mixes_of(fleet, job), "pair"))


def test_groups_mix_over_links_that_have_become_slow():
    with NamespaceFleet() as fleet:
        course = Course(fleet, SLOW_EPOCHS)
        for name in BOARDS:
            fleet_tool("set", name, f"bw={SLOW_MBIT}")
        time.sleep(5)  # what is on its way comes
        before, deadline = applied(fleet, course.job), time.monotonic() + 240
        while applied(fleet, course.job) < before + SLOW_MIXES:
            must(time.monotonic() < deadline, f"{applied(fleet, course.job) - before} mixes")
            time.sleep(0.5)
        for name in BOARDS:
            fleet_tool("set", name, "bw=100")
        fleet.verb(course.job, "cancel")
        check_log(mixes_of(fleet, course.job), len(BOARDS))


if __name__ == "__main__":
    if "FLEET_NAME" not in os.environ:
        sys.exit(run_on(DEVICES, [sys.executable, __file__, *sys.argv[1:]]))
    run(globals())
