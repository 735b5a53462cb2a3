"""Train a key-word model in PyTorch: the peer of sound.py.

    torch_sound.py TRAIN TEST JOB

Uses libtrain's initial weights and order of samples. TRAIN and TEST are data sets as the
coordinator stores them. Prints {"losses": [of each step], "accuracy": of TEST}.
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

from torch_text import order_of  # first: it reports missing packages and finds the other imports
import torch
from make_fixtures import initialise
from paceline_torch import Model, read_safetensors
from torch.optim.lr_scheduler import CosineAnnealingLR


def data_of(path):
    tensors = read_safetensors(path)
    return tensors["inputs"].permute(0, 3, 1, 2).contiguous(), tensors["labels"].to(torch.int64)


def main():
    (inputs, labels), (test_inputs, test_labels) = data_of(sys.argv[1]), data_of(sys.argv[2])
    job = json.loads(pathlib.Path(sys.argv[3]).read_text())
    torch.set_num_threads(1)  # a second thread would only wait: a part of a batch is small
    description = json.loads(
        (ROOT / "libtrain" / "zoo" / f"{job['model']['name']}.json").read_text()
    )
    model = Model(description, list(inputs.permute(0, 2, 3, 1).shape[1:]), int(labels.max()) + 1)
    initialise(model)
    batch, parts = job["batch"], job["micro_batches"]
    steps_per_epoch = len(inputs) // batch
    steps = job["epochs"] * steps_per_epoch
    rate = job["learning_rate"]["value"]
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=job["optimizer"]["momentum"])
    schedule = CosineAnnealingLR(optimizer, steps - 1)
    losses = []
    for step in range(steps):
        epoch, place = divmod(step, steps_per_epoch)
        if place == 0:
            order = order_of(len(inputs), epoch)
        chosen = torch.tensor(order[place * batch : (place + 1) * batch])
        optimizer.zero_grad()
        loss = 0.0
        for part in chosen.split(batch // parts):
            mean = model.loss(inputs[part], labels[part]) / parts
            mean.backward()
            loss += mean.item()
        optimizer.step()
        schedule.step()
        losses.append(loss)
    model.eval()
    with torch.no_grad():
        right = sum(
            int((model(some).argmax(1) == truth).sum())
            for some, truth in zip(test_inputs.split(100), test_labels.split(100))
        )
    print(json.dumps({"losses": losses, "accuracy": right / len(test_labels)}))


if __name__ == "__main__":
    main()
