"""Show how soon a job reaches the best speed again when devices, links or the fleet change."""

import argparse
import bisect
import json
import os
import pathlib
import random
import subprocess
import sys
import time

import chart
from namespaces import TOOL, NamespaceFleet, run_on
from paceline import ROOT, Failure, fashion_job, must, on_devices
from report import finish, median, rows_file, say, table

MODEL = "mobilenetv2"
BATCH = 32
MICRO_BATCHES = 8
DEVICES = ("device0", "device1", "device2")
SHARE = 0.5  # of a processor, for each device
COORDINATOR_SHARE = 0.25
LINK_MBIT = 100
LEASE_MS = 20000  # of devices that compute in slices
LOOK_SECONDS = 0.2
WINDOW_SECONDS = 10  # over which a speed is taken
GOOD = 0.9  # of the best speed
NOISE = 0.2
WAIT_SECONDS = 300
STEPS_BY_HAND = 8  # measured of each plan that is tried by hand
PLOT = ROOT / "build/drift.svg"


def set_device(name, *settings):
    subprocess.run([str(TOOL), "set", name, *settings], check=True)


class Course:
    """A job on a fleet: its steps over time, and the plans that it made by itself."""

    def __init__(self, fleet, devices):
        self.fleet = fleet
        for name in devices:
            fleet.start_device(name)
            fleet.wait_for_devices(len(fleet.agents))
        self.began = time.monotonic()
        self.job = fleet.submit(
            fashion_job(
                MODEL,
                batch=BATCH,
                micro_batches=MICRO_BATCHES,
                evaluate={"every_epochs": 0},
                replan={"first": 10, "every": 100},
                **on_devices(1, len(DEVICES)),
            )
        )
        self.times, self.steps, self.plans, self.events = [], [], [], []

    def device_id(self, name):
        devices = self.fleet.get("/v1/devices?limit=500")["items"]
        return next(device["id"] for device in devices if device["name"] == name)

    def used_device(self):
        """The name of the device with the most units in the present plan."""
        generation = self.fleet.job(self.job)["generation"]
        plan = self.fleet.get(f"/v1/jobs/{self.job['id']}/plans/{generation}")
        stage = max(plan["stages"], key=lambda stage: stage["end"] - stage["first"])
        return self.fleet.get(f"/v1/devices/{stage['device']}")["name"]

    def now(self):
        return time.monotonic() - self.began

    def look(self):
        seen = self.fleet.job(self.job)
        must(seen["state"] != "failed", f"the job failed: {seen['message']}")
        self.times.append(self.now())
        self.steps.append(seen["progress"]["step"])
        if not self.plans or self.plans[-1][1] != seen["generation"]:
            self.plans.append((self.now(), seen["generation"]))

    def watch(self, seconds, disturb=None):
        """Let time pass; disturb() is called once a second."""
        end, next_second = self.now() + seconds, self.now()
        while self.now() < end:
            self.look()
            if disturb and self.now() >= next_second:
                disturb()
                next_second += 1
            time.sleep(LOOK_SECONDS)

    def start(self, seconds):
        deadline = time.monotonic() + WAIT_SECONDS
        while not self.steps or self.steps[-1] == 0:
            must(time.monotonic() < deadline, f"no step in {WAIT_SECONDS} s")
            self.watch(LOOK_SECONDS)
        self.watch(seconds)

    def step_at(self, moment):
        """Steps, with the part of the one under way."""
        right = min(max(bisect.bisect_left(self.times, moment), 1), len(self.times) - 1)
        first, second = self.times[right - 1], self.times[right]
        share = min(max((moment - first) / (second - first), 0), 1)
        return self.steps[right - 1] + share * (self.steps[right] - self.steps[right - 1])

    def speed(self, first, end):
        return (self.step_at(end) - self.step_at(first)) / (end - first)

    def best_speed(self, first, end):
        """Of all windows that lie between."""
        moments = [first + i for i in range(int(end - first - WINDOW_SECONDS) + 1)]
        return max(self.speed(moment, moment + WINDOW_SECONDS) for moment in moments)

    def seconds_to(self, speed, first, end):
        """From when on a window has this speed; None: never."""
        moment = first
        while moment + WINDOW_SECONDS <= end:
            if self.speed(moment, moment + WINDOW_SECONDS) >= speed:
                return moment - first
            moment += LOOK_SECONDS
        return None

    # ---- by hand ----

    def never_by_itself(self):
        self.fleet.request(
            "PATCH",
            f"/v1/jobs/{self.job['id']}",
            {"replan": {"first": 0, "every": 0}},
            expect=200,
        )

    def speed_by_hand(self, names):
        """Of the planner's plan on these devices, in their order; None: it chooses them."""
        wish = {} if names is None else {"devices": [self.device_id(name) for name in names]}
        generation = self.fleet.job(self.job)["generation"]
        self.fleet.verb(self.job, "replan", wish)
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            seen = self.fleet.job(self.job)
            plan = self.fleet.request(
                "GET", f"/v1/jobs/{self.job['id']}/plans/{seen['generation']}"
            )
            if (
                seen["generation"] > generation
                and plan.status == 200
                and plan.json["measured_steps"] >= STEPS_BY_HAND
            ):
                return 1 / plan.json["measured_step_seconds"]
            time.sleep(LOOK_SECONDS)
        raise Failure(f"no plan by hand of {STEPS_BY_HAND} steps in {WAIT_SECONDS} s")

    # ---- rows ----

    def phase(self, event, first, end, best):
        """The row of a part of the course. best: a speed known to be possible; 0: none is."""
        best = max(best, self.best_speed(first, end))
        plans = [moment - first for moment, _ in self.plans if first <= moment < end]
        row = {
            "event": event,
            "seconds_to_90_percent": self.seconds_to(GOOD * best, first, end),
            "plans": len(plans),
            "seconds_lost": (end - first) * (1 - self.speed(first, end) / best),
            "steps_per_second": best,
            "seconds": end - first,
        }
        say(f"  {event}: plans after {', '.join(f'{moment:.0f}' for moment in plans) or 'no'} s")
        return row

    def describe_plans(self):
        for plan in reversed(self.fleet.get(f"/v1/jobs/{self.job['id']}/plans?limit=100")["items"]):
            measured = plan["measured_step_seconds"]
            say(
                f"    plan {plan['generation']} ({plan['reason']}): "
                + "+".join(str(stage["end"] - stage["first"]) for stage in plan["stages"])
                + f" units, predicted {plan['predicted_step_seconds']:.3f} s, measured "
                + ("-" if measured is None else f"{measured:.3f} s")
            )


# ---- events ----


def drop_and_return(course, name, change, undo, options):
    """A change of a device and its end. What is possible in between is tried by hand afterwards."""
    course.start(options.seconds)
    device = course.used_device()
    others = [other for other in DEVICES if other != device]
    dropped = course.now()
    set_device(device, change)
    course.watch(options.seconds)
    returned = course.now()
    set_device(device, undo)
    course.watch(options.seconds)
    end = course.times[-1]
    course.events += [(dropped, name), (returned, "back")]
    course.never_by_itself()
    set_device(device, change)
    best = max(course.speed_by_hand(names) for names in (others, None))
    calm = course.best_speed(dropped - options.seconds, dropped)
    return [
        course.phase(name, dropped, returned, best),
        course.phase(f"{name}, back", returned, end, calm),
    ]


def measure_device(course, share, name, options):
    return drop_and_return(course, name, f"cpu={SHARE * share}", f"cpu={SHARE}", options)


def measure_fifth(course, options):
    return measure_device(course, 1 / 5, "a device at a fifth", options)


def measure_twelfth(course, options):
    return measure_device(course, 1 / 12, "a device at a twelfth", options)


def measure_link(course, options):
    return drop_and_return(
        course, "a link at a tenth", f"bw={LINK_MBIT / 10}", f"bw={LINK_MBIT}", options
    )


def measure_noise(course, options):
    """A device with another share each second."""
    draw = random.Random(1)
    course.start(options.seconds)
    device = course.used_device()
    first = course.now()

    def disturb():
        set_device(device, f"cpu={SHARE * (1 + draw.uniform(-NOISE, NOISE))}")

    course.watch(options.noise_seconds, disturb)
    calm = course.best_speed(first - options.seconds, first)
    course.events.append((first, "noise"))
    return [course.phase("a device with 20 % noise", first, course.times[-1], calm)]


def measure_fleet_changes(course, options):
    """A third device joins two, and is drained."""
    course.start(options.seconds)
    joined = course.now()
    course.fleet.start_device(DEVICES[-1])
    course.watch(options.seconds)
    drained = course.now()
    course.fleet.request(
        "POST", f"/v1/devices/{course.device_id(DEVICES[-1])}/drain", {}, expect=202
    )
    course.watch(options.seconds)
    course.events += [(joined, "joins"), (drained, "drained")]
    calm = course.best_speed(joined - options.seconds, joined)
    return [
        course.phase("a device joins", joined, drained, 0),
        course.phase("a device is drained", drained, course.times[-1], calm),
    ]


EVENTS = {
    "fifth": (measure_fifth, DEVICES),
    "twelfth": (measure_twelfth, DEVICES),
    "link": (measure_link, DEVICES),
    "noise": (measure_noise, DEVICES),
    "join": (measure_fleet_changes, DEVICES[:-1]),
}


def measure(options):
    """On the device coord: one event, its rows and its course appended to the file."""
    run, devices = EVENTS[options.event]
    with NamespaceFleet() as fleet:
        fleet.start_coordinator("--lease-ms", LEASE_MS)
        fleet.upload("fashion-train", "fashion-mini", "train")
        course = Course(fleet, devices)
        rows = run(course, options)
        incidents = fleet.get(f"/v1/jobs/{course.job['id']}/incidents")["items"]
        course.describe_plans()
        fleet.verb(course.job, "cancel")
    end = course.times[-1]
    moments = range(0, int(end - PLOT_SECONDS))
    record = {
        "event": options.event,
        "rows": [{**row, "incidents": len(incidents)} for row in rows],
        "course": [(moment, course.speed(moment, moment + PLOT_SECONDS)) for moment in moments],
        "events": course.events,
        "plans": [moment for moment, _ in course.plans[1:]],
    }
    with options.rows.open("a") as file:
        file.write(json.dumps(record) + "\n")


# ---- the plot ----

PLOT_SECONDS = 3  # over which a point of the plot is a mean


def plot(records, path):
    chart.write(
        path,
        [
            chart.Chart(
                f"{record['event']}: steps a second",
                {"": record["course"]},
                events=record["events"],
                dots=record["plans"],
                tick=30,
                unit=" s",
            )
            for record in records
        ],
    )


# ---- all events ----


def read_records(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run_fleets(options):
    """One fleet for each event; each run of an event has one line in the file of rows."""
    for _ in range(options.rounds):
        for event in [options.only] if options.only else EVENTS:
            done = [record for record in read_records(options.rows) if record["event"] == event]
            if len(done) >= options.rounds:
                continue
            say(f"{event}:")
            devices = f"coord {COORDINATOR_SHARE}\n" + "".join(
                f"{name} {SHARE} {LINK_MBIT} 0.5\n" for name in DEVICES
            )
            command = [sys.executable, __file__, "--event", event, "--rows", options.rows]
            command += ["--seconds", options.seconds, "--noise-seconds", options.noise_seconds]
            status = run_on(devices, command)
            if status != 0:
                sys.exit(status)


def rows_of(records):
    """The medians of all runs of an event; a run that never got there counts as infinite."""
    by_event = {}
    for record in records:
        for row in record["rows"]:
            by_event.setdefault(row["event"], []).append(row)
    for event, rows in by_event.items():
        times = [row["seconds_to_90_percent"] for row in rows]
        got_there = [float("inf") if value is None else value for value in times]
        middle = median(got_there)
        lost = [row["seconds_lost"] for row in rows]
        yield {
            **{key: median([row[key] for row in rows]) for key in rows[0] if key != "event"},
            "event": event,
            "seconds_to_90_percent": None if middle == float("inf") else middle,
            "plans": max(row["plans"] for row in rows),
            "incidents": max(row["incidents"] for row in rows),
            "seconds_lost": median(lost),
            "runs": len(rows),
            "spread": max(lost) - min(lost) if len(lost) > 1 else None,
        }


def show(rows):
    def number(value, digits=0):
        return "-" if value is None else f"{value:.{digits}f}"

    table(
        ["event", "s to 90 %", "plans", "s lost", "of s", "steps/s", "incidents", "runs", "spread"],
        [
            [
                row["event"],
                number(row["seconds_to_90_percent"], 1),
                row["plans"],
                number(row["seconds_lost"], 1),
                number(row["seconds"]),
                number(row["steps_per_second"], 2),
                row["incidents"],
                row["runs"],
                number(row["spread"], 1),
            ]
            for row in rows
        ],
    )


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=2, help="runs of each event")
    arguments.add_argument("--seconds", type=int, default=60, help="before and after each change")
    arguments.add_argument("--noise-seconds", type=int, default=600, help="of the noisy device")
    arguments.add_argument("--rows", type=pathlib.Path, help="keep runs here; skip those it has")
    arguments.add_argument("--only", choices=EVENTS, help="one event")
    arguments.add_argument("--plot", type=pathlib.Path, default=PLOT, help="the SVG")
    arguments.add_argument("--event", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if "FLEET_NAME" in os.environ:
        measure(options)
        return
    with rows_file(options.rows) as options.rows:
        run_fleets(options)
        records = read_records(options.rows)
    rows = list(rows_of(records))
    show(rows)
    plot(records, options.plot)
    say(f"plot: {options.plot}")
    finish("drift", rows)


if __name__ == "__main__":
    main()
