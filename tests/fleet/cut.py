"""A device leaves the network and returns, on emulated devices (77 if the machine cannot have
them). The job continues without it, uses it again, and ends with the weights of one process.
"""

import os
import subprocess
import sys
import time

from namespaces import TOOL, NamespaceFleet, run_on
from paceline import FASHION, fashion_job, must, on_devices, train
from runner import run

LEASE_MS = 3000
DEVICES = "coord\nboard0 0.5 100 1\nboard1 0.5 100 1\nboard2 0.5 100 1\n"
JOB = fashion_job(
    steps=600,
    replication={"neighbor_every": 10, "center_every": 40},
    evaluate={"every_epochs": 0},
    cuts=[2, 4],
    **on_devices(1, 3),
)


def fleet_tool(verb, name):
    subprocess.run([str(TOOL), verb, name], check=True)


SERVERS = fashion_job(
    steps=300,
    strategy="parameter_server",
    parameter_server={"servers": 1},
    replication={"neighbor_every": 10, "center_every": 40},
    evaluate={"every_epochs": 0},
    **on_devices(2, 3),
)


def cut(seconds, job=JOB, stage=1):
    """Cut off the device of the stage for `seconds`; (the weights, the job's incidents)."""
    with NamespaceFleet() as fleet:
        fleet.start_coordinator("--heartbeat-ms", 200, "--lease-ms", LEASE_MS)
        fleet.upload("fashion-train", "fashion-mini", "train")
        for index in range(3):
            fleet.start_device(f"board{index}", "--slowdown", 2)
        names = {device["id"]: device["name"] for device in fleet.wait_for_agents()}
        job = fleet.submit(job)
        fleet.wait_for_step(job, 60)
        name = names[fleet.stages(fleet.job(job))[stage]["device"]]
        fleet_tool("cut", name)
        time.sleep(seconds)
        fleet_tool("heal", name)
        fleet.wait(job, "succeeded")
        fleet.wait_for_devices(3)
        return fleet.checkpoint_sha256(job), fleet.get(f"/v1/jobs/{job['id']}/incidents")["items"]


def test_a_long_cut_of_a_link_costs_the_device_and_no_weights():
    sha256, incidents = cut(2 * LEASE_MS / 1000)
    must(sha256 == train(JOB, FASHION)[0], f"{sha256}")
    must(any(incident["cause"] == "device_lost" for incident in incidents), f"{incidents}")


def test_a_short_cut_of_a_link_costs_no_device():
    sha256, incidents = cut(0.3)
    must(sha256 == train(JOB, FASHION)[0], f"{sha256}")
    must(not any(incident["cause"] == "device_lost" for incident in incidents), f"{incidents}")


def test_cuts_of_a_worker_and_of_the_lead_cost_no_weights():
    expected = train(SERVERS, FASHION)[0]
    for stage in (1, 0):
        for seconds in (0.3, 2 * LEASE_MS / 1000):
            sha256, incidents = cut(seconds, SERVERS, stage)
            must(sha256 == expected, f"stage {stage}, {seconds} s: {sha256}, not {expected}")
            lost = any(incident["cause"] == "device_lost" for incident in incidents)
            must(lost == (seconds > 1), f"stage {stage}, {seconds} s: {incidents}")


if __name__ == "__main__":
    if "FLEET_NAME" not in os.environ:
        sys.exit(run_on(DEVICES, [sys.executable, __file__, *sys.argv[1:]]))
    run(globals())
