#!/usr/bin/python3
"""from_torch.py AGENT: convert models with PyTorch's or torchvision's names; `paceline-agent
predict` gives PyTorch's probabilities. Exit status 77 (skipped) without PyTorch.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("skipped: no PyTorch (apt-get install python3-torch)")
    sys.exit(77)

import numpy as np
from torch import nn

from make_fixtures import ROOT

import description
from paceline_torch import Model, read_note, read_safetensors, write_safetensors

AGENT = sys.argv[1]
SAMPLES = 6
TOLERANCE = 2e-4  # of a probability; single precision, Winograd's convolutions beside PyTorch's


# ---- three architectures as torchvision names them, in the variants for small images ----


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.downsample(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inputs = 64
        for index, outputs in enumerate((64, 128, 256, 512)):
            layer = nn.Sequential(
                Block(inputs, outputs, 1 if index == 0 else 2), Block(outputs, outputs, 1)
            )
            self.add_module(f"layer{index + 1}", layer)
            inputs = outputs
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return self.fc(x.mean((2, 3)))


class Vgg11(nn.Module):
    def __init__(self):
        super().__init__()
        layers = []
        inputs = 3
        for outputs in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
            if outputs:
                layers += [
                    nn.Conv2d(inputs, outputs, 3, padding=1),
                    nn.BatchNorm2d(outputs),
                    nn.ReLU(inplace=True),
                ]
                inputs = outputs
            else:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(512, 10)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expand):
        super().__init__()
        hidden = inputs * expand
        layers = [] if expand == 1 else [self.step(inputs, hidden, 1, 1)]
        layers += [
            self.step(hidden, hidden, 3, stride, hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        self.conv = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == outputs

    @staticmethod
    def step(inputs, outputs, kernel, stride, groups=1):
        conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True))

    def forward(self, x):
        return x + self.conv(x) if self.adds else self.conv(x)


class MobileNetV2(nn.Module):
    """torchvision's; the small variant has no strides in the stem and the first two groups."""

    def __init__(self):
        super().__init__()
        features = [InvertedResidual.step(3, 32, 3, 1)]
        inputs = 32
        for expand, outputs, count, stride in (
            (1, 16, 1, 1),
            (6, 24, 2, 1),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ):
            for index in range(count):
                features.append(
                    InvertedResidual(inputs, outputs, stride if index == 0 else 1, expand)
                )
                inputs = outputs
        features.append(InvertedResidual.step(320, 1280, 1, 1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 10))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


# ---- the comparison ----


def settle(model, shape):
    """Weights and running statistics without equal values, as after training."""
    torch.manual_seed(5)
    for name, tensor in model.state_dict().items():
        if name.endswith("running_mean"):
            tensor.uniform_(-0.1, 0.1)
        elif name.endswith("running_var"):
            tensor.uniform_(0.5, 1.5)
        elif tensor.dim() == 1 and tensor.is_floating_point():
            tensor.add_(torch.rand_like(tensor) * 0.2)
    [tensor for tensor in model.state_dict().values() if tensor.dim() == 2][-1].mul_(
        20
    )  # distinct classes
    return np.random.default_rng(7).integers(0, 256, (SAMPLES, *shape), dtype=np.uint8)


def from_torch(*words, fails=None):
    command = [sys.executable, "-B", os.path.join(ROOT, "tools", "from_torch.py"), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if (done.returncode != 0) != (fails is not None) or (fails and fails not in done.stderr):
        sys.exit(f"{command}: {done.returncode}: {done.stdout} {done.stderr}")
    return done.stdout


def predict(path, samples, directory):
    """[samples][classes]"""
    data = os.path.join(directory, "data.npy")
    np.save(data, samples)
    done = subprocess.run(
        [AGENT, "predict", path, data, "--json", "--top", "100"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"predict {path}: {done.stderr}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    shares = [
        {item["class"]: item["probability"] for item in line["top"]}
        for line in lines
        if "top" in line
    ]
    return np.array([[share[index] for index in range(len(share))] for share in shares])


def compare(name, model, path, samples, directory, mean=0.0, std=1.0):
    model.eval()
    with torch.no_grad():
        x = (torch.from_numpy(samples).permute(0, 3, 1, 2).float() / 255 - mean) / std
        expected = model(x).double().softmax(1).numpy()
    found = predict(path, samples, directory)
    difference = np.max(np.abs(found - expected) / expected)
    if found.shape != expected.shape or not difference < TOLERANCE:
        sys.exit(f"{name}: predict differs from PyTorch by {difference:.1e}")
    print(f"{name}: predict differs from PyTorch by {difference:.1e} of a probability at most")


def check_names(directory):
    for name, shape in (
        ("lenet5", [28, 28, 1]),
        ("resnet8", [28, 28, 1]),
        ("mobilenetv2", [32, 32, 3]),
    ):
        model = Model(description.close(description.read(name), shape, None, 10))
        samples = settle(model, shape)
        state, path = os.path.join(directory, "state.pt"), os.path.join(
            directory, "model.safetensors"
        )
        torch.save(
            {"state_dict": {"module." + key: tensor for key, tensor in model.state_dict().items()}},
            state,
        )
        from_torch(state, name, path, "--input", ",".join(map(str, shape)))
        compare(name, model, path, samples, directory)


def check_order(directory):
    for name, model in (
        ("resnet18", ResNet18()),
        ("vgg11-bn", Vgg11()),
        ("mobilenetv2", MobileNetV2()),
    ):
        samples = settle(model, [32, 32, 3])
        state, path = os.path.join(directory, "state.pt"), os.path.join(
            directory, "model.safetensors"
        )
        torch.save({**model.state_dict(), "aux1.weight": torch.ones(3)}, state)
        pairs = from_torch(state, name, path, "--input", "32,32,3", "--by-order", "--skip", "aux")
        last = list(model.state_dict())[-1]
        if not pairs.splitlines()[-2].endswith(f".bias = {last}"):
            sys.exit(f"{name}: the list does not end with the last tensor: {pairs[-300:]}")
        compare(f"{name} by order", model, path, samples, directory)


def check_refusals(directory):
    model = Model(description.close(description.read("lenet5"), [28, 28, 1], None, 10))
    state, path = os.path.join(directory, "state.pt"), os.path.join(directory, "none.safetensors")
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first = next(iter(tensors))

    def refused(changed, words, *options):
        torch.save(changed, state)
        from_torch(state, "lenet5", path, *options, fails=words)
        if os.path.exists(path):
            sys.exit(f"a file was written although: {words}")

    shape = ("--input", "28,28,1")
    refused(tensors, "give --input H,W,C")
    os.mkfifo(os.path.join(directory, "pipe"))
    from_torch(
        state,
        "lenet5",
        os.path.join(directory, "pipe"),
        *shape,
        fails="pipe: is not a regular file",
    )
    refused(
        {name: tensor for name, tensor in tensors.items() if name != first},
        f"missing: {first}",
        *shape,
    )
    refused(
        {**tensors, "extra.weight": torch.ones(2, 3)},
        "not of the model: extra.weight (2 x 3)",
        *shape,
    )
    refused({**tensors, first: torch.ones(2, 3)}, f"{first} is 2 x 3, the model's is", *shape)
    refused({**tensors, first: tensors[first] * float("nan")}, "not finite", *shape)
    refused({**tensors, first: tensors[first].long()}, "holds int64", *shape)
    refused(dict(reversed(tensors.items())), "place 0", *shape, "--by-order")
    refused(model, "save model.state_dict(), not the model", *shape)
    refused({"epoch": 3}, "map names to tensors only", *shape)
    refused({0: torch.zeros(2)}, "map names to tensors only", *shape)
    refused(tensors, "--micro-batch 70000: at most 65536", *shape, "--micro-batch", 70000)
    for mean, std in (
        ("1e300", "1"),
        ("-2e9", "1"),
        ("0", "1e-10"),
        ("0", "2e9"),
        (",".join("0" * 17), ",".join("1" * 17)),
    ):
        refused(
            tensors, "--mean goes from -1e+09 to 1e+09", *shape, f"--mean={mean}", f"--std={std}"
        )
    refused({"net." + name: tensor for name, tensor in tensors.items()}, "try --by-order", *shape)
    write_safetensors(state, {first: tensors[first]})
    from_torch(state, "lenet5", path, *shape, fails="give --classes N")
    from_torch(state, "lenet5", path, *shape, "--classes", 10, fails="missing: ")
    with open(state, "wb") as file:
        file.write(b"nothing of the kind")
    from_torch(state, "lenet5", path, *shape, fails="neither a safetensors file nor")
    from_torch(state, "lenet6", path, *shape, fails="neither a file nor a model of the zoo")


def check_halves(directory):
    """A safetensors file of 16 bits becomes one of 32 with the same numbers."""
    state, path = os.path.join(directory, "half.safetensors"), os.path.join(
        directory, "model.safetensors"
    )
    model = Model(description.close(description.read("lenet5"), [28, 28, 1], None, 10)).state_dict()
    for name, dtype in (("F16", torch.float16), ("BF16", torch.bfloat16)):
        halves = {key: tensor.to(dtype) for key, tensor in model.items()}
        header, data = {}, b""
        for key, tensor in halves.items():
            part = tensor.contiguous().view(torch.int16).numpy().tobytes()
            header[key] = {
                "dtype": name,
                "shape": list(tensor.shape),
                "data_offsets": [len(data), len(data) + len(part)],
            }
            data += part
        text = json.dumps(header).encode()
        with open(state, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + data)
        from_torch(state, "lenet5", path, "--input", "28,28,1")
        if any(
            not torch.equal(tensor, halves[key].float())
            for key, tensor in read_safetensors(path).items()
        ):
            sys.exit(f"{name}: other numbers")


def check_normalise(directory):
    model = Model(description.close(description.read("lenet5"), [28, 28, 1], None, 10))
    samples = settle(model, [28, 28, 1])
    state, path = os.path.join(directory, "state.pt"), os.path.join(directory, "model.safetensors")
    torch.save(model.state_dict(), state)
    words = (state, "lenet5", path, "--input", "28,28,1")
    from_torch(*words, "--mean", "0.5", "--std=0.25")
    stated = read_note(path)["model"]["input"]
    if stated != {"shape": [28, 28, 1], "dtype": "uint8", "mean": [0.5], "std": [0.25]}:
        sys.exit(f"the file says its input is {stated}")
    compare("normalised lenet5", model, path, samples, directory, 0.5, 0.25)
    from_torch(
        *words, "--mean", "0.5,0.5", "--std", "1,1", fails="--mean has 2 numbers for 1 channels"
    )
    from_torch(*words, "--mean", "0.5", fails="belong together")
    from_torch(*words, "--mean", "0.5", "--std", "0", fails="belong together")


def check_class_names(directory):
    state, path = os.path.join(directory, "state.pt"), os.path.join(directory, "model.safetensors")
    names = os.path.join(directory, "names.txt")
    torch.save(
        Model(description.close(description.read("lenet5"), [28, 28, 1], None, 4)).state_dict(),
        state,
    )
    words = (state, "lenet5", path, "--input", "28,28,1", "--class-names", names)

    def write(data):
        with open(names, "wb") as file:
            file.write(data)

    write(b"bird\ncaf\xe9\r\n100% dog\n")
    from_torch(*words)
    if read_note(path)["model"]["class_names"] != ["bird", "caf%E9", "100%25 dog"]:
        sys.exit(f"the file says of its classes {read_note(path)['model']['class_names']}")
    predict(path, np.zeros((2, 28, 28, 1), np.uint8), directory)
    os.remove(path)
    for data, error in (
        (b"a\nb\nc\nd\ne\n", "5 names for 4 outputs"),
        (b"a\nb\na\n", "the class 'a' occurs twice"),
        (b"a\n\nb\n", "not a list of names"),
        (b"", "not a list of names"),
    ):
        write(data)
        from_torch(*words, fails=error)


def main():
    with tempfile.TemporaryDirectory() as directory:
        check_names(directory)
        check_order(directory)
        check_normalise(directory)
        check_refusals(directory)
        check_halves(directory)
        check_class_names(directory)


if __name__ == "__main__":
    main()
