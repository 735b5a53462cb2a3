#!/usr/bin/python3
"""loss_curves.py [--batch N] [--control] PRINT_LOSSES [MODEL...]: compare the losses of 100
training steps with PyTorch's, for models of the zoo (default: all of CASES). Both sides start from
libtrain's initial weights and read the same batches.

Plain SGD with learning rate 0.01, batch 8 by default, no dropout. The images are learnable: a
random pattern for each of 10 classes under noise. Inputs of the large models are smaller than
usual. For each model the test prints the loss of the first and the last ten steps. It also prints
the largest relative difference between the two curves, as means of ten steps.

The limit is 2 %, or 3 x the largest difference between PyTorch and itself: with its other memory
layout, and with initial weights that differ by rounding. A deep net with batch-norm and rectifiers
doubles a rounding difference every few steps: after 100 steps two correct computations may differ
much, most where the loss is small. PyTorch trains again, at most four times, until the limit is
large enough; with --control always once. The first loss, which no step has changed, must agree to
0.01 %. Exit status 1 if a model exceeds a limit, 77 (skipped) without PyTorch.
"""
import argparse
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

from make_fixtures import SCALE, SEED, ZOO_SHAPES, initialise, zoo_description
from paceline_torch import Model

STEPS = 100
CLASSES = 10
RATE = 0.01
WINDOW = 10
LIMIT = 0.02
FIRST_LIMIT = 1e-4
CONTROL_SHARE = 3  # of the largest difference between PyTorch and itself
ROUNDINGS = 3  # with as many other initial weights

# gpt-mini reads text: bench/run.sh text
CASES = {name: shape for name, shape in ZOO_SHAPES.items() if name != "gpt-mini"}


def batches(shape, batch):
    """Samples [STEPS, batch, H, W, C] of bytes and their labels."""
    random = np.random.RandomState(3)
    patterns = random.randint(0, 256, size=[CLASSES] + shape)
    labels = random.randint(0, CLASSES, size=(STEPS, batch)).astype(np.int32)
    noise = random.randint(0, 256, size=[STEPS, batch] + shape)
    return ((patterns[labels] + 2 * noise) // 3).astype(np.uint8), labels


def our_losses(program, description, shape, inputs, labels):
    with tempfile.TemporaryDirectory() as directory:
        data = os.path.join(directory, "data")
        text = os.path.join(directory, "description.json")
        with open(data, "wb") as file:
            file.write(inputs.tobytes())
            file.write(labels.tobytes())
        with open(text, "w", encoding="utf-8") as file:
            json.dump(description, file)
        numbers = [*shape, SEED, labels.shape[1], STEPS, RATE, 0]
        done = subprocess.run(
            [program, text, *map(str, numbers), data], check=True, stdout=subprocess.PIPE
        )
        return np.array([float(line) for line in done.stdout.split()])


def round_otherwise(model, seed):
    """Change each weight by at most one unit in the last place."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.mul_(1 + (torch.rand(tensor.shape, generator=generator) - 0.5) * 2**-23)


def torch_losses(case, inputs, labels, memory_format=torch.contiguous_format, rounding=0):
    """`rounding`: 0 for libtrain's initial weights, else the seed of weights close to them."""
    shape, description = case
    model = Model(description, shape, CLASSES)
    initialise(model)
    if rounding:
        round_otherwise(model, rounding)
    model = model.to(memory_format=memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for samples, targets in zip(inputs, labels):
        x = torch.from_numpy(samples.astype(np.float32) * SCALE).permute(0, 3, 1, 2)
        optimizer.zero_grad()
        loss = model.loss(
            x.contiguous(memory_format=memory_format), torch.from_numpy(targets.astype(np.int64))
        )
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return np.array(losses)


def smooth(losses):
    return losses.reshape(-1, WINDOW).mean(axis=1)


def difference(losses, expected):
    return float(np.max(np.abs(smooth(losses) - smooth(expected)) / smooth(expected)))


def own_differences(case, inputs, labels, expected):
    """Between PyTorch and itself, as long as somebody asks."""
    for controls in (
        {"memory_format": torch.channels_last},
        *({"rounding": seed} for seed in range(1, ROUNDINGS + 1)),
    ):
        yield difference(torch_losses(case, inputs, labels, **controls), expected)


def main():
    parser = argparse.ArgumentParser(description="The losses of 100 steps beside PyTorch's.")
    parser.add_argument("program", help="print_losses")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="default: all")
    parser.add_argument("--batch", type=int, default=8, help="samples of a step. Default: 8.")
    parser.add_argument(
        "--control", action="store_true", help="PyTorch beside itself, whatever the difference"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.models if name not in CASES]
    if unknown:
        parser.error(f"no case for {', '.join(unknown)}; there are {', '.join(CASES)}")
    torch.set_num_threads(1)
    failed = []
    for name in arguments.models or CASES:
        case = shape, description = CASES[name], zoo_description(name)
        inputs, labels = batches(shape, arguments.batch)
        expected = torch_losses(case, inputs, labels)
        ours = our_losses(arguments.program, description, shape, inputs, labels)
        apart = difference(ours, expected)
        text = (
            f"{name}: first {smooth(ours)[0]:.4f}, last {smooth(ours)[-1]:.4f}, apart {apart:.2%}"
        )
        limit = LIMIT
        if arguments.control or not apart <= LIMIT:
            for own in own_differences(case, inputs, labels, expected):
                limit = max(limit, CONTROL_SHARE * own)
                text += f", PyTorch and itself {own:.2%}"
                if apart <= limit:
                    break
        print(text, flush=True)
        if not (apart <= limit and abs(ours[0] - expected[0]) <= FIRST_LIMIT * expected[0]):
            failed.append(name)
    if failed:
        sys.exit(f"too far apart: {', '.join(failed)}")


if __name__ == "__main__":
    main()
