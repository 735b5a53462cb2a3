"""The peer of text.py: gpt-mini in PyTorch, with libtrain's initial weights and its order of samples.

    torch_text.py TEXT LENGTH BATCH STEPS RATE      prints the loss of each step, as a JSON list
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tools"), str(ROOT / "tests" / "golden")]

try:
    import numpy as np
    import torch
    from make_fixtures import SEED, initialise, philox
    from paceline_torch import Model
except ImportError as error:
    print(f"needs Debian's python3-torch and python3-numpy ({error})")
    sys.exit(77)

SHUFFLE = 2  # base/rng.h: RNG_SHUFFLE


def order_of(samples, epoch):
    """libtrain's permutation of an epoch (libtrain/data/sampler.c, base/rng.c)."""
    key = [int(word[0]) for word in philox([SEED, 0], [[epoch], [0], [0], [SHUFFLE]])]
    blocks = np.arange((samples + 1) // 2, dtype=np.uint64)
    zeros = np.zeros_like(blocks)
    words = philox(key[:2], [blocks, zeros, zeros + np.uint64(key[2]), zeros + np.uint64(key[3])])
    pairs = np.stack(words, axis=1).reshape(-1, 2)
    order = list(range(samples))
    for place in range(samples - 1, 0, -1):
        number = int(pairs[place][1]) << 32 | int(pairs[place][0])
        other = number * (place + 1) >> 64
        order[place], order[other] = order[other], order[place]
    return order


def main():
    text, length, batch, steps = sys.argv[1], *map(int, sys.argv[2:5])
    torch.set_num_threads(2)
    content = torch.from_numpy(np.fromfile(text, dtype=np.uint8).astype(np.int64))
    samples = (len(content) - 1) // length
    inputs = content[: samples * length].reshape(samples, 1, length, 1).to(torch.float32)
    labels = content[1 : samples * length + 1].reshape(samples, length)
    description = json.loads((ROOT / "libtrain" / "zoo" / "gpt-mini.json").read_text())
    model = Model(description, [length, 1, 1], 256)
    initialise(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[5]), momentum=0.9)
    losses = []
    for step in range(steps):
        epoch, place = divmod(step, samples // batch)
        if place == 0:
            order = order_of(samples, epoch)
        chosen = order[place * batch : (place + 1) * batch]
        optimizer.zero_grad()
        loss = model.loss(inputs[chosen], labels[chosen])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps(losses))


if __name__ == "__main__":
    main()
