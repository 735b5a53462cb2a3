"""Which recipe trains the models of the zoo: the loss after a few steps on small data, and the accuracy of the README's first job."""

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
# model: (side of the images, batch, steps). Small images, so that a run takes minutes: of the large models a few
# steps show that the loss falls.
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
    "googlenet": (64, 16, 10),
    "vgg16-bn": (32, 16, 10),
    "mobilenetv2": (28, 32, 40),
    "resnet50": (64, 16, 10),
}
SEEDS = (1, 2, 3)
LAST = 5  # steps whose mean loss counts
TEXT = ROOT / "docs" / "jobs.md"
LENGTH = 64


def images(side, directory):
    """The training images, with a border of zeros where they are to be larger."""
    data = gzip.decompress(FASHION["fashion-train"][0].read_bytes())
    count, height, width = struct.unpack(">III", data[4:16])
    if side == width:
        return FASHION
    edge, above = (side - width) // 2, (side - height) // 2
    path = directory / "images-idx3-ubyte"
    with path.open("wb") as file:
        file.write(data[:4] + struct.pack(">III", count, side, side))
        for index in range(count):
            sample = data[16 + index * height * width :][: height * width]
            rows = [
                bytes(edge) + sample[width * row :][:width] + bytes(side - width - edge)
                for row in range(height)
            ]
            file.write(bytes(side * above) + b"".join(rows) + bytes(side * (side - height - above)))
    return {"fashion-train": [path, FASHION["fashion-train"][1]]}


def run(job, datasets, directory):
    """(losses, accuracy or None); None where it diverges."""
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
    return [line["value"] for line in lines if line["name"] == "loss"], accuracy[
        -1
    ] if accuracy else None


def job_of(model, recipe, **fields):
    kind, rate = RECIPES[recipe]
    return {
        "model": {"name": model},
        "kernels": {},
        "optimizer": {"type": kind},
        "learning_rate": {"value": rate},
        **fields,
    }


def losses(model, directory):
    side, batch, steps = MODELS[model]
    datasets = images(side, directory) if side else {"text": [TEXT]}
    row = {"model": model, "side": side, "batch": batch, "steps": steps}
    for recipe in RECIPES:
        job = job_of(
            model, recipe, dataset={"train": next(iter(datasets))}, batch=batch, steps=steps
        )
        found = run(job, datasets, directory)
        row["first"] = row.get("first") or (found and found[0][0])
        row[recipe] = found and statistics.mean(found[0][-LAST:])
    return row


def first_job(directory):
    """The README's, with several seeds."""
    row = {"model": "lenet5", "epochs": 5, "seeds": SEEDS}
    for recipe in RECIPES:
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
        row[recipe] = [run(job, FASHION, directory)[1] for job in jobs]
    return row


def shown(value):
    return (
        "-"
        if value is None
        else f"{value:.3f}"
        if isinstance(value, float)
        else ", ".join(f"{each:.3f}" for each in value)
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--no-first-job",
        action="store_true",
        help="Only the models of the zoo. Default: the README's first job, too.",
    )
    parser.add_argument(
        "--models", metavar="NAME,...", default=",".join(MODELS), help="Only these. Default: all."
    )
    arguments = parser.parse_args()
    models = [name for name in arguments.models.split(",") if name in MODELS]
    with tempfile.TemporaryDirectory(prefix="paceline-recipes-") as name:
        directory = pathlib.Path(name)
        rows, accuracies = [], [] if arguments.no_first_job else [first_job(directory)]
        for row in accuracies:
            table(
                ["README's first job", *RECIPES],
                [["accuracy", *(shown(row[recipe]) for recipe in RECIPES)]],
            )
        for model in models:
            rows.append(losses(model, directory))
            say(
                f"{model}: {', '.join(f'{recipe} {shown(rows[-1][recipe])}' for recipe in RECIPES)}"
            )
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
    finish("recipes", [*accuracies, *rows])


if __name__ == "__main__":
    main()
