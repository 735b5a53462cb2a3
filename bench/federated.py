"""Federated averaging of a whole model on devices that have the samples of some classes each."""

import array
import copy
import gzip
import json
import math
import struct
import subprocess

from paceline import BIN, Failure, places

DEVICES = 5
SECONDS = 3600
IDX_IMAGES, IDX_LABELS = 16, 8  # bytes of the headers


def share_of(paths, classes, directory, name):
    """The samples of some classes, with their labels, as two new IDX files."""
    pixels, labels = (gzip.decompress(path.read_bytes()) for path in paths)
    count, height, width = struct.unpack(">III", pixels[4:IDX_IMAGES])
    kept = [i for i in range(count) if labels[IDX_LABELS + i] in classes]
    size = height * width
    files = [directory / f"{name}-images-idx3-ubyte", directory / f"{name}-labels-idx1-ubyte"]
    samples = (pixels[IDX_IMAGES + size * i :][:size] for i in kept)
    files[0].write_bytes(
        pixels[:4] + struct.pack(">III", len(kept), height, width) + b"".join(samples)
    )
    chosen = bytes(labels[IDX_LABELS + i] for i in kept)
    files[1].write_bytes(labels[:4] + struct.pack(">I", len(kept)) + chosen)
    return files


def mean(contents):
    """The mean of files of one model: float32 tensors behind the same header."""
    size = 8 + struct.unpack("<Q", contents[0][:8])[0]
    columns = [array.array("f", content[size:]) for content in contents]
    values = array.array("f", (sum(row) / len(row) for row in zip(*columns)))
    return contents[0][:size] + values.tobytes()


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command))}: {done.stdout} {done.stderr}")
    return done.stdout


def local_job(job, round_of, rounds, checkpoint):
    """One local epoch at the rate that the job's schedule has in this round."""
    out = copy.deepcopy(job)
    progress = round_of / max(1, rounds - 1)
    rate = job["learning_rate"]["value"] * (1 + math.cos(math.pi * progress)) / 2
    out["epochs"] = 1
    out["dataset"] = {"train": "train"}
    out["learning_rate"] = {"type": "constant", "value": max(rate, 1e-6)}
    out["init"] = {"seed": job["init"]["seed"] * 1000 + round_of}
    if checkpoint:
        out["init"]["checkpoint"] = "ckpt_01JD6Z0B1C2D3E4F5G6H7J8K9M"  # --checkpoint has the file
    else:
        out["init"]["seed"] = job["init"]["seed"]  # all devices start from the same weights
    return out


def accuracy(job, parts, threads, directory):
    """The accuracy of the mean model after a round for each epoch of the job. parts: IDX files."""
    classes = job["model"]["description"]["units"][-1]["ops"][-1]["units"]
    each = classes // DEVICES
    shares = [
        share_of(parts["train"], range(each * d, each * (d + 1)), directory, f"device{d}")
        for d in range(DEVICES)
    ]
    job_file, model = directory / "local.json", directory / "mean.safetensors"
    for round_of in range(job["epochs"]):
        job_file.write_text(json.dumps(local_job(job, round_of, job["epochs"], round_of > 0)))
        contents = []
        for share in shares:
            output = directory / "local.safetensors"
            run(
                [
                    BIN / "paceline-agent",
                    "train",
                    job_file,
                    "--output",
                    output,
                    f"--threads={threads}",
                    *places({"train": [",".join(map(str, share))]}),
                    *(["--checkpoint", model] if round_of > 0 else []),
                ]
            )
            contents.append(output.read_bytes())
        model.write_bytes(mean(contents))
    words = run([BIN / "paceline-agent", "predict", model, ",".join(map(str, parts["test"]))])
    return float(
        next(line.split()[1] for line in words.splitlines() if line.startswith("accuracy "))
    )
