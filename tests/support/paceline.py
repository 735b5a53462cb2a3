"""A coordinator and its agents on loopback, for tests that run the real programs.

    with Fleet() as fleet:
        fleet.start_coordinator()
        fleet.start_agents(3)
        fleet.upload("digits-train", "digits", "train")
        job = fleet.submit({...})
        fleet.wait(job, "succeeded")

All files are in a temporary directory; only processes started here are ended, by their pid.
PACELINE_BIN names the directory of the programs. Every wait has a bound. Python's standard library
only.
"""

import contextlib
import hashlib
import http.client
import io
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import tarfile
import tempfile
import time
import urllib.parse

from ending import raise_on_signals
from runner import Skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PACELINE_BIN", ROOT / "build/dev/bin"))
DATA = ROOT / "examples/data"
WAIT_SECONDS = float(os.environ.get("PACELINE_TEST_WAIT", "120"))
ENDED = ("succeeded", "failed", "cancelled")
SLOW_LEASE_MS = 10000  # of fleets without failures: a busy machine must not lose a device


class Failure(AssertionError):
    """An expectation failed; the text says what happened instead."""


def must(condition, text):
    if not condition:
        raise Failure(text)


def sanitizer_of(program):
    """The sanitizer that the program is built with; None: none is."""
    data = (BIN / program).read_bytes()
    names = {b"__asan_init": "AddressSanitizer", b"__tsan_init": "ThreadSanitizer"}
    return next((name for symbol, name in names.items() if symbol in data), None)


def by_build(plain, sanitized):
    """`sanitized` if a sanitizer makes the programs some ten times as slow."""
    return sanitized if sanitizer_of("paceline-agent") else plain


class Answer:
    """One HTTP answer: status, headers, bytes; .json parses the body."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The problem's code, or None."""
        if "problem+json" not in (self.headers.get("Content-Type") or ""):
            return None
        return self.json["code"]


class Process:
    """A program that prints its address on stderr. prefix: a tool and its words, which then runs
    the program.
    """

    def __init__(self, program, arguments, log, environment=None, prefix=(), name=None):
        self.name = name or program
        self.log = pathlib.Path(log)
        self.log_begin = (
            self.log.stat().st_size if self.log.exists() else 0
        )  # an earlier life's lines are before
        self.program = program
        self.process = subprocess.Popen(
            [*prefix, str(BIN / program), *map(str, arguments)],
            stdout=subprocess.DEVNULL,
            stderr=open(log, "ab"),
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )
        self.address = None

    def wait_for_address(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            for line in self.log_text().splitlines():
                if "event=listening" in line:
                    self.address = line.split("address=")[1].split()[0]
                elif '"event":"listening"' in line:
                    self.address = json.loads(line)["address"]
            if self.address:
                return self
            if self.process.poll() is not None:
                raise Failure(
                    f"{self.program} ended with {self.process.returncode}:"
                    f" {self.log_text()[-2000:]}"
                )
            time.sleep(0.02)
        raise Failure(f"{self.program} does not listen: {self.log_text()[-2000:]}")

    def log_text(self):
        """The log since the last start."""
        return self.log.read_bytes()[self.log_begin :].decode(errors="replace")

    def wait_for_log(self, words):
        """Wait until the log since the last start has the words."""
        deadline = time.monotonic() + WAIT_SECONDS
        while words not in self.log_text():
            if not self.running() or time.monotonic() > deadline:
                raise Failure(f"{self.program}: no '{words}': {self.log_text()[-2000:]}")
            time.sleep(0.02)

    def running(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGTERM; the exit status. Fails if it does not end within 20 s."""
        if self.running():
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise Failure(
                    f"{self.program} did not end on SIGTERM: {self.log_text()[-2000:]}"
                ) from None
        return self.process.returncode

    def descriptors(self):
        """The open descriptors."""
        return os.listdir(f"/proc/{self.process.pid}/fd")

    def private_dirty_bytes(self):
        with open(f"/proc/{self.process.pid}/smaps_rollup", encoding="ascii") as file:
            for line in file:
                if line.startswith("Private_Dirty:"):
                    return int(line.split()[1]) * 1024
        raise Failure("no Private_Dirty in smaps_rollup")


def request(address, method, path, body=None, headers=None, timeout=60, tls=None):
    """One request. A dict body is sent as JSON; bytes as they are. tls: an ssl.SSLContext."""
    headers = dict(headers or {})
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
        headers.setdefault("Content-Type", "application/json")
    host, port = address.rsplit(":", 1)
    connection = (
        http.client.HTTPSConnection(host, int(port), timeout=timeout, context=tls)
        if tls
        else http.client.HTTPConnection(host, int(port), timeout=timeout)
    )
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


def tar_of(*paths):
    """The files as a tar, in memory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path in paths:
            archive.add(path, arcname=pathlib.Path(path).name)
    return out.getvalue()


def data_files(folder, part):
    """Images and labels of 'train' or 'test' of a data set in examples/data."""
    prefix = {"train": "train", "test": "t10k"}[part]
    return [
        DATA / folder / f"{prefix}-images-idx3-ubyte.gz",
        DATA / folder / f"{prefix}-labels-idx1-ubyte.gz",
    ]


FASHION = {f"fashion-{part}": data_files("fashion-mini", part) for part in ("train", "test")}


def fashion_job(model="lenet5", **fields):
    """A job on the data set fashion-train. Its kernels follow from shapes in every build, and its
    plans change by faults and requests only. fields are added or replace others.
    """
    return {
        "name": model,
        "model": {"name": model},
        "dataset": {"train": "fashion-train"},
        "batch": 8,
        "micro_batches": 4,
        "epochs": 100000,
        "learning_rate": {"type": "constant", "value": 0.02},
        "kernels": {},
        "replan": {"first": 0, "every": 0},
        **fields,
    }


def replicated_job(steps, **fields):
    """fashion_job with copies at the neighbour every 10 steps, and without evaluations."""
    return fashion_job(
        steps=steps,
        replication={"neighbor_every": 10, "center_every": 0},
        evaluate={"every_epochs": 0},
        **fields,
    )


@contextlib.contextmanager
def small_disk(place, size):
    """Mount a new file system of a size such as "64m" at the directory `place`; its users must end
    before the block does.
    """
    place.mkdir()
    mounted = (
        os.geteuid() == 0
        and shutil.which("mount")
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place],
            check=False,
            capture_output=True,
        ).returncode
        == 0
    )
    if not mounted:
        raise Skip("a small file system can be mounted by root only")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=False)


def fill(place):
    """Fill the file system of `place`; deleting the returned file frees it again."""
    foreign = place / "foreign"
    with open(foreign, "wb", buffering=0) as file, contextlib.suppress(
        OSError
    ):  # a buffer would be written at the close
        while True:
            file.write(bytes(1 << 16))
    return foreign


def on_devices(least, most):
    """The job's fields for `least` to `most` devices."""
    return {"devices": {"min": least, "max": most}}


class Fleet:
    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="paceline-test-")
        self.path = pathlib.Path(self.directory.name)
        self.coordinator = None
        self.agents = []
        self.tls = None  # of the requests
        self.token = None
        self.joins = None  # a join token for all agents

    def __enter__(self):
        raise_on_signals()
        return self

    def __exit__(self, kind, value, trace):
        statuses = []
        try:
            for process in [*self.agents, self.coordinator]:
                if process:
                    statuses.append((process.program, process.stop(), process.log_text()[-3000:]))
            for program, status, log in statuses:
                begun = status != -signal.SIGTERM or log  # else it had no handler yet
                if status not in (0, -signal.SIGKILL) and begun and kind is None:
                    raise Failure(f"{program} ended with {status}: {log}")
        finally:
            if kind is not None and issubclass(kind, Exception):  # no signal
                for process in [self.coordinator, *self.agents]:
                    if process:
                        print(f"--- {process.log}\n{process.log_text()[-4000:]}")
            for process in [*self.agents, self.coordinator]:
                if process and process.running():
                    process.kill()
            self.directory.cleanup()

    # ---- programs ----

    def init(self, *arguments):
        """`paceline-coordinator init`; requests use its authority and its token from now on."""
        done = subprocess.run(
            [
                BIN / "paceline-coordinator",
                "init",
                "--state-dir",
                self.path / "coordinator",
                *arguments,
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        words = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
        self.token = words["token"]
        if "ca_sha256" not in words:
            return words
        self.ca = self.path / "coordinator/tls/ca.pem"
        self.tls = ssl.create_default_context(cafile=self.ca)
        return words

    @property
    def scheme(self):
        return "https" if self.tls else "http"

    def start_coordinator(self, *arguments, listen="127.0.0.1:0", prefix=()):
        self.coordinator = Process(
            "paceline-coordinator",
            [
                "--listen",
                listen,
                "--state-dir",
                self.path / "coordinator",
                "--min-free",
                "16M",
                *arguments,
            ],
            self.path / "coordinator.log",
            prefix=prefix,
        ).wait_for_address()
        return self.coordinator

    def restart_coordinator(self, *arguments, prefix=()):
        """Start it again with the same directory and port."""
        address = self.coordinator.address
        (self.path / "coordinator.log").rename(self.path / f"coordinator-{time.monotonic_ns()}.log")
        return self.start_coordinator(*arguments, listen=address, prefix=prefix)

    def join_token(self, **fields):
        """The text of a new join token."""
        body = {"role": "join", **fields}
        return self.request("POST", "/v1/tokens", body, expect=201).json["token"]

    def join(self, name, *arguments, token=None, url=None, prefix=(), given=None):
        """`paceline-agent join` of an agent's state directory; the ended process. given: standard
        input in place of the token's word.
        """
        return subprocess.run(
            [
                *prefix,
                BIN / "paceline-agent",
                "join",
                "--state-dir",
                self.path / name,
                "--name",
                name,
                *arguments,
                url or f"{self.scheme}://{self.coordinator.address}",
                *([token] if token is not None else []),
            ],
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def join_once(self, name, prefix):
        """Let a new state directory join a coordinator with tokens."""
        if not self.token or (self.path / name / "joined.conf").exists():
            return
        self.joins = self.joins or self.join_token(uses=4096)
        done = self.join(name, token=self.joins, prefix=prefix)
        must(done.returncode == 0, f"join: {done.returncode}: {done.stdout} {done.stderr}")

    def start_agent(
        self, name=None, *arguments, wait=True, listen="127.0.0.1:0", environment=None, prefix=()
    ):
        name = name or f"agent{len(self.agents)}"
        self.join_once(name, prefix)
        agent = Process(
            "paceline-agent",
            [
                "--coordinator",
                f"{self.scheme}://{self.coordinator.address}",
                *(["--ca", self.ca] if self.tls else []),
                "--listen",
                listen,
                "--state-dir",
                self.path / name,
                "--name",
                name,
                "--threads",
                1,
                "--leave-seconds",
                0,
                *arguments,
            ],
            self.path / f"{name}.log",
            environment,
            prefix,
            name,
        )
        self.agents.append(agent)
        if wait:
            agent.wait_for_address()
        return agent

    def start_agents(self, count, *arguments):
        for _ in range(count):
            self.start_agent(None, *arguments, wait=False)
        return self.wait_for_agents()

    def wait_for_agents(self):
        """Wait until every started agent has enrolled; returns the devices."""
        for agent in self.agents:
            agent.wait_for_address()
        return self.wait_for_devices(len(self.agents))

    # ---- the API ----

    def request(self, method, path, body=None, headers=None, expect=None, timeout=60):
        if self.token:
            headers = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        answer = request(self.coordinator.address, method, path, body, headers, timeout, self.tls)
        if expect is not None and answer.status != expect:
            raise Failure(f"{method} {path}: {answer.status}, not {expect}: {answer.body[:1000]!r}")
        return answer

    def get(self, path, expect=200):
        return self.request("GET", path, expect=expect).json

    def upload(self, name, folder, part):
        return self.request(
            "PUT",
            f"/v1/datasets/{name}",
            tar_of(*data_files(folder, part)),
            {"Content-Type": "application/x-tar"},
            expect=201,
        ).json

    def submit(self, job, expect=201):
        """The job as soon as its plan has been searched for."""
        seen = self.request("POST", "/v1/jobs", job, expect=expect).json
        while seen.get("state") == "planning":
            seen = self.get(f"/v1/jobs/{seen['id']}?after={seen['revision']}&wait=1")
        return seen

    def verb(self, job, verb, body=None, expect=202):
        return self.request("POST", f"/v1/jobs/{job['id']}/{verb}", body, expect=expect).json

    def job(self, job):
        return self.get(f"/v1/jobs/{job['id']}")

    def stages(self, seen):
        """The stages of the plan that the job had in `seen`."""
        return self.get(f"/v1/jobs/{seen['id']}/plans/{seen['generation']}")["stages"]

    def agent_of(self, job, stage):
        """The agent that runs the stage; -1: the last stage."""
        device = self.stages(self.job(job))[stage]["device"]
        name = self.get(f"/v1/devices/{device}")["name"]
        return next(agent for agent in self.agents if agent.name == name and agent.running())

    def metric(self, job, name):
        """{step: value}, of the first 10000 steps that have one."""
        items = self.get(f"/v1/jobs/{job['id']}/metrics?name={name}&limit=10000")["items"]
        return {item["step"]: item["value"] for item in items}

    def check_losses(self, job, steps):
        """Each step of the ended job has a loss."""
        missing = sorted(set(range(1, steps + 1)) - self.metric(job, "loss").keys())
        must(not missing, f"{len(missing)} losses are missing: of the steps {missing[:20]}")

    def wait_for_devices(self, count, state="online"):
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            devices = self.get("/v1/devices?limit=500")["items"]
            if sum(device["state"] == state for device in devices) >= count:
                return devices
            time.sleep(0.05)
        raise Failure(f"{count} devices {state}: {devices}")

    def wait_until(self, job, condition, what, seconds=None):
        """Long-poll the job until condition(job) holds."""
        deadline = time.monotonic() + (seconds or WAIT_SECONDS)
        after, seen = 0, None
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Failure(f"{what}: {json.dumps(seen)[:3000]}")
            query = urllib.parse.urlencode({"after": after, "wait": max(1, min(10, int(left)))})
            seen = self.get(f"/v1/jobs/{job['id']}?{query}")
            if condition(seen):
                return seen
            if seen["state"] in ENDED:
                raise Failure(f"{what}: the job has ended: {json.dumps(seen)[:3000]}")
            after = seen["revision"]

    def wait(self, job, state, seconds=None):
        return self.wait_until(job, lambda seen: seen["state"] == state, f"state {state}", seconds)

    def wait_for_step(self, job, step, seconds=None):
        return self.wait_until(
            job, lambda seen: seen["progress"]["step"] >= step, f"step {step}", seconds
        )

    def checkpoint(self, job):
        """The final model's bytes."""
        return self.request(
            "GET", f"/v1/checkpoints/{self.job(job)['checkpoint']}/content", expect=200
        ).body

    def checkpoint_sha256(self, job):
        """The hash of the final model's bytes, which must equal that of the checkpoint's record."""
        sha256 = hashlib.sha256(self.checkpoint(job)).hexdigest()
        stated = self.get(f"/v1/checkpoints/{self.job(job)['checkpoint']}")["sha256"]
        must(
            sha256 == stated,
            f"the checkpoint's bytes have sha256 {sha256}, its record says {stated}",
        )
        return sha256


def fashion_fleet(agents=0, *arguments, lease_ms=SLOW_LEASE_MS):
    """A coordinator with short intervals, the data set fashion-train, and `agents` agents."""
    fleet = Fleet()
    fleet.start_coordinator("--heartbeat-ms", 100, "--lease-ms", lease_ms)
    fleet.upload("fashion-train", "fashion-mini", "train")
    fleet.start_agents(agents, *arguments)
    return fleet


def places(datasets):
    """Options for the commands that work without a coordinator. datasets: {name: [paths]}."""
    return [f"--dataset={name}={','.join(map(str, paths))}" for name, paths in datasets.items()]


def batches_of(job, datasets, arguments=()):
    """The output of `paceline-agent batches`."""
    with tempfile.TemporaryDirectory(prefix="paceline-batches-") as directory:
        job_file = pathlib.Path(directory) / "job.json"
        job_file.write_text(json.dumps(job))
        done = subprocess.run(
            [str(BIN / "paceline-agent"), "batches", str(job_file), *places(datasets), *arguments],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            raise Failure(f"batches: {done.returncode}: {done.stderr}")
        return done.stdout


def train(job, datasets, threads=1, arguments=(), environment=None, seconds=600):
    """`paceline-agent train`: the reference. datasets: {name: [paths]}. Returns (sha256, its
    output).
    """
    with tempfile.TemporaryDirectory(prefix="paceline-train-") as directory:
        job_file = pathlib.Path(directory) / "job.json"
        output = pathlib.Path(directory) / "model.safetensors"
        job_file.write_text(json.dumps(job))
        command = [
            str(BIN / "paceline-agent"),
            "train",
            str(job_file),
            "--output",
            str(output),
            "--threads",
            str(threads),
            *places(datasets),
            *arguments,
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, **(environment or {})},
        )
        if done.returncode:
            raise Failure(f"{' '.join(command)}: {done.returncode}: {done.stdout} {done.stderr}")
        return hashlib.sha256(output.read_bytes()).hexdigest(), done.stdout + done.stderr
