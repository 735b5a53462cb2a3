#!/usr/bin/python3
"""export_loads.py WRITE_EXPORT: tools/check_export.py loads every model of the zoo, exported by
libtrain, into PyTorch with load_state_dict(strict=True). The initial weights follow the documented
rule. Exit status 77 (skipped) without PyTorch.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("skipped: no PyTorch (apt-get install python3-torch)")
    sys.exit(77)

from make_fixtures import ROOT, SEED, ZOO_SHAPES, initialise
from paceline_torch import Model, read_note, read_safetensors


def main():
    with tempfile.TemporaryDirectory() as directory:
        for name, shape in ZOO_SHAPES.items():
            path = os.path.join(directory, name + ".safetensors")
            description = os.path.join(ROOT, "libtrain", "zoo", name + ".json")
            size = [str(number) for number in shape]
            subprocess.run([sys.argv[1], name, *size, str(SEED), path], check=True)
            check = os.path.join(ROOT, "tools", "check_export.py")
            subprocess.run(
                [
                    sys.executable,
                    "-B",
                    check,
                    path,
                    description,
                    "--input",
                    ",".join(size),
                    "--classes",
                    "10",
                ],
                check=True,
            )
            if read_note(path)["model"]["input"]["shape"] != shape:
                sys.exit(f"{name}: its file says it takes {read_note(path)['model']['input']}")
            with open(description, encoding="utf-8") as file:
                model = Model(json.load(file), shape, 10)
            initialise(model)
            expected = model.state_dict()
            for key, tensor in read_safetensors(path).items():
                if not torch.equal(tensor, expected[key]):
                    sys.exit(f"{name}: {key} is not what the rule draws")
    print(f"{len(ZOO_SHAPES)} models load and have their initial weights")


if __name__ == "__main__":
    main()
