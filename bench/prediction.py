"""Compare predicted with measured seconds per step on devices of speed 1 : 1 : 1/4."""

import argparse
import math
import os
import sys
import time

from namespaces import NamespaceFleet, run_on
from paceline import FASHION, Failure, fashion_job, must, on_devices, train
from report import finish, median, say, table

SHARES = {"fast1": 0.66, "fast2": 0.66, "slow": 0.165}
COORDINATOR_SHARE = 0.25
MODEL = "mobilenetv2"
MICRO_BATCHES = 4
PLANS = 5
STEPS_OF_A_PLAN = 16
STEP_SECONDS = 0.75  # aimed at; the goal needs 0.5 at least
EFFICIENCY = 0.8  # assumed for the choice of the batch only
CALIBRATION_BATCH = 32
WAIT_SECONDS = 900


def job_of(batch, **fields):
    return fashion_job(
        MODEL, batch=batch, micro_batches=MICRO_BATCHES, evaluate={"every_epochs": 0}, **fields
    )


def choose_batch():
    """A batch with which a step takes about STEP_SECONDS, from the speed of one whole core."""
    output = train(job_of(CALIBRATION_BATCH, steps=4), FASHION)[1]
    seconds = float(
        next(
            line.split()[1] for line in output.splitlines() if line.startswith("seconds_per_step ")
        )
    )
    samples = STEP_SECONDS * EFFICIENCY * sum(SHARES.values()) / (seconds / CALIBRATION_BATCH)
    return max(1, math.ceil(samples / MICRO_BATCHES)) * MICRO_BATCHES


def measured_plan(fleet, job, generation, steps):
    """The plan, after this number of its steps was measured."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        answer = fleet.request("GET", f"/v1/jobs/{job['id']}/plans/{generation}")
        if answer.status == 200 and answer.json["measured_steps"] >= steps:
            return answer.json
        seen = fleet.job(job)
        must(seen["state"] != "failed", f"the job failed: {seen['message']}")
        must(
            seen["generation"] <= generation,
            f"generation {seen['generation']} came by itself: {seen['message']}",
        )
        time.sleep(0.2)
    raise Failure(
        f"generation {generation} did not make {steps} steps in {WAIT_SECONDS} s: {answer.body}"
    )


def row_of(plan, names):
    predicted, measured = plan["predicted_step_seconds"], plan["measured_step_seconds"]
    stages = [
        {
            "device": names[stage["device"]],
            "share": SHARES[names[stage["device"]]],
            "units": stage["end"] - stage["first"],
            "predicted_busy": stage["predicted_busy"],
            "predicted_seconds": stage["predicted_forward_seconds"]
            + stage["predicted_backward_seconds"],
            "measured_seconds": (stage["measured_forward_seconds"] or 0)
            + (stage["measured_backward_seconds"] or 0),
        }
        for stage in plan["stages"]
    ]
    return {
        "generation": plan["generation"],
        "predicted_step_seconds": predicted,
        "measured_step_seconds": measured,
        "measured_steps": plan["measured_steps"],
        "error": abs(predicted - measured) / measured,
        "stages": stages,
    }


def run_plans(options):
    """One row for each plan."""
    rows = []
    with NamespaceFleet() as fleet:
        fleet.start_coordinator("--lease-ms", "10000")
        fleet.upload("fashion-train", "fashion-mini", "train")
        for name in SHARES:
            fleet.start_device(name)
        names = {device["id"]: device["name"] for device in fleet.wait_for_agents()}
        job = fleet.submit(job_of(options.batch, **on_devices(len(SHARES), len(SHARES))))
        for generation in range(1, options.plans + 1):
            if generation > 1:
                fleet.verb(job, "replan", {})
            row = row_of(measured_plan(fleet, job, generation, options.steps), names)
            say(
                f"  plan {generation}: predicted {row['predicted_step_seconds']:.3f} s, "
                f"measured {row['measured_step_seconds']:.3f} s, error {row['error']:.1%}; "
                + ", ".join(f"{stage['device']} {stage['units']} units" for stage in row["stages"])
            )
            rows.append(row)
        fleet.verb(job, "cancel")
    return rows


def show(options, rows):
    table(
        ["plan", "predicted s", "measured s", "steps", "error"],
        [
            [
                row["generation"],
                f"{row['predicted_step_seconds']:.3f}",
                f"{row['measured_step_seconds']:.3f}",
                row["measured_steps"],
                f"{row['error']:.1%}",
            ]
            for row in rows
        ],
    )
    table(
        [
            "plan",
            "device",
            "speed",
            "units",
            "busy (predicted)",
            "ms/micro-batch (predicted)",
            "ms/micro-batch (measured)",
        ],
        [
            [
                row["generation"],
                stage["device"],
                f"{stage['share'] / max(SHARES.values()):.2f}",
                stage["units"],
                f"{stage['predicted_busy']:.0%}",
                f"{stage['predicted_seconds'] * 1e3:.1f}",
                f"{stage['measured_seconds'] * 1e3:.1f}",
            ]
            for row in rows
            for stage in row["stages"]
        ],
    )
    error = median([row["error"] for row in rows])
    shortest = min(row["measured_step_seconds"] for row in rows)
    say(
        f"{MODEL}, batch {options.batch} in {MICRO_BATCHES} micro-batches; "
        f"shares {' + '.join(map(str, SHARES.values()))} of a core"
    )
    say(f"median error {error:.1%} (goal: 15 %); shortest step {shortest:.3f} s (needed: 0.5 s)")
    finish("prediction", rows, median_error=error, batch=options.batch, micro_batches=MICRO_BATCHES)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--batch", type=int, help="default: so that a step takes about 0.75 s")
    arguments.add_argument("--plans", type=int, default=PLANS)
    arguments.add_argument(
        "--steps", type=int, default=STEPS_OF_A_PLAN, help="measured in each plan"
    )
    arguments.add_argument(
        "--link", default="0 0", help="Mbit/s and ms of each device's link; 0: no limit"
    )
    options = arguments.parse_args()
    if "FLEET_NAME" in os.environ:
        show(options, run_plans(options))
        return
    devices = f"coord {COORDINATOR_SHARE}\n" + "".join(
        f"{name} {share} {options.link}\n" for name, share in SHARES.items()
    )
    batch = options.batch or choose_batch()
    sys.exit(
        run_on(
            devices,
            [
                sys.executable,
                __file__,
                "--batch",
                batch,
                "--plans",
                options.plans,
                "--steps",
                options.steps,
            ],
        )
    )


if __name__ == "__main__":
    main()
