#!/usr/bin/python3
"""harvest_loads.py WRITE_SLICES PACELINE_AGENT: in PyTorch, the logits of a harvested file are the
groups' log-odds plus their priors, on 200 random samples, and `predict` gives its probabilities.
Exit status 77 (skipped) without PyTorch.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("skipped: no PyTorch (apt-get install python3-torch)")
    sys.exit(77)

import numpy as np
from make_fixtures import ROOT

sys.path.insert(0, os.path.join(ROOT, "tools"))

from description import scale  # noqa: E402
from paceline_torch import Model, read_note, read_safetensors  # noqa: E402

SAMPLES = 200
TOLERANCE = 1e-4
GROUPS_MAX = {
    "alexnet-cifar": 5,
    "vgg11-bn": 5,
    "resnet8": 4,
    "dscnn-kws": 5,
    "mobilenetv2": 4,
    "branched": 5,
}


def load(path):
    model = Model(read_note(path)["model"])
    model.load_state_dict(read_safetensors(path), strict=True)
    return model.eval()


def logits(path, inputs):
    model = load(path)
    with torch.no_grad():
        return torch.cat([model(part) for part in inputs.split(50)])


def draw(description, random):
    """Stored samples, and what the first unit reads."""
    shape = [SAMPLES, *description["input"]["shape"]]
    if description["input"]["dtype"] == "uint8":
        stored = random.randint(0, 256, size=shape).astype(np.uint8)
    else:
        stored = random.uniform(-1, 1, size=shape).astype(np.float32)
    scaled = stored.astype(np.float32) * np.float32(scale(description))
    return stored, torch.from_numpy(scaled).permute(0, 3, 1, 2)


def check_predict(agent, directory, stored, scores):
    """The probabilities that the agent prints are PyTorch's."""
    samples = os.path.join(directory, "samples.npy")
    np.save(samples, stored)
    harvest = os.path.join(directory, "harvest.safetensors")
    done = subprocess.run(
        [agent, "predict", harvest, samples, "--json", "--top", str(scores.shape[1])],
        check=True,
        capture_output=True,
        text=True,
    )
    actual = torch.full(scores.shape, -1.0)
    for line in done.stdout.splitlines():
        row = json.loads(line)
        for entry in row.get("top", []):
            actual[row["sample"], entry["class"]] = entry["probability"]
    difference = (actual - scores.softmax(dim=1)).abs().max().item()
    print(f"predict: probabilities differ by {difference:.1e}", flush=True)
    if not difference <= TOLERANCE:
        sys.exit(f"predict: probabilities differ by {difference}")


def check(writer, name, groups, width, directory):
    done = subprocess.run(
        [writer, name, "1", str(groups), width, str(groups), directory],
        check=True,
        capture_output=True,
        text=True,
    )
    harvest = os.path.join(directory, "harvest.safetensors")
    description = read_note(harvest)["model"]
    stored, inputs = draw(description, np.random.RandomState(groups))
    actual = logits(harvest, inputs)
    expected = torch.empty_like(actual)
    for index, group in enumerate(json.loads(done.stdout)):
        own = logits(os.path.join(directory, f"group{index}.safetensors"), inputs)
        expected[:, group["classes"]] = own[:, :-1] - own[:, -1:] + group["prior"]
    difference = ((actual - expected).abs().max() / expected.abs().max()).item()
    print(f"{name} in {groups} groups of {width} widths: {difference:.1e}", flush=True)
    if not difference <= TOLERANCE:
        sys.exit(f"{name}: the logits differ by {difference}")
    return stored, actual


def main():
    writer, agent = sys.argv[1:]
    for name, most in GROUPS_MAX.items():
        for groups in range(2, most + 1):
            for width in ("equal", "unequal"):
                with tempfile.TemporaryDirectory() as directory:
                    stored, scores = check(writer, name, groups, width, directory)
                    check_predict(agent, directory, stored, scores)


if __name__ == "__main__":
    main()
