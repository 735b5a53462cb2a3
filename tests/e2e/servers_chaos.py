"""The law under failures of workers and servers: programs are killed or frozen in the middle of a
job. The weights are those of one undisturbed process. The loss of a device that keeps no units
makes no step again. servers_chaos_slow.py runs those whose name begins with check_.
"""

import functools
import random
import signal
import time

from chaos import AGENTS, LEASE_MS, OPTIONS, lose_power
from paceline import FASHION, fashion_fleet, fashion_job, must, on_devices, train
from runner import run

SLOWDOWN = 3
STEPS = 300
FIRST_STEP = 40  # of the first failure


def trial_job(**fields):
    return fashion_job(
        "lenet5",
        **{
            "steps": STEPS,
            "strategy": "parameter_server",
            "parameter_server": {"servers": 2},
            "replication": {"neighbor_every": 10, "center_every": 40},
            "evaluate": {"every_epochs": 0},
            **on_devices(1, AGENTS),
            **fields,
        },
    )


@functools.cache
def reference(steps):
    """Servers, workers and evaluations do not change the weights."""
    return train(trial_job(steps=steps), FASHION)[0]


# Two devices at least, one of which keeps all units: the others only compute.
WITH_WORKERS = {"parameter_server": {"servers": 1}, **on_devices(2, AGENTS)}
# Two devices, which both keep units and compute.
WITH_BOTH = {"parameter_server": {"servers": 2, "shares": [2, 2]}, **on_devices(2, 2)}
PLACES = ("cloud", "cloud", "cloud", "edge", "edge")  # of the agents of fleet_apart
# Two devices that only keep units, and one or two that only compute.
APART = {
    "parameter_server": {
        "servers": 2,
        "server_labels": {"place": "cloud"},
        "worker_labels": {"place": "edge"},
    },
    **on_devices(3, 4),
}


class Trial:
    """A fleet in the middle of a job."""

    def __init__(self, fleet, **fields):
        self.fleet = fleet
        spec = trial_job(**fields)
        self.steps = spec["steps"]
        self.job = fleet.submit(spec)
        self.seen = fleet.wait_for_step(self.job, FIRST_STEP)

    def stages(self, role):
        """The indices of the stages that keep units, that only compute, or that do both."""
        wanted = {"server": (True, False), "worker": (False, True), "both": (True, True)}[role]
        return [
            index
            for index, stage in enumerate(self.fleet.stages(self.fleet.job(self.job)))
            if (stage["first"] < stage["end"], "share" in stage) == wanted
        ]

    def agent(self, stage):
        return self.fleet.agent_of(self.job, stage)

    def start(self, name):
        self.fleet.start_agent(name, "--slowdown", SLOWDOWN, wait=False)

    def incidents(self):
        return self.fleet.get(f"/v1/jobs/{self.job['id']}/incidents")["items"]

    def finish(self, losses=True):
        """losses: no agent died with metrics that the coordinator lacks."""
        self.fleet.wait(self.job, "succeeded")
        sha256 = self.fleet.checkpoint_sha256(self.job)
        expected = reference(self.steps)
        must(sha256 == expected, f"{sha256}, not {expected}")
        if losses:
            self.fleet.check_losses(self.job, self.steps)
        for incident in self.incidents():
            must(incident["state"] in ("resolved", "abandoned"), f"{incident}")


def fleet_of(agents=AGENTS, slowdown=SLOWDOWN):
    return fashion_fleet(agents, "--slowdown", slowdown, lease_ms=LEASE_MS)


def fleet_apart():
    fleet = fashion_fleet(lease_ms=LEASE_MS)
    for index, place in enumerate(PLACES):
        label = f"place={place}"
        fleet.start_agent(f"{place}{index}", "--slowdown", SLOWDOWN, "--label", label, wait=False)
    fleet.wait_for_agents()
    return fleet


def each_role(act):
    """Act on the agent of the lead, of the other server, of a worker, and of one that is both."""
    for role, at, fields in (
        ("server", 0, APART),
        ("server", 1, APART),
        ("worker", 0, APART),
        ("both", 0, WITH_BOTH),
        ("both", 1, WITH_BOTH),
    ):
        with fleet_apart() as fleet:
            trial = Trial(fleet, **fields)
            act(trial.agent(trial.stages(role)[at]))
            trial.finish()


def test_a_worker_dies_and_no_step_is_made_again():
    with fleet_of() as fleet:
        trial = Trial(fleet, **WITH_WORKERS)
        worker = trial.agent(trial.stages("worker")[0])
        worker.kill()
        trial.finish()
        incidents = [
            incident
            for incident in trial.incidents()
            if worker.name in [device["name"] for device in incident["devices"]]
        ]
        must(incidents, f"{trial.incidents()}")
        must(incidents[-1]["steps_redone"] == 0, f"{incidents}")


SLOW = 40  # a step takes long enough for a death in each part of it
MOMENTS = 8


def check_a_worker_dies_at_any_moment_of_a_step():
    with fleet_of(slowdown=SLOW) as fleet:
        trial = Trial(fleet, **WITH_WORKERS, steps=2 * FIRST_STEP)
        for moment in range(MOMENTS):
            before = fleet.job(trial.job)
            fleet.wait_for_step(trial.job, before["progress"]["step"] + 1)
            plan = fleet.get(f"/v1/jobs/{trial.job['id']}/plans")["items"][0]
            time.sleep(moment / MOMENTS * plan["predicted_step_seconds"])
            worker = trial.agent(trial.stages("worker")[0])
            worker.kill()
            fleet.start_agent(worker.name, "--slowdown", SLOW, wait=False)
            fleet.wait_until(
                trial.job,
                lambda seen, last=before["generation"]: (
                    seen["generation"] > last and seen["state"] == "running"
                ),
                "another generation",
            )
        trial.finish()
        redone = [incident["steps_redone"] for incident in trial.incidents()]
        must(len(redone) >= MOMENTS and max(redone) == 0, f"{trial.incidents()}")


def check_a_device_of_each_role_dies():
    each_role(lambda agent: agent.kill())


EVALUATED_STEPS = 60
EVALUATED = {
    **WITH_WORKERS,
    "steps": EVALUATED_STEPS,
    "dataset": {"train": "fashion-train", "test": "fashion-test"},
    "evaluate": {"every_epochs": 1},
}


def evaluating_fleet():
    """Its last evaluation takes seconds."""
    fleet = fashion_fleet(AGENTS, "--slowdown", 40, lease_ms=LEASE_MS)
    fleet.upload("fashion-test", "fashion-mini", "test")
    return fleet


def finish_evaluated(trial):
    trial.finish(losses=False)
    done = trial.fleet.job(trial.job)
    must(done["progress"]["accuracy"] is not None, f"{done['progress']}")


def check_a_job_pauses_during_the_last_evaluation():
    with evaluating_fleet() as fleet:
        trial = Trial(fleet, **EVALUATED)
        fleet.wait_for_step(trial.job, EVALUATED_STEPS)
        fleet.verb(trial.job, "pause")
        paused = fleet.wait(trial.job, "paused")
        must(paused["version"] == EVALUATED_STEPS, f"{paused}")
        refused = fleet.verb(trial.job, "export", expect=409)
        must("last evaluation" in refused["detail"], f"{refused}")
        fleet.coordinator.kill()
        fleet.restart_coordinator(*OPTIONS)
        must(fleet.job(trial.job)["progress"]["accuracy"] is None, "it was evaluated")
        fleet.verb(trial.job, "resume")
        finish_evaluated(trial)


def check_a_worker_dies_during_the_last_evaluation():
    with evaluating_fleet() as fleet:
        trial = Trial(fleet, **EVALUATED)
        worker = trial.agent(trial.stages("worker")[0])
        fleet.wait_for_step(trial.job, EVALUATED_STEPS)
        worker.kill()
        finish_evaluated(trial)
        redone = [incident["steps_redone"] for incident in trial.incidents()]
        must(redone and max(redone) == 0, f"{trial.incidents()}")


def test_the_lead_dies():
    with fleet_of() as fleet:
        trial = Trial(fleet)
        trial.agent(0).kill()
        trial.finish()


def test_the_only_server_dies_and_a_worker_has_its_copies():
    copies = {"replication": {"neighbor_every": 10, "center_every": 0}}
    with fleet_of() as fleet:
        trial = Trial(fleet, **WITH_WORKERS, **copies)
        before = fleet.wait_until(
            trial.job, lambda seen: seen["neighbor_version"] > 0, "a committed version"
        )
        server = trial.agent(0)
        server.kill()
        trial.finish()
        resumed = [
            incident["resume_version"]
            for incident in trial.incidents()
            if server.name in [device["name"] for device in incident["devices"]]
        ]
        must(
            max(resumed, default=0) >= before["neighbor_version"],
            f"resumed at {resumed}, {before['neighbor_version']} was committed",
        )


def check_two_workers_die():
    with fleet_of(AGENTS + 1) as fleet:
        trial = Trial(fleet, **{**WITH_WORKERS, **on_devices(3, 3)})
        workers = [trial.agent(stage) for stage in trial.stages("worker")]
        must(len(workers) == 2, f"{len(workers)} workers")
        for agent in workers:
            agent.kill()
        trial.finish()


def check_all_die_and_come_back():
    with fleet_of(slowdown=4 * SLOWDOWN) as fleet:  # the center has a version long before the end
        trial = Trial(fleet)
        fleet.wait_until(trial.job, lambda seen: seen["version"] > 0, "a version in the center")
        for agent in fleet.agents:
            agent.kill()
        fleet.wait(trial.job, "waiting_for_devices")
        for index in range(AGENTS):
            trial.start(f"agent{index}")
        trial.finish()


def check_everything_loses_power():
    with fleet_of() as fleet:
        trial = Trial(fleet)
        lose_power(trial)
        trial.finish(losses=False)


def freeze(agent, seconds):
    agent.signal(signal.SIGSTOP)
    time.sleep(seconds)
    agent.signal(signal.SIGCONT)


def check_a_device_of_each_role_freezes_and_thaws():
    each_role(lambda agent: freeze(agent, 0.2))
    each_role(lambda agent: freeze(agent, 2 * LEASE_MS / 1000))


def test_the_coordinator_dies_five_times():
    draw = random.Random(5)
    with fleet_of() as fleet:
        trial = Trial(fleet)
        for _ in range(5):
            time.sleep(draw.uniform(0, 0.3))
            fleet.coordinator.kill()
            fleet.restart_coordinator(*OPTIONS)
        trial.finish()


def check_a_job_pauses_and_resumes():
    with fleet_of() as fleet:
        trial = Trial(fleet)
        fleet.verb(trial.job, "pause")
        fleet.wait(trial.job, "paused")
        fleet.verb(trial.job, "resume")
        trial.finish()


def check_a_device_joins_and_the_servers_change():
    with fleet_of(AGENTS - 1) as fleet:
        trial = Trial(fleet)
        fleet.start_agent("agent3", "--slowdown", SLOWDOWN)
        fleet.verb(trial.job, "replan", {"servers": 1})
        fleet.wait_until(
            trial.job,
            lambda seen: seen["generation"] > 1 and seen["state"] == "running",
            "a second generation",
        )
        stages = fleet.stages(fleet.job(trial.job))
        must(sum(stage["first"] < stage["end"] for stage in stages) == 1, f"{stages}")
        names = [trial.agent(index).name for index in range(len(stages))]
        must("agent3" in names, f"{names}")
        trial.finish()


if __name__ == "__main__":
    run(globals())
