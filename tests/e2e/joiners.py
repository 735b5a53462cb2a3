"""Faulty devices join a job of two healthy ones. Each logs its fault within seconds, the job loses
at most one generation to it, and the weights are those of one undisturbed process.
"""

import contextlib
import functools
import pathlib
import resource
import shutil
import time

from paceline import (
    BIN,
    FASHION,
    Failure,
    fashion_fleet,
    must,
    on_devices,
    replicated_job,
    small_disk,
    train,
)
from runner import Skip, run

HANG = BIN.parent / "tests/hang.so"
STEPS = 250
BEFORE = 20  # steps without the joiners
SLOWDOWN = 15  # of the healthy ones: the job lasts until the joiners are there
LITTLE_BYTES = 20 << 20
HEALTHY = ("agent0", "agent1")


@functools.cache
def reference():
    return train(replicated_job(STEPS), FASHION)[0]


def wait_for_log(agent, part, meanwhile=lambda: None, seconds=60):
    deadline = time.monotonic() + seconds
    while part not in agent.log_text():
        must(agent.running(), f"{agent.name} has ended: {agent.log_text()}")
        if time.monotonic() > deadline:
            raise Failure(
                f"{agent.name} does not say {part!r} within {seconds} s: {agent.log_text()}"
            )
        meanwhile()
        time.sleep(0.01)


class Joiner:
    """A device with a fault. until: text of its log after the fault; lost: generations that it may
    cost.
    """

    until, lost = "", 1

    def __init__(self, fleet, undo, **options):
        name = type(self).__name__.lower()
        self.path = fleet.path / name
        self.prepare(fleet, undo)
        self.agent = fleet.start_agent(name, wait=False, **options)

    def prepare(self, fleet, undo):
        pass

    def check(self, ask):
        wait_for_log(self.agent, self.until, ask)


class FullDisk(Joiner):
    until = "generation_failed code=disk"

    def prepare(self, fleet, undo):
        undo.enter_context(small_disk(self.path, "1m"))


class HungDisk(Joiner):
    until = "generation_failed code=disk"

    def __init__(self, fleet, undo):
        if not HANG.exists():
            raise Skip(f"{HANG.name} is not built: a sanitizer must be loaded first")
        condition = fleet.path / "hangs"
        condition.touch()
        undo.callback(condition.unlink)
        below = fleet.path / "hungdisk/cache"
        super().__init__(
            fleet,
            undo,
            environment={
                "LD_PRELOAD": str(HANG),
                "HANG_BELOW": str(below),
                "HANG_WHILE": str(condition),
            },
        )


class CorruptCache(Joiner):
    """Each data file is too long and each map has a wrong bit: the agent repairs both, nothing is
    lost.
    """

    until, lost = "phase=run", 0

    def prepare(self, fleet, undo):
        (source,) = [path for path in fleet.path.glob("*/cache") if list(path.glob("*.data"))][:1]
        shutil.copytree(source, self.path / "cache")
        for file in (self.path / "cache").iterdir():
            content = bytearray(file.read_bytes())
            content[0] ^= 1
            file.write_bytes(content + content)

    def check(self, ask):
        super().check(ask)
        text = self.agent.log_text()
        must(
            "event=cache_damaged" in text or "units=0-" not in text,
            f"the damage was not noticed: {text}",
        )


class LittleMemory(Joiner):
    until = "generation_failed code=memory"

    def __init__(self, fleet, undo):
        super().__init__(fleet, undo)
        wait_for_log(self.agent, "event=listening")
        pid = self.agent.process.pid
        pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[0])
        bytes_max = pages * resource.getpagesize() + LITTLE_BYTES
        resource.prlimit(pid, resource.RLIMIT_AS, (bytes_max, bytes_max))


def run_trial(*kinds):
    with fashion_fleet(
        len(HEALTHY), "--slowdown", SLOWDOWN
    ) as fleet, contextlib.ExitStack() as undo:
        job = fleet.submit(
            replicated_job(STEPS, **on_devices(len(HEALTHY), len(HEALTHY) + len(kinds)))
        )
        fleet.wait_for_step(job, BEFORE)
        joiners = [kind(fleet, undo) for kind in kinds]
        devices = {device["name"]: device["id"] for device in fleet.wait_for_agents()}
        for joiner in joiners:
            # Whether it is worth a new plan depends on the speed of the machine. As the last stage
            # it needs its disk, for the labels.
            wish = {"devices": [devices[name] for name in (*HEALTHY, joiner.agent.name)]}
            joiner.check(
                functools.partial(fleet.request, "POST", f"/v1/jobs/{job['id']}/replan", wish)
            )
        fleet.wait(job, "succeeded")
        sha256 = fleet.checkpoint_sha256(job)
        must(sha256 == reference(), f"{sha256}, not {reference()}")
        fleet.check_losses(job, STEPS)
        incidents = fleet.get(f"/v1/jobs/{job['id']}/incidents")["items"]
        blamed = [device["name"] for incident in incidents for device in incident["devices"]]
        for joiner in joiners:
            must(
                blamed.count(joiner.agent.name) <= joiner.lost,
                f"{joiner.agent.name} cost more generations than it may: {incidents}",
            )
        failures = sum(incident["failures"] for incident in incidents)
        must(
            failures <= sum(joiner.lost for joiner in joiners),
            f"{failures} generations are lost: {incidents}",
        )
        must(set(blamed) <= {joiner.agent.name for joiner in joiners}, f"{incidents}")
        for joiner in joiners:
            joiner.agent.stop()


def test_joiners_with_faults_cost_a_generation_each_at_most():
    # A sanitizer needs unlimited addresses, and has no build of the library that hangs.
    run_trial(*((LittleMemory, FullDisk) if HANG.exists() else (FullDisk,)))


if __name__ == "__main__":
    run(globals())
