"""Compare the loss of gpt-mini on a real text with PyTorch's, from the same weights and batches."""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

from paceline import ROOT, batches_of, train
from report import finish, say, skip, table

PYTHON = "/usr/bin/python3"  # Debian's, which has Debian's PyTorch
SEED = 7  # of the initial weights that make_fixtures.py draws
LIMIT = 0.02


def own_text():
    """The project's documents, concatenated: an English text that every checkout has."""
    return b"".join(path.read_bytes() for path in sorted((ROOT / "docs").rglob("*.md")))


def our_losses(job, text, length, directory):
    metrics = directory / "metrics.jsonl"
    began = time.monotonic()
    train(job, {"text": [text]}, 2, ["--as", f"text={length}", "--metrics", str(metrics)])
    seconds = time.monotonic() - began
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [line["value"] for line in lines if line["name"] == "loss"], seconds


def torch_losses(job, text, length, directory):
    batches = directory / "batches.jsonl"
    batches.write_text(batches_of(job, {"text": [text]}, ["--as", f"text={length}"]))
    command = [
        PYTHON,
        "-B",
        str(ROOT / "bench/torch_text.py"),
        str(text),
        str(length),
        str(batches),
        str(job["learning_rate"]["value"]),
    ]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    if done.returncode == 77:
        skip(done.stdout.strip())
    if done.returncode:
        raise SystemExit(f"torch_text.py: {done.stderr}")
    return json.loads(done.stdout), time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--text", type=pathlib.Path, help="a plain text. Default: the project's documents."
    )
    parser.add_argument("--length", type=int, default=64, help="bytes of a sample. Default: 64.")
    parser.add_argument("--steps", type=int, default=100, help="Default: 100.")
    parser.add_argument("--batch", type=int, default=16, help="Default: 16.")
    parser.add_argument(
        "--rate", type=float, default=0.01, help="the learning rate. Default: 0.01."
    )
    arguments = parser.parse_args()
    content = arguments.text.read_bytes() if arguments.text else own_text()
    job = {
        "name": "text",
        "model": {"name": "gpt-mini"},
        "dataset": {"train": "text"},
        "batch": arguments.batch,
        "micro_batches": 1,
        "epochs": 1000000,
        "steps": arguments.steps,
        "init": {"seed": SEED},
        "learning_rate": {"type": "constant", "value": arguments.rate},
    }
    say(
        f"gpt-mini on {len(content)} bytes of text, {arguments.batch} samples of "
        f"{arguments.length} bytes a step, {arguments.steps} steps, SGD {arguments.rate} with "
        "momentum 0.9, 2 threads"
    )
    with tempfile.TemporaryDirectory(prefix="paceline-text-") as directory:
        text = pathlib.Path(directory) / "text"
        text.write_bytes(content)
        ours, our_seconds = our_losses(job, text, arguments.length, pathlib.Path(directory))
        theirs, torch_seconds = torch_losses(job, text, arguments.length, pathlib.Path(directory))
    rows = [
        {"step": step + 1, "ours": our, "torch": their, "difference": abs(our - their) / their}
        for step, (our, their) in enumerate(zip(ours, theirs))
    ]
    shown = [
        row
        for row in rows
        if row["step"] in (1, 2, 5) or row["step"] % max(1, arguments.steps // 10) == 0
    ]
    table(
        ["step", "loss", "loss of PyTorch", "difference"],
        [
            [
                str(row["step"]),
                f"{row['ours']:.5f}",
                f"{row['torch']:.5f}",
                f"{row['difference']:.5%}",
            ]
            for row in shown
        ],
    )
    worst = max(row["difference"] for row in rows)
    say(
        f"largest difference of a step {worst:.4%}: {'met' if worst < LIMIT else 'NOT MET'} "
        f"(at most {LIMIT:.0%}); {our_seconds:.1f} s, PyTorch with its start {torch_seconds:.1f} s"
    )
    finish("text", rows, worst=worst, met=worst < LIMIT)


if __name__ == "__main__":
    main()
