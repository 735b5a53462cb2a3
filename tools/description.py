"""Model descriptions for the tools: read them by name or from a file, and complete them.

This module needs no PyTorch.
"""
import argparse
import copy
import json
import math
import os

ZOO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "libtrain", "zoo")
DTYPES = ("uint8", "float32")
CLASS_NAMES_TEXT_MAX = 65536  # libtrain/formats/class_names.h


def input_shape(text):
    """An argument such as "28,28,1" as [28, 28, 1]."""
    try:
        shape = [int(size) for size in text.split(",")]
    except ValueError:
        shape = []
    if len(shape) != 3 or min(shape) < 1:
        raise argparse.ArgumentTypeError(
            f"expected height, width and channels such as 28,28,1, not '{text}'"
        )
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
    """The description in a file, or of a model of the zoo. ValueError if it is invalid."""
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


def named(chain):
    """The ops of a chain with their names in it: (name, op). Numbers count the ops but selects."""
    number = selects = 0
    for op in chain:
        if isinstance(op, dict) and op.get("type") == "select":
            yield f"select{selects}", op
            selects += 1
        else:
            yield str(number), op
            number += 1


def ops(description):
    """Every op with the prefix of its tensors' names, in the order of their states: ("stem.0",
    {...}).
    """
    for unit in description["units"]:
        chains = [("", unit.get("ops", []))]
        residual = unit.get("residual", {})
        chains += [(f"{part}.", residual.get(part, [])) for part in ("body", "shortcut")]
        chains += [
            (f"branches.{index}.", chain) for index, chain in enumerate(unit.get("branches", []))
        ]
        chains.append(("then.", unit.get("then", [])))
        for prefix, chain in chains:
            for name, op in named(chain):
                yield f"{unit['name']}.{prefix}{name}", op


def open_classes(description):
    """The names of the layers with as many outputs as the data set has classes."""
    return [name for name, op in ops(description) if op.get("units") == "classes"]


def close(description, shape=None, dtype=None, classes=None):
    """The description, completed from the arguments where it leaves a value to the data set.
    ValueError names the missing option.
    """
    closed = copy.deepcopy(description)
    stated = closed.setdefault("input", {})
    if shape and stated.get("shape", shape) != shape:
        raise ValueError(f"the description's input is {stated['shape']}, not {shape}")
    stated.setdefault("shape", shape)
    stated.setdefault("dtype", dtype or DTYPES[0])
    if not stated["shape"]:
        raise ValueError("the description has no input shape; give --input H,W,C")
    if open_classes(closed) and not classes:
        raise ValueError("the description does not state the number of classes; give --classes N")
    for _, op in ops(closed):
        if op.get("units") == "classes":
            op["units"] = classes
    return closed


def name_text(name):
    """The name of a class, bytes or text, in the form of descriptions: %XX for '%' and for bytes
    that are not printable UTF-8.
    """
    data = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    escaped = []
    for char in data.decode("utf-8", "surrogateescape"):
        plain = 0x20 <= ord(char) and char not in "\x7f%" and not 0xDC80 <= ord(char) <= 0xDCFF
        escaped.append(
            char
            if plain
            else "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogateescape"))
        )
    return "".join(escaped)


def read_class_names(path):
    """The names of classes in a file, a line each in the order of their numbers. ValueError for an
    empty or duplicate name.
    """
    with open(path, "rb") as file:
        lines = file.read().removesuffix(b"\n").split(b"\n")
    names = [name_text(line.removesuffix(b"\r")) for line in lines]
    check_class_names({"class_names": names})
    return names


def check_class_names(description):
    """ValueError if two classes have the same name."""
    names = description.get("class_names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ValueError("the description's class_names are not a list of names")
    double = (
        [name for index, name in enumerate(names) if names.index(name) < index]
        if len(set(names)) < len(names)
        else []
    )
    if double:
        raise ValueError(f"the class '{double[0]}' occurs twice")
    if (
        len(json.dumps(names, ensure_ascii=False, separators=(",", ":")).encode())
        > CLASS_NAMES_TEXT_MAX
    ):
        raise ValueError(f"the names of the classes take more than {CLASS_NAMES_TEXT_MAX} bytes")


def scale(description):
    """The factor of a stored value, from a completed description."""
    stated = description["input"]
    return stated.get("scale", 1 / 255 if stated["dtype"] == "uint8" else 1.0)
