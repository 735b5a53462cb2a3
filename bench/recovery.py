"""Measure the seconds from kill -9 to resumed training, beside two kinds of full restart."""

import argparse
import pathlib
import subprocess
import tempfile
import time

from paceline import ROOT, data_files, fashion_fleet, fashion_job, must, on_devices
from report import finish, median, say, seconds_of, table, with_goal

AGENTS = 3
BATCH = 32
MICRO_BATCHES = 4
PHASES = ("detect", "decide", "fetch", "rebuild", "resume")
AFTER_DETECT = PHASES[1:]
GOALS = {"detect": 0.5, "after_detect": 1.0}  # seconds, at worst
ONE_AGENT = ("first", "middle", "last", "lead", "server", "worker")  # killed, of three
SETTLE_STEPS = 6  # between two failures: a version is committed again
LEASE_MS = 5000
NEVER = 10**9


def pipeline_plan(units, devices):
    """A stage on each device, as the coordinator cuts them: by itself it may use fewer."""
    return {"devices": devices}


def servers_plan(units, devices):
    """A lead that also computes, a server that only keeps units, and a worker that keeps none."""
    return {"cuts": [units // 2], "devices": devices, "share_ends": [2, 0, MICRO_BATCHES]}


# strategy: the stages that are killed, and the plan before each of them
STRATEGIES = {
    "pipeline": ({"first": 0, "middle": 1, "last": 2}, pipeline_plan),
    "parameter_server": ({"lead": 0, "server": 1, "worker": 2}, servers_plan),
}


def job_of(model, strategy):
    return fashion_job(
        model,
        strategy=strategy,
        batch=BATCH,
        micro_batches=MICRO_BATCHES,
        steps=NEVER,
        epochs=10**6,
        evaluate={"every_epochs": 0},
        replication={"neighbor_every": 2, "center_every": 5},
        **on_devices(1, AGENTS),
    )


class Blows:
    """A job on three agents that are killed and restarted repeatedly."""

    def __init__(self, fleet, model, strategy):
        self.fleet = fleet
        self.job = fleet.submit(job_of(model, strategy))
        self.stages, plan = STRATEGIES[strategy]
        units = len(fleet.get(f"/v1/models/{model}?dataset=fashion-train")["units"])
        devices = [device["id"] for device in fleet.wait_for_devices(AGENTS)]
        self.plan = plan(units, devices)
        self.seen = 0
        self.furthest = 0  # the last step before a failure

    def is_whole(self, seen):
        """All agents take part, in the places of the plan that is asked for."""
        stages = self.fleet.stages(seen)
        places = {
            "devices": [stage["device"] for stage in stages],
            "share_ends": [(stage.get("share") or {"end": 0})["end"] for stage in stages],
        }
        return len(stages) == AGENTS and all(
            places[name] == self.plan.get(name, places[name]) for name in places
        )

    def settle(self):
        """Wait until all agents take part again and a version of this generation is committed."""
        self.fleet.wait_for_devices(AGENTS)
        seen = self.fleet.wait_until(self.job, lambda job: job["state"] == "running", "it runs")
        if not self.is_whole(seen):
            self.fleet.verb(self.job, "replan", self.plan)
            seen = self.fleet.wait_until(
                self.job,
                lambda job: job["state"] == "running" and self.is_whole(job),
                "all agents take part",
            )
        # A device that is lost twice while the job makes no new step is excluded from its plans.
        step = max(seen["progress"]["step"], self.furthest) + SETTLE_STEPS
        self.fleet.wait_until(
            self.job,
            lambda job: job["progress"]["step"] >= step
            and job["neighbor_version"] > 0
            and job["version"] > 0,
            "it settles",
        )

    def incident(self):
        """The incident since the last call, resolved."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            items = self.fleet.get(f"/v1/jobs/{self.job['id']}/incidents?limit=500")["items"]
            if len(items) > self.seen and all(item["state"] != "open" for item in items):
                self.seen = len(items)
                incident = max(items, key=lambda item: item["generation_before"])
                self.furthest = max(self.furthest, incident["step_reached"])
                return incident
            time.sleep(0.02)
        must(False, f"no incident was resolved: {items}")

    def kill_one(self, stage):
        """Kill one agent; its incident, and the seconds from the signal to the next step."""
        self.settle()
        agent = self.fleet.agent_of(self.job, stage)
        killed = time.time()
        agent.kill()
        incident = self.incident()
        self.fleet.start_agent(agent.name, wait=False)
        return incident, seconds_of(incident["timeline"]["resumed_at"]) - killed

    def kill_all(self):
        """Kill and restart all agents at once; the job resumes from the center."""
        self.settle()
        agents = [agent for agent in self.fleet.agents if agent.running()]
        killed = time.time()
        for agent in agents:
            agent.kill()
        for agent in agents:
            self.fleet.start_agent(agent.name, wait=False)
        incident = self.incident()
        return incident, seconds_of(incident["timeline"]["resumed_at"]) - killed


def rows_of(model, strategy, failed, incidents, totals):
    """One row for each phase, and for `after_detect` and `total`."""
    phases = {phase: [incident["seconds"][phase] for incident in incidents] for phase in PHASES}
    phases["after_detect"] = [
        sum(incident["seconds"][phase] for phase in AFTER_DETECT) for incident in incidents
    ]
    phases["total"] = totals
    redone = [incident["steps_redone"] for incident in incidents]
    return [
        {
            "model": model,
            "strategy": strategy,
            "failed": failed,
            "phase": phase,
            "median_seconds": median(values),
            "worst_seconds": max(values),
            "steps_redone": median(redone),
            "steps_redone_worst": max(redone),
            "runs": len(values),
        }
        for phase, values in phases.items()
        if values
    ]


def goals_of(rows):
    """(text, value, whether it is met, what it should be) of the deaths of one agent, at worst."""
    for row in rows:
        place = f"{row['model']}, {row['failed']} killed"
        if row["failed"] not in ONE_AGENT or row["phase"] not in GOALS:
            continue
        most = GOALS[row["phase"]]
        yield (
            f"{place}, {row['phase']}",
            row["worst_seconds"],
            lambda v, most=most: v < most,
            f"below {most} s",
        )
        if row["failed"] == "worker" and row["phase"] == "detect":
            yield f"{place}, steps redone", row["steps_redone_worst"], lambda v: v == 0, "0"


def ours(model, strategy, repeats):
    rows = []
    with fashion_fleet(AGENTS, lease_ms=LEASE_MS) as fleet:
        blows = Blows(fleet, model, strategy)
        done = {failed: ([], []) for failed in (*blows.stages, "all")}
        for repeat in range(repeats):
            for failed, (incidents, totals) in done.items():
                incident, total = (
                    blows.kill_all() if failed == "all" else blows.kill_one(blows.stages[failed])
                )
                incidents.append(incident)
                totals.append(total)
            say(
                f"  {model}, {strategy}, round {repeat + 1} of {repeats}: "
                + ", ".join(f"{failed} {totals[-1]:.2f} s" for failed, (_, totals) in done.items())
            )
        fleet.verb(blows.job, "cancel")
        for failed, (incidents, totals) in done.items():
            rows += rows_of(model, strategy, failed, incidents, totals)
    return rows


def torch_restart(model, repeats):
    """Kill a training script and restart it from its torch.save file; [] without PyTorch."""
    totals, redone = [], []
    with tempfile.TemporaryDirectory(prefix="paceline-torch-") as directory:
        command = [
            "/usr/bin/python3",
            "-B",
            str(ROOT / "bench/torch_restart.py"),
            str(ROOT / f"libtrain/zoo/{model}.json"),
            str(pathlib.Path(directory) / "state.pt"),
            str(BATCH),
            *map(str, data_files("fashion-mini", "train")),
        ]
        if subprocess.run(
            [command[0], "-c", "import torch"], check=False, capture_output=True
        ).returncode:
            say("  torch: python3-torch is not installed")
            return []
        for _ in range(repeats):
            killed, reached = run_torch(command, SETTLE_STEPS)
            began, first = run_torch(command, 1, killed)
            totals.append(began)
            redone.append(reached - first + 1)
    return [
        {
            "model": model,
            "strategy": None,
            "failed": "torch script",
            "phase": "total",
            "median_seconds": median(totals),
            "worst_seconds": max(totals),
            "steps_redone": median(redone),
            "steps_redone_worst": max(redone),
            "runs": len(totals),
        }
    ]


def run_torch(command, steps, since=None):
    """Run until `steps` steps are done, then kill -9.

    Returns the time of the last step, as seconds since `since` if that is given, and its number.
    """
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for _ in range(steps):
            line = process.stdout.readline()
            must(line.startswith("step "), f"torch_restart.py: {line!r}")
        now = time.time()
        process.kill()
    return (now if since is None else now - since), int(line.split()[1])


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--repeats", type=int, default=20)
    arguments.add_argument("--models", nargs="+", default=["mobilenetv2"])
    arguments.add_argument("--strategy", choices=STRATEGIES, default="pipeline")
    options = arguments.parse_args()
    rows = []
    for model in options.models:
        rows += ours(model, options.strategy, options.repeats)
        rows += torch_restart(model, options.repeats)
    table(
        ["model", "killed", "phase", "median s", "worst s", "steps redone", "at worst", "runs"],
        [
            [
                row["model"],
                row["failed"],
                row["phase"],
                f"{row['median_seconds']:.3f}",
                f"{row['worst_seconds']:.3f}",
                f"{row['steps_redone']:.0f}",
                f"{row['steps_redone_worst']:.0f}",
                row["runs"],
            ]
            for row in rows
        ],
    )
    say(
        "killed: one agent of three, by its stage (worker: one that keeps no units); all: every "
        "agent, restarted at once from the newest version in the center; torch script: one "
        "process, restarted from its last torch.save"
    )
    say("goals, of the worst run:")
    for text, value, met, aim in goals_of(rows):
        say(f"  {text}: {with_goal(value, met, aim)}")
    finish("recovery", rows)


if __name__ == "__main__":
    main()
