"""Compare recipes: the first job of the README, and the first steps of the models of the zoo."""

import argparse
import gzip
import json
import pathlib
import statistics
import struct
import subprocess
import tempfile

from paceline import BIN, FASHION, ROOT, places
from report import finish, say, table

RECIPES = {
    "sgd 0.05": ("sgd", 0.05),
    "sgd 0.01": ("sgd", 0.01),
    "adam 0.001": ("adam", 0.001),
}
# model: (side of the images, batch, steps). Few steps on small images show in minutes whether the
# loss falls.
MODELS = {
    "mlp": (28, 32, 93),
    "lenet5": (28, 32, 93),
    "dscnn-kws": (28, 32, 93),
    "resnet8": (28, 32, 93),
    "gpt-mini": (None, 8, 60),
    "alexnet-cifar": (28, 32, 60),
    "mobilenetv2-224": (28, 32, 93),
    "resnet18": (28, 16, 20),
    "vgg11-bn": (32, 16, 10),
}
# model: (side of the images, steps, default recipe). These deep models keep the default
# micro-batches: whether they learn depends on the micro-batches over which batch-norm computes its
# statistics.
DEEP = {
    "mobilenetv2": (28, 80, "sgd 0.01"),
    "googlenet": (64, 80, "sgd 0.01"),
    "vgg16-bn": (32, 50, "sgd 0.01"),
    "resnet50": (48, 50, "sgd 0.003"),
}
DEEP_RECIPES = {
    "sgd 0.003": ("sgd", 0.003),
    "sgd 0.01": ("sgd", 0.01),
    "sgd 0.03": ("sgd", 0.03),
    "sgd 0.1": ("sgd", 0.1),
    "adam 0.001": ("adam", 0.001),
}
SEEDS = (1, 2, 3)
LAST = 5  # steps whose mean loss counts
TEST_EVERY = 5  # of the deep models' test images one in five, so that a run takes minutes
TEXT = ROOT / "LICENSE"  # a text that does not change
LENGTH = 64


def images(side, part, directory, every=1):
    """Images and labels of a part of fashion-mini, padded with zeros up to `side`."""
    files = FASHION[f"fashion-{part}"]
    pixels, labels = (gzip.decompress(file.read_bytes()) for file in files)
    count, height, width = struct.unpack(">III", pixels[4:16])
    if side == width and every == 1:
        return files
    kept = range(0, count, every)
    edge, above = (side - width) // 2, (side - height) // 2
    paths = [directory / f"{part}-{what}-ubyte" for what in ("images-idx3", "labels-idx1")]
    with paths[0].open("wb") as file:
        file.write(pixels[:4] + struct.pack(">III", len(kept), side, side))
        for index in kept:
            sample = pixels[16 + index * height * width :][: height * width]
            rows = [
                bytes(edge) + sample[width * row :][:width] + bytes(side - width - edge)
                for row in range(height)
            ]
            file.write(bytes(side * above) + b"".join(rows) + bytes(side * (side - height - above)))
    paths[1].write_bytes(
        labels[:4] + struct.pack(">I", len(kept)) + bytes(labels[8 + index] for index in kept)
    )
    return paths


def run(job, datasets, directory):
    """(losses, accuracy or None); None if the job diverges."""
    file, metrics = directory / "job.json", directory / "metrics.jsonl"
    file.write_text(json.dumps(job))
    words = ["--as", f"text={LENGTH}"] if "text" in datasets else []
    command = [
        str(BIN / "paceline-agent"),
        "train",
        str(file),
        "--output",
        str(directory / "model"),
        "--metrics",
        str(metrics),
        *places(datasets),
        *words,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        say(f"{job['model']['name']}: {done.stderr.splitlines()[-1]}")
        return None
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    accuracy = [line["value"] for line in lines if line["name"] == "test_accuracy"]
    losses = [line["value"] for line in lines if line["name"] == "loss"]
    return losses, accuracy[-1] if accuracy else None


def job_of(model, recipe, **fields):
    kind, rate = recipe
    return {
        "model": {"name": model},
        "kernels": {},
        "optimizer": {"type": kind},
        "learning_rate": {"value": rate},
        **fields,
    }


def first_steps(model, directory):
    side, batch, steps = MODELS[model]
    datasets = {"train": images(side, "train", directory)} if side else {"text": [TEXT]}
    row = {"model": model, "side": side, "batch": batch, "steps": steps}
    for name, recipe in RECIPES.items():
        # The steps end it: the text is short.
        job = job_of(
            model,
            recipe,
            dataset={"train": next(iter(datasets))},
            batch=batch,
            steps=steps,
            epochs=steps,
        )
        found = run(job, datasets, directory)
        row["first"] = row.get("first") or (found and found[0][0])
        row[name] = found and statistics.mean(found[0][-LAST:])
    say(f"{model}: {', '.join(f'{name} {shown(row[name])}' for name in RECIPES)}")
    return row


def deep(model, directory):
    """The loss and the accuracy with each recipe; the model's default recipe with each seed."""
    side, steps, default = DEEP[model]
    datasets = {
        "train": images(side, "train", directory),
        "test": images(side, "test", directory, TEST_EVERY),
    }
    row = {"model": model, "side": side, "steps": steps}
    for name, recipe in DEEP_RECIPES.items():
        row[name] = []
        for seed in SEEDS if name == default else SEEDS[:1]:
            job = job_of(
                model,
                recipe,
                dataset={"train": "train", "test": "test"},
                steps=steps,
                evaluate={"every_epochs": steps},
                init={"seed": seed},
            )
            found = run(job, datasets, directory)
            last = found and {"loss": statistics.mean(found[0][-LAST:]), "accuracy": found[1]}
            row[name].append({"seed": seed, **(last or {"loss": None, "accuracy": None})})
            say(f"{model}, {name}, seed {seed}: {shown_last(row[name][-1:])}")
    return row


def first_job(directory):
    """The first job of the README, with several seeds."""
    row = {"model": "lenet5", "epochs": 5, "seeds": SEEDS}
    for name, recipe in RECIPES.items():
        jobs = [
            job_of(
                "lenet5",
                recipe,
                epochs=5,
                dataset={"train": "fashion-train", "test": "fashion-test"},
                evaluate={"every_epochs": 5},
                init={"seed": seed},
            )
            for seed in SEEDS
        ]
        row[name] = [run(job, FASHION, directory)[1] for job in jobs]
    return row


def shown(value):
    return (
        "-"
        if value is None
        else f"{value:.3f}"
        if isinstance(value, float)
        else ", ".join(f"{each:.3f}" for each in value)
    )


def shown_last(found):
    return ", ".join(f"{shown(each['loss'])} ({shown(each['accuracy'])})" for each in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--no-first-job",
        action="store_true",
        help="Only the models of the zoo. Default: the README's first job, too.",
    )
    parser.add_argument(
        "--models",
        metavar="NAME,...",
        default=",".join([*MODELS, *DEEP]),
        help="Only these. Default: all.",
    )
    arguments = parser.parse_args()
    names = arguments.models.split(",")
    with tempfile.TemporaryDirectory(prefix="paceline-recipes-") as name:
        directory = pathlib.Path(name)
        accuracies = [] if arguments.no_first_job else [first_job(directory)]
        rows = [first_steps(model, directory) for model in names if model in MODELS]
        deep_rows = [deep(model, directory) for model in names if model in DEEP]
    if accuracies:
        table(
            ["README's first job", *RECIPES],
            [["accuracy", *(shown(row[recipe]) for recipe in RECIPES)] for row in accuracies],
        )
    if rows:
        table(
            ["model", "images", "batch", "steps", "first loss", *RECIPES],
            [
                [
                    row["model"],
                    row["side"] or "text",
                    row["batch"],
                    row["steps"],
                    *(shown(row[column]) for column in ("first", *RECIPES)),
                ]
                for row in rows
            ],
        )
    if deep_rows:
        say("The loss (mean of the last steps) and, in brackets, the accuracy on the test images:")
        table(
            ["model", "images", "steps", *DEEP_RECIPES],
            [
                [
                    row["model"],
                    row["side"],
                    row["steps"],
                    *(shown_last(row[recipe]) for recipe in DEEP_RECIPES),
                ]
                for row in deep_rows
            ],
        )
    finish("recipes", [*accuracies, *rows, *deep_rows])


if __name__ == "__main__":
    main()
