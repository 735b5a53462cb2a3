"""Compare the accuracy of a parameter server's jobs with a pipeline's, seed by seed.

`paceline-agent train` computes what each of them does on any devices, bit for bit.
"""

import argparse
import hashlib
import json
import pathlib
import statistics
import tempfile
import time

import cifar
from accuracy import accuracy_of, job_of, spread_of
from kept import Kept, program_sha256
from paceline import FASHION, ROOT, train
from report import finish, say, table

THREADS = 2
SECONDS = 4 * 3600
ROWS = ROOT / "build/exchange_accuracy.jsonl"
STRATEGIES = ("pipeline", "parameter_server")
MICRO_BATCHES = 8  # a tree of three levels
CIFAR_IMAGES = 20000
EPOCHS = {"lenet5": 5, "resnet8": 3}


def strategy_job(strategy, model, seed, epochs):
    job = job_of(model, epochs, seed)
    return {**job, "strategy": strategy, "micro_batches": MICRO_BATCHES}


def run(job, datasets):
    began = time.monotonic()
    sha256, output = train(job, datasets, THREADS, seconds=SECONDS)
    return {
        "accuracy": accuracy_of(output),
        "sha256": sha256,
        "seconds": time.monotonic() - began,
        "program": program_sha256(),
    }


def pairs(model, datasets, options, kept):
    """A row for each seed."""
    files = [path for paths in datasets.values() for path in paths]
    data = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    for seed in range(1, options.seeds + 1):
        row = {"model": model, "epochs": options.epochs or EPOCHS[model], "seed": seed}
        for strategy in STRATEGIES:
            job = strategy_job(strategy, model, seed, row["epochs"])
            text = json.dumps([job, data, program_sha256()], sort_keys=True)
            done = kept.row(
                hashlib.sha256(text.encode()).hexdigest(), lambda job=job: run(job, datasets)
            )
            row |= {strategy: done["accuracy"], f"{strategy}_sha256": done["sha256"]}
        both = ", ".join(f"{name} {row[name]:.4f}" for name in STRATEGIES)
        say(f"  {model}, seed {seed}: {both}")
        yield row


def summary(rows):
    """Of the rows of one model. within_spread: the mean of the differences is at most their
    standard deviation.
    """
    sides = {name: [row[name] for row in rows] for name in STRATEGIES}
    differences = [row["parameter_server"] - row["pipeline"] for row in rows]
    difference = statistics.mean(differences)
    return {
        "model": rows[0]["model"],
        "epochs": rows[0]["epochs"],
        "seeds": len(rows),
        **{name: statistics.mean(values) for name, values in sides.items()},
        **{f"{name}_spread": spread_of(values) for name, values in sides.items()},
        "difference": difference,
        "difference_spread": spread_of(differences),
        "within_spread": abs(difference) <= spread_of(differences),
    }


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    cifar.add_arguments(parser, required=False)
    parser.add_argument("--seeds", type=int, default=5, help="Default: 5.")
    parser.add_argument("--epochs", type=int, help="Default: 5, of CIFAR-10 3.")
    parser.add_argument(
        "--images", type=int, default=CIFAR_IMAGES, help="of CIFAR-10. Default: 20000."
    )
    parser.add_argument(
        "--rows",
        type=pathlib.Path,
        default=ROWS,
        help="where finished runs are kept. Default: build/exchange_accuracy.jsonl.",
    )
    return parser.parse_args()


def measure(options):
    """The rows: of lenet5 and, with CIFAR-10, of resnet8."""
    kept = Kept(options.rows)
    shipped = {part: FASHION[f"fashion-{part}"] for part in ("train", "test")}
    rows = list(pairs("lenet5", shipped, options, kept))
    if options.cifar10:
        with tempfile.TemporaryDirectory(prefix="paceline-accuracy-") as place:
            part = pathlib.Path(place) / "train.bin"
            cifar.write_part(options.cifar10[0], options.images, part)
            datasets = {"train": [part], "test": [options.cifar10[1]]}
            rows += pairs("resnet8", datasets, options, kept)
    return rows


def main():
    options = parse()
    say(
        f"batch 64 in {MICRO_BATCHES} micro-batches, SGD with momentum 0.9 and weight decay "
        f"0.0005, cosine from 0.05; finished runs are kept in {options.rows}"
    )
    rows = measure(options)
    found = [
        summary([row for row in rows if row["model"] == model])
        for model in dict.fromkeys(row["model"] for row in rows)
    ]
    table(
        ["model", "epochs", "seeds", "pipeline", "spread", "parameter server", "spread"]
        + ["difference", "spread"],
        [
            [
                one["model"],
                one["epochs"],
                one["seeds"],
                f"{one['pipeline']:.4f}",
                f"{one['pipeline_spread']:.4f}",
                f"{one['parameter_server']:.4f}",
                f"{one['parameter_server_spread']:.4f}",
                f"{one['difference']:+.4f}",
                f"{one['difference_spread']:.4f}",
            ]
            for one in found
        ],
    )
    say(
        "spread: the standard deviation over the seeds; difference: of the two accuracies of a seed"
    )
    for one in found:
        within = "within" if one["within_spread"] else "NOT within"
        say(f"{one['model']}: the mean difference is {within} its spread")
    finish("exchange_accuracy", rows, summary=found)


if __name__ == "__main__":
    main()
