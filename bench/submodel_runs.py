"""The runs of the benchmark of sub-models: one process, jobs on agents, and what they compute."""

import array
import hashlib
import json
import math
import os
import pathlib
import resource
import statistics
import struct
import subprocess
import time

import federated
from kept import program_sha256
from paceline import BIN, SLOW_LEASE_MS, Failure, Fleet, must, on_devices, train
from report import seconds_of
from submodel_cases import (
    BATCH,
    CLASSES,
    JOINTS,
    MAIN,
    description_of,
    job_of,
    joint_of,
    scaled,
    sliced_job,
)

SECONDS = 2 * 3600
SLOWDOWNS = (2, 2, 4, 6, 10)  # of the five devices, which together take 1.5 cores
QUEUE, QUEUE_SLOWDOWNS = 8, (2, 4, 6)  # groups that wait for three devices
TIMED_STEPS = 40  # at least
TIMED_ROUNDS = 3
BISECTIONS = 12
SAVINGS = ("per_sample_most", "per_sample_least", "total", "busiest")
PASSES = 3  # a backward pass counts as two forward passes


class Expired(Exception):
    """No run begins after the time of this part."""


def load_of(units, stem):
    """Operations of a training sample: the forward pass of the stem, three passes of the rest."""
    return sum(units[:stem]) + PASSES * sum(units[stem:])


def processor_seconds(agent):
    """Of all threads of an agent, those that have ended too."""
    fields = pathlib.Path(f"/proc/{agent.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Runs:
    """The runs of one case. Finished ones come from `kept`."""

    def __init__(self, case, data, kept, options, directory):
        self.case, self.data, self.kept, self.options = case, data, kept, options
        self.directory = pathlib.Path(directory)
        content = [path.read_bytes() for paths in data.parts.values() for path in paths]
        self.sha256 = hashlib.sha256(b"".join(content)).hexdigest()
        self.own_fleet = None
        self.posted = 0

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.own_fleet:
            self.own_fleet.__exit__(kind, value, trace)

    def row(self, kind, job, make):
        """The finished run of this job, or a new one."""
        text = json.dumps([job, self.sha256], sort_keys=True)

        def made():
            if time.monotonic() > self.options.until:
                raise Expired
            return {**make(), "program": program_sha256()}

        return self.kept.row(f"{kind} {hashlib.sha256(text.encode()).hexdigest()}", made)

    # ---- the agents of the accuracies ----

    def fleet(self):
        """Agents for jobs of which only the weights count. These are the same on any devices."""
        if not self.own_fleet:
            self.own_fleet = Fleet()
            self.own_fleet.start_coordinator("--lease-ms", SLOW_LEASE_MS)
            self.data.upload(self.own_fleet)
            self.own_fleet.start_agents(self.options.threads)
        return self.own_fleet

    def units_of(self, description):
        """Operations of the forward pass of each unit, per sample of the data."""
        fleet = self.fleet()
        data = fleet.get("/v1/datasets/train")
        shape = [data[side] for side in ("height", "width", "channels")]
        self.posted += 1
        name = f"counted-{self.posted}"
        dtype = {"U8": "uint8", "F32": "float32"}[data["dtype"]]
        reading = {**description.get("input", {}), "shape": shape, "dtype": dtype}
        fleet.request(
            "POST", "/v1/models", {**description, "name": name, "input": reading}, expect=201
        )
        units = fleet.get(f"/v1/models/{name}")["units"]
        return [unit["forward_flops"] for unit in units]

    def target(self):
        """Operations of the target's units and the samples of an epoch of whole batches."""
        description = description_of(self.case.model)

        def make():
            units = self.units_of(description)
            samples = self.fleet().get("/v1/datasets/train")["samples"]
            return {"units": units, "samples": samples // BATCH * BATCH}

        return self.row("target", description, make)

    # ---- one process ----

    def trained(self, job, arguments=()):
        _, output = train(
            job,
            self.data.parts,
            self.options.threads,
            [*self.data.words(), *arguments],
            seconds=SECONDS,
        )
        words = [line.split() for line in output.splitlines()]
        return float(next(line[1] for line in words if line and line[0] == "accuracy"))

    def central(self, seed, steps=None):
        """The accuracy of the target; steps: its training ends there."""
        job = job_of(self.case, seed, self.case.epochs)
        if steps:
            job["steps"] = steps
        return self.row("central", job, lambda: {"accuracy": self.trained(job)})["accuracy"]

    def narrow(self, seed, load):
        """The accuracy of the target's shape with so many operations per sample."""
        description = description_of(self.case.model)

        def search():
            low, high = 0.02, 1.0
            for _ in range(BISECTIONS):
                middle = (low + high) / 2
                units = self.units_of(scaled(description, middle, "narrow"))
                low, high = (middle, high) if PASSES * sum(units) < load else (low, middle)
            return {"scale": high}

        scale = self.row("narrow scale", [description, load], search)["scale"]
        job = job_of(
            self.case, seed, self.case.epochs, scaled(description, scale, f"{self.case.model}-n")
        )
        return self.row("narrow", job, lambda: {"accuracy": self.trained(job)})["accuracy"]

    def federated(self, seed):
        """The accuracy of federated averaging of the target, two classes a device."""
        job = job_of(self.case, seed, self.case.epochs)
        return self.row(
            "federated",
            job,
            lambda: {
                "accuracy": federated.accuracy(
                    job, self.data.parts, self.options.threads, self.directory
                )
            },
        )["accuracy"]

    def predicted(self, content):
        """The accuracy of a trained model's file on the test set."""
        file = self.directory / "predicted.safetensors"
        file.write_bytes(content)
        done = subprocess.run(
            [
                str(BIN / "paceline-agent"),
                "predict",
                str(file),
                ",".join(map(str, self.data.parts["test"])),
                f"--threads={self.options.threads}",
                *self.data.words(),
            ],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            raise Failure(f"predict: {done.stderr}")
        return next(
            float(line.split()[1])
            for line in done.stdout.splitlines()
            if line.startswith("accuracy ")
        )

    # ---- jobs of sub-models ----

    def sliced(self, variant, seed):
        """The groups of a job, what they compute, and the accuracies of the harvested model, with
        each joint phase and without the prior term.
        """
        job = sliced_job(self.case, variant, seed, self.case.epochs, 0)
        return self.row("sliced", job, lambda: self.train_slices(job, variant, seed))

    def train_slices(self, job, variant, seed):
        fleet = self.fleet()
        submitted = fleet.submit({**job, **on_devices(1, self.options.threads)})
        done = fleet.wait(submitted, "succeeded", SECONDS)
        parts = fleet.get(f"/v1/jobs/{done['id']}/groups")
        groups = [self.group_row(fleet, done, group) for group in parts["groups"]]
        harvest = fleet.checkpoint(done)
        out = {
            "groups": groups,
            "missing": parts["missing_classes"],
            "sha256": hashlib.sha256(harvest).hexdigest(),
            "accuracy": {
                joint: self.joint(seed, joint, harvest, done["checkpoint"]) for joint in JOINTS
            },
        }
        if variant.negatives > 0 and variant.replicas == 1:
            counts = fleet.get("/v1/datasets/train")["class_counts"]
            out["accuracy_without_prior"] = self.predicted(
                without_prior(harvest, groups, counts, variant.negatives)
            )
        if variant in MAIN:
            out["spec"] = fleet.get(f"/v1/jobs/{done['id']}/groups/0/spec")
        return out

    def group_row(self, fleet, job, group):
        part = group["part"]
        spec = fleet.get(f"/v1/jobs/{job['id']}/groups/{group['group']}/spec")
        units = self.units_of(spec["model"]["description"])
        seen = fleet.get(f"/v1/jobs/{part['job']}")
        return {
            "classes": group["classes"],
            "width": group["width"],
            "load": load_of(units, job["spec"]["submodel"]["stem"]),
            "samples": seen["progress"]["steps"] * job["spec"]["batch"],
            "attempts": part["attempts"],
            "recall": seen["progress"]["recall"],
        }

    def joint(self, seed, joint, harvest, checkpoint):
        """The accuracy after a joint phase."""
        if joint == "off":
            return self.predicted(harvest)
        file = self.directory / "harvest.safetensors"
        file.write_bytes(harvest)
        job = joint_of(self.case, seed, joint, checkpoint)
        return self.trained(job, ["--checkpoint", str(file)])

    def step_saving(self, variant, seed):
        """Processor time of a step of the target over that of the first group, in turns."""
        target = job_of(self.case, seed, self.case.epochs)
        # Any weights take the same time.
        group = {**self.sliced(variant, seed)["spec"], "init": {"seed": seed}}

        def make():
            ratios = []
            for _ in range(TIMED_ROUNDS):
                ratios.append(self.step_seconds(target) / self.step_seconds(group))
            return {"ratio": statistics.median(ratios)}

        return self.row("step", [target, group], make)["ratio"]

    def step_seconds(self, job):
        """Processor seconds of a step on one thread, from two runs of different length."""
        times = []
        for steps in (TIMED_STEPS, 5 * TIMED_STEPS):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            job = {**job, "steps": steps, "evaluate": {"every_epochs": 0}}
            train(job, self.data.parts, 1, self.data.words(), seconds=SECONDS)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return (times[1] - times[0]) / (4 * TIMED_STEPS)

    # ---- times, on unequal devices ----

    def timed(self, kind, job, slowdowns):
        """Seconds of a job from its submission to its end, processor seconds of the busiest device,
        and the accuracy of its model.
        """
        job = {**job, **on_devices(1, len(slowdowns))}
        return self.row(f"timed {kind} {slowdowns}", job, lambda: self.run_timed(job, slowdowns))

    def run_timed(self, job, slowdowns):
        with Fleet() as fleet:
            fleet.start_coordinator("--lease-ms", SLOW_LEASE_MS)
            self.data.upload(fleet)
            for slowdown in slowdowns:  # boards do not disturb each other's probe
                fleet.start_agent(None, "--slowdown", slowdown)
                fleet.wait_for_agents()
            forecast = fleet.request("POST", "/v1/jobs?dry_run=true", job, expect=200).json
            before = list(map(processor_seconds, fleet.agents))
            began = time.monotonic()
            done = fleet.wait(fleet.submit(job), "succeeded", SECONDS)
            seconds = time.monotonic() - began
            busy = [processor_seconds(agent) - was for agent, was in zip(fleet.agents, before)]
            out = {
                "seconds": seconds,
                "busiest": max(busy),
                "accuracy": self.predicted(fleet.checkpoint(done)),
            }
            if job.get("strategy") == "submodel":
                out |= self.timed_groups(fleet, done, forecast["submodel"]["groups"])
            return out

    def timed_groups(self, fleet, job, forecast):
        """The groups' division and their seconds, as the dry run predicted them (for groups whose
        numbers may differ) and as they took; phase: from the first begin to the last end; trial:
        the seconds before it in which an earlier division was tried.
        """
        seen = fleet.get(f"/v1/jobs/{job['id']}/groups")
        groups = seen["groups"]
        parts = [fleet.get(f"/v1/jobs/{group['part']['job']}") for group in groups]
        stem = fleet.get(f"/v1/jobs/{seen['stem']['job']}")
        spans = [(seconds_of(part["started_at"]), seconds_of(part["ended_at"])) for part in parts]
        return {
            "sha256": fleet.get(f"/v1/checkpoints/{seen['harvest']}")["sha256"],
            "classes": [len(group["classes"]) for group in groups],
            "widths": [group["width"] for group in groups],
            "predicted": [group["seconds"] for group in forecast],
            "measured": [end - begin for begin, end in spans],
            "phase": max(end for _, end in spans) - min(begin for begin, _ in spans),
            "trial": min(begin for begin, _ in spans) - seconds_of(stem["ended_at"]),
            "divisions": seen.get("divisions"),
            "savings": {name: job["compute"][name] for name in SAVINGS},
        }


def without_prior(content, groups, counts, negatives):
    """The harvested file without the term that corrects the share of others among the samples."""
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    name = [name for name in header if name.endswith(".bias")]
    must(name, "the model has no bias")
    biases = [key for key in name if header[key]["shape"] == [CLASSES]]
    must(len(biases) == 1, f"one bias of the head expected, not {biases}")
    first, end = (8 + size + offset for offset in header[biases[0]]["data_offsets"])
    values = array.array("f", content[first:end])
    for group in groups:
        own = sum(counts[c] for c in group["classes"])
        others = sum(counts) - own
        for c in group["classes"]:
            values[c] -= math.log(min(negatives * own, others) / others)
    return content[:first] + values.tobytes() + content[end:]
