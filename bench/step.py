"""Compare a training step with PyTorch's: milliseconds, peak memory, distance to the roofline."""

import argparse
import json
import os
import pathlib
import random
import subprocess
import tempfile

import curves
from paceline import BIN, ROOT, Fleet
from report import finish, median, percent, say, skip, spread, table

# name: (the least ratio that is good enough, steps of one run at batch 32)
MODELS = {
    "mobilenetv2": (1.4, 8),
    "resnet18": (1.5, 4),
    "vgg11-bn": (1.5, 6),
    "alexnet-cifar": (1.5, 10),
    "lenet5": (1.2, 200),
    "mlp": (1.2, 200),
}
ONEDNN_GOAL = 1.6  # of models that spend most of a step in convolutions
MEMORY_GOALS = {"mobilenetv2": 1.6, "resnet18": 1.6}
BATCHES = (32, 64)
THREADS = (1, 2)
WARMUP = 2
ROUNDS = 3
RECORD = 1 + 3 * 32 * 32
RECORDS = 512
CLASSES = 10
LOSS_STEPS = 100
RUN_SECONDS = 600
PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch


def run(command, **more):
    """(its output, its peak memory in bytes)"""
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            list(map(str, command)), stdout=output, stderr=subprocess.STDOUT, **more
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, text)
    return text, usage.ru_maxrss * 1024


def least_bytes(view, batch):
    """The least memory traffic of a step.

    Kept activations are written and read, parameters read twice, gradients written and read;
    the update reads and writes parameters and momenta.
    """
    activations = sum(unit["activation_bytes"] for unit in view["units"])
    parameters = sum(unit["parameter_bytes"] for unit in view["units"])
    return 2 * batch * activations + 8 * parameters


def ceilings(data, thread_counts):
    """{threads: (FLOP/s, bytes/s)} from the agents' probes, {model: costs from the coordinator}."""
    peaks, views = {}, {}
    for threads in thread_counts:
        with Fleet() as fleet:
            fleet.start_coordinator()
            (device,) = fleet.start_agents(1, "--threads", threads)
            peaks[threads] = (
                device["probe"]["gemm_gflops"] * 1e9,
                device["probe"]["memory_bytes_per_second"],
            )
            fleet.request(
                "PUT",
                "/v1/datasets/data",
                data.read_bytes(),
                {"Content-Type": "application/octet-stream"},
                expect=201,
            )
            views = {model: fleet.get(f"/v1/models/{model}?dataset=data") for model in MODELS}
    return peaks, views


class Bench:
    def __init__(self, directory, recompute):
        self.recompute = recompute
        self.directory = pathlib.Path(directory)
        self.data = self.directory / "data.bin"
        # Learnable images: a pattern for each class under noise.
        generator = random.Random(1)
        patterns = [generator.randbytes(RECORD - 1) for _ in range(CLASSES)]
        with open(self.data, "wb") as file:
            for index in range(RECORDS):
                noise = generator.randbytes(RECORD - 1)
                file.write(bytes([index % CLASSES]))
                file.write(
                    bytes(
                        (one + 2 * other) // 3
                        for one, other in zip(patterns[index % CLASSES], noise)
                    )
                )

    def ours(self, model, batch, threads, steps):
        """(median seconds of a step, peak bytes)"""
        job = self.directory / "job.json"
        metrics = self.directory / "metrics"
        job.write_text(
            json.dumps(
                {
                    "name": "step",
                    "model": {"name": model},
                    "dataset": {"train": "data"},
                    "batch": batch,
                    "micro_batches": 1,
                    "epochs": 10000,
                    "steps": WARMUP + steps,
                    "evaluate": {"every_epochs": 0},
                    "optimizer": {"type": "sgd", "momentum": 0.9},
                    "learning_rate": {"type": "constant", "value": 0.01},
                    "recompute": self.recompute,
                }
            )
        )
        _, peak = run(
            [
                BIN / "paceline-agent",
                "train",
                job,
                "--dataset",
                f"data={self.data}",
                "--threads",
                threads,
                "--metrics",
                metrics,
                "--output",
                self.directory / "model",
            ]
        )
        values = [
            line["value"]
            for line in map(json.loads, metrics.read_text().splitlines())
            if line["name"] == "step_seconds"
        ]
        return median(values[WARMUP:]), peak

    def torch(self, model, layout, batch, threads, steps):
        """The same of PyTorch, with its version and configuration."""
        text, _ = run(
            [
                PYTHON,
                ROOT / "bench/torch_step.py",
                ROOT / "libtrain/zoo" / f"{model}.json",
                layout,
                batch,
                threads,
                steps,
                WARMUP,
            ],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        result = json.loads(text.splitlines()[-1])
        return result["seconds"], result["peak_bytes"], result

    def losses(self, model, steps):
        """The difference of the losses (curves.compare); None: they are not compared."""
        if steps < curves.WINDOW:
            return None
        result = curves.compare(model, steps, self.data, self.directory)
        control = (
            f", PyTorch's two layouts {percent(result['control'])}"
            if result["control"] is not None
            else ""
        )
        say(f"  {model}: losses of {steps} steps {percent(result['difference'])} apart{control}")
        return result


def verdict(row):
    """Whether the goals are met, and the cause of each missed goal."""
    missed = []
    if not row["met"]:
        bound = "arithmetic" if row["arithmetic_ms"] > row["traffic_ms"] else "traffic"
        missed.append(f"ratio, {bound} alone is {percent(row['roofline'])} of our step")
    if row["memory_met"] is False:
        missed.append(f"memory, {row['ours_peak_bytes'] / 1e6:.0f} MB at its peak")
    if row["loss"] and not row["loss"]["met"]:
        missed.append(f"losses, {percent(row['loss']['control'])} between PyTorch's two layouts")
    return "no: " + "; ".join(missed) if missed else "yes"


def compare(bench, model, batch, threads, rounds, ceiling, view):
    goal, steps = MODELS[model]
    steps = max(2, steps * 32 // batch)
    sides = {"ours": [], "default": [], "channels_last": []}
    for _ in range(rounds):
        sides["ours"].append(bench.ours(model, batch, threads, steps))
        for layout in ("default", "channels_last"):
            sides[layout].append(bench.torch(model, layout, batch, threads, steps)[:2])
    seconds = {side: median([value[0] for value in values]) for side, values in sides.items()}
    peak = {side: max(value[1] for value in values) for side, values in sides.items()}
    ratios = [
        min(default[0], last[0]) / ours[0]
        for ours, default, last in zip(sides["ours"], sides["default"], sides["channels_last"])
    ]
    arithmetic = batch * (view["forward_flops"] + view["backward_flops"]) / ceiling[0]
    traffic = least_bytes(view, batch) / ceiling[1]
    memory_ratio = min(peak["default"], peak["channels_last"]) / peak["ours"]
    row = {
        "model": model,
        "batch": batch,
        "threads": threads,
        "recompute": bench.recompute,
        "ours_ms": seconds["ours"] * 1e3,
        "torch_ms": seconds["default"] * 1e3,
        "torch_channels_last_ms": seconds["channels_last"] * 1e3,
        "ratio": median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "ratio_spread": spread(ratios),
        "memory_ratio": memory_ratio,
        "ours_peak_bytes": peak["ours"],
        "arithmetic_ms": arithmetic * 1e3,
        "traffic_ms": traffic * 1e3,
        "roofline": max(arithmetic, traffic) / seconds["ours"],
        "goal": goal,
        "met": median(ratios) >= goal,
        "memory_met": memory_ratio >= MEMORY_GOALS[model] if model in MEMORY_GOALS else None,
    }
    say(
        f"  {model}, batch {batch}, {threads} threads: {row['ours_ms']:.2f} ms, "
        f"PyTorch {row['torch_ms']:.2f} and {row['torch_channels_last_ms']:.2f} ms, "
        f"ratio {row['ratio']:.2f}, memory {memory_ratio:.2f}"
    )
    return row


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    arguments.add_argument("--batches", nargs="+", type=int, default=BATCHES)
    arguments.add_argument("--threads", nargs="+", type=int, default=THREADS)
    arguments.add_argument("--rounds", type=int, default=ROUNDS)
    arguments.add_argument(
        "--losses",
        type=int,
        default=LOSS_STEPS,
        metavar="STEPS",
        help="over which losses are compared; 0: not at all",
    )
    arguments.add_argument(
        "--recompute", default="none", choices=("none", "unit"), help="our side's job field"
    )
    arguments.add_argument(
        "--onednn",
        action="store_true",
        help="measure a build with oneDNN's kernels, which bench/run.sh makes",
    )
    options = arguments.parse_args()
    if options.onednn:
        MODELS.update(
            {
                name: (max(goal, ONEDNN_GOAL) if goal > 1.2 else goal, steps)
                for name, (goal, steps) in MODELS.items()
            }
        )
    if subprocess.run([PYTHON, "-c", "import torch"], check=False, capture_output=True).returncode:
        skip(f"{PYTHON} has no torch (Debian package python3-torch)")
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as directory:
        bench = Bench(directory, options.recompute)
        peaks, views = ceilings(bench.data, options.threads)
        rows = [
            compare(bench, model, batch, threads, options.rounds, peaks[threads], views[model])
            for model in options.models
            for batch in options.batches
            for threads in options.threads
        ]
        losses = {model: bench.losses(model, options.losses) for model in options.models}
        for row in rows:
            row["loss"] = losses[row["model"]]
        peer = bench.torch("mlp", "default", 32, 1, 1)[2]
    table(
        [
            "model",
            "batch",
            "threads",
            "ours ms",
            "PyTorch ms",
            "channels-last ms",
            "ratio",
            "from",
            "to",
            "memory",
            "loss",
            "arithmetic ms",
            "traffic ms",
            "roofline",
            "goal",
            "met",
        ],
        [
            [
                row["model"],
                row["batch"],
                row["threads"],
                f"{row['ours_ms']:.2f}",
                f"{row['torch_ms']:.2f}",
                f"{row['torch_channels_last_ms']:.2f}",
                f"{row['ratio']:.2f}",
                f"{row['ratio_min']:.2f}",
                f"{row['ratio_max']:.2f}",
                f"{row['memory_ratio']:.2f}",
                percent(row["loss"] and row["loss"]["difference"]),
                f"{row['arithmetic_ms']:.1f}",
                f"{row['traffic_ms']:.1f}",
                percent(row["roofline"]),
                f"{row['goal']:.1f}",
                verdict(row),
            ]
            for row in rows
        ],
    )
    for threads, (flops, rate) in peaks.items():
        say(
            f"{threads} threads: {flops / 1e9:.0f} GFLOP/s (matrix product of 384), "
            f"{rate / 1e9:.1f} GB/s, from the agent's probe"
        )
    say(
        "arithmetic: the FLOPs of a step at that rate, counted for direct convolutions (Winograd's "
        "need a quarter); traffic: the least memory traffic; roofline: the longer of the two over "
        "our step"
    )
    if options.losses:
        say(
            f"loss: the largest difference from PyTorch's losses over {options.losses} steps, as "
            f"means of {curves.WINDOW}, batch {curves.BATCH}, with the same weights and batches; "
            f"limit: {percent(curves.LIMIT)}, or {curves.CONTROL_SHARE} times the difference "
            "between PyTorch's two layouts"
        )
    say(
        f"ratio: PyTorch's better layout over ours, the median of {options.rounds} interleaved "
        "rounds; memory: the same for peak resident bytes. "
        f"PyTorch {peer['version']} of Debian; newer builds may be faster:\n{peer['config']}"
    )
    finish("step", rows, torch=peer["version"], onednn=options.onednn)


if __name__ == "__main__":
    main()
