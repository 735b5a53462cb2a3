"""Compare the losses and accuracies of the schedules: sync, and async with each policy of versions.

`paceline-agent train --plans` trains `resnet8` on CIFAR-10 in the stages of one plan.
"""

import argparse
import hashlib
import json
import pathlib
import statistics
import tempfile

import cifar
from kept import Kept, program_sha256
from paceline import ROOT, Failure, train
from report import finish, say, table

THREADS = 2
WINDOW = 50  # steps of which the loss is the mean
ROWS = ROOT / "build/staleness.jsonl"
UNITS = len(json.loads((ROOT / "libtrain/zoo/resnet8.json").read_text())["units"])

POLICIES = {
    "sync": {},
    "stash": {"pipeline": "async"},
    "stash+aggregation": {"pipeline": "async", "aggregate_every": True},
    "vertical": {"pipeline": "async", "vertical_sync": True},
    "vertical+aggregation": {"pipeline": "async", "vertical_sync": True, "aggregate_every": True},
}


def job_of(policy, seed, options):
    fields = dict(POLICIES[policy])
    if "aggregate_every" in fields:
        fields["aggregate_every"] = options.aggregate_every
    return {
        "name": "staleness",
        "model": {"name": "resnet8"},
        "dataset": {"train": "train", "test": "test"},
        "batch": 64,
        "micro_batches": 1,
        "epochs": options.epochs,
        "init": {"seed": seed},
        "evaluate": {"every_epochs": 1},
        "optimizer": {"type": "sgd", "momentum": options.momentum, "weight_decay": 0.0005},
        "learning_rate": {"type": "cosine", "value": options.rate, "warmup_steps": 100},
        **fields,
    }


def plans_of(stages):
    """One plan of about equally many units a stage, as GET /v1/jobs/{id}/plans answers it."""
    ends = [UNITS * (i + 1) // stages for i in range(stages)]
    rows = [
        {
            "device": "dev_01JD6Y3K9T2V4W8X0Z1B5C7D9E",
            "first": ends[i - 1] if i else 0,
            "end": ends[i],
            "in_flight": stages - i,
        }
        for i in range(stages)
    ]
    plan = {
        "id": "plan_01JD6Z0B1C2D3E4F5G6H7J8K9M",
        "job": "job_01JD6Z0A4B6C8D0E2F4G6H8J0K",
        "generation": 1,
        "state": "done",
        "reason": "first",
        "resume_version": 0,
        "stages": rows,
    }
    return {"items": [plan], "next_cursor": None}


def run(job, stages, train_file, test_file):
    """The loss of each step and the accuracy of each evaluated version; none if it diverged."""
    with tempfile.TemporaryDirectory(prefix="paceline-staleness-") as place:
        directory = pathlib.Path(place)
        plans, metrics = directory / "plans.json", directory / "metrics"
        plans.write_text(json.dumps(plans_of(stages)))
        try:
            sha256, _ = train(
                job,
                {"train": [train_file], "test": [test_file]},
                THREADS,
                ["--plans", str(plans), "--metrics", str(metrics)],
                seconds=3600,
            )
        except Failure as failure:
            if "not finite" not in str(failure):
                raise
            return {"diverged": True, "program": program_sha256()}
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    return {
        "diverged": False,
        "loss": [line["value"] for line in lines if line["name"] == "loss"],
        "accuracy": {
            str(line["step"]): line["value"] for line in lines if line["name"] == "test_accuracy"
        },
        "sha256": sha256,
        "program": program_sha256(),
    }


def summary(policy, runs, steps, every):
    """One row for each evaluated version."""
    whole = [run for run in runs if not run["diverged"]]
    for step in range(every, steps + 1, every):
        losses = [statistics.mean(run["loss"][max(step - WINDOW, 0) : step]) for run in whole]
        accuracies = [run["accuracy"][str(step)] for run in whole]
        yield {
            "policy": policy,
            "step": step,
            "loss": statistics.mean(losses) if whole else None,
            "accuracy": statistics.mean(accuracies) if whole else None,
            "spread": statistics.stdev(accuracies) if len(whole) > 1 else None,
            "runs": len(runs),
            "diverged": len(runs) - len(whole),
        }


def share(value):
    return "-" if value is None else f"{value:.4f}"


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    cifar.add_arguments(parser, required=True)
    parser.add_argument("--images", type=int, default=20000, help="of TRAIN. Default: 20000.")
    parser.add_argument("--epochs", type=int, default=3, help="Default: 3.")
    parser.add_argument("--seeds", type=int, default=3, help="runs of a policy. Default: 3.")
    parser.add_argument("--stages", type=int, default=3, help=f"2 to {UNITS}. Default: 3.")
    parser.add_argument(
        "--aggregate-every", type=int, default=10, metavar="STEPS", help="Default: 10."
    )
    parser.add_argument("--momentum", type=float, default=0.9, help="Default: 0.9.")
    parser.add_argument("--rate", type=float, default=0.05, help="Default: 0.05.")
    parser.add_argument(
        "--policies",
        nargs="+",
        default=list(POLICIES),
        choices=list(POLICIES),
        help="Default: all; without sync no difference is stated.",
    )
    parser.add_argument(
        "--rows",
        type=pathlib.Path,
        default=ROWS,
        help="where finished runs are kept. Default: build/staleness.jsonl.",
    )
    options = parser.parse_args()
    if not 2 <= options.stages <= UNITS:
        parser.error(f"--stages: resnet8 has {UNITS} units: 2 to {UNITS} stages")
    return options


def train_all(options, train_file, test_file):
    """The runs of each policy, the policies in turns."""
    kept = Kept(options.rows)
    data = hashlib.sha256(train_file.read_bytes() + test_file.read_bytes()).hexdigest()
    runs = {policy: [] for policy in options.policies}
    for seed in range(1, options.seeds + 1):
        for policy in options.policies:
            job = job_of(policy, seed, options)
            key = hashlib.sha256(
                json.dumps([job, options.stages, data, program_sha256()], sort_keys=True).encode()
            ).hexdigest()
            done = kept.row(key, lambda: run(job, options.stages, train_file, test_file))
            runs[policy].append(done)
            result = (
                "diverged" if done["diverged"] else f"{list(done['accuracy'].values())[-1]:.4f}"
            )
            say(f"  {policy}, seed {seed}: {result}")
    return runs


def main():
    options = parse()
    every = options.images // 64
    steps = every * options.epochs
    say(
        f"resnet8 on {options.images} images of CIFAR-10, {options.stages} stages, batch 64, SGD "
        f"with momentum {options.momentum} and weight decay 0.0005, cosine from {options.rate}; "
        f"aggregation every {options.aggregate_every} steps; finished runs are kept in "
        f"{options.rows}"
    )
    with tempfile.TemporaryDirectory(prefix="paceline-staleness-") as place:
        part = pathlib.Path(place) / "train.bin"
        cifar.write_part(options.cifar10[0], options.images, part)
        runs = train_all(options, part, options.cifar10[1])
    rows = [row for policy in runs for row in summary(policy, runs[policy], steps, every)]
    sync = {row["step"]: row["accuracy"] for row in rows if row["policy"] == "sync"}
    for row in rows:
        reference = sync.get(row["step"])
        both = row["accuracy"] is not None and reference is not None
        row["over_sync"] = row["accuracy"] - reference if both else None
    table(
        ["policy", "step", "loss", "accuracy", "spread", "over sync", "runs", "diverged"],
        [
            [
                row["policy"],
                str(row["step"]),
                share(row["loss"]),
                share(row["accuracy"]),
                share(row["spread"]),
                "-" if row["over_sync"] is None else f"{row['over_sync']:+.4f}",
                str(row["runs"]),
                str(row["diverged"]),
            ]
            for row in rows
        ],
    )
    say(
        f"loss: the mean of {WINDOW} steps before, of the runs that did not diverge; spread: the "
        "standard deviation of the accuracy over the seeds"
    )
    finish("staleness", rows)


if __name__ == "__main__":
    main()
