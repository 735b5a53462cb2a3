"""An agent without arithmetic: it enrols, sends heartbeats, follows assignments and stores units of
the right size. It can drive a job to its end.
"""

import hashlib
import json
import math
import struct
import time
import urllib.parse

from api import BINARY, example, record
from paceline import must

ALIGNMENT = 64
SEARCH_SECONDS = 10  # of a plan, at most


def safetensors(tensors, note=None):
    """[(name, shape, bytes)] as a safetensors file of float32 tensors. note: what a trained model's
    file states of itself.
    """
    entries, offset = {}, 0
    if note is not None:
        entries["__metadata__"] = {"paceline": json.dumps(note)}
    for name, shape, data in tensors:
        entries[name] = {
            "dtype": "F32",
            "shape": shape,
            "data_offsets": [offset, offset + len(data)],
        }
        offset += len(data)
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-(8 + len(header)) % ALIGNMENT)
    return struct.pack("<Q", len(header)) + header + b"".join(data for _, _, data in tensors)


def read_safetensors(data):
    """{name: (shape, bytes)}, in the file's order."""
    size = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    header.pop("__metadata__", None)
    return {
        name: (entry["shape"], body[entry["data_offsets"][0] : entry["data_offsets"][1]])
        for name, entry in header.items()
    }


def read_note(data):
    """The metadata of a trained model's file."""
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(json.loads(data[8 : 8 + size])["__metadata__"]["paceline"])


def unit_tensors(description, unit):
    """(name, shape) of every parameter of a unit. The resolved description has only flatten, linear
    and relu.
    """
    width = math.prod(description["input"]["shape"])
    for index, part in enumerate(description["units"]):
        found = []
        for place, op in enumerate(part["ops"]):
            must(
                op["type"] in ("flatten", "linear", "relu"),
                f"this agent does not support {op['type']}",
            )
            if op["type"] == "linear":
                found += [
                    (f"{part['name']}.{place}.weight", [op["units"], width]),
                    (f"{part['name']}.{place}.bias", [op["units"]]),
                ]
                width = op["units"]
        if index == unit:
            return found
    raise AssertionError(f"no unit {unit}")


def optimizer_arrays(optimizer):
    """The optimizer's arrays for each parameter."""
    if optimizer["type"] == "sgd":
        return ["momentum"] if optimizer["momentum"] > 0 else []
    return ["exp_avg", "exp_avg_sq"]


def unit_state(run, unit, version):
    """A snapshot blob of a unit: every element is unit + version / 1000; the optimizer's arrays are
    0.
    """
    spec = run["job_spec"]
    shapes = unit_tensors(spec["model"]["description"], unit)
    value = struct.pack("<f", unit + version / 1000)
    tensors = [(name, shape, value * math.prod(shape)) for name, shape in shapes]
    tensors += [
        (f"{name}.{array}", shape, bytes(4 * math.prod(shape)))
        for name, shape in shapes
        for array in optimizer_arrays(spec["optimizer"])
    ]
    return safetensors(tensors)


def trained_model(run, value=1.0, units=None, **evaluation):
    """The file of a trained model as of the run's job: every number is `value`."""
    spec = run["job_spec"]
    description = spec["model"]["description"]
    number = struct.pack("<f", value)
    tensors = [
        (name, shape, number * math.prod(shape))
        for unit in range(len(description["units"]) if units is None else units)
        for name, shape in unit_tensors(description, unit)
    ]
    evaluation = {"micro_batch": spec["batch"] // spec["micro_batches"], **evaluation}
    return safetensors(tensors, {"model": description, "evaluation": evaluation})


class FakeAgent:
    def __init__(
        self,
        api,
        name,
        boot="boot1",
        memory=8 << 30,
        enrol=True,
        protocol=4,
        labels=None,
        slower=1,
        data=None,
        numeric_class=None,
    ):
        self.api, self.name, self.boot, self.memory = api, name, boot, memory
        self.numeric_class = numeric_class
        self.protocol, self.labels = 6 if data else protocol, labels
        self.slower, self.data = slower, data
        self.id, self.revision, self.step, self.highest = None, 0, 0, 0
        self.held = {}  # (version, unit) -> bytes
        self.made = {}  # (version, unit) -> generation
        if enrol:
            self.enrol()

    def request_body(self, **fields):
        body = {
            **example("enroll_request.full"),
            "name": self.name,
            "boot": self.boot,
            "protocol": self.protocol,
            "public_key": hashlib.sha256(self.name.encode()).hexdigest(),
            **fields,
        }
        body["probe"] = {**body["probe"], "free_memory_bytes": self.memory}
        if self.slower > 1:
            body["probe"]["gemm_gflops"] /= self.slower
            body["probe"]["memory_bytes_per_second"] /= self.slower
        if self.labels:
            body["labels"] = self.labels
        if self.numeric_class:
            body["numeric_class"] = self.numeric_class
        if self.data:
            body["data"] = self.data
        if self.protocol < 2:
            body["inventory"] = {**body["inventory"]}
            del body["inventory"]["zstd"]
        return body

    def join(self, token=None, **fields):
        """Ask to become a device; the answer."""
        body = record(
            "join_request",
            name=self.name,
            public_key=hashlib.sha256(self.name.encode()).hexdigest(),
            protocol=self.protocol,
            **({"token": token} if token is not None else {}),
        )
        return self.api.request("POST", "/v1/agent/join", {**body, **fields})

    def enrol(self, boot=None):
        self.boot = boot or self.boot
        if self.api.joins:
            self.join(self.api.joins)
        answer = self.api.request("POST", "/v1/agent/enroll", self.request_body())
        must(answer.status in (200, 201), f"enrol: {answer.status} {answer.body!r}")
        self.id = answer.json["device"]
        return answer

    def heartbeat(self, phase="idle", run=None, **fields):
        of_run = {name: run[name] for name in ("job", "generation", "plan")} if run else {}
        state = {
            "device": self.id,
            "boot": self.boot,
            "revision": self.revision,
            "phase": phase,
            "step": self.step,
            "highest_generation": self.highest,
        }
        body = record("heartbeat", **{**state, **fields, **of_run})
        return self.api.request("POST", "/v1/agent/heartbeat", body, expect=200).json

    def query(self, **fields):
        return urllib.parse.urlencode({"device": self.id, "boot": self.boot, **fields})

    def wait_for_plans(self):
        deadline = time.monotonic() + SEARCH_SECONDS
        while time.monotonic() < deadline:
            jobs = self.api.request("GET", "/v1/jobs")
            if jobs.status != 200 or all(job["state"] != "planning" for job in jobs.json["items"]):
                return
            time.sleep(0.01)

    def assignment(self, after=0, wait=0):
        """The desired state. A plan that is searched for comes first."""
        self.wait_for_plans()
        answer = self.api.request(
            "GET", f"/v1/agent/assignment?{self.query(after=after, wait=wait)}", expect=200
        )
        self.revision = answer.json["revision"]
        return answer.json

    def unit_path(self, run, number, data, **fields):
        sha256 = hashlib.sha256(data).hexdigest()
        query = self.query(
            **{
                "job": run["job"],
                "generation": run["generation"],
                "version": run["resume_version"],
                "unit": number,
                **fields,
            }
        )
        return f"/v1/agent/blobs/{sha256}?{query}"

    def put_unit(self, run, unit, data):
        answer = self.api.request("PUT", self.unit_path(run, unit, data), data, BINARY)
        ended = (
            answer.code == "stale_generation"
            and self.api.get(f"/v1/jobs/{run['job']}")["state"] == "succeeded"
        )
        must(answer.status == 204 or ended, f"unit {unit}: {answer.status} {answer.body!r}")

    def holdings(self, run):
        return [
            record(
                "holding",
                job=run["job"],
                generation=self.made[version, unit],
                version=version,
                unit=unit,
                sha256=hashlib.sha256(data).hexdigest(),
                size_bytes=len(data),
            )
            for (version, unit), data in self.held.items()
        ]

    # ---- the actions of an agent in each phase ----

    def act(self, train_to=None):
        """Read the assignment once and send one heartbeat. Returns the run, or None."""
        run = self.assignment()["run"]
        if run is None:
            self.heartbeat()
            return None
        self.highest = max(self.highest, run["generation"])
        {"prepare": self.prepare, "run": self.run, "stopping": self.stop, "finished": self.finish}[
            run["phase"]
        ](run, train_to)
        return run

    def prepare(self, run, _train_to):
        self.heartbeat("ready", run)

    def run(self, run, train_to):
        """Train up to train_to (the end, if None); at the end evaluate and stop."""
        target = run["total_steps"] if train_to is None else train_to
        metrics = [
            record("metric", step=step, name=name, value=value)
            for step in range(self.step + 1, target + 1)
            for name, value in (("loss", 1 / step), ("step_seconds", 0.01))
        ]
        self.step = max(self.step, target)
        if self.step < run["total_steps"]:
            self.heartbeat("run", run, metrics=metrics)
            return
        metrics += [
            record("metric", step=self.step, name="test_accuracy", value=0.5),
            record("metric", step=self.step, name="test_loss", value=1),
        ]
        self.stop(run, None, metrics=metrics)

    def stop(self, run, _train_to, **fields):
        self.hold(run, self.step)
        self.heartbeat(
            "stopped",
            run,
            stopped_version=self.step,
            all_holdings=True,
            holdings=self.holdings(run),
            **fields,
        )

    def hold(self, run, version):
        for unit in range(run["stage"]["first"], run["stage"]["end"]):
            self.held[version, unit] = unit_state(run, unit, version)
            self.made[version, unit] = run["generation"]

    def finish(self, run, _train_to):
        version = run["resume_version"]
        for unit in range(run["stage"]["first"], run["stage"]["end"]):
            self.put_unit(run, unit, self.held[version, unit])
        self.heartbeat("finished", run, stopped_version=version)


def replicate(agents, version):
    """A round: every agent takes a snapshot of `version` and sends it to its neighbour; all report.
    Returns the last reply to stage 0.
    """
    runs = {agent.id: agent.assignment()["run"] for agent in agents}
    for agent in agents:
        agent.hold(runs[agent.id], version)
    first = next(agent for agent in agents if runs[agent.id]["stage"]["index"] == 0)
    first.heartbeat("run", runs[first.id], rounds={"neighbor": version})
    for agent in agents:
        run = runs[agent.id]
        target = next(other for other in agents if other.id == run["neighbor"]["device"])
        for unit in range(run["stage"]["first"], run["stage"]["end"]):
            target.held[version, unit] = agent.held[version, unit]
            target.made[version, unit] = run["generation"]
    for agent in agents:
        agent.heartbeat(
            "run", runs[agent.id], all_holdings=True, holdings=agent.holdings(runs[agent.id])
        )
    return first.heartbeat("run", runs[first.id], rounds={"neighbor": version})


def finish(api, job, agents):
    """Drive the job to the end of training, then wait for the model."""
    for _ in range(50):
        seen = api.job(job)
        if seen["state"] == "succeeded" or (seen["message"] or "").startswith("assembles"):
            return api.wait(job, "succeeded")
        for agent in agents:
            agent.act()
    raise AssertionError(f"not at its end: {seen}")


def drive(api, job, agents, state, train_to=None, rounds=50):
    """Let the agents act in turn until the job is in `state`; returns the job."""
    seen = api.job(job)
    for _ in range(rounds):
        if seen["state"] == state:
            return seen
        for agent in agents:
            agent.act(train_to)
        seen = api.job(job)
    raise AssertionError(f"not {state} after {rounds} rounds: {seen}")


def pause(api, job, agents, step):
    """Drive the job to `step` and pause it there; returns the job."""
    drive(api, job, agents, "running", train_to=step)
    for agent in agents:
        agent.act(train_to=step)
    api.verb(job, "pause")
    return drive(api, job, agents, "paused")
