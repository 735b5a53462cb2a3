"""Show how soon a worker's segments follow a slower link and processor."""

import argparse
import json
import pathlib
import sys
import time

import chart
import segment_times
from drift import set_device
from exchange import FIRST_STEPS, STEP_SECONDS_MAX, WORKER_SHARE, fleet_file, read_runs, running
from namespaces import run_on
from paceline import ROOT, must
from report import finish, median, rows_file, say, table, with_goal

LINK_MBIT, DELAY_MS = 100, 5
SLOW_MBIT, SLOW_SHARE = 20, 0.2  # of the worker with the first micro-batches
NEAR = 1.05  # of the optimum
STEPS_MAX = 10
SETTLED = 3  # the last third of the steps after the change is measured
SEGMENT_BYTES_MIN = 65536  # of transfers `fixed`
# A job cannot keep its segments: `frozen` has requests of equal size, as many as `optimal` had.
VARIANTS = ("optimal", "layer", "frozen")
PLOT = ROOT / "build/exchange_drift.svg"


# ---- results ----


def settled(steps, change):
    """The last of the steps after the change."""
    after = sorted(step for step in steps if step > change)
    return after[-max(1, len(after) // SETTLED) :]


def over_optimum(steps, change):
    """{step: the seconds of its segments over the optimum}, with the times that were measured once
    they had settled. Of the last step before the change and of those after it.
    """
    by_step = {step["step"]: step for step in steps}
    times = segment_times.middle([by_step[step] for step in settled(by_step, change)])
    some = [step for step in steps if step["step"] >= change]
    found = segment_times.calculate(times, [step["chosen"] for step in some])
    return {step["step"]: one / found["optimal"] for step, one in zip(some, found["chosen"])}


def steps_to(over, change):
    """After how many steps the segments are near the optimum and stay there; None: never."""
    far = [step for step, value in over.items() if step > change and value > NEAR]
    last = max(far, default=change)
    return last - change if last < max(over) else None


def row_of(run):
    seconds = {int(step): value for step, value in run["seconds"].items()}
    change = run["change"]
    over = over_optimum(run["steps"], change) if run["steps"] else {}
    before = [step for step in run["steps"] if step["step"] == change]
    return {
        "variant": run["variant"],
        "round": run["round"],
        "seconds_before": median(
            [value for step, value in seconds.items() if FIRST_STEPS < step <= change]
        ),
        "seconds_after": median([seconds[step] for step in settled(seconds, change)]),
        "requests_before": list(map(len, before[0]["chosen"])) if before else None,
        "requests_after": list(map(len, run["steps"][-1]["chosen"])) if run["steps"] else None,
        "over_optimum_at_change": over.get(change),
        "steps_to_optimum": steps_to(over, change) if over else None,
    }


def segment_bytes(steps, change):
    """With which `fixed` has about as many requests as these had at the change."""
    step = max((one for one in steps if one["step"] <= change), key=lambda one: one["step"])
    requests = sum(map(len, step["chosen"])) / 2
    return max(SEGMENT_BYTES_MIN, int(sum(step["bytes"]) / requests))


# ---- measuring ----


class Course:
    """A job whose worker with the first micro-batches becomes slow."""

    def __init__(self, bench, options):
        self.bench, self.fleet, self.options = bench, bench.fleet, options

    def wait_for(self, job, steps):
        """{step: seconds} once there are so many."""
        deadline = time.monotonic() + STEP_SECONDS_MAX
        seen = 0
        while True:
            now = self.fleet.job(job)
            must(now["generation"] <= 1, f"the plan changed: {now['message']}")
            begins = seen == 0 and now["state"] != "failed"
            must(begins or now["state"] == "running", f"the job stopped: {now['message']}")
            found = self.fleet.metric(job, "step_seconds")
            if max(found, default=0) >= steps:
                return found
            if len(found) > seen:
                seen, deadline = len(found), time.monotonic() + STEP_SECONDS_MAX
            must(time.monotonic() < deadline, f"no step in {STEP_SECONDS_MAX} s: {now}")
            time.sleep(0.2)

    def first_worker(self, job):
        stages = self.fleet.stages(self.fleet.job(job))
        own = next(one for one in stages if one.get("share") and one["share"]["first"] == 0)
        return self.fleet.get(f"/v1/devices/{own['device']}")["name"]

    def run(self, turn, variant, server_options=None):
        before = self.bench.logs()
        job = self.fleet.submit(self.bench.job(variant, server_options))
        change = max(self.wait_for(job, FIRST_STEPS + self.options.before))
        worker = self.first_worker(job)
        set_device(worker, f"cpu={SLOW_SHARE}", f"bw={SLOW_MBIT}")
        try:
            seconds = self.wait_for(job, change + self.options.after)
            steps = self.bench.logged_steps(before)
        finally:
            set_device(worker, f"cpu={WORKER_SHARE}", f"bw={LINK_MBIT}")
        self.fleet.verb(job, "cancel")
        self.fleet.wait(job, "cancelled")
        run = {"variant": variant, "round": turn, "change": change}
        say(f"  round {turn + 1}, {variant}: {len(seconds)} steps, {worker} slow from {change} on")
        return {**run, "seconds": seconds, "steps": steps if variant != "layer" else []}


def missing(options):
    done = {(run["round"], run["variant"]) for run in read_runs(options.rows)}
    wanted = [(turn, variant) for turn in range(options.rounds) for variant in VARIANTS]
    return [one for one in wanted if one not in done]


def frozen_options(runs):
    first = next(run for run in runs if run["variant"] == "optimal")
    size = segment_bytes(first["steps"], first["change"])
    return {"transfers": "fixed", "segment_bytes": size}


def measure(options):
    """On the device coord."""
    with running((options.model, LINK_MBIT, DELAY_MS, 1), options) as bench:
        course = Course(bench, options)
        for turn, variant in missing(options):
            frozen = frozen_options(read_runs(options.rows)) if variant == "frozen" else None
            run = course.run(turn, variant, frozen)
            with options.rows.open("a") as file:
                file.write(json.dumps(run) + "\n")


# ---- the plot and the table ----


def plot(runs, path):
    """The first round, by steps since the change."""
    lines = {}
    for run in reversed(runs):
        since = {int(step) - run["change"]: value for step, value in run["seconds"].items()}
        lines[run["variant"]] = sorted(since.items())
    chart.write(
        path,
        [
            chart.Chart(
                "seconds a step",
                {name: lines[name] for name in VARIANTS if name in lines},
                events=[(0, f"{SLOW_MBIT} Mbit/s, {SLOW_SHARE} of a processor")],
                tick=5,
            )
        ],
    )


def show(rows):
    def number(value):
        return "-" if value is None else f"{value:.2f}"

    table(
        ["segments", "round", "s/step before", "after", "requests before", "after"]
        + ["of the start, over optimum"],
        [
            [
                row["variant"],
                row["round"] + 1,
                number(row["seconds_before"]),
                number(row["seconds_after"]),
                ", ".join(map(str, row["requests_before"] or ["-"])),
                ", ".join(map(str, row["requests_after"] or ["-"])),
                number(row["over_optimum_at_change"]),
            ]
            for row in rows
        ],
    )
    for row in rows:
        if row["variant"] == "optimal":
            result = with_goal(
                row["steps_to_optimum"], lambda v: v <= STEPS_MAX, f"at most {STEPS_MAX}"
            )
            say(f"round {row['round'] + 1}, steps until within 5 % of the optimum: {result}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="mobilenetv2")
    parser.add_argument("--rounds", type=int, default=1, help="turns of all variants")
    parser.add_argument("--before", type=int, default=12, help="steps before the change")
    parser.add_argument("--after", type=int, default=24, help="steps after it")
    parser.add_argument("--rows", type=pathlib.Path, help="keep runs here; skip those it has")
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="the SVG")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options)
        return
    with rows_file(options.rows) as options.rows:
        if missing(options):
            command = [sys.executable, __file__, "--measure", "--rows", options.rows]
            for name in ("model", "rounds", "before", "after"):
                command += [f"--{name}", getattr(options, name)]
            status = run_on(fleet_file(LINK_MBIT, DELAY_MS), command)
            if status != 0:
                sys.exit(status)
        runs = read_runs(options.rows)
    rows = [row_of(run) for run in runs]
    show(rows)
    plot(runs, options.plot)
    say(f"plot: {options.plot}")
    finish("exchange_drift", rows)


if __name__ == "__main__":
    main()
