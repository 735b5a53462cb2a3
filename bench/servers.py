"""Compare plans of a parameter server: how many servers, on which devices, and how many workers."""

import argparse
import json
import pathlib
import sys
import time

from exchange import COORDINATOR_SHARE, LEASE_MS, data_of, start_in_role, upload
from namespaces import NamespaceFleet, run_on
from paceline import fashion_job, must, on_devices
from report import finish, median, rows_file, say, table

FIRST_STEPS = 2  # not counted: nothing is measured in the first, so that it sends layer by layer
STEP_SECONDS_MAX = 300
CORES = 0.45  # of each device
DELAY_MS = 2


class Setting:
    """devices: {name: Mbit/s}; variants: {name: options of parameter_server}; steps that count in
    each.
    """

    def __init__(self, model, batch, micro_batches, devices, variants, steps):
        self.model, self.batch, self.micro_batches = model, batch, micro_batches
        self.devices, self.variants, self.steps = devices, variants, steps

    def fleet_file(self):
        lines = [f"{name} {CORES} {mbit} {DELAY_MS}" for name, mbit in self.devices.items()]
        return "\n".join([f"coord {COORDINATOR_SHARE}", *lines, ""])


FREE = {"transfers": "stream"}
ALL_WORK = {**FREE, "shares": [1, 1, 1, 1]}
FAST_SERVES = {"servers": 1, "server_labels": {"role": "fast"}}


def workers(*shares):
    """Beside the fast device."""
    return {**FAST_SERVES, "worker_labels": {"role": "board"}, "shares": list(shares)}


SETTINGS = {
    "equal links": Setting(
        "vgg11-bn",
        32,
        4,
        {f"board{index}": 50 for index in range(4)},
        {"free": FREE, "all work": ALL_WORK, "all work, one server": {**ALL_WORK, "servers": 1}},
        3,
    ),
    "one fast link": Setting(
        "vgg11-bn",
        32,
        4,
        {"fast": 1000, **{f"board{index}": 50 for index in range(3)}},
        {"free": FREE, "all work": ALL_WORK, "all work, fast serves": {**ALL_WORK, **FAST_SERVES}},
        3,
    ),
    "workers": Setting(
        "mobilenetv2",
        96,
        6,
        {"fast": 1000, **{f"board{index}": 100 for index in range(3)}},
        {"1 worker": workers(6), "2 workers": workers(3, 3), "3 workers": workers(2, 2, 2)},
        8,
    ),
}


def compute_seconds(stage):
    """Seconds in which the stage's device computes its micro-batches of a step."""
    share = stage.get("share", {"first": 0, "end": 0})
    passes = (
        stage[f"measured_{name}_seconds"] or stage[f"predicted_{name}_seconds"]
        for name in ("forward", "backward")
    )
    return (share["end"] - share["first"]) * sum(passes)


class Bench:
    def __init__(self, fleet, name):
        self.fleet, self.name, self.setting = fleet, name, SETTINGS[name]
        model = self.setting.model
        self.names = {device["id"]: device["name"] for device in fleet.wait_for_agents()}
        units = fleet.get(f"/v1/models/{model}?dataset={data_of(model)}")["units"]
        self.unit_bytes = [4 * unit["parameters"] for unit in units]

    def submit(self, options, devices_min):
        return self.fleet.submit(
            fashion_job(
                self.setting.model,
                **{
                    "dataset": {"train": data_of(self.setting.model)},
                    "batch": self.setting.batch,
                    "micro_batches": self.setting.micro_batches,
                    "strategy": "parameter_server",
                    "evaluate": {"every_epochs": 0},
                    "replication": {"neighbor_every": 0, "center_every": 0},
                    "replan": {"first": 0, "every": 0},
                    "parameter_server": options,
                    **on_devices(devices_min, len(self.names)),
                },
            )
        )

    def end(self, job):
        self.fleet.verb(job, "cancel")
        self.fleet.wait(job, "cancelled")

    def warm_up(self):
        """Every device serves and works, so that the coordinator learns all links."""
        count = len(self.names)
        ends = [(index + 1) * len(self.unit_bytes) // count for index in range(count)]
        places = [{"device": device, "end": end} for device, end in zip(self.names, ends)]
        shares = [1] * (count - 1) + [self.setting.micro_batches - count + 1]
        options = {"servers": places, "transfers": "stream", "shares": shares}
        job = self.submit(options, count)
        self.fleet.wait_for_step(job, 3, STEP_SECONDS_MAX)
        self.end(job)

    def seconds_of(self, job):
        deadline = time.monotonic() + STEP_SECONDS_MAX
        while True:
            steps = self.fleet.metric(job, "step_seconds")
            counted = [seconds for step, seconds in steps.items() if step > FIRST_STEPS]
            if len(counted) >= self.setting.steps:
                return counted
            must(time.monotonic() < deadline, f"{len(steps)} steps in {STEP_SECONDS_MAX} s")
            time.sleep(1)

    def row(self, variant):
        job = self.submit(self.setting.variants[variant], 1)
        seconds = median(self.seconds_of(job))
        plan = self.fleet.get(f"/v1/jobs/{job['id']}/plans/1")
        self.end(job)
        stages = plan["stages"]
        servers = [self.names[one["device"]] for one in stages if one["first"] < one["end"]]
        say(f"  {self.name}, {variant}: {seconds:.2f} s a step, servers: {', '.join(servers)}")
        return {
            "setting": self.name,
            "model": self.setting.model,
            "batch": self.setting.batch,
            "variant": variant,
            "servers": servers,
            "workers": sum("share" in stage for stage in stages),
            "seconds_per_step": seconds,
            "predicted_seconds": plan["predicted_step_seconds"],
            "samples_per_second": self.setting.batch / seconds,
            "link_seconds": max(self.link_seconds(stage, stages) for stage in stages),
            "compute_seconds": max(compute_seconds(stage) for stage in stages),
        }

    def link_seconds(self, stage, stages):
        """The least seconds of a step by the link of the stage's device: what it sends and receives
        before the forward pass, then after the backward pass, both ways at once.
        """
        kept = sum(self.unit_bytes[stage["first"] : stage["end"]])
        others = sum("share" in other for other in stages if other is not stage)
        fetched = sum(self.unit_bytes) - kept if "share" in stage else 0
        mbit = self.setting.devices[self.names[stage["device"]]]
        return 2 * max(kept * others, fetched) * 8e-6 / mbit


def measure_setting(options):
    """On the device coord."""
    with NamespaceFleet() as fleet:
        fleet.start_coordinator("--lease-ms", LEASE_MS)
        setting = SETTINGS[options.setting]
        upload(fleet, setting.model)
        for name in setting.devices:
            start_in_role(fleet, name)
        bench = Bench(fleet, options.setting)
        bench.warm_up()
        with options.rows.open("a") as file:
            for variant in setting.variants:
                file.write(json.dumps(bench.row(variant)) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=SETTINGS, nargs="+", default=list(SETTINGS))
    parser.add_argument("--rows", type=pathlib.Path, help="append rows to this file")
    parser.add_argument("--setting", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.setting:
        measure_setting(options)
        return
    with rows_file(options.rows) as path:
        for name in options.only:
            command = [sys.executable, __file__, "--setting", name, "--rows", path]
            status = run_on(SETTINGS[name].fleet_file(), command)
            if status != 0:
                sys.exit(status)
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    table(
        [
            "setting",
            "model",
            "variant",
            "servers",
            "workers",
            "s/step",
            "predicted",
            "link",
            "compute",
            "/s",
        ],
        [
            [
                row["setting"],
                row["model"],
                row["variant"],
                ", ".join(row["servers"]),
                row["workers"],
                f"{row['seconds_per_step']:.2f}",
                f"{row['predicted_seconds']:.2f}",
                f"{row['link_seconds']:.2f}",
                f"{row['compute_seconds']:.2f}",
                f"{row['samples_per_second']:.1f}",
            ]
            for row in rows
        ],
    )
    say(
        "link: the least seconds of a step by the busiest link; compute: the seconds in which the "
        "busiest worker computes; /s: samples per second"
    )
    finish("servers", rows)


if __name__ == "__main__":
    main()
