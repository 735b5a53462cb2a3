"""Model descriptions for the tools: found by name or by file, and with nothing left open.

Whoever imports this needs no PyTorch.
"""
import argparse
import copy
import json
import math
import os

ZOO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "libtrain", "zoo")
DTYPES = ("uint8", "float32")


def input_shape(text):
    """An argument such as "28,28,1" as [28, 28, 1]."""
    try:
        shape = [int(size) for size in text.split(",")]
    except ValueError:
        shape = []
    if len(shape) != 3 or min(shape) < 1:
        raise argparse.ArgumentTypeError(f"expected height, width and channels such as 28,28,1, not '{text}'")
    return shape


def numbers(text):
    """An argument such as "0.5,0.25"."""
    try:
        values = [float(value) for value in text.split(",")]
    except ValueError:
        values = [math.nan]
    if not all(math.isfinite(value) for value in values):
        raise argparse.ArgumentTypeError(f"expected numbers such as 0.5,0.25, not '{text}'")
    return values


def count(text):
    """An argument such as "10"."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number such as 10, not '{text}'")
    return int(text)


def read(path):
    """The description in a file, or of a model of the zoo. ValueError when it is none."""
    in_zoo = os.path.join(ZOO, path + ".json")
    if not os.path.exists(path) and os.path.exists(in_zoo):
        path = in_zoo
    elif not os.path.exists(path):
        zoo = ", ".join(sorted(name[:-5] for name in os.listdir(ZOO) if name.endswith(".json")))
        raise ValueError(f"no description '{path}': neither a file nor a model of the zoo ({zoo})")
    with open(path, encoding="utf-8") as file:
        try:
            description = json.load(file)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(description, dict) or not isinstance(description.get("units"), list):
        raise ValueError(f"{path}: not a model description: it has no list of units")
    return description


def ops(description):
    """Every op with the name that its tensors begin with, in the order of their states: ("stem.0", {...})."""
    for unit in description["units"]:
        chains = [("", unit.get("ops", []))]
        residual = unit.get("residual", {})
        chains += [(f"{part}.", residual.get(part, [])) for part in ("body", "shortcut")]
        chains += [(f"branches.{index}.", chain) for index, chain in enumerate(unit.get("branches", []))]
        chains.append(("then.", unit.get("then", [])))
        for prefix, chain in chains:
            for index, op in enumerate(chain):
                yield f"{unit['name']}.{prefix}{index}", op


def open_classes(description):
    """The names of the layers with as many outputs as the data set has classes."""
    return [name for name, op in ops(description) if op.get("units") == "classes"]


def close(description, shape=None, dtype=None, classes=None):
    """The description with nothing left open: what it leaves to the data set is taken from the arguments. ValueError
    names the option that is missing."""
    closed = copy.deepcopy(description)
    stated = closed.setdefault("input", {})
    if shape and stated.get("shape", shape) != shape:
        raise ValueError(f"the description's input is {stated['shape']}, not {shape}")
    stated.setdefault("shape", shape)
    stated.setdefault("dtype", dtype or DTYPES[0])
    if not stated["shape"]:
        raise ValueError("the description has no input shape; give --input H,W,C")
    if open_classes(closed) and not classes:
        raise ValueError("the description does not say how many classes there are; give --classes N")
    for _, op in ops(closed):
        if op.get("units") == "classes":
            op["units"] = classes
    return closed


def scale(description):
    """What a stored value is multiplied by, of a closed description."""
    stated = description["input"]
    return stated.get("scale", 1 / 255 if stated["dtype"] == "uint8" else 1.0)
