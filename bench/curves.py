"""Compare losses of first steps with PyTorch's, from the same weights and batches, for step.py."""

import json
import subprocess

from paceline import ROOT, batches_of, train

PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's PyTorch
BATCH = 32
WINDOW = 10  # steps of which the mean is compared
LIMIT = 0.02
CONTROL_SHARE = 3  # or this multiple of the difference between PyTorch's two layouts
SECONDS = 1800


def without_dropout(value):
    """A description, or a part of one, without dropout: the two sides draw different masks."""
    if isinstance(value, dict):
        return {name: without_dropout(part) for name, part in value.items()}
    if isinstance(value, list):
        return [
            without_dropout(part)
            for part in value
            if not (isinstance(part, dict) and part.get("type") == "dropout")
        ]
    return value


def job_of(model, steps):
    description = json.loads((ROOT / "libtrain" / "zoo" / f"{model}.json").read_text())
    return {
        "name": "losses",
        "model": {"description": without_dropout(description)},
        "dataset": {"train": "data"},
        "batch": BATCH,
        "micro_batches": 1,
        "epochs": 100000,
        "steps": steps,
        "init": {"seed": 1},
        "evaluate": {"every_epochs": 0},
        "optimizer": {"type": "sgd", "momentum": 0.0, "weight_decay": 0.0},
        "learning_rate": {"type": "constant", "value": 0.01},
    }


def ours(job, data, directory):
    metrics = directory / "losses"
    train(job, {"data": [data]}, 2, ["--metrics", str(metrics)])
    return [
        line["value"]
        for line in map(json.loads, metrics.read_text().splitlines())
        if line["name"] == "loss"
    ]


def torchs(job, data, directory, layout):
    job_file, batches = directory / "losses.json", directory / "losses.batches"
    job_file.write_text(json.dumps(job))
    batches.write_text(batches_of(job, {"data": [data]}))
    done = subprocess.run(
        [PYTHON, "-B", ROOT / "bench/torch_job.py", job_file, data, data, batches, layout],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])["losses"]


def apart(losses, others):
    """The largest relative difference between the means of WINDOW steps."""
    means = [
        [
            sum(values[at : at + WINDOW]) / WINDOW
            for at in range(0, len(values) - WINDOW + 1, WINDOW)
        ]
        for values in (losses, others)
    ]
    return max(abs(one - other) / other for one, other in zip(*means))


def compare(model, steps, data, directory):
    """{difference, control, met}.

    control: the difference between PyTorch's two layouts, measured only if LIMIT is exceeded.
    """
    job = job_of(model, steps)
    theirs = torchs(job, data, directory, "default")
    difference, control = apart(ours(job, data, directory), theirs), None
    if difference > LIMIT:
        control = apart(torchs(job, data, directory, "channels_last"), theirs)
    return {
        "difference": difference,
        "control": control,
        "met": difference <= max(LIMIT, CONTROL_SHARE * (control or 0)),
    }
