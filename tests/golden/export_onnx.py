#!/usr/bin/python3
"""export_onnx.py WRITE_EXPORT: files of tools/export_onnx.py have the form that its help states,
and it rejects other models with a one-line error. The slow test onnx_runtime compares numbers. Exit
status 77 (skipped) without ONNX.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

try:
    import onnx
except ImportError:
    print("skipped: no ONNX (apt-get install python3-onnx)")
    sys.exit(77)

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))

import tensor_file  # noqa: E402

MODELS = {
    "lenet5": [28, 28, 1],
    "googlenet": [64, 64, 3],
    "mobilenetv2": [32, 32, 3],
    "gpt-mini": [64, 1, 1],
}


def write_export(model, path):
    subprocess.run([sys.argv[1], model, *map(str, MODELS[model]), "7", path], check=True)


def export(*words, fails=None):
    command = [sys.executable, "-B", os.path.join(ROOT, "tools", "export_onnx.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if (done.returncode != 0) != (fails is not None) or (
        fails and (fails not in done.stderr or done.stderr.count("\n") != 1)
    ):
        sys.exit(f"{command}: {done.returncode}: {done.stdout} {done.stderr}")


def form(values):
    """(name, type, dimensions) of inputs or outputs."""
    tensors = [(value.name, value.type.tensor_type) for value in values]
    return [
        (name, tensor.elem_type, [dim.dim_param or dim.dim_value for dim in tensor.shape.dim])
        for name, tensor in tensors
    ]


def check_form(directory):
    for name, shape in MODELS.items():
        path, out = os.path.join(directory, name), os.path.join(directory, name + ".onnx")
        write_export(name, path)
        export(path, out)
        model = onnx.load(out)
        onnx.checker.check_model(model, full_check=True)
        scores = ["batch", 64, 256] if name == "gpt-mini" else ["batch", 10]
        stated = form(model.graph.input), form(model.graph.output)
        wanted = (
            [("input", onnx.TensorProto.UINT8, ["batch", *shape])],
            [(output, onnx.TensorProto.FLOAT, scores) for output in ("logits", "probabilities")],
        )
        if (
            stated != wanted
            or model.ir_version != 8
            or [entry.version for entry in model.opset_import] != [17]
        ):
            sys.exit(f"{name}: {stated}, not {wanted}")
        note = {entry.key: entry.value for entry in model.metadata_props}["paceline"]
        if json.loads(note)["model"] != tensor_file.read(path)[1]["model"]:
            sys.exit(f"{name}: it contains no model description")


def write_header(path, header):
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)


def check_refusals(directory):
    path, out = os.path.join(directory, "lenet5"), os.path.join(directory, "none.onnx")
    arrays, note = tensor_file.read(path)
    first = next(iter(arrays))

    def refused(tensors, said, words, *options):
        changed = os.path.join(directory, "changed")
        tensor_file.write(changed, tensors, said)
        export(changed, out, *options, fails=words)
        if os.path.exists(out):
            sys.exit(f"a file was written although: {words}")

    def changed_note(change):
        copy = json.loads(json.dumps(note))
        change(copy)
        return copy

    names = ["caf%E9", "dog", "cat"]
    named = os.path.join(directory, "named")
    tensor_file.write(
        named, arrays, changed_note(lambda copy: copy["model"].update(class_names=names))
    )
    export(named, out)
    said = {entry.key: entry.value for entry in onnx.load(out).metadata_props}["paceline"]
    os.remove(out)
    if json.loads(said)["model"]["class_names"] != names:
        sys.exit(f"the ONNX file does not name its classes: {said}")
    strange = changed_note(lambda copy: copy["model"]["units"][0]["ops"][1].update(type="swish"))
    rotated = changed_note(lambda copy: copy["model"]["input"].update(rotate=90))
    for words, change in (
        (
            "unknown fields: turn",
            lambda copy: copy["model"]["units"][0].update(turn=1),
        ),
        (
            "unknown fields: dilation",
            lambda copy: copy["model"]["units"][0]["ops"][0].update(dilation=2),
        ),
        ("unknown fields: quantised", lambda copy: copy.update(quantised=True)),
        ("unknown fields: votes", lambda copy: copy["evaluation"].update(votes=5)),
        ("without 'filters'", lambda copy: copy["model"]["units"][0]["ops"][0].pop("filters")),
        ("the class 'a' occurs twice", lambda copy: copy["model"].update(class_names=["a", "a"])),
        ("not a list of names", lambda copy: copy["model"].update(class_names="ab")),
        ("units is not a list", lambda copy: copy["model"].update(units=[])),
        ("unknown op 'None'", lambda copy: copy["model"]["units"][0]["ops"].append("relu")),
        ("the description is not an object", lambda copy: copy.pop("model")),
    ):
        refused(arrays, changed_note(change), words)
    refused(
        {**arrays, first: arrays[first] * np.float32("nan")},
        note,
        f"tensor '{first}' has numbers that are not finite",
    )
    refused(
        {**arrays, first: arrays[first].astype(np.float16)}, note, f"tensor '{first}' is float16"
    )
    damaged = os.path.join(directory, "damaged")
    for text, words in (
        ("[" * 100000, "is not JSON"),
        ("{", "is not JSON"),
        ("[]", "is not an object"),
    ):
        write_header(damaged, {"__metadata__": {"paceline": text}})
        export(damaged, out, fails=words)
    write_header(damaged, {"x": {"dtype": "I8", "shape": [0], "data_offsets": [0, 0]}})
    export(damaged, out, fails="tensor 'x' holds I8")
    refused(
        {key: array for key, array in arrays.items() if key != first},
        note,
        f"tensor '{first}' is missing",
    )
    refused({**arrays, "extra": arrays[first]}, note, "tensor 'extra' is not part of the model")
    refused({**arrays, first: arrays[first][:1]}, note, f"tensor '{first}' is float32")
    refused(
        {**arrays, first: arrays[first].astype(np.float64)}, note, f"tensor '{first}' is float64"
    )
    refused(arrays, strange, "unknown op 'swish'")
    refused(arrays, rotated, "unknown fields: rotate")
    refused(arrays, None, "contains no model description")
    refused(arrays, None, "give --input H,W,C", "--model", "lenet5")
    refused(arrays, note, "contains its description", "--model", "lenet5")
    os.mkfifo(os.path.join(directory, "pipe"))
    export(path, os.path.join(directory, "pipe"), fails="pipe: is not a regular file")
    export(os.path.join(ROOT, "README.md"), out, fails="not a safetensors file")
    bare = os.path.join(directory, "bare")
    tensor_file.write(bare, arrays)
    export(bare, out, "--model", "lenet5", "--input", "28,28,1", "--classes", "10")


def main():
    with tempfile.TemporaryDirectory() as directory:
        check_form(directory)
        check_refusals(directory)
    print(f"{len(MODELS)} models have the form that is promised")


if __name__ == "__main__":
    main()
