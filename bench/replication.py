"""Compare seconds per step with and without replication, by schedule, on loopback and links."""

import argparse
import json
import os
import statistics
import sys
import time

from namespaces import NamespaceFleet, rows_on
from paceline import WAIT_SECONDS, fashion_fleet, fashion_job, on_devices
from report import finish, median, percent, say, spread, table

AGENTS = 3
MODEL = "mobilenetv2"
BATCH = 32
PERIOD = 50  # steps between rounds to the neighbours (the default); every second goes to the center
# Steps of a run. The first period follows no round and warms caches, pages and the clock frequency.
STEPS = 3 * PERIOD
QUIET = PERIOD // 2  # steps at the end of a period, after all copies are sent
LINK_MBIT = 100
SHARE = 0.55
SCHEDULES = {"sync": {}, "async": {"pipeline": "async", "micro_batches": 1}}
NONE = {"neighbor_every": 0, "center_every": 0}
LEASE_MS = 20000


def job_of(schedule, replicates, cuts):
    fields = {} if replicates else {"replication": NONE}
    return fashion_job(
        MODEL,
        batch=BATCH,
        steps=STEPS,
        evaluate={"every_epochs": 0},
        cuts=cuts,
        **on_devices(AGENTS, AGENTS),
        **SCHEDULES[schedule],
        **fields,
    )


def bytes_sent(fleet):
    return sum(
        device["replica_bytes_sent"] for device in fleet.get("/v1/devices?limit=500")["items"]
    )


def seconds_by_period(fleet, job):
    """Seconds of the steps after each round: [period][step of it]."""
    seconds = fleet.metric(job, "step_seconds")
    return [
        [seconds[first + step] for step in range(1, PERIOD + 1)]
        for first in range(PERIOD, STEPS, PERIOD)
    ]


def run(fleet, schedule, replicates, cuts):
    """(mean seconds of a step, ratio to mean quiet step, replica bytes per step, boundaries)

    The ratio compares steps of one run: the machine's speed in other runs has no influence.
    """
    before = bytes_sent(fleet)
    job = fleet.submit(job_of(schedule, replicates, cuts))
    fleet.wait(job, "succeeded", 20 * WAIT_SECONDS)
    periods = seconds_by_period(fleet, job)
    time.sleep(1)  # the last heartbeat's counters
    stages = fleet.get(f"/v1/jobs/{job['id']}/plans/1")["stages"]
    mean = statistics.fmean(value for period in periods for value in period)
    quiet = statistics.fmean(value for period in periods for value in period[-QUIET:])
    return (
        mean,
        mean / quiet,
        (bytes_sent(fleet) - before) / STEPS,
        [stage["first"] for stage in stages[1:]],
    )


def compare(fleet, link_mbit, schedule, pairs):
    """One row. An uncounted first run chooses the stage boundaries of both sides."""
    cuts = run(fleet, schedule, False, None)[3]
    ratios, run_ratios, with_replicas, without, sent = [], [], [], [], []
    for pair in range(pairs):
        # The order changes, so that a machine that gets slower favours neither.
        order = (True, False) if pair % 2 else (False, True)
        sides = {replicates: run(fleet, schedule, replicates, cuts) for replicates in order}
        with_replicas.append(sides[True][0])
        without.append(sides[False][0])
        run_ratios.append(sides[True][0] / sides[False][0])
        ratios.append(sides[True][1] / sides[False][1])
        sent.append(sides[True][2])
        say(
            f"  {link_mbit} Mbit/s, {schedule}, pair {pair + 1}: "
            f"with {with_replicas[-1] * 1e3:.2f} ms, without {without[-1] * 1e3:.2f} ms, "
            f"ratio {ratios[-1]:.4f}, of the runs {run_ratios[-1]:.4f}"
        )
    return {
        "link_mbit": link_mbit,
        "schedule": schedule,
        "step_ratio": median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "ratio_spread": spread(ratios),
        "run_ratio": median(run_ratios),
        "run_ratio_spread": spread(run_ratios),
        "bytes_per_step": median(sent),
        "step_seconds": median(with_replicas),
        "step_seconds_without": median(without),
        "pairs": pairs,
    }


def on_loopback(options):
    with fashion_fleet(AGENTS, lease_ms=LEASE_MS) as fleet:
        return [compare(fleet, 0, schedule, options.pairs) for schedule in options.schedule]


def on_links(options):
    """Runs on the device coord of a fleet."""
    with NamespaceFleet() as fleet:
        fleet.start_coordinator("--lease-ms", LEASE_MS)
        fleet.upload("fashion-train", "fashion-mini", "train")
        for index in range(AGENTS):
            fleet.start_device(f"board{index}")
        fleet.wait_for_agents()
        return [compare(fleet, LINK_MBIT, schedule, options.pairs) for schedule in options.schedule]


def links_in_a_fleet(options):
    """Run this script on emulated devices; its rows, or [] if the machine cannot emulate them."""
    devices = "coord\n" + "".join(
        f"board{index} {SHARE} {LINK_MBIT} 1\n" for index in range(AGENTS)
    )
    command = [sys.executable, __file__, "--pairs", options.pairs]
    return rows_on(devices, [*command, "--schedule", *options.schedule])


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pairs", type=int, default=5)
    arguments.add_argument("--schedule", nargs="+", choices=SCHEDULES, default=list(SCHEDULES))
    arguments.add_argument("--rows", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if "FLEET_NAME" in os.environ:
        rows = on_links(options)
        with open(options.rows, "w", encoding="utf-8") as file:
            json.dump(rows, file)
        return
    rows = on_loopback(options) + links_in_a_fleet(options)
    table(
        [
            "link Mbit/s",
            "schedule",
            "with ms/step",
            "without ms/step",
            "ratio",
            "from",
            "to",
            "spread",
            "of runs",
            "spread",
            "replica bytes/step",
            "pairs",
        ],
        [
            [
                row["link_mbit"],
                row["schedule"],
                f"{row['step_seconds'] * 1e3:.2f}",
                f"{row['step_seconds_without'] * 1e3:.2f}",
                f"{row['step_ratio']:.4f}",
                f"{row['ratio_min']:.4f}",
                f"{row['ratio_max']:.4f}",
                percent(row["ratio_spread"]),
                f"{row['run_ratio']:.4f}",
                percent(row["run_ratio_spread"]),
                f"{row['bytes_per_step']:.0f}",
                row["pairs"],
            ]
            for row in rows
        ],
    )
    say(
        f"{MODEL}, batch {BATCH}, {STEPS} steps, {AGENTS} agents; link 0 is loopback. "
        f"ratio: the mean step of whole periods over the mean of their last {QUIET} steps, with "
        "replicas over without; of runs: the ratio of the mean steps of two consecutive runs. "
        "Goals: 1.02 on loopback, 1.05 on the links"
    )
    finish("replication", rows)


if __name__ == "__main__":
    main()
