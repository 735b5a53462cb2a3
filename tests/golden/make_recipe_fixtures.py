#!/usr/bin/python3
"""Make recipe.safetensors: results of PyTorch's optimizers, clipping, label smoothing and
schedules, for tests that need no PyTorch.

    /usr/bin/python3 tests/golden/make_recipe_fixtures.py

Needs Debian's python3-torch, python3-numpy.

optimizer.N.*              a trajectory of 20 steps: start [count], gradients and parameters
                           [20][count], the state after the last step [arrays][count]; settings
                           [10] in double: type (0 sgd, 1 adam, 2 adamw), momentum, nesterov,
                           beta1, beta2, epsilon, weight_decay, clip_value, clip_norm, rate
clip_norm.N.*              one step of a net in float64: samples [shape] (inputs, labels); settings
                           [2]: clip_norm, the norm of all gradients before clipping; norms
                           [parameters]: of each parameter's gradient after clipping. In the last
                           two cases some units are frozen
softmax_cross_entropy.N.*  scores, labels, the mean loss and its gradient; settings [1]:
                           label_smoothing
augment.N.*                images [shape: height, width, channels, padding] of bytes;
                           settings [2 channels]: means, stds; views [(2 padding + 1)^2][2]: every
                           crop, plain and flipped, normalised
schedule.N.*               rates [steps] in double; settings [6]: type (0 constant, 1 step,
                           2 cosine), value, warmup_steps, step_size, gamma, final_value
"""
import numpy as np
import torch
from torch.nn import functional
from torch.optim import lr_scheduler

from make_fixtures import SCALE, Model, Ops, initialise, run_backward, save, zoo_description

STEPS = 20
SIZES = (20, 13)  # of the two parameters that are clipped together

SGD, ADAM, ADAMW = range(3)


def doubles(*values):
    return torch.tensor(values, dtype=torch.float64)


def optimizer_case(
    ops,
    kind,
    momentum=0.0,
    nesterov=0,
    betas=(0.9, 0.999),
    epsilon=1e-8,
    decay=0.0,
    clip_value=0.0,
    clip_norm=0.0,
    rate=0.01,
):
    parameters = [ops.draw(size).requires_grad_() for size in SIZES]
    # Some elements see large gradients, some small ones, some none.
    sizes = torch.from_numpy(np.logspace(-5, 2, sum(SIZES)).astype(np.float32))
    sizes[3] = 0.0
    gradients = ops.draw(STEPS, sum(SIZES)) * sizes
    start = torch.cat([parameter.detach().clone() for parameter in parameters])
    if kind == SGD:
        optimizer = torch.optim.SGD(
            parameters, lr=rate, momentum=momentum, weight_decay=decay, nesterov=bool(nesterov)
        )
    else:
        make = torch.optim.Adam if kind == ADAM else torch.optim.AdamW
        optimizer = make(parameters, lr=rate, betas=betas, eps=epsilon, weight_decay=decay)
    line = []
    for gradient in gradients:
        for parameter, part in zip(parameters, gradient.split(SIZES)):
            parameter.grad = part.clone()
        if clip_value:
            torch.nn.utils.clip_grad_value_(parameters, clip_value)
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(parameters, clip_norm)
        optimizer.step()
        line.append(torch.cat([parameter.detach().clone() for parameter in parameters]))
    names = ("exp_avg", "exp_avg_sq") if kind != SGD else ("momentum_buffer",) if momentum else ()
    arrays = [
        torch.cat([optimizer.state[parameter][name] for parameter in parameters]) for name in names
    ]
    settings = doubles(
        kind, momentum, nesterov, *betas, epsilon, decay, clip_value, clip_norm, rate
    )
    ops.add(
        "optimizer",
        [STEPS, sum(SIZES), len(arrays)],
        start=start,
        gradients=gradients,
        parameters=torch.stack(line),
        settings=settings,
        **({"arrays": torch.stack(arrays)} if arrays else {}),
    )


def optimizer_cases(ops):
    optimizer_case(ops, SGD, clip_norm=1.0)
    optimizer_case(ops, SGD, momentum=0.9, decay=0.01, clip_value=0.5)
    optimizer_case(ops, SGD, momentum=0.9, nesterov=1, clip_norm=1000.0)
    optimizer_case(ops, ADAM)
    optimizer_case(ops, ADAM, decay=0.1)
    optimizer_case(ops, ADAM, betas=(0.0, 0.5), epsilon=1e-3, clip_norm=0.1, rate=0.1)
    optimizer_case(ops, ADAMW, decay=0.01)
    optimizer_case(ops, ADAMW, betas=(0.95, 0.98), epsilon=1e-6, decay=1.0, clip_norm=1.0)
    optimizer_case(ops, ADAMW, decay=0.01, clip_value=0.001)


def norm_cases(ops):
    for name, shape, batch, limit, frozen in [
        ("lenet5", [28, 28, 1], 8, 0.5, ()),
        ("resnet8", [28, 28, 1], 4, 0.25, ()),
        ("resnet8", [28, 28, 1], 4, 0.25, ("stem", "block2")),
        ("lenet5", [28, 28, 1], 8, 0.5, ("conv1", "conv2")),
    ]:
        stored = ops.random.randint(0, 256, size=[batch] + shape).astype(np.uint8)
        labels = torch.from_numpy(ops.random.randint(0, 10, size=batch).astype(np.int64))
        model = Model(zoo_description(name), shape, 10)
        initialise(model)
        model = model.to(dtype=torch.float64)
        for (
            unit
        ) in (
            frozen
        ):  # as fine-tuning does: no gradients, and running statistics in place of the batch's
            model.get_submodule(unit).eval().requires_grad_(False)
        inputs = (
            torch.from_numpy(stored.astype(np.float32) * SCALE)
            .permute(0, 3, 1, 2)
            .to(torch.float64)
        )
        functional.cross_entropy(model(inputs).flatten(1), labels).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit).item()
        assert norm > 1.5 * limit, f"{name}: {norm}"
        norms = [
            parameter.grad.norm().item()
            for parameter in model.parameters()
            if parameter.requires_grad
        ]
        ops.add(
            "clip_norm",
            [batch, *shape],
            inputs=torch.from_numpy(stored).reshape(-1),
            labels=labels.to(torch.int32),
            settings=doubles(limit, norm),
            norms=doubles(*norms),
        )


def smoothing_cases(ops):
    for smoothing, classes in [(0.1, 10), (0.3, 3), (0.9, 17)]:
        x = (ops.draw(9, classes) * 6).requires_grad_()
        labels = torch.from_numpy(ops.random.randint(0, classes, size=9).astype(np.int64))
        y = functional.cross_entropy(x, labels, label_smoothing=smoothing)
        (dx,) = run_backward(y, torch.ones(()), x)
        ops.add(
            "softmax_cross_entropy",
            [9, classes],
            x=x,
            labels=labels.to(torch.int32),
            mean=y.reshape(1),
            dx=dx,
            settings=doubles(smoothing),
        )


def schedule(optimizer, kind, value, warmup, step_size, gamma, final, steps):
    if kind == 0:
        main = lr_scheduler.ConstantLR(optimizer, factor=1.0)
    elif kind == 1:
        main = lr_scheduler.StepLR(optimizer, step_size, gamma)
    else:
        main = lr_scheduler.CosineAnnealingLR(optimizer, steps - warmup - 1, final)
    if warmup == 0:
        return main
    rise = lr_scheduler.LinearLR(optimizer, start_factor=1 / warmup, total_iters=warmup - 1)
    return lr_scheduler.SequentialLR(optimizer, [rise, main], [warmup])


def schedule_cases(ops):
    for kind, value, warmup, step_size, gamma, final in [
        (0, 0.05, 0, 0, 0.1, 0.0),
        (0, 0.4, 7, 0, 0.1, 0.0),
        (1, 0.1, 0, 13, 0.3, 0.0),
        (1, 0.1, 5, 10, 0.5, 0.0),
        (2, 0.1, 0, 0, 0.1, 0.0),
        (2, 0.1, 0, 0, 0.1, 0.02),
        (2, 0.001, 10, 0, 0.1, 0.0001),
    ]:
        steps = 60
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=value)
        scheduler = schedule(optimizer, kind, value, warmup, step_size, gamma, final, steps)
        rates = []
        for _ in range(steps):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        ops.add(
            "schedule",
            [steps],
            rates=doubles(*rates),
            settings=doubles(kind, value, warmup, step_size, gamma, final),
        )


def augment_cases(ops):
    """torchvision's RandomCrop(size, padding), RandomHorizontalFlip, ToTensor and Normalize, for
    all random draws.
    """
    for h, w, c, padding in [(6, 5, 3, 2), (4, 7, 1, 1)]:
        image = torch.from_numpy(ops.random.randint(0, 256, size=(c, h, w)).astype(np.uint8))
        mean, std = (
            torch.from_numpy(ops.random.uniform(low, high, size=c))
            for low, high in ((0.3, 0.6), (0.2, 0.4))
        )
        padded = functional.pad(image, (padding,) * 4)
        views = []
        for row in range(2 * padding + 1):
            for column in range(2 * padding + 1):
                window = padded[:, row : row + h, column : column + w]
                for view in (window, window.flip(-1)):
                    tensor = view.to(torch.float32).div(255)
                    tensor = tensor.sub(mean.float().view(-1, 1, 1)).div(std.float().view(-1, 1, 1))
                    views.append(tensor)
        ops.add(
            "augment",
            [h, w, c, padding],
            image=image.permute(1, 2, 0).reshape(-1),
            views=torch.stack(views),
            settings=torch.cat([mean, std]),
        )


def main():
    torch.set_num_threads(1)
    ops = Ops()
    for cases in (optimizer_cases, smoothing_cases, schedule_cases, norm_cases, augment_cases):
        cases(ops)
    print(f"recipe: {sum(ops.counts.values())} cases, {save('recipe', ops.tensors)} bytes")


if __name__ == "__main__":
    main()
