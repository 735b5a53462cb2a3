"""What replication costs: seconds per step with the default periods against none, on loopback and on 100 Mbit/s links."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from namespaces import NamespaceFleet, run_on
from paceline import WAIT_SECONDS, fashion_fleet, fashion_job, on_devices
from report import finish, median, percent, say, spread, table

AGENTS = 3
MODEL = "mobilenetv2"
BATCH = 32
STEPS = 110        # of a run: two rounds to the neighbours, one to the center; short runs, as machines drift
WARMUP_STEPS = 10  # caches, pages, clock frequency
LINK_MBIT = 100
SHARE = 0.55
PAGE = 10000
NONE = {"neighbor_every": 0, "center_every": 0}
LEASE_MS = 20000


def job_of(replicates, cuts):
    fields = {} if replicates else {"replication": NONE}
    return fashion_job(MODEL, batch=BATCH, steps=STEPS, evaluate={"every_epochs": 0}, cuts=cuts, **on_devices(AGENTS, AGENTS), **fields)


def bytes_sent(fleet):
    return sum(device["replica_bytes_sent"] for device in fleet.get("/v1/devices?limit=500")["items"])


def run(fleet, replicates, cuts):
    """(median seconds of a step, mean seconds of a step, bytes of replicas a step, the plan's borders)"""
    before = bytes_sent(fleet)
    job = fleet.submit(job_of(replicates, cuts))
    fleet.wait(job, "succeeded", 20 * WAIT_SECONDS)
    items = fleet.get(f"/v1/jobs/{job['id']}/metrics?name=step_seconds&limit={PAGE}")["items"]
    seconds = [item["value"] for item in items][WARMUP_STEPS:]
    time.sleep(1)  # the last heartbeat's counters
    stages = fleet.get(f"/v1/jobs/{job['id']}/plans/1")["stages"]
    return median(seconds), sum(seconds) / len(seconds), (bytes_sent(fleet) - before) / STEPS, [stage["first"] for stage in stages[1:]]


def compare(fleet, link_mbit, pairs):
    """One row. Both sides have the same borders: those the planner chose for the first run, which is not counted."""
    cuts = run(fleet, False, None)[3]
    with_replicas, without, sent = [], [], []
    for pair in range(pairs):
        # The order changes, so that a machine that gets slower favours neither.
        for replicates in (True, False) if pair % 2 else (False, True):
            _, mean, size, _ = run(fleet, replicates, cuts)
            (with_replicas if replicates else without).append(mean)
            if replicates:
                sent.append(size)
        say(f"  {link_mbit} Mbit/s, pair {pair + 1}: with {with_replicas[-1] * 1e3:.2f} ms, without {without[-1] * 1e3:.2f} ms, "
            f"ratio {with_replicas[-1] / without[-1]:.4f}")
    ratios = [mine / other for mine, other in zip(with_replicas, without)]
    return {"link_mbit": link_mbit, "step_ratio": median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios),
            "ratio_spread": spread(ratios), "bytes_per_step": median(sent), "step_seconds": median(with_replicas),
            "step_seconds_without": median(without), "pairs": pairs}


def on_loopback(pairs):
    with fashion_fleet(AGENTS, lease_ms=LEASE_MS) as fleet:
        return [compare(fleet, 0, pairs)]


def on_links(pairs):
    """Runs on the device coord of a fleet."""
    with NamespaceFleet() as fleet:
        fleet.start_coordinator("--lease-ms", LEASE_MS)
        fleet.upload("fashion-train", "fashion-mini", "train")
        for index in range(AGENTS):
            fleet.start_device(f"board{index}")
        fleet.wait_for_agents()
        return [compare(fleet, LINK_MBIT, pairs)]


def links_in_a_fleet(pairs):
    """The row that this script prints when it runs on the devices, or [] where the machine cannot have them."""
    devices = "coord\n" + "".join(f"board{index} {SHARE} {LINK_MBIT} 1\n" for index in range(AGENTS))
    with tempfile.NamedTemporaryFile("r", suffix=".rows") as file:
        status = run_on(devices, [sys.executable, __file__, "--pairs", pairs, "--rows", file.name])
        if status not in (0, 77):
            raise subprocess.CalledProcessError(status, __file__)
        return [] if status == 77 else json.load(file)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pairs", type=int, default=8)
    arguments.add_argument("--rows", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if "FLEET_NAME" in os.environ:
        rows = on_links(options.pairs)
        with open(options.rows, "w", encoding="utf-8") as file:
            json.dump(rows, file)
        return
    rows = on_loopback(options.pairs) + links_in_a_fleet(options.pairs)
    table(["link Mbit/s", "with ms/step", "without ms/step", "ratio", "from", "to", "spread", "replica bytes/step", "pairs"],
          [[row["link_mbit"], f"{row['step_seconds'] * 1e3:.2f}", f"{row['step_seconds_without'] * 1e3:.2f}", f"{row['step_ratio']:.4f}",
            f"{row['ratio_min']:.4f}", f"{row['ratio_max']:.4f}", percent(row["ratio_spread"]), f"{row['bytes_per_step']:.0f}",
            row["pairs"]] for row in rows])
    say(f"{MODEL}, batch {BATCH}, {STEPS} steps, {AGENTS} agents; mean seconds of a step behind the first {WARMUP_STEPS}; link 0 is "
        "loopback; goals: 1.02 there, 1.05 on the links")
    finish("replication", rows)


if __name__ == "__main__":
    main()
