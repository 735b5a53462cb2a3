"""Train in a plain PyTorch loop: the peer of recovery.py.

    torch_restart.py DESCRIPTION STATE BATCH IMAGES LABELS

Saves its state every five steps and resumes from it. Prints "step N" after each step until killed.
"""
import gzip
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

import torch  # noqa: E402
from paceline_torch import Model  # noqa: E402
from torch.nn import functional  # noqa: E402

SAVE_EVERY = 5
description, state, batch, images, labels = sys.argv[1:]
batch = int(batch)
torch.set_num_threads(1)
inputs = torch.frombuffer(bytearray(gzip.open(images).read()[16:]), dtype=torch.uint8).reshape(
    -1, 1, 28, 28
)
targets = torch.frombuffer(bytearray(gzip.open(labels).read()[8:]), dtype=torch.uint8).long()
model = Model(json.loads(pathlib.Path(description).read_text()), (28, 28, 1), 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
step = 0
if pathlib.Path(state).exists():
    saved = torch.load(state)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step = saved["step"]
generator = torch.Generator().manual_seed(1)
while True:
    step += 1
    sample = torch.randint(len(inputs), (batch,), generator=generator)
    optimizer.zero_grad()
    functional.cross_entropy(model(inputs[sample].float() / 255), targets[sample]).backward()
    optimizer.step()
    if step % SAVE_EVERY == 0:
        torch.save(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
            state + ".new",
        )
        os.replace(state + ".new", state)
    print("step", step, flush=True)
