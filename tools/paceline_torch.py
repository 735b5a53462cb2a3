"""A Paceline model as a PyTorch module, and safetensors files without other packages.

    from paceline_torch import Model, read_note, read_safetensors
    model = Model(read_note("model.safetensors")["model"])
    model.load_state_dict(read_safetensors("model.safetensors"), strict=True)

The module is built from a model description and has the tensor names and layouts of an exported
file. Its input is [N, C, H, W], already multiplied by the description's input scale. It returns
class scores [N, classes], or [N, classes, T] for a sequence, as cross_entropy expects.
"""
import tensor_file
import torch
from description import named
from torch import nn
from torch.nn import functional


def read_safetensors(path):
    """The tensors of a safetensors file: {name: tensor}. ValueError if it is invalid."""
    return {
        name: torch.from_numpy(array.copy()) for name, array in tensor_file.read(path)[0].items()
    }


def read_note(path):
    """The metadata of a trained model: {"model": description, "evaluation": {...}}, or None."""
    return tensor_file.read(path)[1]


def write_safetensors(path, tensors, note=None):
    """Write {name: tensor} in the given order. note: the metadata of a trained model's file."""
    tensor_file.write(
        path, {name: tensor.contiguous().numpy() for name, tensor in tensors.items()}, note
    )


def at_positions(function, x):
    """Apply a function of the last dimension to the channels of each position."""
    return function(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Linear(nn.Linear):
    """A vector is [N, F, 1, 1] here and a sequence [N, C, T, 1], so that all ops have four
    dimensions.
    """

    def forward(self, x):
        if x.shape[2:] == (1, 1):
            return super().forward(x.flatten(1))[:, :, None, None]
        return at_positions(super().forward, x)


class LayerNorm(nn.LayerNorm):
    def forward(self, x):
        return at_positions(super().forward, x)


class Embedding(nn.Embedding):
    """Token numbers [N, 1, T, 1], as the floats that samples are."""

    def forward(self, x):
        return super().forward(x[:, 0, :, 0].long()).transpose(1, 2)[:, :, :, None]


class Positions(nn.Module):
    def __init__(self, positions, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(positions, channels))

    def forward(self, x):
        return x + self.weight.t()[None, :, :, None]


class Attention(nn.Module):
    """q, k and v side by side in the channels, the heads side by side in each of them."""

    def __init__(self, heads, causal):
        super().__init__()
        self.heads = heads
        self.causal = causal

    def forward(self, x):
        batch, channels, length, _ = x.shape
        parts = x.reshape(batch, 3, self.heads, channels // 3 // self.heads, length)
        q, k, v = (part.transpose(2, 3) for part in parts.unbind(1))
        scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        if self.causal:
            hidden = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        y = scores.softmax(dim=3) @ v
        return y.transpose(2, 3).reshape(batch, channels // 3, length, 1)


class Flatten(nn.Module):
    def forward(self, x):
        return x.flatten(1)[:, :, None, None]


class Select(nn.Module):
    def __init__(self, first, channels):
        super().__init__()
        self.first = first
        self.end = first + channels

    def forward(self, x):
        return x[:, self.first : self.end]


class Chain(nn.Module):
    """Successive ops, named by their place, in which a select does not count."""

    def __init__(self, ops, build):
        super().__init__()
        for name, op in named(ops):
            self.add_module(name, build(op))

    def forward(self, x):
        for op in self.children():
            x = op(x)
        return x


class Residual(nn.Module):
    def __init__(self, unit, build):
        super().__init__()
        self.body = Chain(unit["residual"]["body"], build)
        # The shortcut has the input of the body.
        start = build.shape
        build.shape = build.entry
        self.shortcut = Chain(unit["residual"].get("shortcut", []), build)
        build.shape = start
        self.then = Chain(unit.get("then", []), build)

    def forward(self, x):
        return self.then(self.body(x) + self.shortcut(x))


class Branches(nn.Module):
    def __init__(self, unit, build):
        super().__init__()
        self.branches = nn.ModuleList()
        ends = []
        for ops in unit["branches"]:
            build.shape = build.entry
            self.branches.append(Chain(ops, build))
            ends.append(build.shape)
        build.shape = (sum(end[0] for end in ends),) + ends[0][1:]
        self.then = Chain(unit.get("then", []), build)

    def forward(self, x):
        return self.then(torch.cat([branch(x) for branch in self.branches], dim=1))


def pair(value):
    """A window's size, step or padding as (height, width)."""
    return tuple(value) if isinstance(value, list) else (value, value)


def positions(size, kernel, stride, padding, ceil_mode):
    """How many positions a window has in one dimension."""
    way = size + 2 * padding - kernel
    count = way // stride + 1
    rest = ceil_mode and way % stride != 0 and count * stride < size + padding
    return count + rest


class Builder:
    """Convert op descriptions to modules and track the shape (C, H, W), which PyTorch needs."""

    def __init__(self, shape, classes):
        self.shape = shape
        self.entry = shape  # of the unit
        self.classes = classes

    def window(self, op, stride):
        kernel, stride, padding = pair(op["kernel"]), pair(stride), pair(op.get("padding", 0))
        ceil_mode = op.get("ceil_mode", False)
        sizes = [
            positions(*line, ceil_mode) for line in zip(self.shape[1:], kernel, stride, padding)
        ]
        self.shape = (self.shape[0], *sizes)
        return {"kernel_size": kernel, "stride": stride, "padding": padding}

    def conv2d(self, op):
        channels = self.shape[0]
        window = self.window(op, op.get("stride", 1))
        self.shape = (op["filters"],) + self.shape[1:]
        return nn.Conv2d(
            channels, op["filters"], groups=op.get("groups", 1), bias=op.get("bias", True), **window
        )

    def linear(self, op):
        features = self.shape[0]
        units = self.classes if op["units"] == "classes" else op["units"]
        if units is None:
            raise ValueError(
                "the description does not state the number of classes: classes is needed"
            )
        self.shape = (units,) + self.shape[1:]
        return Linear(features, units, bias=op.get("bias", True))

    def batch_norm(self, op):
        return nn.BatchNorm2d(
            self.shape[0], eps=op.get("epsilon", 1e-5), momentum=op.get("momentum", 0.1)
        )

    def relu(self, op):
        return nn.ReLU()

    def relu6(self, op):
        return nn.ReLU6()

    def max_pool(self, op):
        window = self.window(op, op.get("stride", op["kernel"]))
        return nn.MaxPool2d(**window, ceil_mode=op.get("ceil_mode", False))

    def avg_pool(self, op):
        window = self.window(op, op.get("stride", op["kernel"]))
        return nn.AvgPool2d(**window, ceil_mode=op.get("ceil_mode", False))

    def global_avg_pool(self, op):
        self.shape = (self.shape[0], 1, 1)
        return nn.AdaptiveAvgPool2d(1)

    def flatten(self, op):
        self.shape = (self.shape[0] * self.shape[1] * self.shape[2], 1, 1)
        return Flatten()

    def dropout(self, op):
        return nn.Dropout(op.get("rate", 0.5))

    def layer_norm(self, op):
        return LayerNorm(self.shape[0], eps=op.get("epsilon", 1e-5))

    def gelu(self, op):
        return nn.GELU()

    def silu(self, op):
        return nn.SiLU()

    def embedding(self, op):
        self.shape = (op["units"],) + self.shape[1:]
        return Embedding(op["rows"], op["units"])

    def positions(self, op):
        return Positions(self.shape[1], self.shape[0])

    def attention(self, op):
        self.shape = (self.shape[0] // 3,) + self.shape[1:]
        return Attention(op["heads"], op.get("causal", True))

    def select(self, op):
        self.shape = (op["channels"],) + self.shape[1:]
        return Select(op["first"], op["channels"])

    def __call__(self, op):
        return getattr(self, op["type"])(op)

    def unit(self, unit):
        self.entry = self.shape
        if "residual" in unit:
            return Residual(unit, self)
        if "branches" in unit:
            return Branches(unit, self)
        return Chain(unit["ops"], self)


class Model(nn.Module):
    """description: a parsed model description. input (H, W, C) and classes: needed if the
    description leaves them to the data set.
    """

    def __init__(self, description, input=None, classes=None):
        super().__init__()
        shape = (description.get("input") or {}).get("shape") or input
        if shape is None:
            raise ValueError("the description has no input shape: input is needed")
        height, width, channels = shape
        build = Builder((channels, height, width), classes)
        for unit in description["units"]:
            # Not add_module: a unit may be called "train".
            self._modules[unit["name"]] = build.unit(unit)
        self.input_shape = (channels, height, width)
        self.label_smoothing = (description.get("loss") or {}).get("label_smoothing", 0.0)

    def forward(self, x):
        for unit in self._modules.values():
            x = unit(x)
        return x[:, :, 0, 0] if x.shape[2] == 1 else x[:, :, :, 0]

    def loss(self, x, labels):
        return functional.cross_entropy(self(x), labels, label_smoothing=self.label_smoothing)
