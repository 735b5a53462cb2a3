"""Show how soon groups of gossip are levelled again when a device slows down and recovers."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from gossip_cases import (
    CORE,
    DEVICES,
    DRIVER,
    FASHION,
    FASTEST,
    SPEEDS,
    dataset_name,
    fleet_file,
    job_of,
)
from gossip_runs import LEASE_MS
from namespaces import TOOL, NamespaceFleet, rows_on
from paceline import must
from report import finish, median, say, table

SLOWED = 0.2  # of its speed
SHARE = CORE * SPEEDS[-1]  # of the fastest device
LOOK_SECONDS = 0.05
START_SECONDS = 120
PERIODS_MAX = 3  # until the steps between two mixes follow
CV_MAX = 0.2
NEAR = 0.35  # of the steps that the new speed comes to
LOOKS_MIN = 20


class Course:
    """What the groups show over time: (moment, {device: steps between mixes}, {device: samples per
    second}, {device: steps made}).
    """

    def __init__(self, fleet, job, batch):
        self.fleet, self.job, self.batch = fleet, job, batch
        self.names = {one["id"]: one["name"] for one in fleet.get("/v1/devices")["items"]}
        self.looks = []

    def look(self):
        found = self.fleet.get(f"/v1/jobs/{self.job['id']}/groups")["groups"]
        mixes = [one["mixes"] for one in found]
        if len(mixes) < len(DEVICES) or not all(
            one["every"] and one["samples_per_second"] and one["mixes"] > 1 for one in mixes
        ):
            return False
        every = {self.names[one["device"]]: one["every"] for one in mixes}
        speed = {self.names[one["device"]]: one["samples_per_second"] for one in mixes}
        steps = {self.names[one["device"]]: one["steps"] for one in mixes}
        self.looks.append((time.monotonic(), every, speed, steps))
        return True

    def watch(self, seconds):
        """The looks of so many seconds."""
        first, until = len(self.looks), time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(LOOK_SECONDS)
        must(len(self.looks) >= first + LOOKS_MIN, "the groups do not train")
        return self.looks[first:]

    def periods(self, look):
        """Seconds from one mix of each group to the next, by the speeds that are shown."""
        _, every, speed, _ = look
        return [every[name] * self.batch / speed[name] for name in every]


def variation(periods):
    return statistics.pstdev(periods) / statistics.fmean(periods)


def counted_periods(looks):
    """The same by the steps that were made, with the waits."""
    (began, _, _, before), (ended, _, _, after) = looks[0], looks[-1]
    return [
        statistics.fmean(every[name] for _, every, _, _ in looks)
        * (ended - began)
        / max(1, after[name] - before[name])
        for name in before
    ]


def steady(looks):
    """The second half of them."""
    return looks[len(looks) // 2 :]


def row_of(course, event, began, looks):
    """How soon the device has the steps between two mixes that it has at the end."""
    final = median([every[FASTEST] for _, every, _, _ in steady(looks)])
    period = median([median(course.periods(look)) for look in steady(looks)])
    followed = next(
        moment for moment, every, _, _ in looks if abs(every[FASTEST] - final) <= NEAR * final
    )
    row = {
        "event": event,
        "steps_before": course.looks[0][1][FASTEST],
        "steps_after": final,
        "period_seconds": period,
        "seconds": followed - began,
        "periods": (followed - began) / period,
        "cv": median([variation(course.periods(look)) for look in steady(looks)]),
        "counted_cv": variation(counted_periods(steady(looks))),
    }
    say(
        f"  {event}: {final:.0f} steps between two mixes after {row['seconds']:.2f} s, "
        f"{row['periods']:.1f} periods; variation {row['cv']:.2f} by the speeds shown, "
        f"{row['counted_cv']:.2f} by the steps made"
    )
    return row


def measure(options):
    """The rows, measured on the device of the driver."""
    rows = []
    with NamespaceFleet() as fleet:
        fleet.start_coordinator("--lease-ms", LEASE_MS)
        fleet.upload(dataset_name(FASHION), FASHION.data, "train")
        for name in DEVICES:
            fleet.start_device(name)
        fleet.wait_for_agents()
        job = job_of(FASHION, "async", "even", 1, 100000)
        course = Course(fleet, fleet.submit(job), job["batch"])
        deadline = time.monotonic() + START_SECONDS
        while not course.look():
            must(time.monotonic() < deadline, f"no mixes in {START_SECONDS} s")
            time.sleep(LOOK_SECONDS)
        for _ in range(options.rounds):
            course.looks.clear()
            course.watch(options.seconds)
            for event, share in (("slows down", SLOWED), ("recovers", 1)):
                setting = f"cpu={SHARE * share:.4f}"
                began = time.monotonic()
                subprocess.run([str(TOOL), "set", FASTEST, setting], check=True)
                rows.append(row_of(course, event, began, course.watch(options.seconds)))
        fleet.verb(course.job, "cancel")
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of slowing down and recovering")
    parser.add_argument("--seconds", type=float, default=10, help="after each change")
    parser.add_argument("--rows", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if "FLEET_NAME" in os.environ:
        options.rows.write_text(json.dumps(measure(options)))
        return
    command = [sys.executable, __file__, "--rounds", options.rounds, "--seconds", options.seconds]
    rows = rows_on(fleet_file(), command, DRIVER)
    if not rows:
        sys.exit(77)
    events = dict.fromkeys(row["event"] for row in rows)
    some = {event: [row for row in rows if row["event"] == event] for event in events}
    met = True
    lines = []
    for event, of in some.items():
        periods = median([row["periods"] for row in of])
        by_speeds = median([row["cv"] for row in of])
        by_steps = median([row["counted_cv"] for row in of])
        met = met and periods <= PERIODS_MAX and max(by_speeds, by_steps) < CV_MAX
        lines.append(
            [
                event,
                len(of),
                f"{median([row['steps_after'] for row in of]):.0f}",
                f"{median([row['period_seconds'] for row in of]):.2f}",
                f"{median([row['seconds'] for row in of]):.2f}",
                f"{periods:.1f}",
                f"{max(row['periods'] for row in of):.1f}",
                f"{by_speeds:.2f}",
                f"{by_steps:.2f}",
            ]
        )
    table(
        ["the fastest device", "times", "steps", "period s", "s", "periods", "most"]
        + ["cv", "counted cv"],
        lines,
    )
    say(
        f"within {PERIODS_MAX} periods, and a variation below {CV_MAX}: "
        f"{'met' if met else 'NOT MET'}"
    )
    finish("gossip_drift", rows, met=met)


if __name__ == "__main__":
    main()
