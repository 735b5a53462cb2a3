"""The runs of the benchmark of gossip: one job on the fleet, its models over time, their accuracy.

A job of gossip stores averages (gossip_watch.py). They are evaluated while it trains, with the
driver's share of a processor, so that a run can end when it gains nothing more. Other jobs compute
what one process does, bit for bit: the fleet gives the times of their steps, `paceline-agent train`
the accuracies.
"""

import contextlib
import hashlib
import json
import pathlib
import subprocess
import tempfile
import threading
import time

import gossip_results as results
from gossip_cases import (
    DEVICES,
    DRIVER,
    DRIVER_SHARE,
    FASTEST,
    SLOWEST,
    VARIANTS,
    dataset_name,
    job_of,
)
from gossip_watch import START_SECONDS, Evaluator, Events, Watched
from kept import program_sha256
from namespaces import TOOL, NamespaceFleet
from paceline import BIN, ENDED, Failure, must, places

LEASE_MS = 20000  # of devices that compute in slices
PROGRESS_SECONDS = 0.5
SECONDS = 3600  # of one process
THREADS = 2
WARM_PASSES, WARM_AVERAGES = 1000, 2
FINE_STEPS = 24  # evaluated versions of a job whose epochs take long
FINE_POINTS = 3  # of the grid


class Expired(Exception):
    """No run begins after the time of this part."""


def fleet_tool(*words):
    return subprocess.run(
        [str(TOOL), *map(str, words)], check=True, capture_output=True, text=True
    ).stdout


def output_of(command):
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    must(done.returncode == 0, f"{command[1]}: {done.stderr}")
    return done.stdout


def bytes_moved():
    """Sent and received by all devices that train."""
    lines = [line.split() for line in fleet_tool("bytes").splitlines()]
    return sum(int(sent) + int(received) for name, sent, received in lines if name in DEVICES)


class Runs:
    """The runs of one fleet. Finished ones come from `kept`."""

    def __init__(self, data, kept, options):
        self.data, self.kept, self.options = data, kept, options
        self.place = tempfile.TemporaryDirectory(prefix="paceline-gossip-")
        self.directory = pathlib.Path(self.place.name)
        self.fleet = None
        self.program = program_sha256()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            self.stop(kind, value, trace)
        finally:
            self.place.cleanup()

    def stop(self, kind=None, value=None, trace=None):
        """End the programs; the next run starts others."""
        fleet, self.fleet = self.fleet, None
        if fleet:
            fleet.__exit__(kind, value, trace)

    def row(self, kind, parts, make):
        """The finished run of this kind, or a new one."""
        text = json.dumps([*parts, self.program], sort_keys=True)

        def made():
            if time.monotonic() > self.options.until:
                raise Expired
            return make()

        return self.kept.row(f"{kind} {hashlib.sha256(text.encode()).hexdigest()}", made)

    # ---- the fleet ----

    def started(self):
        """The agents, which have trained with each other, so that speeds and links are known."""
        if not self.fleet:
            self.fleet = NamespaceFleet()
            self.fleet.__enter__()
            self.fleet.start_coordinator("--lease-ms", LEASE_MS)
            for case, data in self.data.items():
                data.upload(self.fleet, {"train": dataset_name(case)})
            for name in DEVICES:
                self.start_device(name)
            self.fleet.wait_for_agents()
            for case in self.data:
                self.warm_up(case)
        return self.fleet

    def start_device(self, name):
        self.fleet.start_device(name, "--label", f"board={name}")

    @contextlib.contextmanager
    def killing(self, name):
        """Gives what kills the agent of a device, which is started again afterwards."""
        agent = next(one for one in self.fleet.agents if one.name == name)
        yield agent.kill
        if not agent.running():
            self.fleet.agents.remove(agent)
            self.start_device(name)
            self.fleet.wait_for_agents()

    def warm_up(self, case):
        deadline = time.monotonic() + START_SECONDS
        with Events(self.fleet.coordinator.address) as events:
            job = self.fleet.submit(job_of(case, "async", "even", 1, WARM_PASSES))
            stored = 0
            while stored < WARM_AVERAGES:
                event = events.next(job, deadline - time.monotonic())
                must(event, "no average is stored")
                stored += event["type"] == "average_stored"
        self.end(job)

    def end(self, job):
        """Cancel the job unless it has ended; all devices are free afterwards."""
        seen = self.fleet.job(job)
        if seen["state"] not in ENDED:
            self.fleet.verb(job, "cancel")
            seen = self.fleet.wait(job, "cancelled")
        must(seen["state"] in ("cancelled", "succeeded"), f"{seen['state']}: {seen['message']}")

    # ---- accuracies ----

    @staticmethod
    @contextlib.contextmanager
    def driver_alone():
        """The devices are idle: the driver may use the whole machine."""
        fleet_tool("set", DRIVER, "cpu=0")
        try:
            yield
        finally:
            fleet_tool("set", DRIVER, f"cpu={DRIVER_SHARE}")

    def predict(self, case, content):
        """The accuracy of a model's file on the test set, and the recall of each class."""
        data = self.data[case]
        file = self.directory / f"{threading.get_ident()}.safetensors"
        file.write_bytes(content)
        tests = ",".join(map(str, data.parts["test"]))
        command = [BIN / "paceline-agent", "predict", file, tests, "--top=0", "--json"]
        return accuracies_of(output_of([*command, *data.words()]))

    def train_here(self, case, job, steps, every_epochs):
        """The accuracies of one process by step, and its last model."""
        job = {
            **job,
            "dataset": {"train": "train", "test": "test"},
            "steps": steps,
            "evaluate": {"every_epochs": every_epochs},
        }
        data = self.data[case]
        paths = {name: self.directory / name for name in ("job", "metrics", "model")}
        paths["job"].write_text(json.dumps(job))
        command = [BIN / "paceline-agent", "train", paths["job"], "--output", paths["model"]]
        command += ["--metrics", paths["metrics"], "--threads", THREADS, *data.words()]
        output_of([*command, *places(data.parts)])
        lines = map(json.loads, paths["metrics"].read_text().splitlines())
        found = {line["step"]: line["value"] for line in lines if line["name"] == "test_accuracy"}
        return found, paths["model"].read_bytes()

    # ---- runs ----

    def run(self, case, variant, split, seed, goal):
        """One run, as gossip_results.py takes it."""
        job = job_of(
            case, variant, split, seed, self.options.most, self.options.average_every
        )
        parts = [job, split, goal.passes, goal.whole, goal.baseline]
        gossip = VARIANTS[variant].gossip is not None
        killed = VARIANTS[variant].killed
        fields = {"data": case.data, "split": split, "seed": seed, "variant": variant}

        def made():
            if not gossip:
                return self.run_exact(case, job, goal)
            if not killed:
                return self.run_groups(case, job, goal)
            self.started()
            with self.killing(FASTEST) as kill:
                return self.run_groups(case, job, goal, disturb=kill, share=killed)

        return self.row("run", [*parts, killed], lambda: {**fields, **made()})

    def run_groups(self, case, job, goal, disturb=None, share=0):
        """disturb: called once the job has made this share of the baseline's passes. Its own passes
        are more, and end long after it is as accurate.
        """
        fleet = self.started()
        predicted = self.predicted(job)
        evaluator = Evaluator(lambda content: self.predict(case, content))
        before = bytes_moved()
        with Events(fleet.coordinator.address) as events:
            submitted = fleet.submit(job)
            after = share * goal.passes / self.options.most * submitted["progress"]["steps"]
            seen = Watched(self, submitted, events, evaluator, disturb, after)
            seen.follow(goal)
        self.end(submitted)
        moved = bytes_moved() - before
        with self.driver_alone():
            evaluator.finish()
        return {
            "versions": evaluator.done,
            "missed": seen.missed,
            "seconds": seen.seconds,
            "evaluation_seconds": evaluator.seconds,
            "complete": goal.baseline is None or goal.whole,
            "recalls": evaluator.recalls,
            "shares": self.shares(submitted),
            "pass_steps": seen.pass_steps,
            "periods": seen.periods,
            "speeds": self.by_name(seen.speeds),
            "bytes_per_device": moved / len(DEVICES),
            "distance": seen.distance,
            "predicted": predicted,
        }

    def predicted(self, job):
        """The fastest way by a dry run; None: it does not say."""
        answer = self.fleet.request("POST", "/v1/jobs?dry_run=true", job, expect=200).json
        fastest = (answer.get("gossip") or {}).get("fastest")
        return None if fastest == "none" else fastest

    def names(self):
        return {one["id"]: one["name"] for one in self.fleet.get("/v1/devices")["items"]}

    def by_name(self, values):
        """Values of devices, in the order of their speeds."""
        ids = sorted((name, one) for one, name in self.names().items())
        return {name: values[one] for name, one in ids if one in values}

    def shares(self, job):
        """Of each class among the samples of the slowest device's group."""
        names = self.names()
        path = f"/v1/jobs/{job['id']}/groups"
        for group in self.fleet.get(path)["groups"]:
            plans = self.fleet.get(f"/v1/jobs/{group['part']['job']}/plans")["items"]
            if any(names[plan["stages"][0]["device"]] == SLOWEST for plan in plans):
                spec = self.fleet.get(f"{path}/{group['group']}/spec")
                counts = {
                    one["class"]: one["count"] for one in spec["view"]["shard"]["class_ranges"]
                }
                whole = sum(counts.values())
                return [counts.get(of, 0) / whole for of in range(max(counts) + 1)]
        raise Failure(f"no group on {SLOWEST}")

    # ---- strategies whose weights one process computes too ----

    def run_exact(self, case, job, goal):
        """The accuracies come first: they say after how many steps the run may end."""
        whole = self.row("curve", [job, case.data], lambda: self.curve(case, job))
        accuracies = {int(step): accuracy for step, accuracy in whole["accuracies"].items()}
        fleet = self.started()
        before, submitted = bytes_moved(), fleet.submit(job)
        self.follow_steps(submitted, results.steps_wanted(accuracies, goal), goal)
        self.end(submitted)
        moved = bytes_moved() - before
        times = results.cumulated(fleet.metric(submitted, "step_seconds"))
        began = time.monotonic()
        with self.driver_alone():
            accuracies |= self.between(case, job, times, min(accuracies), goal)
            last, model = self.train_here(case, job, max(times), self.options.most)
            recalls = self.predict(case, model)[1]
        versions = [
            {"seconds": times[step], "step": step, "accuracy": accuracy}
            for step, accuracy in sorted({**accuracies, **last}.items())
            if step in times
        ]
        return {
            "versions": versions,
            "missed": 0,
            "seconds": max(times.values()),
            "evaluation_seconds": whole["seconds"] + time.monotonic() - began,
            "complete": False,
            "recalls": recalls,
            "pass_steps": min(accuracies),
            "periods": [],
            "bytes_per_device": moved / len(DEVICES),
            "distance": None,
            "predicted": None,
        }

    def curve(self, case, job):
        """The accuracy after each epoch."""
        began = time.monotonic()
        with self.driver_alone():
            accuracies, _ = self.train_here(case, job, None, 1)
        return {"accuracies": accuracies, "seconds": time.monotonic() - began}

    def follow_steps(self, job, wanted, goal):
        """Wait until the job has made so many steps, or cannot be of use any more."""
        began, limit = None, results.NEVER * goal.baseline["seconds"]
        deadline = time.monotonic() + START_SECONDS
        while True:
            seen = self.fleet.job(job)
            must(seen["state"] != "failed", f"the job failed: {seen['message']}")
            step = seen["progress"]["step"]
            if step >= wanted or seen["state"] in ENDED:
                return
            if began is None and step > 0:
                began = time.monotonic()
            if began is not None and time.monotonic() > began + limit:
                return
            must(began is not None or time.monotonic() < deadline, f"no step: {seen}")
            time.sleep(PROGRESS_SECONDS)

    def between(self, case, job, times, epoch, goal):
        """Accuracies at some steps, where an epoch takes many points of the grid."""
        last = max(times, default=0)
        if epoch in times and times[epoch] <= FINE_POINTS * goal.baseline["spacing"]:
            return {}
        stride = max(1, -(-last // FINE_STEPS))
        found = {}
        for step in range(stride, last + 1, stride):
            found |= self.train_here(case, job, step, self.options.most)[0]
        return found


def accuracies_of(text):
    """(accuracy, recall of each class) of the lines of `predict --json`."""
    lines = [json.loads(line) for line in text.splitlines()]
    accuracy = next(line["accuracy"] for line in lines if "accuracy" in line)
    recalls = [
        line["taken_for"].get(str(line["label"]), 0) / sum(line["taken_for"].values())
        for line in lines
        if "taken_for" in line
    ]
    return accuracy, recalls
