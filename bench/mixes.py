"""Show what the mixes of gossip cost a device in training time, beside training alone.

Speeds of two jobs one after the other differ by more than the cost of a mix on most machines. So
the cost is taken within each job: the part of the time that lies between its steps, and the part of
the device's processor time that other threads than the one that trains take. Both are 0 but for the
agent's own work when a device trains alone, which is subtracted.
"""

import argparse
import itertools
import json
import os
import pathlib
import re
import statistics
import sys
import time

from namespaces import NamespaceFleet, rows_on
from paceline import fashion_job, must, on_devices
from report import finish, median, say, table

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
TRAINS = "compute"  # the thread
TICKS = os.sysconf("SC_CLK_TCK")
STAT = re.compile(r"\d+ \((.*)\) \S (.*)", re.DOTALL)


def processor_seconds(pid):
    """{thread name: user and system time}"""
    found = {}
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat"):
        name, rest = STAT.match(path.read_text()).groups()
        fields = rest.split()
        ticks = int(fields[10]) + int(fields[11])
        found[name] = found.get(name, 0) + ticks / TICKS
    return found


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
    """How often a number of each device rises. A rise is seen late by up to a heartbeat, so that
    lines are fitted to all of them.
    """

    def __init__(self):
        self.seen, self.rises = {}, {}

    def take(self, numbers):
        now = time.monotonic()
        for device, number in numbers.items():
            if number > self.seen.get(device, number):
                self.rises.setdefault(device, []).append((now, number))
            self.seen[device] = number

    def slope(self, device, value=lambda number: number):
        """Of a value of the number, in units a second."""
        rises = self.rises.get(device, [])
        must(len(rises) > 2, f"{device} makes no progress")
        moments, numbers = zip(*rises)
        return statistics.linear_regression(moments, list(map(value, numbers))).slope

    def between(self, device, seconds):
        """The part of the time that is not in the steps: seconds by step."""
        sums = dict(zip(seconds, itertools.accumulate(seconds.values())))
        return 1 - self.slope(device, sums.get)

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

    def agent_of(self, name):
        return next(agent for agent in self.fleet.agents if agent.name == name)

    def watch(self, look, jobs_of):
        """{device: (steps a second, part of the time between steps, part of the processor time of
        other threads)}. jobs_of: {device: job whose metrics say how long its steps took}
        """
        rates = Rates()
        before = {name: processor_seconds(self.agent_of(name).process.pid) for name in DEVICES}
        rates.watch(self.seconds, look)
        found = {}
        for name, job in jobs_of().items():
            after = processor_seconds(self.agent_of(name).process.pid)
            spent = {one: after[one] - before[name].get(one, 0) for one in after}
            must(spent.get(TRAINS), f"{name}: no thread '{TRAINS}' in {sorted(spent)}")
            seconds = self.fleet.metric(job, "step_seconds")
            found[name] = (
                rates.slope(name),
                rates.between(name, seconds),
                1 - spent[TRAINS] / sum(spent.values()),
            )
        return found

    def alone(self):
        """Of each device that trains by itself, both at once."""
        jobs = {
            name: self.fleet.submit(
                job_of(devices={"min": 1, "max": 1, "labels": {"board": name}})
            )
            for name in DEVICES
        }

        def look():
            return {name: self.fleet.job(job)["progress"]["step"] for name, job in jobs.items()}

        self.wait_until(lambda: all(step > 1 for step in look().values()), "step")
        found = self.watch(look, lambda: jobs)
        self.end(jobs.values())
        return found

    def mixed(self):
        """The same of two groups, and the seconds between two mixes of each."""
        job = self.fleet.submit(
            job_of(
                strategy="gossip",
                gossip={"average_every": AVERAGE_NEVER},
                **on_devices(len(DEVICES), len(DEVICES)),
            )
        )
        mixes = Rates()

        def groups():
            found = self.fleet.get(f"/v1/jobs/{job['id']}/groups")["groups"]
            return [one for one in found if one["mixes"]["device"]]

        def by_device(field):
            return {self.names[one["mixes"]["device"]]: one["mixes"][field] for one in groups()}

        def look():
            mixes.take(by_device("mixes"))
            return by_device("steps")

        def jobs_of():
            return {
                self.names[one["mixes"]["device"]]: {"id": one["part"]["job"]} for one in groups()
            }

        self.wait_until(
            lambda: len(groups()) == len(DEVICES) and min(by_device("mixes").values()) > 1, "mix"
        )
        found = self.watch(look, jobs_of)
        self.end([job])
        return found, {name: 1 / mixes.slope(name) for name in DEVICES}

    def pair(self, number):
        """A row for each device."""
        # The order changes, so that a machine that gets slower favours neither.
        if number % 2:
            (mixed, periods), alone = self.mixed(), self.alone()
        else:
            alone, (mixed, periods) = self.alone(), self.mixed()
        for name in DEVICES:
            (rate, between, others), (rate_alone, between_alone, others_alone) = (
                mixed[name],
                alone[name],
            )
            row = {
                "device": name,
                "model": MODEL,
                "batch": BATCH,
                "mbit": LINK_MBIT,
                "alone_steps_per_second": rate_alone,
                "steps_per_second": rate,
                "period_seconds": periods[name],
                "between_steps": between - between_alone,
                "other_threads": others - others_alone,
            }
            row["cost"] = row["between_steps"] + row["other_threads"]
            say(
                f"  pair {number + 1}, {name}: alone {rate_alone:.3f}, mixed {rate:.3f} steps/s, a "
                f"mix each {periods[name]:.2f} s: {row['between_steps']:.2%} between steps, "
                f"{row['other_threads']:.2%} in other threads"
            )
            yield row


def measure(options):
    """The rows, measured on the device coord."""
    with NamespaceFleet() as fleet:
        fleet.start_coordinator("--lease-ms", LEASE_MS)
        fleet.upload("fashion-train", "fashion-mini", "train")
        for name in DEVICES:
            fleet.start_device(name, "--label", f"board={name}")
        bench = Bench(fleet, options.seconds)
        bench.mixed()  # speeds and the link are known afterwards
        return [row for number in range(options.pairs) for row in bench.pair(number)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=4, help="of runs, alone and mixed")
    parser.add_argument("--seconds", type=float, default=45, help="of a run")
    parser.add_argument("--rows", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if "FLEET_NAME" in os.environ:
        options.rows.write_text(json.dumps(measure(options)))
        return
    devices = f"coord {COORDINATOR_SHARE}\n" + "".join(
        f"{name} {SHARE} {LINK_MBIT} {DELAY_MS}\n" for name in DEVICES
    )
    command = [sys.executable, __file__, "--pairs", options.pairs, "--seconds", options.seconds]
    rows = rows_on(devices, command)
    if not rows:
        sys.exit(77)
    fields = ("alone_steps_per_second", "steps_per_second", "period_seconds")
    parts = ("between_steps", "other_threads", "cost")
    table(
        ["model", "Mbit/s", "pairs", "alone steps/s", "mixed", "period s"]
        + ["between steps %", "other threads %", "cost %"],
        [
            [
                MODEL,
                LINK_MBIT,
                len(rows) // len(DEVICES),
                *(f"{median([row[field] for row in rows]):.3f}" for field in fields),
                *(f"{100 * median([row[field] for row in rows]):.2f}" for field in parts),
            ]
        ],
    )
    cost = median([row["cost"] for row in rows])
    say(f"a mix costs {cost:.2%} of a period: {'met' if cost <= GOAL else 'NOT MET'}: {GOAL:.0%}")
    finish("mixes", rows, cost=cost)


if __name__ == "__main__":
    main()
