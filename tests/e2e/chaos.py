"""The law under failures: programs are killed, frozen or disconnected. The final weights are those
of one undisturbed process, no failure exceeds its limit of retrained steps, and the incidents
report what happened.
"""

import functools
import json
import os
import random
import signal
import time

import finetune
from paceline import (
    FASHION,
    Fleet,
    by_build,
    fashion_fleet,
    fashion_job,
    fill,
    must,
    on_devices,
    small_disk,
    train,
)
from runner import run

LEASE_MS = 2000
OPTIONS = ("--heartbeat-ms", 100, "--lease-ms", LEASE_MS)
AGENTS = 4
# Steps long enough that a failure hits the middle of one: (steps, step of the first failure,
# neighbor_every, center_every, slowdown, cuts)
TRIALS = {
    "lenet5": (by_build(400, 200), 60, 10, 40, 3, [1, 2, 3]),
    "resnet8": (160, 30, 5, 20, 2, [1, 2, 4]),
    "mobilenetv2": (40, 10, 3, 9, 1, [5, 10, 15]),
}

MOST_SLOWDOWN = float(os.environ.get("PACELINE_CHAOS_SLOWDOWN", "inf"))


def slowdown_of(model):
    return min(TRIALS[model][4], MOST_SLOWDOWN)


# Every update waits for numbers from all stages.
CLIPS = {"type": "sgd", "clip_norm": 0.5}


def trial_job(model, **fields):
    steps, _, neighbor, center, _, cuts = TRIALS[model]
    usual = {
        "replication": {"neighbor_every": neighbor, "center_every": center},
        "evaluate": {"every_epochs": 0},
    }
    return fashion_job(
        model, steps=steps, cuts=cuts, **{**usual, **on_devices(1, AGENTS), **fields}
    )


@functools.cache
def reference(model, fields="{}", checkpoint=None):
    """The weights of one undisturbed process. fields: JSON of the fields that decide bits, or state
    that they do not.
    """
    job = trial_job(model, **json.loads(fields))
    return finetune.reference(job, checkpoint) if checkpoint else train(job, FASHION)[0]


class Trial:
    """A fleet in the middle of a job; the job starts from `checkpoint` if that is given."""

    def __init__(self, fleet, model, checkpoint=None, **fields):
        self.fleet, self.model, self.checkpoint = fleet, model, checkpoint
        if checkpoint:
            fields["init"] = {"seed": 3, "checkpoint": finetune.upload(fleet, checkpoint)["id"]}
        self.fields = json.dumps(
            {name: fields[name] for name in ("init", "optimizer", "recompute") if name in fields}
        )
        self.slowdown = slowdown_of(model)
        self.job = fleet.submit(trial_job(model, **fields))
        fleet.wait_for_step(self.job, TRIALS[model][1])

    def agent_of(self, stage):
        """The agent that runs the stage."""
        return self.fleet.agent_of(self.job, stage)

    def start(self, name, *arguments):
        return self.fleet.start_agent(name, "--slowdown", self.slowdown, *arguments, wait=False)

    def incidents(self):
        return self.fleet.get(f"/v1/jobs/{self.job['id']}/incidents")["items"]

    def finish(self):
        """The job ends with the undisturbed weights, and the phases of every incident add up."""
        fleet = self.fleet
        fleet.wait(self.job, "succeeded")
        sha256 = fleet.checkpoint_sha256(self.job)
        expected = reference(self.model, self.fields, self.checkpoint)
        must(sha256 == expected, f"{self.model}: {sha256}, not {expected}")
        for incident in self.incidents():
            must(incident["state"] == "resolved" or incident["state"] == "abandoned", f"{incident}")
            must(
                incident["steps_redone"]
                == max(0, incident["step_reached"] - incident["resume_version"]),
                f"{incident}",
            )
            must(all(seconds >= 0 for seconds in incident["seconds"].values()), f"{incident}")


def fire_fleet(model, *arguments, agents=AGENTS):
    return fashion_fleet(agents, "--slowdown", slowdown_of(model), *arguments, lease_ms=LEASE_MS)


def one_stage_dies(model, stage, **fields):
    with fire_fleet(model) as fleet:
        trial = Trial(fleet, model, **fields)
        agent = trial.agent_of(stage)
        before = fleet.job(trial.job)
        agent.kill()
        trial.finish()
        incidents = [
            incident
            for incident in trial.incidents()
            if agent.name in [device["name"] for device in incident["devices"]]
        ]
        must(incidents, f"no incident names {agent.name}: {trial.incidents()}")
        first = (
            incidents[-1]
            if incidents[0]["generation_before"] > incidents[-1]["generation_before"]
            else incidents[0]
        )
        must(first["cause"] == "device_lost", f"{first}")
        must(
            first["resume_version"] >= before["neighbor_version"] > 0,
            f"resumed at {first['resume_version']}, {before['neighbor_version']} was committed",
        )


def check_first_stage(model):
    one_stage_dies(model, 0)


def check_middle_stage(model):
    one_stage_dies(model, 1)


def check_last_stage(model):
    one_stage_dies(model, -1)


def check_two_neighbours_at_once(model):
    with fire_fleet(model) as fleet:
        trial = Trial(fleet, model)
        for agent in [trial.agent_of(stage) for stage in (1, 2)]:
            agent.kill()
        trial.finish()


def check_all_but_one(model):
    with fire_fleet(model) as fleet:
        trial = Trial(fleet, model)
        for agent in [trial.agent_of(stage) for stage in (0, 1, 3)]:
            agent.kill()
        trial.finish()


def check_all_agents_and_back(model):
    with fire_fleet(model) as fleet:
        trial = Trial(fleet, model)
        center = fleet.wait_until(
            trial.job, lambda seen: seen["version"] > 0, "a version in the center"
        )["version"]
        for agent in fleet.agents:
            agent.kill()
        fleet.wait(trial.job, "waiting_for_devices")
        for index in range(AGENTS):
            trial.start(f"agent{index}")
        trial.finish()
        later = [plan["resume_version"] for plan in plans_of(trial) if plan["generation"] > 1]
        must(max(later) >= center, f"{later}, {center} was in the center")


def plans_of(trial):
    return trial.fleet.get(f"/v1/jobs/{trial.job['id']}/plans")["items"]


def check_a_device_that_comes_back(model):
    with fire_fleet(model) as fleet:
        trial = Trial(fleet, model)
        agent = trial.agent_of(1)
        agent.kill()
        fleet.wait_until(
            trial.job,
            lambda seen: seen["generation"] > 1 and seen["state"] == "running",
            "a second generation",
        )
        trial.start(agent.name)
        fleet.wait_for_devices(AGENTS)
        trial.finish()


def check_the_coordinator_five_times(model):
    draw = random.Random(5)
    with fire_fleet(model) as fleet:
        trial = Trial(fleet, model)
        for _ in range(5):
            time.sleep(draw.uniform(0, 0.3))
            fleet.coordinator.kill()
            fleet.restart_coordinator(*OPTIONS)
        trial.finish()


def check_a_device_dies_while_others_prepare(model):
    with fire_fleet(model) as fleet:
        trial = Trial(fleet, model)
        first, frozen, third = (trial.agent_of(stage) for stage in (0, 1, 2))
        frozen.signal(signal.SIGSTOP)  # no device is ready before it
        first.kill()
        fleet.wait_until(trial.job, lambda seen: seen["generation"] > 1, "a second generation")
        third.kill()
        frozen.signal(signal.SIGCONT)
        trial.finish()


def check_a_device_dies_while_it_replicates(model):
    """With a round at every step, one is always in progress."""
    with fire_fleet(model) as fleet:
        trial = Trial(fleet, model, replication={"neighbor_every": 1, "center_every": 2})
        trial.agent_of(2).kill()
        trial.finish()


def lose_power(trial):
    """Agents and coordinator at once; no command follows."""
    fleet = trial.fleet
    fleet.wait_until(trial.job, lambda seen: seen["version"] > 0, "a version in the center")
    for process in [fleet.coordinator, *fleet.agents]:
        process.kill()
    fleet.restart_coordinator(*OPTIONS)
    for index in range(AGENTS):
        trial.start(f"agent{index}")


def check_everything_loses_power(model):
    with fire_fleet(model) as fleet:
        trial = Trial(fleet, model)
        lose_power(trial)
        trial.finish()


def check_a_frozen_device_that_thaws(model, seconds=2 * LEASE_MS / 1000):
    with fire_fleet(model) as fleet:
        trial = Trial(fleet, model)
        frozen = trial.agent_of(1)
        frozen.signal(signal.SIGSTOP)
        time.sleep(seconds)
        frozen.signal(signal.SIGCONT)
        trial.finish()


def check_stages_that_clip_by_the_norm(model):
    must(
        reference(model, json.dumps({"optimizer": CLIPS})) != reference(model), "nothing is clipped"
    )
    for stage in (0, 1, -1):
        one_stage_dies(model, stage, optimizer=CLIPS)


def check_a_device_that_clips_freezes_and_the_coordinator_dies(model):
    with fire_fleet(model) as fleet:
        trial = Trial(fleet, model, optimizer=CLIPS)
        frozen = trial.agent_of(2)
        frozen.signal(signal.SIGSTOP)
        fleet.coordinator.kill()
        fleet.restart_coordinator(*OPTIONS)
        time.sleep(LEASE_MS / 1000)
        frozen.signal(signal.SIGCONT)
        trial.finish()


CHECKS = {
    name.removeprefix("check_"): check
    for name, check in list(globals().items())
    if name.startswith("check_")
}


def tests_of(model, names):
    """{test name: test} of the checks on the model."""
    return {
        f"test_{model}_{name}": functools.partial(check, model)
        for name, check in CHECKS.items()
        if name in names
    }


def replica_directories(fleet):
    return [("--replica-dir", fleet.path / f"replicas{index}") for index in range(AGENTS)]


def test_replicas_on_disk_survive_a_power_cut_of_all_agents():
    with fashion_fleet(lease_ms=LEASE_MS) as fleet:
        directories = replica_directories(fleet)
        for index, arguments in enumerate(directories):
            fleet.start_agent(
                f"agent{index}", "--slowdown", slowdown_of("lenet5"), *arguments, wait=False
            )
        fleet.wait_for_agents()
        trial = Trial(
            fleet,
            "lenet5",
            replication={"neighbor_every": 10, "center_every": 0},
            **on_devices(AGENTS, AGENTS),
        )
        before = fleet.wait_until(
            trial.job, lambda seen: seen["neighbor_version"] > 0, "a committed version"
        )
        for agent in fleet.agents:
            agent.kill()
        fleet.wait(trial.job, "waiting_for_devices")
        spoil_one(fleet.path)
        for index, arguments in enumerate(directories):
            trial.start(f"agent{index}", *arguments)
        trial.finish()
        must(
            max(plan["resume_version"] for plan in plans_of(trial)) >= before["neighbor_version"],
            f"{plans_of(trial)}",
        )
        must(
            any("snapshot_rejected" in agent.log_text() for agent in fleet.agents),
            "no device noticed the damaged replica",
        )


def spoil_one(path):
    """Flip one bit in the middle of one replica that another device holds too."""
    files = sorted(path.glob("replicas*/*/*-*"))
    must(files, "no replica on disk")
    for file in files:
        twins = [other for other in files if other.name == file.name and other != file]
        if twins and file.stat().st_size > 1000:
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
            return
    must(False, f"no replica is held twice: {files}")


def test_a_full_disk_of_the_coordinator_pauses_rounds_to_the_center_and_nothing_else():
    with Fleet() as fleet, small_disk(fleet.path / "coordinator", "64m") as place:
        fleet.start_coordinator(*OPTIONS, "--min-free", "12M")
        fleet.upload("fashion-train", "fashion-mini", "train")
        fleet.start_agents(AGENTS, "--slowdown", slowdown_of("lenet5"))
        trial = Trial(fleet, "lenet5")
        foreign = fill(place)
        trial.agent_of(1).kill()
        fleet.wait_until(
            trial.job,
            lambda seen: seen["generation"] > 1 and seen["state"] == "running",
            "a second generation",
        )
        foreign.unlink()
        trial.finish()
        fleet.coordinator.stop()


def test_a_full_disk_of_an_agent_costs_replicas_and_nothing_else():
    with fashion_fleet(lease_ms=LEASE_MS) as fleet, small_disk(fleet.path / "small", "1m") as place:
        fill(place)
        slowdown = ("--slowdown", slowdown_of("lenet5"))
        fleet.start_agent("agent0", *slowdown, "--replica-dir", place / "replicas", wait=False)
        for index in range(1, AGENTS):
            fleet.start_agent(f"agent{index}", *slowdown, wait=False)
        fleet.wait_for_agents()
        trial = Trial(fleet, "lenet5")
        trial.finish()
        for agent in fleet.agents:
            agent.stop()


# Beside others of their kind: in the slow tier.
ALIKE = {
    "first_stage",
    "last_stage",
    "all_but_one",
    "a_device_that_comes_back",
    "the_coordinator_five_times",
    "stages_that_clip_by_the_norm",
}
# A sanitizer makes each take three times as long. There only these run, which no other test covers.
SANITIZED = {
    "a_device_dies_while_it_replicates",
    "a_frozen_device_that_thaws",
    "everything_loses_power",
}
globals().update(tests_of("lenet5", by_build(CHECKS.keys() - ALIKE, SANITIZED)))

if __name__ == "__main__":
    run(globals())
