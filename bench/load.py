"""Measure CPU, memory, writes and latency of the coordinator under devices, clients and streams."""

import argparse
import contextlib
import json
import pathlib
import sqlite3
import subprocess
import threading
import time

from paceline import BIN, Fleet, must, request
from report import finish, skip, table

CROWD = BIN / "crowd"
HEARTBEAT_MS = 1000
CONNECTIONS = 16384
FAR_LEASE_MS = 600000  # no device is lost when the crowd is late
CLIENTS = 20
STREAMS = 200
METRICS = 10000
UPLOAD_BYTES = 256 << 20
JOB = {
    "name": "load",
    "model": {"name": "lenet5"},
    "dataset": {"train": "fashion-train"},
    "devices": {"min": 2, "max": 2},
}


class Usage:
    """The usage of a process: CPU seconds, bytes passed to write calls, private memory."""

    def __init__(self, process):
        place = pathlib.Path("/proc") / str(process.process.pid)
        self.at = time.monotonic()
        self.cpu = (
            sum(int(task.read_text().split()[0]) for task in place.glob("task/*/schedstat")) / 1e9
        )
        # The loop is the first thread of the coordinator.
        self.loop = int((place / "task" / place.name / "schedstat").read_text().split()[0]) / 1e9
        self.written = int((place / "io").read_text().split("wchar: ")[1].split()[0])
        self.private = process.private_dirty_bytes()


class Crowd:
    """The client program (load/crowd.c), which reads commands as lines."""

    def __init__(self, address):
        self.process = subprocess.Popen(
            [CROWD, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.process.stdin.close()
        self.process.wait(30)

    def tell(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        must(line, f"the crowd ended at '{words[0]}'")
        return json.loads(line)

    def wait_for(self, counts, seconds):
        """Report until each kind has its count of answers; the longest seconds of each kind."""
        seen, longest, deadline = (
            dict.fromkeys(counts, 0),
            dict.fromkeys(counts, 0.0),
            time.monotonic() + seconds,
        )
        while any(seen[kind] < counts[kind] for kind in counts):
            must(time.monotonic() < deadline, f"answers after {seconds} s: {seen} of {counts}")
            time.sleep(0.1)
            said = self.tell("report")
            for kind in counts:
                seen[kind] += said[kind]["count"]
                longest[kind] = max(longest[kind], said[kind]["max"])
        return longest


@contextlib.contextmanager
def coordinator(crowded=True):
    """A fleet without agents, its crowd, and the usage of the coordinator before any client."""
    with Fleet() as fleet:
        fleet.start_coordinator(
            "--connections",
            CONNECTIONS,
            "--connections-per-address",
            CONNECTIONS,
            "--heartbeat-ms",
            HEARTBEAT_MS,
            "--lease-ms",
            FAR_LEASE_MS,
        )
        fleet.upload("fashion-train", "fashion-mini", "train")
        if not crowded:
            yield fleet, None, None
            return
        time.sleep(1)
        empty = Usage(fleet.coordinator)
        with Crowd(fleet.coordinator.address) as crowd:
            yield fleet, crowd, empty


def measured(fleet, crowd, seconds):
    """The usage and the report of the given number of seconds."""
    crowd.tell("report")
    before = Usage(fleet.coordinator)
    time.sleep(seconds)
    after = Usage(fleet.coordinator)
    return before, after, crowd.tell("report")


def devices(count, seconds):
    """Devices alone: each sends a heartbeat per second and keeps its long poll."""
    with coordinator() as (fleet, crowd, empty):
        crowd.tell("devices", count, HEARTBEAT_MS)
        time.sleep(3)
        before, after, said = measured(fleet, crowd, seconds)
        beats = said["heartbeat"]
        must(beats["failed"] == 0 and beats["count"] > 0, f"heartbeats failed: {said}")
        spent = after.cpu - before.cpu
        return {
            "case": "devices",
            "devices": count,
            "heartbeats": beats["count"],
            "late": said["late"],
            "cpu_us_per_heartbeat": 1e6 * spent / beats["count"],
            "cpu_percent": 100 * spent / (after.at - before.at),
            "private_mb": after.private / 1e6,
            "private_kb_per_device": (after.private - empty.private) / 1e3 / count,
            "written_bytes_per_second": (after.written - before.written) / (after.at - before.at),
            "p50_ms": 1e3 * beats["p50"],
            "p99_ms": 1e3 * beats["p99"],
        }


def clients(count, seconds):
    """The API beside 1,000 devices: each client sends its next request right after an answer."""
    with coordinator() as (fleet, crowd, _):
        job = fleet.submit(JOB)["id"]
        crowd.tell("devices", 1000, HEARTBEAT_MS)
        device = fleet.get("/v1/devices?limit=1")["items"][0]["id"]
        rota = [
            ("GET", "/healthz", "-"),
            ("GET", f"/v1/jobs/{job}", "-"),
            ("GET", "/v1/jobs?limit=20", "-"),
            ("GET", f"/v1/devices/{device}", "-"),
            ("GET", "/v1/devices?limit=20", "-"),
            ("GET", "/v1/incidents?limit=20", "-"),
            ("GET", f"/v1/jobs/{job}/metrics?limit=100", "-"),
            ("GET", "/v1/datasets", "-"),
            ("POST", f"/v1/devices/{device}/cordon", "-"),
            ("POST", f"/v1/devices/{device}/uncordon", "-"),
        ]
        for index, words in enumerate(rota):
            crowd.tell("clients", count if index == len(rota) - 1 else 0, *words)
        time.sleep(2)
        before, after, said = measured(fleet, crowd, seconds)
        asked = said["client"]
        must(asked["failed"] == 0, f"requests failed: {said}")
        return {
            "case": "clients",
            "devices": 1000,
            "clients": count,
            "requests_per_second": asked["count"] / (after.at - before.at),
            "p50_ms": 1e3 * asked["p50"],
            "p99_ms": 1e3 * asked["p99"],
            "max_ms": 1e3 * asked["max"],
            "heartbeat_p99_ms": 1e3 * said["heartbeat"]["p99"],
            "private_mb": after.private / 1e6,
            "cpu_percent": 100 * (after.cpu - before.cpu) / (after.at - before.at),
            "written_bytes_per_second": (after.written - before.written) / (after.at - before.at),
        }


def woken(case, count, target):
    """Wake all open requests by one change; measure the delay of that change and of others."""
    with coordinator() as (fleet, crowd, empty):
        job = fleet.submit(JOB)
        crowd.tell("polls", count, target(job))
        time.sleep(2)
        waiting = Usage(fleet.coordinator)
        crowd.tell("report")
        crowd.tell("act", "POST", f"/v1/jobs/{job['id']}/pause", "-")
        health = []
        for _ in range(10):
            began = time.monotonic()
            request(fleet.coordinator.address, "GET", "/healthz")
            health.append(time.monotonic() - began)
        longest = crowd.wait_for({"act": 1, "poll": count}, 60)
        after = Usage(fleet.coordinator)
        return {
            "case": case,
            "open": count,
            "change_ms": 1e3 * longest["act"],
            "health_max_ms": 1e3 * max(health),
            "last_ms": 1e3 * longest["poll"],
            "cpu_us_per_answer": 1e6 * (after.cpu - waiting.cpu) / count,
            "waiting_mb": waiting.private / 1e6,
            "answered_mb": after.private / 1e6,
            "private_kb_each": (after.private - empty.private) / 1e3 / count,
        }


class Healthz(threading.Thread):
    """Requests /healthz on new connections until it is stopped; returns the sorted latencies."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.address, self.seconds, self.ended = address, [], threading.Event()
        self.start()

    def run(self):
        while not self.ended.is_set():
            began = time.monotonic()
            request(self.address, "GET", "/healthz")
            self.seconds.append(time.monotonic() - began)
            self.ended.wait(0.002)

    def stop(self):
        self.ended.set()
        self.join()
        return sorted(self.seconds)


def beside(case, fleet, work, **more):
    """A row: the duration of `work`, and the latency of /healthz meanwhile."""
    health, before = Healthz(fleet.coordinator.address), Usage(fleet.coordinator)
    work()
    after, seconds = Usage(fleet.coordinator), health.stop()
    return {
        "case": case,
        "seconds": after.at - before.at,
        "cpu_seconds": after.cpu - before.cpu,
        "loop_seconds": after.loop - before.loop,
        "health_p50_ms": 1e3 * seconds[len(seconds) // 2],
        "health_p99_ms": 1e3 * seconds[int(len(seconds) * 0.99)],
        "health_max_ms": 1e3 * seconds[-1],
        **more,
    }


def metrics():
    """Pages of 10,000 metrics of a job."""
    with coordinator(crowded=False) as (fleet, _, _):
        job = fleet.submit(JOB)["id"]
        fleet.coordinator.stop()
        with contextlib.closing(sqlite3.connect(fleet.path / "coordinator" / "state.db")) as db, db:
            db.executemany(
                "INSERT INTO metrics (job, name, step, value) VALUES (?, 'loss', ?, ?)",
                [(job, step, 1 / (step + 1)) for step in range(METRICS)],
            )
        fleet.restart_coordinator()

        def ask():
            for _ in range(20):
                must(
                    len(fleet.get(f"/v1/jobs/{job}/metrics?limit={METRICS}")["items"]) == METRICS,
                    "a page is not whole",
                )

        return beside("metrics", fleet, ask, pages=20)


def write_checkpoint(path):
    """A safetensors file of one tensor with UPLOAD_BYTES of noise."""
    header = json.dumps(
        {
            "noise": {
                "dtype": "F32",
                "shape": [UPLOAD_BYTES // 4],
                "data_offsets": [0, UPLOAD_BYTES],
            }
        }
    ).encode()
    with open(path, "wb") as file, open("/dev/urandom", "rb") as random:
        file.write(len(header).to_bytes(8, "little") + header)
        block = random.read(1 << 20)
        for _ in range(UPLOAD_BYTES >> 20):
            file.write(block)


def upload():
    """A large checkpoint, hashed while the coordinator receives it."""
    with coordinator(crowded=False) as (fleet, _, _):
        body = fleet.path / "noise.safetensors"
        write_checkpoint(body)
        url = f"http://{fleet.coordinator.address}/v1/checkpoints"

        def send():
            output = subprocess.run(
                ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST"]
                + ["-H", "Content-Type: application/octet-stream", "-T", str(body), url],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            must(output == "201", f"the upload was answered with {output}")

        return beside("upload", fleet, send, megabytes=UPLOAD_BYTES / 1e6)


def show(rows):
    """A table for each case, since the cases have different columns."""
    for case in dict.fromkeys(row["case"] for row in rows):
        chosen = [row for row in rows if row["case"] == case]
        names = list(chosen[0])
        table(
            names,
            [
                [
                    f"{row[name]:.2f}" if isinstance(row[name], float) else row[name]
                    for name in names
                ]
                for row in chosen
            ],
        )


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "cases",
        nargs="*",
        help="idle devices clients polls streams metrics upload; all without one",
    )
    arguments.add_argument("--devices", type=int, nargs="+", default=[1000, 4000])
    arguments.add_argument("--polls", type=int, default=10000)
    arguments.add_argument("--seconds", type=float, default=10, help="that are measured")
    options = arguments.parse_args()
    if not CROWD.exists():
        skip(f"{CROWD} is not built")
    cases = {
        "idle": lambda: [devices(100, options.seconds)],
        "devices": lambda: [devices(count, options.seconds) for count in options.devices],
        "clients": lambda: [clients(CLIENTS, options.seconds)],
        "polls": lambda: [
            woken(
                "polls",
                options.polls,
                lambda job: f"/v1/jobs/{job['id']}?after={job['revision']}&wait=60",
            )
        ],
        "streams": lambda: [woken("streams", STREAMS, lambda job: "/v1/events")],
        "metrics": lambda: [metrics()],
        "upload": lambda: [upload()],
    }
    rows = [row for case in options.cases or cases for row in cases[case]()]
    show(rows)
    finish("load", rows)


if __name__ == "__main__":
    main()
