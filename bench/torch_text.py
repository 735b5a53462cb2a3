"""Train gpt-mini in PyTorch: the peer of text.py.

    torch_text.py TEXT LENGTH BATCHES RATE

Uses libtrain's initial weights and the batches that `paceline-agent batches` prints. Prints the
loss of each step as a JSON list.
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tools"), str(ROOT / "tests" / "golden")]

try:
    import numpy as np
    import torch
    from make_fixtures import initialise
    from paceline_torch import Model
except ImportError as error:
    print(f"needs Debian's python3-torch and python3-numpy ({error})")
    sys.exit(77)


def main():
    text, length = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(2)
    content = torch.from_numpy(np.fromfile(text, dtype=np.uint8).astype(np.int64))
    samples = (len(content) - 1) // length
    inputs = content[: samples * length].reshape(samples, 1, length, 1).to(torch.float32)
    labels = content[1 : samples * length + 1].reshape(samples, length)
    description = json.loads((ROOT / "libtrain" / "zoo" / "gpt-mini.json").read_text())
    model = Model(description, [length, 1, 1], 256)
    initialise(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[4]), momentum=0.9)
    losses = []
    for line in pathlib.Path(sys.argv[3]).read_text(encoding="utf-8").splitlines():
        chosen = json.loads(line)["samples"]
        optimizer.zero_grad()
        loss = model.loss(inputs[chosen], labels[chosen])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps(losses))


if __name__ == "__main__":
    main()
