"""Compare seconds per step with TLS and without it, on loopback and on links of 100 Mbit/s."""

import argparse
import contextlib
import json
import os
import sys

from namespaces import NamespaceFleet, rows_on
from paceline import Fleet, fashion_job, on_devices
from report import finish, median, percent, say, spread, table

AGENTS = 2
BATCH = 32
SIDES = ("plain", "tls")
# Model, steps of a run. lenet5 computes for microseconds, so that its tensors decide the step.
MODELS = {"mobilenetv2": 50, "resnet8": 150, "lenet5": 500}
WARMUP_STEPS = 20  # connections, caches, pages, clock frequency
LINK_MBIT = 100
SHARE = 0.7
LEASE_MS = 20000
WAIT_SECONDS = 900


def run(fleet, model, cuts):
    """(median seconds of a step, bytes per second of the faster tensor link, stage boundaries)"""
    job = fleet.submit(
        fashion_job(
            model,
            batch=BATCH,
            steps=MODELS[model],
            evaluate={"every_epochs": 0},
            replication={"neighbor_every": 0, "center_every": 0},
            replan={"first": 0, "every": 0},
            cuts=cuts,
            **on_devices(AGENTS, AGENTS),
        )
    )
    fleet.wait(job, "succeeded", WAIT_SECONDS)
    seconds = fleet.metric(job, "step_seconds")
    plan = fleet.get(f"/v1/jobs/{job['id']}/plans/1")
    rates = [
        link["bytes_per_second"]
        for link in fleet.get("/v1/links")["items"]
        if link["kind"] == "tensor"
    ]
    return (
        median([value for step, value in seconds.items() if step > WARMUP_STEPS]),
        max(rates, default=None),
        [stage["first"] for stage in plan["stages"][1:]],
    )


def compare(fleets, link_mbit, model, pairs):
    """One row. An uncounted first run of each side warms it and chooses the stage boundaries."""
    cuts = run(fleets["plain"], model, None)[2]
    run(fleets["tls"], model, cuts)
    seconds, rates = {side: [] for side in SIDES}, {side: [] for side in SIDES}
    for pair in range(pairs):
        # The order changes, so that a machine that gets slower favours neither.
        for side in reversed(SIDES) if pair % 2 else SIDES:
            step, rate, _ = run(fleets[side], model, cuts)
            seconds[side].append(step)
            rates[side].append(rate)
        say(
            f"  {link_mbit} Mbit/s, {model}, pair {pair + 1}: TLS {seconds['tls'][-1] * 1e3:.3f} "
            f"ms, plain {seconds['plain'][-1] * 1e3:.3f} ms"
        )
    ratios = [tls / plain for tls, plain in zip(seconds["tls"], seconds["plain"])]
    return {
        "link_mbit": link_mbit,
        "model": model,
        "tls_step_seconds": median(seconds["tls"]),
        "plain_step_seconds": median(seconds["plain"]),
        "ratio": median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "ratio_spread": spread(ratios),
        "tls_bytes_per_second": median(rates["tls"]),
        "plain_bytes_per_second": median(rates["plain"]),
        "pairs": pairs,
    }


@contextlib.contextmanager
def both_sides(kind, names, start):
    """A fleet with TLS and one without. The one that does not train costs heartbeats alone."""
    with kind() as plain, kind() as secured:
        secured.init(*names)
        for fleet in (plain, secured):
            fleet.start_coordinator("--lease-ms", LEASE_MS)
            fleet.upload("fashion-train", "fashion-mini", "train")
            start(fleet)
            fleet.wait_for_agents()
        yield {"plain": plain, "tls": secured}


def on_loopback(options):
    with both_sides(Fleet, [], lambda fleet: fleet.start_agents(AGENTS)) as fleets:
        return [compare(fleets, 0, model, options.pairs) for model in MODELS]


def on_links(options):
    """Runs on the device coord of a fleet."""

    def start(fleet):
        for index in range(AGENTS):
            fleet.start_device(f"board{index}")

    names = ["--name", os.environ["FLEET_COORD"]]
    with both_sides(NamespaceFleet, names, start) as fleets:
        return [compare(fleets, LINK_MBIT, model, options.pairs) for model in MODELS]


def links_in_a_fleet(options):
    """Run this script on emulated devices; its rows, or [] if the machine cannot emulate them."""
    devices = "coord\n" + "".join(
        f"board{index} {SHARE} {LINK_MBIT} 1\n" for index in range(AGENTS)
    )
    return rows_on(devices, [sys.executable, __file__, "--pairs", options.pairs])


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pairs", type=int, default=5)
    arguments.add_argument("--rows", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if "FLEET_NAME" in os.environ:
        rows = on_links(options)
        with open(options.rows, "w", encoding="utf-8") as file:
            json.dump(rows, file)
        return
    rows = on_loopback(options) + links_in_a_fleet(options)
    table(
        ["link Mbit/s", "model", "TLS ms/step", "plain ms/step", "ratio", "from", "to", "spread"]
        + ["TLS MB/s", "plain MB/s", "pairs"],
        [
            [
                row["link_mbit"],
                row["model"],
                f"{row['tls_step_seconds'] * 1e3:.3f}",
                f"{row['plain_step_seconds'] * 1e3:.3f}",
                f"{row['ratio']:.4f}",
                f"{row['ratio_min']:.4f}",
                f"{row['ratio_max']:.4f}",
                percent(row["ratio_spread"]),
                f"{row['tls_bytes_per_second'] / 1e6:.1f}",
                f"{row['plain_bytes_per_second'] / 1e6:.1f}",
                row["pairs"],
            ]
            for row in rows
        ],
    )
    say(
        f"Batch {BATCH}, {AGENTS} agents; link 0 is loopback. The ratio is that of the median "
        "steps of two consecutive runs. Goal: 1.05 where links are not the bottleneck"
    )
    finish("tls", rows)


if __name__ == "__main__":
    main()
