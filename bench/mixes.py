"""Show what the mixes of gossip cost a device in training time, beside training alone."""

import argparse
import json
import os
import pathlib
import sys
import time

from namespaces import NamespaceFleet, run_on
from paceline import fashion_job, must, on_devices
from report import finish, median, rows_file, say, table

DEVICES = ("left", "right")
SHARE = 0.75  # of a processor, for each device
COORDINATOR_SHARE = 0.25
LINK_MBIT = 100
DELAY_MS = 1
LEASE_MS = 20000  # of devices that compute in slices
MODEL, BATCH = "mobilenetv2", 32
AVERAGE_NEVER = 1000  # mixes; an average costs more, and comes once in many
LOOK_SECONDS = 0.02
START_SECONDS = 180
GOAL = 0.02


def job_of(**fields):
    return fashion_job(
        MODEL,
        **{
            "batch": BATCH,
            "micro_batches": 1,
            "evaluate": {"every_epochs": 0},
            "replication": {"neighbor_every": 0, "center_every": 0},
            **fields,
        },
    )


class Rates:
    """How often a number of each device rises: from the first rise that is seen to the last."""

    def __init__(self):
        self.seen, self.first, self.last = {}, {}, {}

    def take(self, numbers):
        now = time.monotonic()
        for device, number in numbers.items():
            if number > self.seen.get(device, number):
                self.first.setdefault(device, (number, now))
                self.last[device] = (number, now)
            self.seen[device] = number

    def of(self, device):
        must(self.first.get(device) != self.last.get(device), f"{device} makes no progress")
        (first, began), (last, ended) = self.first[device], self.last[device]
        return (last - first) / (ended - began)

    def watch(self, seconds, look):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.take(look())
            time.sleep(LOOK_SECONDS)


class Bench:
    def __init__(self, fleet, seconds):
        self.fleet, self.seconds = fleet, seconds
        self.names = {one["id"]: one["name"] for one in fleet.wait_for_agents()}

    def wait_until(self, condition, what):
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            must(time.monotonic() < deadline, f"no {what} in {START_SECONDS} s")
            time.sleep(0.2)

    def end(self, jobs):
        for job in jobs:
            self.fleet.verb(job, "cancel")
        for job in jobs:
            self.fleet.wait(job, "cancelled")

    def alone(self):
        """Steps a second of each device that trains by itself, both at once."""
        jobs = {
            name: self.fleet.submit(
                job_of(devices={"min": 1, "max": 1, "labels": {"board": name}})
            )
            for name in DEVICES
        }
        rates = Rates()

        def look():
            return {name: self.fleet.job(job)["progress"]["step"] for name, job in jobs.items()}

        self.wait_until(lambda: all(step > 1 for step in look().values()), "step")
        rates.watch(self.seconds, look)
        self.end(jobs.values())
        return {name: rates.of(name) for name in DEVICES}

    def mixed(self):
        """The same of two groups, with the seconds between two mixes and those of one mix."""
        job = self.fleet.submit(
            job_of(
                strategy="gossip",
                gossip={"average_every": AVERAGE_NEVER},
                **on_devices(len(DEVICES), len(DEVICES)),
            )
        )
        rates, mixes = Rates(), Rates()

        def groups():
            path = f"/v1/jobs/{job['id']}/groups"
            return [one["mixes"] for one in self.fleet.get(path)["groups"]]

        def look():
            found = groups()
            mixes.take({self.names[one["device"]]: one["mixes"] for one in found})
            return {self.names[one["device"]]: one["steps"] for one in found}

        self.wait_until(
            lambda: len(found := groups()) == len(DEVICES) and all(m["mixes"] > 1 for m in found),
            "mix",
        )
        rates.watch(self.seconds, look)
        spent = {self.names[one["device"]]: one["mix_seconds"] for one in groups()}
        self.end([job])
        return {
            name: (rates.of(name), 1 / mixes.of(name), spent[name]) for name in DEVICES
        }

    def pair(self, number):
        """A row for each device."""
        # The order changes, so that a machine that gets slower favours neither.
        if number % 2:
            mixed, alone = self.mixed(), self.alone()
        else:
            alone, mixed = self.alone(), self.mixed()
        for name in DEVICES:
            rate, period, spent = mixed[name]
            row = {
                "device": name,
                "model": MODEL,
                "batch": BATCH,
                "mbit": LINK_MBIT,
                "alone_steps_per_second": alone[name],
                "steps_per_second": rate,
                "period_seconds": period,
                "mix_seconds": spent,
                "cost": 1 - rate / alone[name],
            }
            say(
                f"  pair {number + 1}, {name}: alone {alone[name]:.3f}, mixed {rate:.3f} steps/s, "
                f"a mix each {period:.2f} s: {row['cost']:.2%}"
            )
            yield row


def measure(options):
    """On the device coord."""
    with NamespaceFleet() as fleet:
        fleet.start_coordinator("--lease-ms", LEASE_MS)
        fleet.upload("fashion-train", "fashion-mini", "train")
        for name in DEVICES:
            fleet.start_device(name, "--label", f"board={name}")
        bench = Bench(fleet, options.seconds)
        bench.mixed()  # speeds and the link are known afterwards
        with options.rows.open("a") as file:
            for number in range(options.pairs):
                for row in bench.pair(number):
                    file.write(json.dumps(row) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=4, help="of runs, alone and mixed")
    parser.add_argument("--seconds", type=float, default=45, help="of a run")
    parser.add_argument("--rows", type=pathlib.Path, help="append rows to this file")
    options = parser.parse_args()
    if "FLEET_NAME" in os.environ:
        measure(options)
        return
    with rows_file(options.rows) as path:
        command = [sys.executable, __file__, "--pairs", options.pairs, "--seconds"]
        devices = f"coord {COORDINATOR_SHARE}\n" + "".join(
            f"{name} {SHARE} {LINK_MBIT} {DELAY_MS}\n" for name in DEVICES
        )
        status = run_on(devices, [*command, options.seconds, "--rows", path])
        if status != 0:
            sys.exit(status)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    table(
        ["model", "Mbit/s", "pairs", "alone steps/s", "mixed", "period s", "mix s", "cost %"],
        [
            [
                MODEL,
                LINK_MBIT,
                len(rows) // len(DEVICES),
                *(
                    f"{median([row[field] for row in rows]):.3f}"
                    for field in (
                        "alone_steps_per_second",
                        "steps_per_second",
                        "period_seconds",
                        "mix_seconds",
                    )
                ),
                f"{100 * median([row['cost'] for row in rows]):.2f}",
            ]
        ],
    )
    cost = median([row["cost"] for row in rows])
    say(f"a mix costs {cost:.2%} of a period: {'met' if cost <= GOAL else 'NOT MET'}: {GOAL:.0%}")
    finish("mixes", rows, cost=cost)


if __name__ == "__main__":
    main()
