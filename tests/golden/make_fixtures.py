#!/usr/bin/python3
"""Make the golden fixtures: results of PyTorch, for tests that need no PyTorch.

    /usr/bin/python3 tests/golden/make_fixtures.py

Needs Debian's python3-torch and python3-numpy.

ops.safetensors and sequence.safetensors hold every op, forward and backward: whole tensors in
float32. Activations are N, H, W, C; weights are in PyTorch's layout. Tensors are called
"<op>.<case>.<tensor>"; "shape" holds the case's sizes.

NAME.safetensors holds one step of SGD with momentum of a model of libtrain/zoo on a few random
samples, computed in float64. "<kind>/<name>" holds evenly spaced elements of a tensor.
"limits/<kind>/<name>" holds its largest absolute value and the allowed difference: the largest of
- 1e-4 of the largest value;
- 3 x the difference of PyTorch's own two memory layouts in float32 from float64;
- 1e-6 of the largest value of its kind (the gradient of a bias before a batch-norm is rounding
  alone).
Kinds: activation, activation_gradient (after each unit), gradient, parameter, buffer (after the
step), loss (sum over the samples: in the step, and of an evaluation after it).

Initial weights are not stored: they are libtrain's own (Philox), drawn here again. With the chosen
seed of the samples no activation is within rounding of a rectifier's kink. Beyond the kink the
gradient is a different number, in PyTorch's two layouts too, and the limits would be wide. The
large nets have no such seed: set_gates sets their gates.
"""
import json
import os
import sys

import numpy as np
import torch
from torch.nn import functional

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tools"))

from paceline_torch import Chain, Embedding, Model, Positions, write_safetensors  # noqa: E402

# Small inputs for every model of the zoo; they decide only the parameters of mlp and lenet5.
ZOO_SHAPES = {
    "mlp": [28, 28, 1],
    "lenet5": [28, 28, 1],
    "resnet8": [32, 32, 3],
    "mobilenetv2": [32, 32, 3],
    "alexnet-cifar": [32, 32, 3],
    "vgg11-bn": [32, 32, 3],
    "vgg16-bn": [32, 32, 3],
    "resnet18": [16, 16, 3],
    "resnet50": [64, 64, 3],
    "googlenet": [64, 64, 3],
    "mobilenetv2-224": [64, 64, 3],
    "dscnn-kws": [49, 10, 1],
    "gpt-mini": [64, 1, 1],
}

SEED = 7
RATE = 0.05
MOMENTUM = 0.9
SCALE = np.float32(1 / 255)


# ---- libtrain's random numbers (base/rng.h) ----


def philox(key, counter):
    """Philox 4x32-10 on arrays: key [2], counter [4] of uint32 arrays."""
    low = np.uint64(0xFFFFFFFF)
    words = [np.asarray(word, dtype=np.uint64) for word in counter]
    key = [int(word) for word in key]
    for _ in range(10):
        first = np.uint64(0xD2511F53) * words[0]
        second = np.uint64(0xCD9E8D57) * words[2]
        words = [
            (second >> np.uint64(32)) ^ words[1] ^ np.uint64(key[0]),
            second & low,
            (first >> np.uint64(32)) ^ words[3] ^ np.uint64(key[1]),
            first & low,
        ]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return words


def initial_uniform(seed, unit, parameter, count):
    """rng_uniform of the stream (seed, RNG_INITIALISE, unit, parameter) at 0 .. count - 1."""
    key = philox([seed & 0xFFFFFFFF, seed >> 32], [[unit], [0], [parameter], [1]])
    key = [int(word[0]) for word in key]
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    zeros = np.zeros_like(blocks)
    words = philox(key[:2], [blocks, zeros, zeros + np.uint64(key[2]), zeros + np.uint64(key[3])])
    words = np.stack(words, axis=1).reshape(-1)[:count]
    return (words >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


def initialise(model, seed=SEED):
    """libtrain's initial state: He's uniform rule for weights of convolutions and linear layers,
    variance 1 for tables.
    """
    tables = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, (Embedding, Positions))
    }
    for number, unit in enumerate(model._modules.values()):
        for index, (_, parameter) in enumerate(unit.named_parameters()):
            if parameter.dim() < 2:
                continue
            bound = np.float32(
                np.sqrt(3.0 if id(parameter) in tables else 6.0 / parameter[0].numel())
            )
            uniform = initial_uniform(seed, number, index, parameter.numel())
            values = (np.float32(2) * uniform - np.float32(1)) * bound
            parameter.data.copy_(torch.from_numpy(values).reshape(parameter.shape))
        for module in unit.modules():
            if hasattr(module, "bias") and isinstance(module.bias, torch.nn.Parameter):
                module.bias.data.zero_()


def set_gates(model):
    """Keep the outputs of batch-norms away from the kinks of the rectifiers after them: about 3,
    and about -3 for every fourth channel. The added value of a residual stays positive.
    """
    for chain in model.modules():
        if not isinstance(chain, Chain):
            continue
        ops = list(chain.children())
        for op, follower in zip(ops, ops[1:] + [None]):
            if isinstance(op, torch.nn.BatchNorm2d):
                op.weight.data.fill_(0.25)
                op.bias.data.fill_(3)
                if isinstance(follower, (torch.nn.ReLU, torch.nn.ReLU6)):
                    op.bias.data[3::4] = -3


def save(name, tensors):
    """Wide elements first, so that every tensor is aligned. Returns the file's size."""
    path = os.path.join(HERE, name + ".safetensors")
    write_safetensors(path, dict(sorted(tensors.items(), key=lambda item: -item[1].element_size())))
    return os.path.getsize(path)


# ---- whole nets ----


def one_step(description, shape, gates, inputs, labels, dtype, memory_format):
    """All tensors of one step: {"kind/name": tensor in libtrain's order}."""
    model = Model(description, shape, 10)
    initialise(model)
    if gates:
        set_gates(model)
    model = model.to(dtype=dtype, memory_format=memory_format)
    x = inputs.to(dtype).contiguous(memory_format=memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    borders = {}
    units = list(model._modules.items())
    for name, unit in units[:-1]:
        x = unit(x)
        x.retain_grad()
        borders[name] = x
    scores = units[-1][1](x)[:, :, :, 0].reshape(labels.shape[:1] + (-1,) + labels.shape[1:])
    loss = functional.cross_entropy(scores, labels)
    loss.backward()
    result = {"loss/sum": loss.detach() * len(labels)}
    for name, tensor in borders.items():
        result["activation/" + name] = tensor.detach().permute(0, 2, 3, 1)
        result["activation_gradient/" + name] = tensor.grad.permute(0, 2, 3, 1)
    for name, parameter in model.named_parameters():
        result["gradient/" + name] = parameter.grad.clone()
    optimizer.step()
    for name, parameter in model.named_parameters():
        result["parameter/" + name] = parameter.detach()
    for name, buffer in model.named_buffers():
        if not name.endswith("num_batches_tracked"):
            result["buffer/" + name] = buffer
    model.eval()
    with torch.no_grad():
        evaluation = functional.cross_entropy(model(inputs.to(dtype)), labels)
    result["loss/evaluation"] = evaluation * len(labels)
    return {
        name: tensor.to(torch.float64).contiguous().reshape(-1) for name, tensor in result.items()
    }


def distance(tensor, reference):
    return (tensor - reference).abs().max().item()


def without_dropout(value):
    """The description with dropouts of rate 0: PyTorch and libtrain draw different numbers."""
    if isinstance(value, list):
        return [without_dropout(element) for element in value]
    if not isinstance(value, dict):
        return value
    kept = {"rate": 0} if value.get("type") == "dropout" else {}
    return {**{key: without_dropout(element) for key, element in value.items()}, **kept}


def zoo_description(name):
    with open(os.path.join(ROOT, "libtrain", "zoo", name + ".json"), encoding="utf-8") as file:
        return without_dropout(json.load(file))


def net_fixture(name, shape, batch, seed, samples, gates=False):
    description = zoo_description(name)
    random = np.random.RandomState(seed)
    stored = random.randint(0, 256, size=[batch] + shape).astype(np.uint8)
    text = shape[1:] == [1, 1]
    drawn = (
        random.randint(0, 256, size=[batch, shape[0]])
        if text
        else random.randint(0, 10, size=batch)
    )
    labels = torch.from_numpy(drawn.astype(np.int64))
    scale = np.float32(description.get("input", {}).get("scale", SCALE))
    inputs = torch.from_numpy(stored.astype(np.float32) * scale).permute(0, 3, 1, 2)

    def run(dtype, memory_format):
        return one_step(description, shape, gates, inputs, labels, dtype, memory_format)

    reference = run(torch.float64, torch.contiguous_format)
    ours = [run(torch.float32, layout) for layout in (torch.contiguous_format, torch.channels_last)]
    out = {"inputs": torch.from_numpy(stored), "labels": labels.to(torch.int32)}
    wide = 0
    kinds = {}
    for key, tensor in reference.items():
        kind = key.split("/")[0]
        kinds[kind] = max(kinds.get(kind, 0), tensor.abs().max().item())
    for key, tensor in reference.items():
        largest = tensor.abs().max().item()
        spread = max(distance(other[key], tensor) for other in ours)
        wide += 3 * spread > max(1e-3 * largest, 1e-6 * kinds[key.split("/")[0]])
        count = min(samples, tensor.numel())
        index = [place * tensor.numel() // count for place in range(count)]
        out[key] = tensor[index].to(torch.float32)
        limit = max(1e-4 * largest, 3 * spread, 1e-6 * kinds[key.split("/")[0]])
        out["limits/" + key] = torch.tensor([largest, limit], dtype=torch.float64)
    print(
        f"{name}: {len(reference)} tensors, {wide} with a limit above 1e-3, {save(name, out)} bytes"
    )


# ---- ops ----


class Ops:
    """Collects cases. Tensors of PyTorch with four dimensions are stored as N, H, W, C."""

    def __init__(self):
        self.random = np.random.RandomState(10)
        self.tensors = {}
        self.counts = {}

    def draw(self, *shape):
        return torch.from_numpy(self.random.uniform(-1, 1, size=shape).astype(np.float32))

    def add(self, op, shape, weights=(), **tensors):
        case = self.counts.get(op, 0)
        self.counts[op] = case + 1
        self.tensors[f"{op}.{case}.shape"] = torch.tensor(shape, dtype=torch.int64)
        for name, tensor in tensors.items():
            tensor = tensor.detach()
            if tensor.dim() == 4 and name not in weights:
                tensor = tensor.permute(0, 2, 3, 1)
            self.tensors[f"{op}.{case}.{name}"] = tensor.contiguous()


def run_backward(y, dy, *leaves):
    return torch.autograd.grad(y, leaves, dy)


def conv2d_case(ops, N, H, W, C, O, K, S, P, G, bias):
    """K, S and P: pairs."""
    x, weight = ops.draw(N, C, H, W).requires_grad_(), ops.draw(O, C // G, *K).requires_grad_()
    b = ops.draw(O).requires_grad_()
    y = functional.conv2d(x, weight, b if bias else None, S, P, 1, G)
    dy = ops.draw(*y.shape)
    dx, dweight = run_backward(y, dy, x, weight)
    dbias = dy.sum((0, 2, 3))
    ops.add(
        "conv2d",
        [N, H, W, C, O, *K, *S, *P, G, *y.shape[2:], bias],
        ("weight", "dweight"),
        x=x,
        weight=weight,
        bias=b,
        y=y,
        dy=dy,
        dx=dx,
        dweight=dweight,
        dbias=dbias,
    )


def conv2d_cases(ops):
    for N, H, W, C, O, K, S, P, G, bias in [
        (2, 8, 7, 3, 5, 3, 1, 1, 1, True),
        (2, 9, 9, 4, 6, 3, 2, 1, 1, False),
        (1, 12, 12, 1, 6, 5, 1, 0, 1, True),
        (3, 6, 5, 8, 12, 1, 1, 0, 1, False),
        (2, 7, 7, 8, 4, 1, 2, 0, 1, True),
        (2, 6, 6, 6, 9, 3, 1, 1, 3, True),
        (2, 7, 8, 20, 20, 3, 1, 1, 20, False),
        (2, 8, 7, 5, 5, 3, 2, 1, 5, True),
        (1, 9, 8, 17, 17, 5, 2, 2, 17, False),
    ]:
        conv2d_case(ops, N, H, W, C, O, (K, K), (S, S), (P, P), G, bias)


def linear_cases(ops):
    for N, H, W, C, O in [(3, 1, 1, 10, 7), (4, 3, 2, 5, 6)]:
        x, weight = ops.draw(N, C, H, W).requires_grad_(), ops.draw(O, C * H * W).requires_grad_()
        bias = ops.draw(O).requires_grad_()
        y = functional.linear(x.flatten(1), weight, bias)
        dy = ops.draw(*y.shape)
        dx, dweight, dbias = run_backward(y, dy, x, weight, bias)
        ops.add(
            "linear",
            [N, H, W, C, O],
            x=x,
            weight=weight,
            bias=bias,
            y=y,
            dy=dy,
            dx=dx,
            dweight=dweight,
            dbias=dbias,
        )


def batch_norm_cases(ops):
    for N, H, W, C in [(4, 5, 3, 6), (8, 1, 1, 20), (2, 6, 6, 1)]:
        x, weight, bias = (
            ops.draw(N, C, H, W).requires_grad_(),
            ops.draw(C).requires_grad_(),
            ops.draw(C).requires_grad_(),
        )
        mean, variance = ops.draw(C), ops.draw(C).abs() + 0.5
        evaluated = functional.batch_norm(x, mean, variance, weight, bias, False, 0.1, 1e-5)
        start = {"start_mean": mean.clone(), "start_variance": variance.clone()}
        y = functional.batch_norm(x, mean, variance, weight, bias, True, 0.1, 1e-5)
        dy = ops.draw(*y.shape)
        dx, dweight, dbias = run_backward(y, dy, x, weight, bias)
        ops.add(
            "batch_norm",
            [N, H, W, C],
            x=x,
            weight=weight,
            bias=bias,
            y=y,
            evaluated=evaluated,
            dy=dy,
            dx=dx,
            dweight=dweight,
            dbias=dbias,
            mean=mean,
            variance=variance,
            **start,
        )


def elementwise_cases(ops):
    for op, function, spread in [("relu", functional.relu, 1), ("relu6", functional.relu6, 10)]:
        x = (ops.draw(2, 5, 4, 3) * spread).requires_grad_()
        y = function(x)
        dy = ops.draw(*y.shape)
        ops.add(op, [2, 4, 3, 5], x=x, y=y, dy=dy, dx=run_backward(y, dy, x)[0])
    a, b = ops.draw(2, 5, 4, 3).requires_grad_(), ops.draw(2, 5, 4, 3).requires_grad_()
    dy = ops.draw(2, 5, 4, 3)
    da, db = run_backward(a + b, dy, a, b)
    ops.add("add", [2, 4, 3, 5], a=a, b=b, y=a + b, dy=dy, da=da, db=db)
    c = ops.draw(2, 3, 4, 3).requires_grad_()
    y = torch.cat([a, c], dim=1)
    dy = ops.draw(*y.shape)
    da, dc = run_backward(y, dy, a, c)
    ops.add("concat", [2, 4, 3, 5, 3], a=a, b=c, y=y, dy=dy, da=da, db=dc)


POOLS = {"max_pool": functional.max_pool2d, "avg_pool": functional.avg_pool2d}


def pool_case(ops, op, N, H, W, C, K, S, P, ceil_mode):
    """K, S and P: pairs."""
    x = ops.draw(N, C, H, W).requires_grad_()
    y = POOLS[op](x, K, S, P, ceil_mode=ceil_mode)
    dy = ops.draw(*y.shape)
    ops.add(
        op, [N, H, W, C, *K, *S, *P, *y.shape[2:]], x=x, y=y, dy=dy, dx=run_backward(y, dy, x)[0]
    )


def pool_cases(ops):
    for op in POOLS:
        for N, H, W, C, K, S, P in [
            (2, 8, 6, 5, 2, 2, 0),
            (2, 7, 9, 3, 3, 2, 1),
            (1, 6, 6, 18, 3, 1, 1),
        ]:
            pool_case(ops, op, N, H, W, C, (K, K), (S, S), (P, P), False)
    x = ops.draw(3, 7, 5, 4).requires_grad_()
    y = functional.adaptive_avg_pool2d(x, 1)
    dy = ops.draw(*y.shape)
    ops.add("global_avg_pool", [3, 5, 4, 7], x=x, y=y, dy=dy, dx=run_backward(y, dy, x)[0])


def loss_cases(ops):
    x = (ops.draw(9, 10) * 6).requires_grad_()
    labels = torch.from_numpy(ops.random.randint(0, 10, size=9).astype(np.int64))
    y = functional.cross_entropy(x, labels)
    (dx,) = run_backward(y, torch.ones(()), x)
    ops.add(
        "softmax_cross_entropy",
        [9, 10],
        x=x,
        labels=labels.to(torch.int32),
        mean=y.reshape(1),
        dx=dx,
    )


def sgd_cases(ops):
    for momentum, decay, nesterov in [
        (0, 0, 0),
        (0, 0.01, 0),
        (0.9, 0, 0),
        (0.9, 0.01, 0),
        (0.8, 0.01, 1),
    ]:
        parameter = ops.draw(100).requires_grad_()
        start, gradients = parameter.detach().clone(), ops.draw(5, 100)
        optimizer = torch.optim.SGD(
            [parameter], lr=0.1, momentum=momentum, weight_decay=decay, nesterov=bool(nesterov)
        )
        for gradient in gradients:
            parameter.grad = gradient.clone()
            optimizer.step()
        settings = torch.tensor([momentum, decay, nesterov], dtype=torch.float64)
        ops.add(
            "sgd",
            [5, 100],
            start=start,
            gradients=gradients,
            parameter=parameter,
            settings=settings,
        )


def window_cases(ops):
    """Windows that are not square, and pools in ceil mode."""
    for N, H, W, C, O, K, S, P, G, bias in [
        (2, 21, 10, 1, 8, (10, 4), (2, 2), (5, 1), 1, False),
        (2, 6, 9, 4, 3, (1, 7), (1, 1), (0, 3), 1, True),
        (1, 9, 7, 6, 4, (4, 2), (3, 1), (2, 0), 2, True),
        (2, 8, 7, 18, 18, (2, 5), (1, 2), (1, 4), 18, True),
    ]:
        conv2d_case(ops, N, H, W, C, O, K, S, P, G, bias)
    for op in POOLS:
        for N, H, W, C, K, S, P, ceil_mode in [
            (2, 7, 9, 3, (4, 2), (1, 2), (2, 0), False),
            (1, 8, 8, 18, (3, 3), (2, 2), (0, 0), True),
            (2, 10, 7, 4, (3, 5), (4, 3), (1, 2), True),
            (1, 6, 5, 3, (1, 1), (3, 4), (0, 0), True),
        ]:
            pool_case(ops, op, N, H, W, C, K, S, P, ceil_mode)


def select_cases(ops):
    for N, H, W, C, first, channels in [
        (2, 3, 4, 9, 2, 5),
        (1, 5, 5, 20, 0, 20),
        (3, 1, 1, 7, 6, 1),
    ]:
        x = ops.draw(N, C, H, W).requires_grad_()
        y = x[:, first : first + channels]
        dy = ops.draw(*y.shape)
        (dx,) = run_backward(y, dy, x)
        ops.add("select", [N, H, W, C, first, channels], x=x, y=y, dy=dy, dx=dx)


def ops_fixture():
    ops = Ops()
    for cases in (
        conv2d_cases,
        linear_cases,
        batch_norm_cases,
        elementwise_cases,
        pool_cases,
        loss_cases,
        sgd_cases,
        window_cases,
        select_cases,
    ):
        cases(ops)
    print(f"ops: {sum(ops.counts.values())} cases, {save('ops', ops.tensors)} bytes")


def sequence_cases(ops):
    for op, function in [("gelu", functional.gelu), ("silu", functional.silu)]:
        x = (ops.draw(2, 30) * 6).requires_grad_()
        y = function(x)
        dy = ops.draw(*y.shape)
        ops.add(op, [60], x=x, y=y, dy=dy, dx=run_backward(y, dy, x)[0])
    for M, C in [(6, 20), (3, 4), (1, 33)]:
        x, weight, bias = (
            ops.draw(M, C).requires_grad_(),
            ops.draw(C).requires_grad_(),
            ops.draw(C).requires_grad_(),
        )
        y = functional.layer_norm(x, [C], weight, bias)
        dy = ops.draw(*y.shape)
        dx, dweight, dbias = run_backward(y, dy, x, weight, bias)
        ops.add(
            "layer_norm",
            [M, C],
            x=x,
            weight=weight,
            bias=bias,
            y=y,
            dy=dy,
            dx=dx,
            dweight=dweight,
            dbias=dbias,
        )
    for N, T, C, O in [(2, 5, 6, 9), (3, 1, 4, 2)]:
        x, weight, bias = (
            ops.draw(N, T, C).requires_grad_(),
            ops.draw(O, C).requires_grad_(),
            ops.draw(O).requires_grad_(),
        )
        y = functional.linear(x, weight, bias)
        dy = ops.draw(*y.shape)
        dx, dweight, dbias = run_backward(y, dy, x, weight, bias)
        ops.add(
            "linear",
            [N, T, C, O],
            x=x,
            weight=weight,
            bias=bias,
            y=y,
            dy=dy,
            dx=dx,
            dweight=dweight,
            dbias=dbias,
        )
    for M, C, rows in [(12, 5, 7), (4, 8, 256)]:
        token = torch.from_numpy(ops.random.randint(0, rows, size=M).astype(np.int64))
        weight = ops.draw(rows, C).requires_grad_()
        y = functional.embedding(token, weight)
        dy = ops.draw(*y.shape)
        (dweight,) = run_backward(y, dy, weight)
        ops.add(
            "embedding",
            [M, C, rows],
            token=token.to(torch.float32),
            weight=weight,
            y=y,
            dy=dy,
            dweight=dweight,
        )
    for N, T, C, heads, causal in [
        (2, 7, 12, 3, 1),
        (1, 9, 4, 1, 0),
        (2, 1, 6, 2, 1),
        (1, 70, 8, 2, 1),
    ]:
        # nn.MultiheadAttention with identity projections: q, k and v are the inputs.
        x = ops.draw(N, T, 3 * C).requires_grad_()
        q, k, v = x.transpose(0, 1).split(C, dim=2)
        eye, zero = torch.eye(C), torch.zeros(C)
        mask = torch.ones(T, T, dtype=torch.bool).triu(1) if causal else None
        y, _ = functional.multi_head_attention_forward(
            q,
            k,
            v,
            C,
            heads,
            eye.repeat(3, 1),
            zero.repeat(3),
            None,
            None,
            False,
            0.0,
            eye,
            zero,
            attn_mask=mask,
        )
        y = y.transpose(0, 1)
        dy = ops.draw(*y.shape)
        ops.add(
            "attention", [N, T, C, heads, causal], x=x, y=y, dy=dy, dx=run_backward(y, dy, x)[0]
        )


def sequence_fixture():
    ops = Ops()
    sequence_cases(ops)
    print(f"sequence: {sum(ops.counts.values())} cases, {save('sequence', ops.tensors)} bytes")


def main():
    torch.set_num_threads(1)
    ops_fixture()
    sequence_fixture()
    net_fixture("mlp", [28, 28, 1], 8, 1, 512)
    net_fixture("lenet5", [28, 28, 1], 8, 1, 512)
    net_fixture("resnet8", [32, 32, 3], 4, 1, 256)
    net_fixture("mobilenetv2", [16, 16, 3], 3, 15, 128)
    net_fixture("gpt-mini", [16, 1, 1], 3, 1, 128)
    net_fixture("alexnet-cifar", [32, 32, 3], 4, 1, 64)
    net_fixture("vgg11-bn", [32, 32, 3], 4, 1, 32, gates=True)
    net_fixture("vgg16-bn", [32, 32, 3], 4, 1, 32, gates=True)
    net_fixture("resnet18", [16, 16, 3], 4, 1, 32, gates=True)
    net_fixture("resnet50", [64, 64, 3], 3, 2, 32, gates=True)
    net_fixture("googlenet", [64, 64, 3], 3, 3, 32, gates=True)
    net_fixture("mobilenetv2-224", [64, 64, 3], 3, 1, 32, gates=True)
    net_fixture("dscnn-kws", [49, 10, 1], 4, 1, 64, gates=True)


if __name__ == "__main__":
    main()
