"""Compare the planner's plans with usual ones on devices of unequal speed and slow links."""

import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import time

from namespaces import TOOL, NamespaceFleet, run_on
from paceline import Failure, fashion_job, must, on_devices
from report import finish, median, percent, rows_file, say, spread, table

MODEL = "mobilenetv2"
DATA = "fashion-train"
BATCH = 32
COORDINATOR_SHARE = 0.25
WAIT_SECONDS = 900
LEASE_MS = 20000  # of devices that compute in slices
PROFILER, PROFILE_SECONDS = "unit_times", "3"  # bench/predictor/unit_times.c
STEPS = 8  # measured of each plan
OPTIMUM_PLANS = 4  # the best by the model below; each of them is measured

# Seconds of a unit relative to the fastest device -> shares of a processor, 1.7 in all at most.
RATIOS = {
    "1:1:1": (0.56, 0.56, 0.56),
    "1:1:2": (0.68, 0.68, 0.34),
    "1:1:10": (0.75, 0.75, 0.075),
    "1:2:10": (1.0, 0.5, 0.1),
}
LINKS = (1000, 100, 10, 3)
PLACES = {"first": 0, "middle": 1, "last": 2}  # of the slowest device among three
SCHEDULES = {
    "sync 4": {"pipeline": "sync", "micro_batches": 4},
    "sync 8": {"pipeline": "sync", "micro_batches": 8},
    "sync 16": {"pipeline": "sync", "micro_batches": 16},
    "async": {"pipeline": "async", "micro_batches": 1},
}
NEVER = {"replan": {"first": 0, "every": 0}}
COMPRESSED = ("q8", "q4+zstd")


def cases(full):
    """(ratio, Mbit/s, schedule, every variant?), those with every variant first."""
    every = [("1:1:10", 1000, schedule, True) for schedule in SCHEDULES]
    rest = [
        (ratio, mbit, schedule, full)
        for ratio in RATIOS
        for mbit in LINKS
        for schedule in (SCHEDULES if full else ("sync 4", "async"))
        if (ratio, mbit) != ("1:1:10", 1000)
    ]
    return every + rest


# ---- the usual plans: where to cut, from seconds or FLOPs of units ----


def equal_cuts(weights, parts):
    """Boundaries that share the weights most equally: the least largest part."""
    prefix = [0, *itertools.accumulate(weights)]
    return min(
        itertools.combinations(range(1, len(weights)), parts - 1),
        key=lambda cuts: max(
            prefix[end] - prefix[first] for first, end in zip([0, *cuts], [*cuts, len(weights)])
        ),
    )


def ftpipehd_cuts(seconds, scale, border_bytes, link_seconds):
    """FTPipeHD's recurrence on a given order: the least slowest part, where a part is a stage or
    a link. One scalar per device (scale); link_seconds(bytes): of a micro-batch, one way.
    """
    units, prefix = len(seconds), [0, *itertools.accumulate(seconds)]
    best = {(end, 0): (prefix[end] * scale[0], ()) for end in range(1, units + 1)}
    for device in range(1, len(scale)):
        for end in range(device + 1, units + 1):
            best[end, device] = min(
                (
                    max(
                        best[cut, device - 1][0],
                        2 * link_seconds(border_bytes[cut - 1]),
                        (prefix[end] - prefix[cut]) * scale[device],
                    ),
                    (*best[cut, device - 1][1], cut),
                )
                for cut in range(device, end)
            )
    return best[units, len(scale) - 1][1]


def modelled_seconds(stage_seconds, links, micro_batches):
    """A simple pipeline: the first micro-batch goes through all, the slowest part does the rest."""
    parts = [*stage_seconds, *links]
    return sum(parts) + (micro_batches - 1) * max(parts)


def promising(seconds, speed, border_bytes, link_seconds, micro_batches, count):
    """The best plans of all orders, subsets and cuts by the simple model: [(devices, cuts)]."""
    units, prefix, found = len(seconds), [0, *itertools.accumulate(seconds)], []
    for size in range(1, len(speed) + 1):
        for devices in itertools.permutations(range(len(speed)), size):
            for cuts in itertools.combinations(range(1, units), size - 1):
                ends = [*cuts, units]
                stages = [
                    (prefix[end] - prefix[first]) / speed[device]
                    for device, first, end in zip(devices, [0, *cuts], ends)
                ]
                links = [2 * link_seconds(border_bytes[cut - 1]) for cut in cuts]
                found.append((modelled_seconds(stages, links, micro_batches), devices, cuts))
    return [(devices, cuts) for _, devices, cuts in sorted(found)[:count]]


# ---- measuring ----


class Bench:
    """A job whose plan is changed for each variant, so that all run in one process."""

    def __init__(self, fleet, ratio, mbit, schedule, options):
        self.fleet, self.options = fleet, options
        self.ratio, self.mbit, self.schedule = ratio, mbit, schedule
        self.shares = RATIOS[ratio]
        self.micro_batches = SCHEDULES[schedule]["micro_batches"]
        by_name = {device["name"]: device["id"] for device in fleet.wait_for_agents()}
        self.devices = [by_name[f"device{i}"] for i in range(len(self.shares))]
        self.units = fleet.get(f"/v1/models/{MODEL}?dataset={DATA}")["units"]
        self.job, self.first, self.fluid_seconds = None, None, None
        self.profile = self.unit_seconds()
        self.results = {}  # (variant, order) -> [plan]

    def submit(self, **fields):
        self.generation = 0
        self.job = self.fleet.submit(
            fashion_job(
                MODEL,
                batch=BATCH,
                evaluate={"every_epochs": 0},
                replication={"neighbor_every": 0, "center_every": 0},
                **SCHEDULES[self.schedule],
                **NEVER,
                **on_devices(1, len(self.shares)),
                **fields,
            )
        )

    def measured(self):
        """The running plan, once enough of its steps are measured."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            seen = self.fleet.job(self.job)
            must(seen["state"] != "failed", f"the job failed: {seen['message']}")
            if seen["generation"] > self.generation:
                answer = self.fleet.request(
                    "GET", f"/v1/jobs/{self.job['id']}/plans/{seen['generation']}"
                )
                if answer.status == 200 and answer.json["measured_steps"] >= self.options.steps:
                    self.generation = seen["generation"]
                    return answer.json
            time.sleep(0.1)
        raise Failure(f"no plan of {self.options.steps} measured steps in {WAIT_SECONDS} s")

    def run(self, variant, order="-", devices=None, cuts=None):
        """Measure a plan: the planner's own, or that of the devices (by place) and cuts."""
        wish = {} if devices is None else {"devices": [self.devices[d] for d in devices]}
        if cuts is not None:
            wish["cuts"] = list(cuts)
        self.fleet.verb(self.job, "replan", wish)
        plan = self.measured()
        self.results.setdefault((variant, order), []).append(plan)
        say(
            f"  {variant} {order}: {plan['measured_step_seconds']:.3f} s "
            f"(predicted {plan['predicted_step_seconds']:.3f}), "
            + ", ".join(f"{stage['end'] - stage['first']}" for stage in plan["stages"])
            + " units"
        )
        return plan

    def link_seconds(self, size):
        return size * 8 / (self.mbit * 1e6)

    def border_bytes(self):
        return [unit["output_bytes"] * BATCH // self.micro_batches for unit in self.units]

    def unit_seconds(self):
        """Seconds of each unit per micro-batch, profiled on the fastest device alone. The profiler
        tells them without the stops of the quota.
        """
        output = subprocess.run(
            [str(TOOL), "exec", "device0", "--", os.path.join(os.environ["PACELINE_BIN"], PROFILER)]
            + [MODEL, str(BATCH // self.micro_batches), "1", PROFILE_SECONDS],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        lines = (line.split() for line in output.splitlines())
        return [
            (float(line[2]) + float(line[3])) / self.shares[0]
            for line in lines
            if line[0] == "unit"
        ]

    def orders(self):
        """The places of devices with the slowest (the last by name) first, in the middle, last."""
        fast = range(len(self.shares) - 1)
        for name, place in PLACES.items():
            devices = list(fast)
            devices.insert(place, len(self.shares) - 1)
            yield name, devices

    def measure_all(self):
        """One turn of every variant."""
        single = self.run("best_single", devices=[0], cuts=[])
        seconds = self.profile
        flops = [unit["forward_flops"] + unit["backward_flops"] for unit in self.units]
        parts, borders = len(self.shares), self.border_bytes()
        speed = [share / self.shares[0] for share in self.shares]
        for order, devices in self.orders():
            scale = [1 / speed[device] for device in devices]
            for variant, cuts in (
                ("equal_units", equal_cuts([1] * len(seconds), parts)),
                ("equal_flops", equal_cuts(flops, parts)),
                ("equal_time", equal_cuts(seconds, parts)),
                ("ftpipehd", ftpipehd_cuts(seconds, scale, borders, self.link_seconds)),
            ):
                self.run(variant, order, devices, cuts)
        self.run("ours")
        for devices, cuts in promising(
            seconds, speed, borders, self.link_seconds, self.micro_batches, OPTIMUM_PLANS
        ):
            self.run("optimum", devices=devices, cuts=cuts)
        self.fluid_seconds = single["measured_step_seconds"] / sum(speed)

    def measure_some(self):
        """One turn of the variants that every case has."""
        self.run("best_single", devices=[0], cuts=[])
        seconds, borders = self.profile, self.border_bytes()
        scale = [self.shares[0] / share for share in self.shares]
        cuts = ftpipehd_cuts(seconds, scale, borders, self.link_seconds)
        self.run("ftpipehd", "last", range(len(self.shares)), cuts)
        self.run("ours")

    def measure_compressed(self, codec):
        """Our plan with a codec, and its cuts without."""
        plain = self.job, self.generation
        self.fleet.verb(self.job, "pause")
        self.fleet.wait(self.job, "paused", WAIT_SECONDS)
        self.submit(compression=codec)
        self.measured()
        plan = self.run(f"ours_compressed {codec}")
        self.fleet.verb(self.job, "cancel")
        self.job, self.generation = plain
        self.fleet.verb(self.job, "resume")
        self.measured()
        places = {device: i for i, device in enumerate(self.devices)}
        self.run(
            f"ours_same_cuts {codec}",
            devices=[places[stage["device"]] for stage in plan["stages"]],
            cuts=[stage["end"] for stage in plan["stages"][:-1]],
        )

    # ---- rows ----

    def seconds_of(self, variant):
        return [
            median([plan["measured_step_seconds"] for plan in plans])
            for (name, _), plans in self.results.items()
            if name == variant
        ]

    def row(self, variant, order, seconds, predicted, runs, spread_of_runs, ours):
        return {
            "ratio": self.ratio,
            "link_mbit": self.mbit,
            "schedule": self.schedule.split()[0],
            "micro_batches": self.micro_batches,
            "order": order,
            "variant": variant,
            "seconds_per_step": seconds,
            "predicted": predicted,
            "over_ours": seconds / ours,
            "runs": runs,
            "spread": spread_of_runs,
        }

    def rows(self):
        ours = self.seconds_of("ours")[0]
        for (variant, order), plans in self.results.items():
            if variant == "optimum":
                continue
            seconds = [plan["measured_step_seconds"] for plan in plans]
            yield self.row(
                variant,
                order,
                median(seconds),
                median([plan["predicted_step_seconds"] for plan in plans]),
                len(seconds),
                spread(seconds),
                ours,
            )
        if "optimum" in {variant for variant, _ in self.results}:
            plain = {name for name, _ in self.results if not name.startswith("ours_compressed")}
            best = min(second for name in plain for second in self.seconds_of(name))
            yield self.row("optimum", "-", best, None, self.options.rounds, None, ours)
            yield self.row("fluid_bound", "-", self.fluid_seconds, None, 1, None, ours)


def measure_case(fleet, case, options):
    ratio, mbit, schedule, every = case
    say(f"{ratio}, {mbit} Mbit/s, {schedule}:")
    bench = Bench(fleet, ratio, mbit, schedule, options)
    bench.submit()
    bench.first = bench.measured()
    for _ in range(options.rounds):
        bench.measure_all() if every else bench.measure_some()
        if mbit <= 10:
            for codec in COMPRESSED:
                bench.measure_compressed(codec)
    fleet.verb(bench.job, "cancel")
    rows = list(bench.rows())
    ours = bench.seconds_of("ours")[0]
    first = bench.first
    rows.append(
        bench.row(
            "first_plan",
            "-",
            first["measured_step_seconds"],
            first["predicted_step_seconds"],
            1,
            None,
            ours,
        )
    )
    return rows


def measure_fleet(options):
    """On the device coord: the cases of one ratio and link, each appended to the file of rows."""
    with NamespaceFleet() as fleet:
        fleet.start_coordinator("--lease-ms", LEASE_MS)
        fleet.upload(DATA, "fashion-mini", "train")
        for i in range(len(RATIOS[options.ratio])):
            fleet.start_device(f"device{i}")
            fleet.wait_for_devices(i + 1)  # the order of enrolment is that of the names
        for case in missing_cases(options):
            if case[:2] == (options.ratio, options.mbit):
                with options.rows.open("a") as file:
                    for row in measure_case(fleet, case, options):
                        file.write(json.dumps(row) + "\n")


def read_rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def missing_cases(options):
    def key(row):
        return row["ratio"], row["link_mbit"], row["schedule"], row["micro_batches"]

    done = {key(row) for row in read_rows(options.rows)}
    return [
        case
        for case in cases(options.full)
        if options.only in (None, case[0])
        and options.link in (None, case[1])
        and options.schedule in (None, case[2])
        and (
            case[0],
            case[1],
            SCHEDULES[case[2]]["pipeline"],
            SCHEDULES[case[2]]["micro_batches"],
        )
        not in done
    ]


def run_fleets(options):
    """One fleet for each ratio and link that has cases left."""
    for ratio, mbit in dict.fromkeys(case[:2] for case in missing_cases(options)):
        devices = f"coord {COORDINATOR_SHARE}\n" + "".join(
            f"device{i} {share} {mbit} 0.5\n" for i, share in enumerate(RATIOS[ratio])
        )
        command = [sys.executable, __file__, "--ratio", ratio, "--mbit", mbit]
        command += ["--rows", options.rows, "--rounds", options.rounds, "--steps", options.steps]
        command += ["--full"] if options.full else []
        command += ["--schedule", options.schedule] if options.schedule else []
        status = run_on(devices, command)
        if status != 0:
            sys.exit(status)


def show(rows):
    table(
        ["ratio", "Mbit/s", "schedule", "M", "order", "variant", "s/step", "predicted", "/ours"]
        + ["runs", "spread"],
        [
            [
                row["ratio"],
                row["link_mbit"],
                row["schedule"],
                row["micro_batches"],
                row["order"],
                row["variant"],
                f"{row['seconds_per_step']:.3f}",
                "-" if row["predicted"] is None else f"{row['predicted']:.3f}",
                f"{row['over_ours']:.2f}",
                row["runs"],
                percent(row["spread"]),
            ]
            for row in rows
        ],
    )
    errors = [
        abs(row["predicted"] / row["seconds_per_step"] - 1)
        for row in rows
        if row["predicted"] is not None and row["variant"] != "first_plan"
    ]
    if errors:
        say(f"error of predictions: median {median(errors):.1%}, worst {max(errors):.1%}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--full", action="store_true", help="every variant in every case")
    arguments.add_argument("--rounds", type=int, default=2, help="turns of all variants")
    arguments.add_argument("--steps", type=int, default=STEPS, help="measured of each plan")
    arguments.add_argument(
        "--rows", type=pathlib.Path, help="append rows to this file; its cases are not repeated"
    )
    arguments.add_argument("--only", choices=RATIOS, help="the cases of one ratio")
    arguments.add_argument("--link", choices=LINKS, type=int, help="the cases of one link, Mbit/s")
    arguments.add_argument("--schedule", choices=SCHEDULES, help="the cases of one schedule")
    arguments.add_argument("--ratio", help=argparse.SUPPRESS)
    arguments.add_argument("--mbit", type=int, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if "FLEET_NAME" in os.environ:
        measure_fleet(options)
        return
    with rows_file(options.rows) as options.rows:
        run_fleets(options)
        rows = read_rows(options.rows)
    show(rows)
    finish("hetero", rows)


if __name__ == "__main__":
    main()
