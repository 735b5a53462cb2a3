#!/usr/bin/python3
"""Show that an exported model loads into PyTorch.

    tools/check_export.py MODEL.safetensors DESCRIPTION [--input H,W,C] [--classes N]

DESCRIPTION is a file or a model of the zoo (lenet5). Builds the module that it stands for, loads the exported file with
load_state_dict(strict=True), which refuses a missing, unknown or wrongly shaped tensor, and runs one sample through it.
--input and --classes fill in what the description leaves to the data set. Exit status: 0 when all of it works, 1 when
not, 2 for wrong usage.
"""
import argparse
import json
import os
import sys

try:
    import torch
    from paceline_torch import Model, read_safetensors
except ImportError:
    torch = None

ZOO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "libtrain", "zoo")


def input_shape(text):
    """"28,28,1" as [28, 28, 1]."""
    try:
        shape = [int(size) for size in text.split(",")]
    except ValueError:
        shape = []
    if len(shape) != 3 or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"expected height, width and channels such as 28,28,1, not '{text}'")
    return shape


def class_count(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number such as 10, not '{text}'")
    return int(text)


def names_classes(value):
    """Whether a layer of the description has as many outputs as the data set has classes."""
    if isinstance(value, list):
        return any(names_classes(element) for element in value)
    return isinstance(value, dict) and (value.get("units") == "classes" or names_classes(list(value.values())))


def read_description(path):
    in_zoo = os.path.join(ZOO, path + ".json")
    if not os.path.exists(path) and os.path.exists(in_zoo):
        path = in_zoo
    elif not os.path.exists(path):
        zoo = ", ".join(sorted(name[:-5] for name in os.listdir(ZOO) if name.endswith(".json")))
        raise ValueError(f"no description '{path}': neither a file nor a model of the zoo ({zoo})")
    with open(path, encoding="utf-8") as file:
        try:
            description = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(description, dict) or not isinstance(description.get("units"), list):
        raise ValueError(f"{path}: not a model description: it has no list of units")
    return description


def check(arguments):
    description = read_description(arguments.description)
    if not arguments.input and not (description.get("input") or {}).get("shape"):
        raise ValueError("the description has no input shape; give --input H,W,C")
    if not arguments.classes and names_classes(description):
        raise ValueError("the description does not say how many classes there are; give --classes N")
    model = Model(description, arguments.input, arguments.classes)
    state = read_safetensors(arguments.model)
    model.load_state_dict(state, strict=True)
    model.eval()
    with torch.no_grad():
        scores = model(torch.zeros(1, *model.input_shape))
    numbers = sum(parameter.numel() for parameter in model.parameters())
    print(f"{arguments.model}: {len(state)} tensors, {numbers} parameters, {scores.shape[1]} classes: loads into PyTorch")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="exported safetensors file")
    parser.add_argument("description", help="model description: a JSON file, or a model of the zoo such as lenet5")
    parser.add_argument("--input", metavar="H,W,C", type=input_shape,
                        help="input shape, where the description leaves it open")
    parser.add_argument("--classes", metavar="N", type=class_count,
                        help="number of classes, where the description leaves it open")
    arguments = parser.parse_args()
    if torch is None:
        print("check_export: needs Debian's python3-torch (apt-get install python3-torch), run with /usr/bin/python3",
              file=sys.stderr)
        return 1
    try:
        check(arguments)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RuntimeError) as error:
        print(f"check_export: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
