"""Outages of the coordinator cost nothing. It is killed or frozen during a job, for longer than its
lease and every wait of its agents. No device is declared lost, no step is retrained, and the
weights are those of an undisturbed run.
"""

import shutil
import signal
import time

from paceline import FASHION, fashion_fleet, fashion_job, must, on_devices, train
from runner import run

HEARTBEAT_MS, LEASE_MS = 100, 500
LONGEST_WAIT_SECONDS = 3  # longest wait of an agent before its next call, and a little


class Outages:
    """A fleet that trains a job while its coordinator is down; restarts use the same options."""

    def __init__(self, fleet, options, **fields):
        self.fleet, self.options = fleet, options
        self.fields = {
            "evaluate": {"every_epochs": 0},
            **on_devices(len(fleet.agents), len(fleet.agents)),
            **fields,
        }
        self.job = fleet.submit(fashion_job(**self.fields))
        fleet.wait_for_step(self.job, 1)

    def kill(self, seconds):
        self.fleet.coordinator.kill()
        time.sleep(seconds)
        self.fleet.restart_coordinator(*self.options)

    def freeze(self, seconds):
        self.fleet.coordinator.signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.fleet.coordinator.signal(signal.SIGCONT)

    def strike(self, how, seconds):
        """One outage. Afterwards the job continues, and no device is lost when the leases of silent
        devices expire.
        """
        before = self.fleet.job(self.job)["progress"]["step"]
        getattr(self, how)(seconds)
        back = self.fleet.wait_for_step(self.job, before + 1)["progress"]["step"]
        time.sleep(LONGEST_WAIT_SECONDS + self.fleet.job(self.job)["deadlines"]["lease_ms"] / 1000)
        self.fleet.wait_for_devices(len(self.fleet.agents))
        self.check(f"{how} for {seconds:.1f} s")
        print(f"    {how} for {seconds:.1f} s: step {before}, then {back}", flush=True)

    def check(self, what):
        log = self.fleet.coordinator.log_text()
        for event in ("device_lost", "device_disconnected", "generation_failed"):
            lines = [line for line in log.splitlines() if f"event={event}" in line]
            must(not lines, f"{what}: {lines}")
        incidents = self.fleet.get(f"/v1/jobs/{self.job['id']}/incidents")["items"]
        must(not incidents, f"{what}: {incidents}")
        generation = self.fleet.job(self.job)["generation"]
        must(generation == 1, f"{what}: generation {generation}")

    def finish(self, steps):
        """The job ends with the weights of one undisturbed process."""
        self.fleet.wait(self.job, "succeeded")
        self.check("the end")
        expected = train(fashion_job(**{**self.fields, "steps": steps}), FASHION)[0]
        sha256 = self.fleet.checkpoint_sha256(self.job)
        must(sha256 == expected, f"{sha256}, not {expected}")
        self.fleet.check_losses(self.job, steps)


def test_an_outage_longer_than_the_lease_loses_no_device_and_no_step():
    steps = 220
    with fashion_fleet(3, "--slowdown", 8, lease_ms=LEASE_MS) as fleet:
        outages = Outages(
            fleet, ("--heartbeat-ms", HEARTBEAT_MS, "--lease-ms", LEASE_MS), steps=steps
        )
        outages.kill(2)
        outages.finish(steps)


def test_a_cloned_agent_ends_and_the_first_one_continues():
    with fashion_fleet(1, lease_ms=LEASE_MS) as fleet:
        first = fleet.agents[0]
        device = fleet.wait_for_devices(1)[0]["id"]
        clone = fleet.path / "clone"
        clone.mkdir(mode=0o700)
        shutil.copy(fleet.path / first.name / "identity", clone)
        second = fleet.start_agent("clone", wait=False)
        must(second.process.wait(30) == 1, "the second agent ends with 1")
        must("uses the identity of device" in second.log_text(), second.log_text()[-500:])
        fleet.agents.remove(second)
        seen = fleet.wait_for_devices(1)
        must([(item["id"], item["name"]) for item in seen] == [(device, first.name)], f"{seen}")
        must(
            first.running() and fleet.coordinator.log_text().count("event=device_shared") == 1,
            fleet.coordinator.log_text()[-2000:],
        )


if __name__ == "__main__":
    run(globals())
