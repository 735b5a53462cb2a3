"""Models too large for any one board train on three of them (77 if the machine cannot have devices
with limits). The boards' limits are those of their control groups, which the agents find.
"""

import contextlib
import json
import os
import pathlib
import sys
import tempfile
import threading

from namespaces import NamespaceFleet, run_on
from paceline import FASHION, fashion_job, must, on_devices, train
from runner import run

BOARDS = 3
LIMIT_MB = 160
DEVICES = "coord\n" + "".join(f"board{i} 0 0 0 0 {LIMIT_MB}\n" for i in range(BOARDS))
TOLERANCE = 0.1  # of a plan's memory
LOOK_SECONDS = 0.01
SCHEDULES = {
    "sync": {"pipeline": "sync", "micro_batches": 4},
    "async": {"pipeline": "async", "micro_batches": 1},
}


def large_job(schedule, middle, **fields):
    """A job of a model with `middle` units of a million weights each, and few activations."""
    linear = {"type": "linear", "units": 1024}
    units = [
        {"name": "first", "ops": [{"type": "flatten"}, linear]},
        *[{"name": f"middle{i}", "ops": [{"type": "relu"}, linear]} for i in range(middle)],
        {"name": "head", "ops": [{"type": "relu"}, {"type": "linear", "units": "classes"}]},
    ]
    return {
        **fashion_job(),
        "model": {"description": {"name": "wide", "units": units}},
        "evaluate": {"every_epochs": 0},
        **SCHEDULES[schedule],
        **fields,
    }


@contextlib.contextmanager
def boards():
    """The boards of the fleet, each with its name as a label."""
    with NamespaceFleet() as fleet:
        fleet.start_coordinator("--heartbeat-ms", 100, "--lease-ms", 10000)
        fleet.upload("fashion-train", "fashion-mini", "train")
        for i in range(BOARDS):
            fleet.start_device(f"board{i}", "--label", f"board=board{i}")
        fleet.wait_for_agents()
        yield fleet


class Peaks(threading.Thread):
    """The most memory that the agents took since the start, beyond what they had then: {name:
    bytes}.
    """

    def __init__(self, agents):
        super().__init__()
        self.agents, self.over = agents, threading.Event()
        self.idle = {agent.name: agent.private_dirty_bytes() for agent in agents}
        self.bytes = {agent.name: 0 for agent in agents}

    def run(self):
        while not self.over.wait(LOOK_SECONDS):
            for agent in filter(lambda agent: agent.running(), self.agents):
                taken = agent.private_dirty_bytes() - self.idle[agent.name]
                self.bytes[agent.name] = max(self.bytes[agent.name], taken)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()


def reference(fleet, job, submitted):
    """The weights of one process with the job's plans."""
    with tempfile.TemporaryDirectory(prefix="paceline-plans-") as directory:
        plans = pathlib.Path(directory) / "plans.json"
        plans.write_text(json.dumps(fleet.get(f"/v1/jobs/{submitted['id']}/plans")))
        return train(job, FASHION, 1, ("--plans", str(plans)))[0]


def check_refusals(fleet, job):
    """No board can train the job alone, and each answer says why."""
    for i in range(BOARDS):
        alone = {"devices": {"min": 1, "max": 1, "labels": {"board": f"board{i}"}}}
        answer = fleet.request("POST", "/v1/jobs", {**job, **alone})
        must(
            answer.status == 422 and answer.code == "model_too_large",
            f"{answer.status}: {answer.body}",
        )
        must(f"'board{i}'" in answer.json["detail"], f"{answer.json}")


def trained(fleet, job):
    """Train on all boards; the plan's stages by name of the device, and the peaks."""
    with Peaks(fleet.agents) as peaks:
        submitted = fleet.submit({**job, **on_devices(1, BOARDS)})
        done = fleet.wait(submitted, "succeeded")
    names = {device["id"]: device["name"] for device in fleet.get("/v1/devices")["items"]}
    stages = {names[stage["device"]]: stage for stage in fleet.stages(done)}
    must(done["generation"] == 1 and len(stages) == BOARDS, f"{done} {stages}")
    sha256 = fleet.checkpoint_sha256(done)
    must(sha256 == reference(fleet, job, done), f"the weights are others: {sha256}")
    return stages, peaks.bytes


def check_schedule(schedule, middle, steps, neighbor_every, center_every):
    """Returns the board's (bytes of the plan, bytes of the process) by name."""
    every = {"neighbor_every": neighbor_every, "center_every": center_every}
    with boards() as fleet:
        job = large_job(schedule, middle, steps=steps, replication=every)
        check_refusals(fleet, job)
        stages, peaks = trained(fleet, job)
    pairs = {name: (stage["memory_bytes"], peaks[name]) for name, stage in stages.items()}
    for name, (planned, taken) in pairs.items():
        print(f"{schedule}, {name}: {planned} bytes planned, {taken} taken")
    return pairs


def test_three_boards_train_what_two_cannot_in_the_memory_of_the_plan():
    for schedule in SCHEDULES:
        for name, (planned, taken) in check_schedule(schedule, 15, 20, 0, 0).items():
            must(abs(taken / planned - 1) < TOLERANCE, f"{name}: {planned} planned, {taken} taken")


def test_the_copies_of_a_stop_fit_beside_those_of_rounds():
    for schedule in SCHEDULES:
        for name, (planned, taken) in check_schedule(schedule, 6, 40, 10, 20).items():
            must(taken < planned * (1 + TOLERANCE), f"{name}: {planned} planned, {taken} taken")


if __name__ == "__main__":
    if "FLEET_NAME" not in os.environ:
        sys.exit(run_on(DEVICES, [sys.executable, __file__, *sys.argv[1:]]))
    run(globals())
