#!/usr/bin/python3
"""Show that an exported model loads into PyTorch.

    tools/check_export.py MODEL.safetensors [DESCRIPTION] [--input H,W,C] [--classes N]

Builds the module from the description in the file, loads the file with load_state_dict(strict=True)
and runs one sample. The strict load rejects missing, unknown and wrongly shaped tensors.
DESCRIPTION, a file or a model of the zoo (lenet5), replaces the description in the file. --input
and --classes set the values that the description leaves to the data set. Exit status: 0 if all of
it works, 1 if not, 2 for wrong usage.
"""
import argparse
import sys

import description

try:
    import torch
    from paceline_torch import Model, read_note, read_safetensors
except ImportError:
    torch = None


def describe(arguments):
    if arguments.description:
        return description.close(
            description.read(arguments.description), arguments.input, None, arguments.classes
        )
    note = read_note(arguments.model)
    if note is None:
        raise ValueError(f"{arguments.model}: contains no model description; give a DESCRIPTION")
    return description.close(note["model"])


def check(arguments):
    model = Model(describe(arguments))
    state = read_safetensors(arguments.model)
    model.load_state_dict(state, strict=True)
    model.eval()
    with torch.no_grad():
        scores = model(torch.zeros(1, *model.input_shape))
    numbers = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"{arguments.model}: {len(state)} tensors, {numbers} parameters, {scores.shape[1]} classes:"
        " loads into PyTorch"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="exported safetensors file")
    parser.add_argument(
        "description",
        nargs="?",
        help="model description: a JSON file, or a model of the zoo such as lenet5",
    )
    parser.add_argument(
        "--input",
        metavar="H,W,C",
        type=description.input_shape,
        help="input shape, if the description leaves it open",
    )
    parser.add_argument(
        "--classes",
        metavar="N",
        type=description.count,
        help="number of classes, if the description leaves it open",
    )
    arguments = parser.parse_args()
    if torch is None:
        print(
            (
                "check_export: needs Debian's python3-torch (apt-get install python3-torch), run"
                " with /usr/bin/python3"
            ),
            file=sys.stderr,
        )
        return 1
    try:
        check(arguments)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RuntimeError) as error:
        print(f"check_export: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
