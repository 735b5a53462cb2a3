"""Compare the accuracy of a job on three agents with one process and, on CIFAR-10, with PyTorch.

PyTorch starts from the same weights and reads the same batches.
"""

import argparse
import hashlib
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import cifar
from kept import Kept, program_sha256
from paceline import FASHION, ROOT, SLOW_LEASE_MS, Fleet, batches_of, on_devices, train
from report import finish, say, skip, table

AGENTS = 3
SECONDS = 4 * 3600
PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's PyTorch
ROWS = ROOT / "build/accuracy.jsonl"

# model: (images of the training set, epochs, seeds)
CIFAR10 = {"resnet8": (50000, 5, 5), "mobilenetv2": (20000, 2, 2)}


def job_of(model, epochs, seed):
    return {
        "name": "accuracy",
        "model": {"name": model},
        "dataset": {"train": "train", "test": "test"},
        "batch": 64,
        "micro_batches": 2,
        "epochs": epochs,
        "init": {"seed": seed},
        "evaluate": {"every_epochs": epochs},
        "optimizer": {"type": "sgd", "momentum": 0.9, "weight_decay": 0.0005},
        "learning_rate": {"type": "cosine", "value": 0.05, "warmup_steps": 100},
    }


def accuracy_of(output):
    """Of the last evaluated version, by what `paceline-agent train` prints."""
    lines = (line.split() for line in output.splitlines())
    return float(next(words[1] for words in lines if words[:1] == ["accuracy"]))


def on_agents(job, upload):
    """The ended job on three agents, and the number of units of each agent."""
    with Fleet() as fleet:
        fleet.start_coordinator("--lease-ms", SLOW_LEASE_MS)
        upload(fleet)
        fleet.start_agents(AGENTS)
        began = time.monotonic()
        submitted = fleet.submit({**job, **on_devices(AGENTS, AGENTS)})
        done = fleet.wait(submitted, "succeeded", SECONDS)
        stages = fleet.get(f"/v1/jobs/{done['id']}/plans/{done['generation']}")["stages"]
        return {
            "accuracy": done["progress"]["accuracy"],
            "seconds": time.monotonic() - began,
            "sha256": fleet.checkpoint_sha256(submitted),
            "units_by_stage": [stage["end"] - stage["first"] for stage in stages],
        }


# ---- fashion-mini: three agents and one process ----


def fashion():
    job = json.loads((ROOT / "examples/jobs/fashion.json").read_text())
    say(
        f"{job['model']['name']} on fashion-mini, batch {job['batch']}, {job['epochs']} epochs "
        "(examples/jobs/fashion.json)"
    )
    sha256, output = train(job, FASHION)
    rows = [
        {
            "where": "paceline-agent train",
            "accuracy": accuracy_of(output),
            "sha256": sha256,
            "units_by_stage": None,
        }
    ]

    def upload(fleet):
        for name, part in (("fashion-train", "train"), ("fashion-test", "test")):
            fleet.upload(name, "fashion-mini", part)

    rows.append({"where": f"{AGENTS} agents", **on_agents(job, upload)})
    table(
        ["where", "test accuracy", "sha256", "units by stage"],
        [
            [
                row["where"],
                f"{row['accuracy']:.4f}",
                row["sha256"],
                " + ".join(map(str, row["units_by_stage"] or ["all"])),
            ]
            for row in rows
        ],
    )
    same = rows[0]["sha256"] == rows[1]["sha256"]
    say("the models are identical" if same else "THE MODELS DIFFER")
    return rows, same


# ---- CIFAR-10: three agents and PyTorch ----


def cifar_on_agents(job, train_file, test_file):
    def upload(fleet):
        for name, path in (("train", train_file), ("test", test_file)):
            fleet.request(
                "PUT",
                f"/v1/datasets/{name}",
                path.read_bytes(),
                {"Content-Type": "application/octet-stream"},
                expect=201,
            )

    return {**on_agents(job, upload), "program": program_sha256()}


def cifar_in_torch(job, train_file, test_file, directory):
    job_file, batches = directory / "job.json", directory / "batches.jsonl"
    job_file.write_text(json.dumps(job))
    batches.write_text(batches_of(job, {"train": [train_file]}))
    began = time.monotonic()
    done = subprocess.run(
        [PYTHON, "-B", ROOT / "bench/torch_job.py", job_file, train_file, test_file, batches],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"torch_job.py: {done.stderr}")
    result = json.loads(done.stdout.splitlines()[-1])
    return {
        "accuracy": result["accuracy"],
        "version": result["version"],
        "seconds": time.monotonic() - began,
    }


def cifar10(train_file, test_file, models, kept):
    """One row for each model and seed, with both sides."""
    test_sha256 = hashlib.sha256(test_file.read_bytes()).hexdigest()
    program = program_sha256()
    for model in models:
        images, epochs, seeds = CIFAR10[model]
        with tempfile.TemporaryDirectory(prefix="paceline-accuracy-") as place:
            directory = pathlib.Path(place)
            part = directory / "train.bin"
            cifar.write_part(train_file, images, part)
            data_sha256 = hashlib.sha256(part.read_bytes()).hexdigest()
            for seed in range(1, seeds + 1):
                job = job_of(model, epochs, seed)
                key = hashlib.sha256(
                    json.dumps([job, data_sha256, test_sha256], sort_keys=True).encode()
                ).hexdigest()
                ours = kept.row(f"agents {key}", lambda: cifar_on_agents(job, part, test_file))
                theirs = kept.row(
                    f"torch {key}", lambda: cifar_in_torch(job, part, test_file, directory)
                )
                # Rows of early builds lack the field "program".
                older = ours.get("program") != program
                say(
                    f"  {model}, seed {seed}: {ours['accuracy']:.4f} in {ours['seconds']:.0f} s"
                    f"{' by another build' if older else ''}, "
                    f"PyTorch {theirs['accuracy']:.4f} in {theirs['seconds']:.0f} s"
                )
                yield {
                    "model": model,
                    "images": images,
                    "epochs": epochs,
                    "seed": seed,
                    "ours": ours["accuracy"],
                    "torch": theirs["accuracy"],
                    "sha256": ours["sha256"],
                    "units_by_stage": ours["units_by_stage"],
                    "torch_version": theirs["version"],
                    "program": ours.get("program"),
                    "of_this_build": not older,
                }


def spread_of(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def summary(rows, model):
    ours, theirs = (
        [row[side] for row in rows if row["model"] == model] for side in ("ours", "torch")
    )
    differences = [our - their for our, their in zip(ours, theirs)]
    images, epochs, _ = CIFAR10[model]
    built = sum(row["of_this_build"] for row in rows if row["model"] == model)
    return [
        model,
        str(images),
        str(epochs),
        str(len(ours)),
        str(built),
        f"{statistics.mean(ours):.4f}",
        f"{spread_of(ours):.4f}",
        f"{statistics.mean(theirs):.4f}",
        f"{spread_of(theirs):.4f}",
        f"{statistics.mean(differences):+.4f}",
        f"{spread_of(differences):.4f}",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    cifar.add_arguments(parser, required=False)
    parser.add_argument(
        "--models",
        nargs="+",
        default=list(CIFAR10),
        choices=list(CIFAR10),
        help="with --cifar10. Default: both.",
    )
    parser.add_argument(
        "--rows",
        type=pathlib.Path,
        default=ROWS,
        help="where finished rows are kept. Default: build/accuracy.jsonl.",
    )
    options = parser.parse_args()
    if not options.cifar10:
        rows, same = fashion()
        finish("accuracy", rows, identical=same)
        return
    if subprocess.run([PYTHON, "-c", "import torch"], check=False, capture_output=True).returncode:
        skip(f"{PYTHON} has no torch (Debian package python3-torch)")
    say(
        "CIFAR-10, batch 64 in 2 micro-batches, SGD with momentum 0.9 and weight decay 0.0005, "
        f"cosine from 0.05; finished rows are kept in {options.rows}"
    )
    rows = list(cifar10(*options.cifar10, options.models, Kept(options.rows)))
    table(
        [
            "model",
            "images",
            "epochs",
            "seeds",
            "this build",
            "accuracy",
            "spread",
            "PyTorch",
            "spread",
            "difference",
            "spread",
        ],
        [summary(rows, model) for model in options.models],
    )
    say(
        f"{AGENTS} agents beside PyTorch {rows[0]['torch_version']}, with the same initial weights "
        "and batches; spread: the standard deviation over the seeds; difference: the mean of the "
        "differences of each seed; this build: the rows that the present program measured, the "
        "others are kept from an earlier build"
    )
    finish("accuracy", rows)


if __name__ == "__main__":
    main()
