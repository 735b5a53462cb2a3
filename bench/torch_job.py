"""Train a job in PyTorch: the peer of accuracy.py and of the losses in step.py.

    torch_job.py JOB TRAIN TEST BATCHES [LAYOUT]

Trains on CIFAR binary files, with libtrain's initial weights and the batches that `paceline-agent
batches` prints. Prints the test accuracy and the losses of the steps as a line of JSON. LAYOUT is
default (NCHW) or channels_last. As on Paceline's devices, a batch is split into the job's
micro-batches, and batch-norm computes its statistics per micro-batch.
"""
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tools"), str(ROOT / "tests" / "golden")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from make_fixtures import initialise  # noqa: E402
from paceline_torch import Model  # noqa: E402

SHAPE = (32, 32, 3)
CLASSES = 10
EVALUATED = 500  # samples at once


def read_records(path):
    """(samples [N, 3, 32, 32] of bytes, labels [N])"""
    records = torch.from_numpy(np.fromfile(path, dtype=np.uint8)).reshape(-1, 1 + math.prod(SHAPE))
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long()


def zoo(name):
    return json.loads((ROOT / "libtrain" / "zoo" / f"{name}.json").read_text())


def floats(samples):
    return samples.float() * np.float32(1 / 255)


def rate_of(rule, step, steps):
    """Warm-up, then a constant or a cosine (docs/jobs.md)."""
    warmup = rule.get("warmup_steps", 0)
    if step <= warmup:
        return rule["value"] * step / warmup
    if rule["type"] == "constant":
        return rule["value"]
    return (
        rule["value"]
        * 0.5
        * (1 + math.cos(math.pi * (step - warmup - 1) / max(1, steps - warmup - 1)))
    )


def accuracy_of(model, samples, labels):
    model.eval()
    with torch.no_grad():
        right = sum(
            int((model(floats(part)).flatten(1).argmax(1) == wanted).sum())
            for part, wanted in zip(samples.split(EVALUATED), labels.split(EVALUATED))
        )
    return right / len(labels)


def main():
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    samples, labels = read_records(sys.argv[2])
    torch.set_flush_denormal(True)
    description = job["model"].get("description") or zoo(job["model"]["name"])
    memory_format = (
        torch.channels_last if sys.argv[5:] == ["channels_last"] else torch.contiguous_format
    )
    model = Model(description, SHAPE, CLASSES)
    initialise(model, job["init"]["seed"])
    model = model.to(memory_format=memory_format)
    model.train()
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=1.0,
        momentum=job["optimizer"]["momentum"],
        weight_decay=job["optimizer"]["weight_decay"],
    )
    with open(sys.argv[4], encoding="utf-8") as file:
        batches = [json.loads(line)["samples"] for line in file]
    losses = []
    for step, batch in enumerate(batches, 1):
        optimizer.param_groups[0]["lr"] = rate_of(job["learning_rate"], step, len(batches))
        optimizer.zero_grad()
        losses.append(0.0)
        for part in torch.tensor(batch).chunk(job["micro_batches"]):
            loss = model.loss(
                floats(samples[part]).to(memory_format=memory_format), labels[part]
            ) * (len(part) / len(batch))
            loss.backward()
            losses[-1] += loss.item()
        optimizer.step()
    print(
        json.dumps(
            {
                "accuracy": accuracy_of(model, *read_records(sys.argv[3])),
                "losses": losses,
                "version": torch.__version__,
            }
        )
    )


if __name__ == "__main__":
    main()
