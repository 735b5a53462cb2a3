"""Idle memory: private pages that were written to, of an agent after its enrolment and after a job, and of the coordinator. Bounds that
the README states; counts, no timings."""

import time

from paceline import BIN, Failure, Fleet, data_files, request
from runner import Skip, run

AGENT_BYTES = 6_000_000
COORDINATOR_BYTES = 10_000_000
SETTLE_SECONDS = 20  # buffers go back within a moment: a reading above the bound is taken again until then


def no_sanitizer():
    for program in ("paceline-agent", "paceline-coordinator"):
        data = (BIN / program).read_bytes()
        for name in (b"__asan_init", b"__tsan_init"):
            if name in data:
                raise Skip(f"{program} is built with a sanitizer ({name.decode()}), which keeps memory of its own")


def check(process, bound, when):
    """Read until it is below the bound; the coordinator's long poll is the clock."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while (size := process.private_dirty_bytes()) >= bound:
        if time.monotonic() > deadline:
            raise Failure(f"{process.program} {when}: {size} bytes are private and dirty, {bound} allowed")
        request(process.clock, "GET", process.pause)
    print(f"{process.program} {when}: {size / 1e6:.2f} MB")


def test_idle_programs_are_small():
    no_sanitizer()
    with Fleet() as fleet:
        coordinator = fleet.start_coordinator("--heartbeat-ms", "100", "--lease-ms", "10000")
        job = None

        def look(process, bound, when):
            process.clock, process.pause = coordinator.address, "/v1/jobs/" + (f"{job['id']}?after=1000000&wait=1" if job else "none")
            check(process, bound, when)

        look(coordinator, COORDINATOR_BYTES, "after its start")
        fleet.start_agents(2)
        for agent in fleet.agents:
            look(agent, AGENT_BYTES, "after its enrolment")
        fleet.upload("fashion-train", "fashion-mini", "train")
        fleet.upload("fashion-test", "fashion-mini", "test")
        for _ in range(3):
            fleet.request("GET", "/v1/datasets/fashion-train/content", expect=200)
        look(coordinator, COORDINATOR_BYTES, "after uploads and downloads")
        job = fleet.submit({"model": {"name": "resnet8"}, "dataset": {"train": "fashion-train", "test": "fashion-test"}, "batch": 32,
                            "micro_batches": 4, "steps": 8, "devices": {"min": 2, "max": 2}})
        fleet.wait(job, "succeeded")
        fleet.checkpoint(job)
        for agent in fleet.agents:
            look(agent, AGENT_BYTES, "after a job")
        look(coordinator, COORDINATOR_BYTES, "after a job")
        must_have_data = sum(path.stat().st_size for path in data_files("fashion-mini", "train"))
        if must_have_data < 1 << 20:
            raise Failure("the data set is too small to show anything")


if __name__ == "__main__":
    run(globals())
