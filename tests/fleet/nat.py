"""Devices behind a NAT: they dial out, and nobody gets an answer from their listener (77 if the
machine cannot have emulated devices). They train through the coordinator's relay over TLS, with the
weights of one process, also when the relay is killed in the middle.
"""

import os
import re
import subprocess
import sys

from namespaces import TOOL, NamespaceFleet, run_on
from paceline import FASHION, fashion_job, must, on_devices, train
from runner import run

PORT = 7411
DEVICES = "coord\nboard0 0.4 100 1\nboard1 0.4 100 1\nboard2 0.4 100 1\n"
JOB = fashion_job(
    steps=200,
    replication={"neighbor_every": 20, "center_every": 40},
    evaluate={"every_epochs": 0},
    cuts=[2, 4],
    **on_devices(3, 3),
)


class NatFleet(NamespaceFleet):
    port = PORT

    def rule(self, verb, name):
        """What the device's listener answers is dropped on its way out, as by a NAT that knows no
        such connection. Returns whether the rules could be changed.
        """
        rule = ["ip", "rule", verb, "sport", str(PORT), "blackhole"]
        done = subprocess.run(
            [str(TOOL), "exec", name, "--", *rule], check=False, capture_output=True
        )
        return done.returncode == 0

    def hide(self, name):
        must(self.rule("add", name), f"{name}: no rule")

    def show(self, name):
        """The devices outlive a test: so do their rules."""
        while self.rule("del", name):
            pass

    def start_hidden(self, name):
        self.hide(name)
        return self.start_device(name)


def open_fleet(fleet, hidden=("board1", "board2")):
    fleet.init("--name", os.environ["FLEET_COORD"])
    fleet.start_coordinator("--heartbeat-ms", 200, "--lease-ms", 5000)
    fleet.upload("fashion-train", "fashion-mini", "train")
    for name in ("board0", "board1", "board2"):
        fleet.show(name)
        if name in hidden:
            fleet.start_hidden(name)
        else:
            fleet.start_device(name)
    devices = fleet.wait_for_agents()
    return {device["id"]: device["name"] for device in devices}


def relayed(fleet, names):
    devices = fleet.get("/v1/devices")["items"]
    return {(device["name"], names[to]) for device in devices for to in device["relayed"]}


def test_hidden_devices_train_through_the_relay():
    expected = train(JOB, FASHION)[0]
    with NatFleet() as fleet:
        names = open_fleet(fleet)
        job = fleet.submit(JOB)
        done = fleet.wait(job, "succeeded")
        must(fleet.checkpoint_sha256(job) == expected, "other weights")
        must(done["generation"] == 1, f"{done['generation']} generations")
        pairs = relayed(fleet, names)
        must({("board1", "board2"), ("board2", "board1")} <= pairs or len(pairs) >= 2, pairs)
        must(not any(to == "board0" for _, to in pairs), pairs)
        plan = fleet.get(f"/v1/jobs/{job['id']}/plans/1")
        print(f"first plan: step {plan['measured_step_seconds']:.4f} s, "
              f"predicted {plan['predicted_step_seconds']:.4f} s")
        again = fleet.submit(JOB)
        fleet.wait(again, "succeeded")
        must(fleet.checkpoint_sha256(again) == expected, "other weights the second time")
        plan = fleet.get(f"/v1/jobs/{again['id']}/plans/1")
        print(f"second job: step {plan['measured_step_seconds']:.4f} s, "
              f"predicted {plan['predicted_step_seconds']:.4f} s")
        fleet.coordinator.stop()
        closed = re.findall(r"event=relay_closed (.*)", fleet.coordinator.log_text())
        print(f"relay: {closed}")
        must(len(closed) == 1, closed)


def test_a_killed_relay_recovers():
    expected = train(JOB, FASHION)[0]
    with NatFleet() as fleet:
        open_fleet(fleet)
        job = fleet.submit(JOB)
        fleet.wait_for_step(job, 60)
        text = fleet.coordinator.log_text()
        relay = re.findall(r"event=relay_listening address=(\S+)", text)[-1]
        fleet.coordinator.kill()
        fleet.restart_coordinator("--relay", relay)
        done = fleet.wait(job, "succeeded")
        must(fleet.checkpoint_sha256(job) == expected, "other weights")
        print(f"{done['generation']} generations")


def test_a_path_that_closes_in_the_middle_costs_no_step():
    expected = train(JOB, FASHION)[0]
    with NatFleet() as fleet:
        names = open_fleet(fleet, hidden=())
        job = fleet.submit(JOB)
        fleet.wait_for_step(job, 40)
        must(relayed(fleet, names) == set(), "a relay before its need")
        for name in ("board0", "board1", "board2"):
            fleet.hide(name)
        done = fleet.wait(job, "succeeded")
        must(fleet.checkpoint_sha256(job) == expected, "other weights")
        must(done["generation"] == 1, f"{done['generation']} generations")
        must(len(relayed(fleet, names)) >= 4, relayed(fleet, names))


if __name__ == "__main__":
    if "FLEET_NAME" not in os.environ:
        sys.exit(run_on(DEVICES, [sys.executable, __file__, *sys.argv[1:]]))
    run(globals())
