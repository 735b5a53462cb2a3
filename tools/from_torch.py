#!/usr/bin/python3
"""Turn a state_dict of PyTorch into the file of a trained model.

    tools/from_torch.py STATE DESCRIPTION OUTPUT.safetensors [--input H,W,C]
        [--dtype uint8|float32] [--classes N] [--mean M,... --std S,...] [--class-names FILE]
        [--by-order] [--skip PREFIX]... [--micro-batch N]

STATE is a file of torch.save(model.state_dict(), ...) (.pt, .pth) or a safetensors file.
DESCRIPTION is a file or a model of the zoo (lenet5). --input and --dtype describe the samples if
the description leaves that to the data set (uint8); the number of classes follows from the last
layer, or from --classes. --mean and --std, a number for each channel, are those of torchvision's
Normalize: 0.485,0.456,0.406 and 0.229,0.224,0.225 for its ImageNet models. --class-names names the
classes, one line for each in the order of their numbers: with them `paceline-agent predict` finds
the classes of its data by name.

Tensors are matched by their names (docs/models.md). --by-order matches them by their order instead.
Each place needs a tensor of the same kind (weight, bias, running_mean, running_var) and shape. That
converts torchvision's resnet50, googlenet and mobilenet_v2 and the usual resnet18 and VGG for small
images. It lists which tensor became which, since it cannot detect two exchanged tensors of the same
shape.

num_batches_tracked is not needed. The prefix "module." of all names, which DataParallel adds, is
removed. --skip ignores tensors whose names begin with PREFIX (aux classifiers). Numbers other than
float32 are converted. If tensors differ, the tool lists them and writes nothing. The result
contains the description: `paceline-agent predict` needs no other file. Exit status: 0, 1 for a
failure, 2 for wrong usage.
"""
import argparse
import os
import sys

import description

try:
    import tensor_file
    import torch
    from paceline_torch import Model, read_safetensors, write_safetensors
except ImportError:
    torch = None

LINES_MAX = 20
NESTED = ("state_dict", "model_state_dict", "model", "net")
MICRO_BATCH = 32
# The limits of the file's readers (libtrain/memory/arena.h, libtrain/model/recipe.h).
MICRO_BATCH_MAX = 65536
CHANNELS_MAX = 16
MEAN_MAX = STD_MAX = 1e9
STD_MIN = 1e-9


def read_pickle(path):
    """The content of a torch.save file of tensors; no code in a file is run."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pylint: disable=broad-except # any exception means an invalid file
        raise ValueError(
            f"{path}: neither a safetensors file nor a state_dict of tensors alone; save"
            " model.state_dict(), not the model"
        ) from error
    for key in NESTED:
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
            break
    if not isinstance(state, dict) or not all(
        isinstance(key, str) and isinstance(value, torch.Tensor) for key, value in state.items()
    ):
        raise ValueError(f"{path}: not a state_dict: it must map names to tensors only")
    return state


def read_state(path, skip):
    """{name: tensor} in the file's order, without entries that a state does not need."""
    with open(path, "rb") as file:
        prefix = file.read(9)
    state = read_safetensors(path) if prefix[8:] == b"{" else read_pickle(path)
    if state and all(name.startswith("module.") for name in state):
        state = {name[len("module.") :]: tensor for name, tensor in state.items()}
    state = {
        name: tensor
        for name, tensor in state.items()
        if not name.endswith("num_batches_tracked") and not name.startswith(tuple(skip))
    }
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            raise ValueError(
                f"tensor '{name}' holds {str(tensor.dtype).replace('torch.', '')}, not floating"
                " point"
            )
    return {name: tensor.to(torch.float32) for name, tensor in state.items()}


def count_classes(closed_but_classes, state, by_order):
    """The number of outputs of the layer with "classes" outputs; None if it is unknown."""
    names = description.open_classes(closed_but_classes)
    if not names:
        return None
    if by_order:
        matrices = [tensor for tensor in state.values() if tensor.dim() == 2]
        return matrices[-1].shape[0] if matrices else None
    weight = state.get(names[-1] + ".weight")
    return weight.shape[0] if weight is not None and weight.dim() == 2 else None


def shape_text(tensor):
    return " x ".join(str(size) for size in tensor.shape) or "a single number"


def refuse(path, problems):
    listed = "\n".join("  " + problem for problem in problems[:LINES_MAX])
    more = f"\n  and {len(problems) - LINES_MAX} more" if len(problems) > LINES_MAX else ""
    raise ValueError(f"{path} does not fit the description:\n{listed}{more}")


def check_any_name(path, state, stated):
    """Report entirely different names before other errors: they also hide the number of classes."""
    ops = [name for name, _ in description.ops(stated)]
    if state and not any(name.rpartition(".")[0] in ops for name in state):
        raise ValueError(
            f"{path}: no tensor has a name of the model's ops ('{ops[0]}', ...), as"
            f" '{next(iter(state))}': try --by-order"
        )


def match_names(path, state, wanted):
    problems = [
        f"missing: {name} ({shape_text(tensor)})"
        for name, tensor in wanted.items()
        if name not in state
    ]
    problems += [
        f"not of the model: {name} ({shape_text(tensor)})"
        for name, tensor in state.items()
        if name not in wanted
    ]
    problems += [
        f"{name} is {shape_text(state[name])}, the model's is {shape_text(tensor)}"
        for name, tensor in wanted.items()
        if name in state and state[name].shape != tensor.shape
    ]
    if problems:
        refuse(path, problems)
    return {name: state[name] for name in wanted}


def match_order(path, state, wanted):
    def kind(name):
        return name.rsplit(".", 1)[-1]

    problems = []
    if len(state) != len(wanted):
        problems.append(f"{len(state)} tensors, the model has {len(wanted)}")
    for place, ((theirs, tensor), (ours, model)) in enumerate(zip(state.items(), wanted.items())):
        if kind(theirs) != kind(ours) or tensor.shape != model.shape:
            problems.append(
                f"place {place}: {theirs} ({shape_text(tensor)}), the model's is"
                f" {ours} ({shape_text(model)})"
            )
    if problems:
        refuse(path, problems)
    for theirs, ours in zip(state, wanted):
        print(f"{ours} = {theirs}")
    return dict(zip(wanted, state.values()))


def normalise(stated, mean, std):
    """The description with a mean and a std for each channel of the scaled input."""
    if mean is None and std is None:
        return stated
    if mean is None or std is None or len(mean) != len(std) or min(std) <= 0:
        raise ValueError(
            "--mean and --std belong together: a number for each channel, and no std of 0 or less"
        )
    if (
        len(mean) > CHANNELS_MAX
        or max(map(abs, mean)) > MEAN_MAX
        or not STD_MIN <= min(std) <= max(std) <= STD_MAX
    ):
        raise ValueError(
            f"--mean goes from -{MEAN_MAX:g} to {MEAN_MAX:g} and --std from {STD_MIN:g} to"
            f" {STD_MAX:g}, of up to {CHANNELS_MAX} channels"
        )
    return {**stated, "input": {**stated.get("input", {}), "mean": mean, "std": std}}


def name_classes(closed, path, model):
    """Put the file's class names into the description; its last layer has enough outputs."""
    names = description.read_class_names(path)
    outputs = list(model.state_dict().values())[-1].shape[0]
    if len(names) > outputs:
        raise ValueError(f"{path}: {len(names)} names for {outputs} outputs")
    closed["class_names"] = names


def convert(arguments):
    tensor_file.check_output(arguments.output)
    if arguments.micro_batch > MICRO_BATCH_MAX:
        raise ValueError(f"--micro-batch {arguments.micro_batch}: at most {MICRO_BATCH_MAX}")
    stated = normalise(description.read(arguments.description), arguments.mean, arguments.std)
    state = read_state(arguments.state, arguments.skip)
    if not arguments.by_order:
        check_any_name(arguments.state, state, stated)
    classes = arguments.classes or count_classes(stated, state, arguments.by_order)
    closed = description.close(stated, arguments.input, arguments.dtype, classes)
    channels = closed["input"]["shape"][2]
    if arguments.mean and len(arguments.mean) != channels:
        raise ValueError(f"--mean has {len(arguments.mean)} numbers for {channels} channels")
    model = Model(closed)
    if arguments.class_names:
        name_classes(closed, arguments.class_names, model)
    wanted = {
        name: tensor
        for name, tensor in model.state_dict().items()
        if not name.endswith("num_batches_tracked")
    }
    match = match_order if arguments.by_order else match_names
    tensors = match(arguments.state, state, wanted)
    broken = [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]
    if broken:
        refuse(arguments.state, [f"{name} has numbers that are not finite" for name in broken])
    note = {"model": closed, "evaluation": {"micro_batch": arguments.micro_batch}}
    temporary = arguments.output + ".new"
    write_safetensors(temporary, tensors, note)
    os.replace(temporary, arguments.output)
    numbers = sum(tensor.numel() for tensor in tensors.values())
    print(
        f"{arguments.output}: {len(tensors)} tensors, {numbers} numbers, {closed['name']} for "
        f"{' x '.join(map(str, closed['input']['shape']))} {closed['input']['dtype']}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("state", help="state_dict: a file of torch.save, or a safetensors file")
    parser.add_argument(
        "description", help="model description: a JSON file, or a model of the zoo such as lenet5"
    )
    parser.add_argument("output", help="safetensors file to write")
    parser.add_argument(
        "--input",
        metavar="H,W,C",
        type=description.input_shape,
        help="shape of a sample, if the description leaves it open",
    )
    parser.add_argument(
        "--dtype",
        choices=description.DTYPES,
        help="of a stored sample, if the description leaves it open; default: uint8",
    )
    parser.add_argument(
        "--classes",
        metavar="N",
        type=description.count,
        help="number of classes; default: from the last layer",
    )
    parser.add_argument("--class-names", metavar="FILE", help="names of the classes, one per line")
    for option, what in (
        ("--mean", "subtracted from each channel of the scaled input"),
        ("--std", "what it is divided by then"),
    ):
        parser.add_argument(option, metavar="X,...", type=description.numbers, help=what)
    parser.add_argument(
        "--by-order",
        action="store_true",
        help="match tensors by their order and ignore their names",
    )
    parser.add_argument(
        "--skip",
        metavar="PREFIX",
        action="append",
        default=[],
        help="ignore tensors whose names begin with it; repeatable",
    )
    parser.add_argument(
        "--micro-batch",
        metavar="N",
        type=description.count,
        default=MICRO_BATCH,
        help=f"samples that predict computes at once; default: {MICRO_BATCH}",
    )
    arguments = parser.parse_args()
    if torch is None:
        print(
            (
                "from_torch: needs Debian's python3-torch (apt-get install python3-torch), run with"
                " /usr/bin/python3"
            ),
            file=sys.stderr,
        )
        return 1
    try:
        convert(arguments)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RuntimeError) as error:
        print(f"from_torch: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
