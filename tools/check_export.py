#!/usr/bin/python3
"""Show that an exported model loads into PyTorch.

    tools/check_export.py MODEL.safetensors DESCRIPTION.json [--input H,W,C] [--classes N]

Builds the module that the description stands for, loads the file with load_state_dict(strict=True), which refuses a
missing, unknown or wrongly shaped tensor, and runs one sample through it. --input and --classes fill in what the
description leaves to the data set. Exit status 0 when all of it works.
"""
import argparse
import json
import sys

import torch
from paceline_torch import Model, read_safetensors


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="exported safetensors file")
    parser.add_argument("description", help="model description (JSON)")
    parser.add_argument("--input", metavar="H,W,C", help="input shape, where the description leaves it open")
    parser.add_argument("--classes", type=int, help="number of classes, where the description leaves it open")
    arguments = parser.parse_args()
    shape = [int(size) for size in arguments.input.split(",")] if arguments.input else None
    try:
        with open(arguments.description, encoding="utf-8") as file:
            model = Model(json.load(file), shape, arguments.classes)
        state = read_safetensors(arguments.model)
        model.load_state_dict(state, strict=True)
        model.eval()
        with torch.no_grad():
            scores = model(torch.zeros(1, *model.input_shape))
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
        print(f"check_export: {error}", file=sys.stderr)
        return 1
    numbers = sum(parameter.numel() for parameter in model.parameters())
    print(f"{arguments.model}: {len(state)} tensors, {numbers} parameters, {scores.shape[1]} classes: loads into PyTorch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
