"""Compare the ways in which a parameter server's workers transfer their layers."""

import argparse
import contextlib
import json
import pathlib
import random
import sys
import time

import cifar
import exchange_results as results
import exchange_tables as tables
import segment_times
from exchange_results import ALONE, BASELINES, PIPELINE, SETTING, TRANSFERS, VARIANTS, setting_of
from namespaces import NamespaceFleet, run_on
from paceline import fashion_job, must, on_devices
from report import finish, median, rows_file, say

DATA = "fashion-train"
NOISE, NOISE_SAMPLES = "noise-train", 1024  # in CIFAR-10's form: 32 x 32 x 3
LARGE_IMAGES = ("vgg11-bn",)  # halves its images five times: 28 x 28 of fashion-mini is too small
BATCH = 128
STRATEGY = "parameter_server"
SERVER_SHARE, WORKER_SHARE, COORDINATOR_SHARE = 0.2, 0.6, 0.15  # of a processor
SERVER_MBIT = 1000
WORKERS = tuple(f"worker{index}" for index in range(results.WORKER_COUNT))
LEASE_MS = 20000  # of devices that compute in slices
FIRST_STEPS = 2  # not counted: nothing is measured in the first, so that it sends layer by layer
WARM_STEPS = 12  # from which the coordinator knows devices and links
AUTO_STEPS = 20  # in which `auto` tries both ways
RUN_SECONDS = 14  # by default; then a run ends with the steps that it has, one at least
AUTO_SECONDS = 56
STEP_SECONDS_MAX = 300
PIPELINE_MICRO_BATCHES = 8

FIXED_BYTES = {"fixed_1m": 1 << 20, "fixed_4m": 4 << 20}

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


# ---- finished runs ----


def read_runs(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def variants_of(setting, runs, options):
    if options.variants:
        return options.variants
    if setting[3] == 1:
        return VARIANTS
    best = results.best_of(results.by_variant(runs, (*setting[:3], 1)), BASELINES)
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


def start_in_role(fleet, name, *arguments):
    """Label the device as its name says, without the number."""
    fleet.start_device(name, "--label", f"role={name.rstrip('0123456789')}", *arguments)


def options_of(variant):
    """Those of parameter_server that make the variant."""
    if variant in FIXED_BYTES:
        return {"transfers": "fixed", "segment_bytes": FIXED_BYTES[variant]}
    return {"transfers": variant}


class Bench:
    def __init__(self, fleet, setting, options):
        self.fleet, self.setting, self.options = fleet, setting, options
        self.model, _, _, self.share = setting
        self.data = data_of(self.model)
        self.ids = {device["name"]: device["id"] for device in fleet.wait_for_agents()}
        self.units = len(fleet.get(f"/v1/models/{self.model}?dataset={self.data}")["units"])

    def job(self, variant, server_options=None):
        """server_options: in place of those of the variant."""
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
                "strategy": STRATEGY,
                "parameter_server": {
                    "servers": [{"device": self.ids["server"], "end": self.units}],
                    "worker_labels": {"role": "worker"},
                    "shares": [self.share] * len(WORKERS),
                    **(server_options or options_of(variant)),
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
        for name in results.TRANSFER_SECONDS:
            values = [v for step, v in self.fleet.metric(job, name).items() if step > skipped]
            found[name] = median(values) if values else None
        for name in results.TRANSFER_COUNTS:
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

    def logs(self):
        """{worker: its log}"""
        return {one.name: one.log_text() for one in self.fleet.agents if one.name in WORKERS}

    def logged_steps(self, before):
        """What the worker with the first micro-batches has logged since the logs `before`."""
        now = self.logs()
        parts = [now[name][len(log) :] for name, log in before.items()]
        return [step for part in parts for step in segment_times.steps_of(part)]

    def calculated(self, before, skipped):
        """{way: seconds} of a step by the times that the worker logged since; None: it logged none.
        """
        steps = [step for step in self.logged_steps(before) if step["step"] > skipped]
        if not steps or not segment_times.TOOL.exists():
            return None
        times = segment_times.middle(steps)
        # Micro-batches after the first one wait for no parameters, those before the last send none.
        more = (self.share - 1) * sum(times["forward"] + times["backward"])
        ways = segment_times.calculate(times)
        return {way: seconds + more for way, seconds in ways.items() if way != "chosen"}

    def predicted_way(self, variant):
        """The fastest way by a dry run; None: it does not say."""
        answer = self.fleet.request(
            "POST", "/v1/jobs?dry_run=true", self.job(variant), expect=200
        ).json
        fastest = (answer.get("parameter_server") or {}).get("fastest")
        return None if fastest == "none" else fastest

    def run(self, turn, variant):
        """Measure one job; the line of the file of runs."""
        before = self.logs()
        fastest = self.predicted_way(variant) if variant == results.WAYS[STRATEGY] else None
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
            "calculated": self.calculated(before, skipped) if variant == "optimal" else None,
            "fastest": fastest,
            **transfers,
        }


@contextlib.contextmanager
def running(setting, options):
    """On the device coord: a Bench with all devices."""
    with NamespaceFleet() as fleet:
        fleet.start_coordinator("--lease-ms", LEASE_MS)
        upload(fleet, setting[0])
        for name in ("server", *WORKERS):
            start_in_role(fleet, name, "--log-level", "debug")
        yield Bench(fleet, setting, options)


def measure_setting(options):
    """The runs of one setting that its time allows."""
    end = time.monotonic() + 60 * options.minutes
    with running(options.setting, options) as bench:
        bench.warm_up()
        for turn, variant in missing(options.setting, options):
            if time.monotonic() > end - options.seconds:
                say(f"  {options.minutes:g} minutes are over: repeat the command with --rows")
                break
            with options.rows.open("a") as file:
                file.write(json.dumps(bench.run(turn, variant)) + "\n")


def fleet_file(mbit, delay):
    lines = [f"coord {COORDINATOR_SHARE}", f"server {SERVER_SHARE} {SERVER_MBIT}"]
    lines += [f"{name} {WORKER_SHARE} {mbit} {delay}" for name in WORKERS]
    return "\n".join([*lines, ""])


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
        command = [sys.executable, __file__, "--setting", json.dumps(setting)]
        command += ["--rows", options.rows, "--rounds", options.rounds, "--steps", options.steps]
        command += ["--minutes", minutes, "--seconds", options.seconds]
        command += ["--variants", ",".join(options.variants)] if options.variants else []
        status = run_on(fleet_file(mbit, delay), command)
        if status != 0:
            sys.exit(status)


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
    rows = [row for setting in found for row in results.rows_of(setting, runs)]
    tables.show(rows)
    summary = results.summary(runs)
    tables.show_summary(summary)
    finish("exchange", rows, summary=summary)


if __name__ == "__main__":
    main()
