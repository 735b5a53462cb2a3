"""A coordinator that is killed at one of its commits (kill_at_sync.c): in place of the call of
fsync with that number, or after it if the number is even.
"""

import contextlib
import http.client
import time

from paceline import BIN, Failure, must
from runner import Skip

LIBRARY = BIN.parent / "tests/kill_at_sync.so"
DEATH_SECONDS = 60


def restart_until_commit(fleet, number, *arguments):
    """Start the coordinator, which will be killed at its commit of this number."""
    if not LIBRARY.exists():
        raise Skip(f"{LIBRARY.name} is not built: a sanitizer must be loaded first")
    words = [f"LD_PRELOAD={LIBRARY}", f"KILL_AT_SYNC={number}"]
    words += ["KILL_AFTER_SYNC=1"] if number % 2 == 0 else []
    with contextlib.suppress(Failure):  # it is killed before it listens
        fleet.restart_coordinator(*arguments, prefix=("env", *words))


def wait_for_death(fleet, number, seconds=DEATH_SECONDS):
    deadline = time.monotonic() + seconds
    while fleet.coordinator.running():
        must(time.monotonic() < deadline, f"the coordinator lives on after commit {number}")
        time.sleep(0.02)


def run_job(fleet, spec, devices, number, check, *arguments):
    """Run a job on so many devices, then check(job). The coordinator dies at its commit of this
    number and is started again. Whether there was such a commit.
    """
    fleet.coordinator.kill()
    restart_until_commit(fleet, number, *arguments)

    def train():
        fleet.wait_for_devices(devices)
        key = {"Idempotency-Key": f"commit {number}"}
        job = fleet.request("POST", "/v1/jobs", spec, key, expect=201).json
        check(fleet.wait(job, "succeeded"))

    try:
        train()
        return False
    except (OSError, http.client.HTTPException):
        wait_for_death(fleet, number, 1)
        fleet.restart_coordinator(*arguments)
        train()
        return True
