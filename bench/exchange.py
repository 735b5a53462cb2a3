"""Compare the ways in which a parameter server's workers transfer their layers."""

import argparse
import json
import pathlib
import random
import statistics
import sys
import time

import cifar
from namespaces import NamespaceFleet, run_on
from paceline import fashion_job, must, on_devices
from report import finish, median, percent, rows_file, say, spread, table

DATA = "fashion-train"
NOISE, NOISE_SAMPLES = "noise-train", 1024  # in CIFAR-10's form: 32 x 32 x 3
LARGE_IMAGES = ("vgg11-bn",)  # halves its images five times: 28 x 28 of fashion-mini is too small
BATCH = 128
SERVER_SHARE, WORKER_SHARE, COORDINATOR_SHARE = 0.2, 0.6, 0.15  # of a processor
SERVER_MBIT = 1000
WORKERS = ("worker0", "worker1")
LEASE_MS = 20000  # of devices that compute in slices
FIRST_STEPS = 2  # not counted: nothing is measured in the first, so that it sends layer by layer
WARM_STEPS = 12  # from which the coordinator knows devices and links
AUTO_STEPS = 20  # in which `auto` tries both ways
RUN_SECONDS = 14  # by default; then a run ends with the steps that it has, one at least
AUTO_SECONDS = 56
STEP_SECONDS_MAX = 300
PIPELINE_MICRO_BATCHES = 8

TRANSFERS = {
    "whole": {"transfers": "whole"},
    "layer": {"transfers": "layer"},
    "layer_window": {"transfers": "layer_window"},
    "fixed_1m": {"transfers": "fixed", "segment_bytes": 1 << 20},
    "fixed_4m": {"transfers": "fixed", "segment_bytes": 4 << 20},
    "greedy": {"transfers": "greedy"},
    "ready": {"transfers": "ready"},
    "optimal": {"transfers": "optimal"},
    "stream": {"transfers": "stream"},
    "auto": {"transfers": "auto"},
}
BASELINES = ("layer", "layer_window", "fixed_1m", "fixed_4m", "greedy", "ready")
ALONE, PIPELINE = "single", "pipeline"
VARIANTS = (*TRANSFERS, ALONE, PIPELINE)

# (model, Mbit/s, ms each way, micro-batches of a worker), minutes
DEFAULT = {
    ("mobilenetv2", 100, 5, 1): 13,
    ("mobilenetv2", 100, 1, 1): 13,
    ("mobilenetv2", 100, 20, 1): 13,
    ("resnet8", 100, 5, 1): 6,
    ("resnet8", 100, 1, 1): 6,
    ("resnet8", 100, 20, 1): 6,
}
FULL = {
    ("mobilenetv2", 30, 5, 1): 15,
    ("mobilenetv2", 100, 5, 2): 15,
    ("mobilenetv2", 100, 5, 4): 15,
    ("vgg11-bn", 100, 5, 1): 15,
    ("alexnet-cifar", 100, 5, 1): 15,
    ("resnet18", 100, 5, 1): 15,
}
SETTING = ("model", "link_mbit", "delay_ms", "share")
TRANSFER_SECONDS = ("pull_seconds", "push_seconds")
TRANSFER_COUNTS = ("segments_pull", "segments_push")


def setting_of(run):
    return tuple(run[field] for field in SETTING)


# ---- finished runs ----


def read_runs(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def by_variant(runs, setting):
    """{variant: its runs}, in the order of VARIANTS"""
    of = [run for run in runs if setting_of(run) == setting]
    return {
        variant: some
        for variant in VARIANTS
        if (some := [run for run in of if run["variant"] == variant])
    }


def step_seconds(runs):
    return median([median(run["seconds"]) for run in runs])


def best_baseline(found):
    """(seconds, variant) of the fastest baseline; None: no baseline has a run."""
    return min(
        ((step_seconds(found[name]), name) for name in BASELINES if name in found), default=None
    )


def variants_of(setting, runs, options):
    if options.variants:
        return options.variants
    if setting[3] == 1:
        return VARIANTS
    best = best_baseline(by_variant(runs, (*setting[:3], 1)))
    return ("whole", *((best[1],) if best else BASELINES), "optimal")


def missing(setting, options):
    """[(round, variant)] that have no run, in the order in which they are due."""
    runs = read_runs(options.rows)
    variants = variants_of(setting, runs, options)
    done = {(run["round"], run["variant"]) for run in runs if setting_of(run) == setting}
    due = []
    for turn in range(options.rounds):
        # Each round begins with another variant, so that a drift of the machine favours none.
        first = turn * len(variants) // options.rounds
        due += [(turn, variant) for variant in (*variants[first:], *variants[:first])]
    return [one for one in due if one not in done]


# ---- measuring ----


def data_of(model):
    return NOISE if model in LARGE_IMAGES else DATA


def noise():
    """Records of CIFAR-10's binary form with random pixels: steps take as long with any pixels."""
    pixels = random.Random(1)
    return b"".join(
        bytes([sample % 10]) + pixels.randbytes(cifar.RECORD - 1)
        for sample in range(NOISE_SAMPLES)
    )


def upload(fleet, model):
    if data_of(model) == DATA:
        fleet.upload(DATA, "fashion-mini", "train")
    else:
        octets = {"Content-Type": "application/octet-stream"}
        fleet.request("PUT", f"/v1/datasets/{NOISE}", noise(), octets, expect=201)


def start_in_role(fleet, name):
    """Label the device as its name says, without the number."""
    fleet.start_device(name, "--label", f"role={name.rstrip('0123456789')}")


class Bench:
    def __init__(self, fleet, setting, options):
        self.fleet, self.setting, self.options = fleet, setting, options
        self.model, _, _, self.share = setting
        self.data = data_of(self.model)
        self.ids = {device["name"]: device["id"] for device in fleet.wait_for_agents()}
        self.units = len(fleet.get(f"/v1/models/{self.model}?dataset={self.data}")["units"])

    def job(self, variant):
        fields = {
            "dataset": {"train": self.data},
            "batch": BATCH,
            "micro_batches": len(WORKERS) * self.share,
            "evaluate": {"every_epochs": 0},
            "replication": {"neighbor_every": 0, "center_every": 0},
        }
        if variant == ALONE:
            fields |= {"devices": {"min": 1, "max": 1, "labels": {"role": "worker"}}}
        elif variant == PIPELINE:
            fields |= {"micro_batches": PIPELINE_MICRO_BATCHES, **on_devices(2, len(self.ids))}
        else:
            fields |= {
                "strategy": "parameter_server",
                "parameter_server": {
                    "servers": [{"device": self.ids["server"], "end": self.units}],
                    "worker_labels": {"role": "worker"},
                    "shares": [self.share] * len(WORKERS),
                    **TRANSFERS[variant],
                },
                **on_devices(len(self.ids), len(self.ids)),
            }
        return fashion_job(self.model, **fields)

    def check_places(self, stages):
        """All units are on the server, and each worker computes its share."""
        server, workers = stages[0], stages[1:]
        must(
            server["device"] == self.ids["server"]
            and (server["first"], server["end"]) == (0, self.units)
            and not server.get("share")
            and {stage["device"] for stage in workers} == {self.ids[name] for name in WORKERS}
            and all(
                stage["first"] == stage["end"]
                and stage["share"]["end"] - stage["share"]["first"] == self.share
                for stage in workers
            ),
            f"the plan has other places: {stages}",
        )

    def transfers_of(self, job, skipped):
        """What a worker measured of its transfers: medians of the steps that count, and the last
        numbers of requests."""
        found = {}
        for name in TRANSFER_SECONDS:
            values = [v for step, v in self.fleet.metric(job, name).items() if step > skipped]
            found[name] = median(values) if values else None
        for name in TRANSFER_COUNTS:
            values = self.fleet.metric(job, name)
            found[name] = int(values[max(values)]) if values else None
        return found

    def seconds_of(self, job, variant):
        """Seconds of the steps that count, and how many steps before them do not."""
        tries = variant == "auto"
        skipped = FIRST_STEPS + AUTO_STEPS * tries
        limit = AUTO_SECONDS if tries else self.options.seconds
        began = time.monotonic()
        while True:
            time.sleep(1)
            seen = self.fleet.job(job)
            must(seen["state"] != "failed", f"the job failed: {seen['message']}")
            must(seen["generation"] <= 1, f"the plan changed: {seen['message']}")
            steps = self.fleet.metric(job, "step_seconds")
            passed = time.monotonic() - began
            must(steps or passed < STEP_SECONDS_MAX, f"no step in {passed:.0f} s: {seen}")
            if passed > limit and skipped not in steps:
                skipped = FIRST_STEPS  # `auto` still tries
            counted = [seconds for step, seconds in sorted(steps.items()) if step > skipped]
            if len(counted) >= self.options.steps or (counted and passed > limit):
                return counted, skipped

    def warm_up(self):
        """Let the coordinator learn the links, so that it predicts the runs with them."""
        job = self.fleet.submit(self.job("layer"))
        self.fleet.wait_for_step(job, WARM_STEPS, STEP_SECONDS_MAX)
        self.fleet.verb(job, "cancel")
        self.fleet.wait(job, "cancelled")

    def run(self, turn, variant):
        """Measure one job; the line of the file of runs."""
        job = self.fleet.submit(self.job(variant))
        seconds, skipped = self.seconds_of(job, variant)
        plan = self.fleet.get(f"/v1/jobs/{job['id']}/plans/1")
        transfers = self.transfers_of(job, skipped)
        self.fleet.verb(job, "cancel")
        stages = plan["stages"]
        if variant in TRANSFERS:
            self.check_places(stages)
        self.fleet.wait(job, "cancelled")
        say(
            f"  round {turn + 1}, {variant}: {median(seconds):.3f} s, {len(seconds)} steps"
            f" (predicted {plan['predicted_step_seconds']:.3f})"
        )
        return {
            **dict(zip(SETTING, self.setting)),
            "variant": variant,
            "round": turn,
            "seconds": seconds,
            "skipped": skipped,
            "predicted_seconds": plan["predicted_step_seconds"],
            "stages": len(stages),
            **transfers,
        }


def measure_setting(options):
    """On the device coord: the runs of one setting that its time allows."""
    setting = options.setting
    end = time.monotonic() + 60 * options.minutes
    with NamespaceFleet() as fleet:
        fleet.start_coordinator("--lease-ms", LEASE_MS)
        upload(fleet, setting[0])
        for name in ("server", *WORKERS):
            start_in_role(fleet, name)
        bench = Bench(fleet, setting, options)
        bench.warm_up()
        for turn, variant in missing(setting, options):
            if time.monotonic() > end - options.seconds:
                say(f"  {options.minutes:g} minutes are over: repeat the command with --rows")
                break
            with options.rows.open("a") as file:
                file.write(json.dumps(bench.run(turn, variant)) + "\n")


def settings(options):
    """{setting: minutes} of this command."""
    every = DEFAULT | FULL
    chosen = every if options.full else DEFAULT
    if options.only:
        named = {key: minutes for key, minutes in every.items() if key[:3] == options.only}
        chosen = named if options.full else {(*options.only, 1): named.get((*options.only, 1), 15)}
    return {key: options.minutes or minutes for key, minutes in chosen.items()}


def run_fleets(options):
    """One fleet for each setting that has runs left."""
    for setting, minutes in settings(options).items():
        if not missing(setting, options):
            continue
        model, mbit, delay, share = setting
        say(f"{model}, {mbit} Mbit/s, {delay} ms, share {share}:")
        devices = f"coord {COORDINATOR_SHARE}\nserver {SERVER_SHARE} {SERVER_MBIT}\n" + "".join(
            f"{name} {WORKER_SHARE} {mbit} {delay}\n" for name in WORKERS
        )
        command = [sys.executable, __file__, "--setting", json.dumps(setting)]
        command += ["--rows", options.rows, "--rounds", options.rounds, "--steps", options.steps]
        command += ["--minutes", minutes, "--seconds", options.seconds]
        command += ["--variants", ",".join(options.variants)] if options.variants else []
        status = run_on(devices, command)
        if status != 0:
            sys.exit(status)


# ---- rows ----


def rows_of(setting, runs):
    """over_best_baseline: the time of the best baseline over that of the variant."""
    found = by_variant(runs, setting)
    best = best_baseline(found)
    optimal = step_seconds(found["optimal"]) if "optimal" in found else None
    for variant, some in found.items():
        seconds = step_seconds(some)
        yield {
            "model": setting[0],
            "link_mbit": setting[1],
            "delay_ms": setting[2],
            "workers": len(WORKERS) if variant in TRANSFERS else None,
            "servers": 1 if variant in TRANSFERS else None,
            "share": setting[3],
            "variant": variant,
            "seconds_per_step": seconds,
            "predicted_seconds": some[-1]["predicted_seconds"],
            "over_optimal": seconds / optimal if optimal else None,
            "over_best_baseline": best[0] / seconds if best else None,
            **{name: some[-1][name] for name in TRANSFER_SECONDS + TRANSFER_COUNTS},
            "spread": spread([second for run in some for second in run["seconds"]]),
            "rounds": len(some),
            "steps": sum(len(run["seconds"]) for run in some),
            "skipped": min(run["skipped"] for run in some),
            "stages": some[-1]["stages"],
        }


def ratio(value):
    return "-" if value is None else f"{value:.2f}"


def show(rows):
    table(
        ["model", "Mbit/s", "ms", "share", "variant", "s/step", "predicted", "/optimal"]
        + ["best baseline/", "pull", "pulls", "push", "pushes", "steps", "spread"],
        [
            [
                row["model"],
                row["link_mbit"],
                row["delay_ms"],
                row["share"],
                row["variant"],
                f"{row['seconds_per_step']:.3f}",
                f"{row['predicted_seconds']:.3f}",
                ratio(row["over_optimal"]),
                ratio(row["over_best_baseline"]),
                ratio(row["pull_seconds"]),
                row["segments_pull"] or "-",
                ratio(row["push_seconds"]),
                row["segments_push"] or "-",
                row["steps"],
                percent(row["spread"]),
            ]
            for row in rows
        ],
    )
    gains = []
    for row in rows:
        if row["variant"] == "optimal" and row["over_best_baseline"] is not None:
            gains.append(row["over_best_baseline"])
            say(
                f"{row['model']}, {row['link_mbit']} Mbit/s, {row['delay_ms']} ms, share"
                f" {row['share']}: best baseline over optimal {gains[-1]:.3f}"
            )
    if gains:
        say(f"best baseline over optimal, geometric mean: {statistics.geometric_mean(gains):.3f}")


# ---- options ----


def setting_option(text):
    model, mbit, delay = text.split(":")
    return model, int(mbit), int(delay)


def variants_option(text):
    names = text.split(",")
    unknown = set(names) - set(VARIANTS)
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown.pop()} is none of {', '.join(VARIANTS)}")
    return names


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="every setting")
    parser.add_argument(
        "--only",
        type=setting_option,
        metavar="MODEL:MBIT:DELAY",
        help="one setting with share 1; with --full, with all its shares",
    )
    parser.add_argument(
        "--variants", type=variants_option, help="separated by commas. Default: all"
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of all variants")
    parser.add_argument("--steps", type=int, default=20, help="that count in each run, at most")
    parser.add_argument(
        "--seconds", type=float, default=RUN_SECONDS, help="of a run at most; `auto` takes more"
    )
    parser.add_argument("--minutes", type=float, help="after which a setting begins no run")
    parser.add_argument(
        "--rows", type=pathlib.Path, help="append runs to this file; those in it are not repeated"
    )
    parser.add_argument(
        "--setting", type=lambda text: tuple(json.loads(text)), help=argparse.SUPPRESS
    )
    return parser.parse_args()


def main():
    options = parse()
    if options.setting:
        measure_setting(options)
        return
    with rows_file(options.rows) as options.rows:
        run_fleets(options)
        runs = read_runs(options.rows)
    found = dict.fromkeys(map(setting_of, runs))
    rows = [row for setting in found for row in rows_of(setting, runs)]
    show(rows)
    finish("exchange", rows)


if __name__ == "__main__":
    main()
