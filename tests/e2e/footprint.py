"""Idle memory: the dirty private pages of the coordinator, and of an agent after its enrolment and
after a job. The bounds are those of the README; counts, no timings.
"""

import contextlib
import http.client
import time

from paceline import SLOW_LEASE_MS, Fleet, data_files, must, on_devices, sanitizer_of
from runner import Skip, run

AGENT_BYTES = 6_000_000
COORDINATOR_BYTES = 10_000_000
CONNECTIONS = 300
CONNECTION_BYTES = 45_000  # each, after an answer
SETTLE_SECONDS = (
    20  # buffers are freed with a short delay: a reading above the bound is repeated until then
)


def no_sanitizer():
    for program in ("paceline-agent", "paceline-coordinator"):
        if sanitizer := sanitizer_of(program):
            raise Skip(f"{program} is built with {sanitizer}, which keeps memory of its own")


def check(process, bound, when):
    deadline = time.monotonic() + SETTLE_SECONDS
    while (size := process.private_dirty_bytes()) >= bound:
        must(
            time.monotonic() < deadline,
            f"{process.program} {when}: {size} bytes are private and dirty, {bound} allowed",
        )
        time.sleep(0.2)
    print(f"{process.program} {when}: {size / 1e6:.2f} MB")


def test_idle_programs_are_small():
    no_sanitizer()
    size = sum(path.stat().st_size for path in data_files("fashion-mini", "train"))
    must(size >= 1 << 20, "the data set is too small to show a difference")
    with Fleet() as fleet:
        coordinator = fleet.start_coordinator("--heartbeat-ms", 100, "--lease-ms", SLOW_LEASE_MS)
        check(coordinator, COORDINATOR_BYTES, "after its start")
        fleet.start_agents(2)
        for agent in fleet.agents:
            check(agent, AGENT_BYTES, "after its enrolment")
        fleet.upload("fashion-train", "fashion-mini", "train")
        fleet.upload("fashion-test", "fashion-mini", "test")
        for _ in range(3):
            fleet.request("GET", "/v1/datasets/fashion-train/content", expect=200)
        check(coordinator, COORDINATOR_BYTES, "after uploads and downloads")
        job = fleet.submit(
            {
                "model": {"name": "resnet8"},
                "dataset": {"train": "fashion-train", "test": "fashion-test"},
                "batch": 32,
                "micro_batches": 4,
                "steps": 8,
                **on_devices(2, 2),
            }
        )
        fleet.wait(job, "succeeded")
        fleet.checkpoint_sha256(job)
        for agent in fleet.agents:
            check(agent, AGENT_BYTES, "after a job")
        check(coordinator, COORDINATOR_BYTES, "after a job")


def test_a_connection_takes_little_memory():
    no_sanitizer()
    with Fleet() as fleet, contextlib.ExitStack() as stack:
        coordinator = fleet.start_coordinator()
        must(fleet.request("GET", "/healthz").status == 200, "the first answer")
        before = coordinator.private_dirty_bytes()
        for _ in range(CONNECTIONS):
            connection = http.client.HTTPConnection(coordinator.address, timeout=20)
            stack.callback(connection.close)
            connection.request("GET", "/healthz")
            must(connection.getresponse().read(), "an empty answer")
        each = (coordinator.private_dirty_bytes() - before) / CONNECTIONS
        must(
            each < CONNECTION_BYTES,
            f"{each:.0f} bytes a connection are private and dirty, {CONNECTION_BYTES} allowed",
        )
        print(f"a connection: {each / 1e3:.1f} KB")


if __name__ == "__main__":
    run(globals())
