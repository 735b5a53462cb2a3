#!/usr/bin/python3
"""Turn the file of a trained model into an ONNX file.

    tools/export_onnx.py MODEL.safetensors OUTPUT.onnx [--model DESCRIPTION
        [--input H,W,C] [--dtype uint8|float32] [--classes N]]

The result has one input, "input": raw samples, uint8 or float32 [batch, H, W, C]. The graph
contains scaling and normalisation. A model of text reads bytes, [batch, T, 1, 1]. It has two
outputs, "logits" and "probabilities", float32 [batch, classes]; for a sequence [batch, T, classes].
The batch may have any size. Batch-norm uses its running statistics, dropout does nothing. Opset 17,
IR version 8; onnx.checker checks the result before it is written.

The file of the model contains its description. For a file without one, --model names a file or a
model of the zoo, and the other options set the values that it leaves to the data set. Exit status:
0, 1 for a failure, 2 for wrong usage.
"""
import argparse
import json
import math
import os
import sys

import description

try:
    import numpy as np
    import onnx
    import tensor_file
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    onnx = None

OPSET = 17
IR_VERSION = 8
FILE_BYTES_MAX = 2 << 30  # of a protobuf message
NUMBERS = {"uint8": "UINT8", "float32": "FLOAT"}

# The layout of a value: MAP is [batch, C, H, W], ROWS is [batch, positions, C]. Elementwise ops
# take either; the others convert to theirs.
MAP, ROWS = "map", "rows"


class Value:
    """An edge of the graph: its name, the shape H, W, C of a sample, and its layout."""

    def __init__(self, name, shape, layout):
        self.name, self.shape, self.layout = name, shape, layout


def pair(value):
    """A window's size, step or padding as [height, width]."""
    return list(value) if isinstance(value, list) else [value, value]


class Graph:
    """Nodes and weights of a graph under construction. A method for each op of a description: (op,
    its name, value).
    """

    def __init__(self, arrays):
        self.arrays = arrays
        self.nodes = []
        self.weights = {}
        self.used = set()

    # ---- parts ----

    def node(self, kind, inputs, name, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, name, array):
        self.weights[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def integers(self, name, *values):
        return self.constant(name, np.array(values, np.int64))

    def number(self, name, value):
        """A number, or one for each channel."""
        return self.constant(name, np.array(value, np.float32))

    def take(self, name, *shape):
        """A tensor of the model's file, which must have this shape."""
        array = self.arrays.get(name)
        if array is None:
            raise ValueError(f"tensor '{name}' is missing")
        if array.shape != shape or array.dtype != np.float32:
            raise ValueError(
                f"tensor '{name}' is {array.dtype} {list(array.shape)}, not float32 {list(shape)}"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"tensor '{name}' has numbers that are not finite")
        self.used.add(name)
        return array

    def tensor(self, name, *shape):
        return self.constant(name, self.take(name, *shape))

    def lay(self, value, layout):
        """The value in this layout."""
        if value.layout == layout:
            return value
        h, w, c = value.shape
        name = f"{value.name}.{layout}"
        if layout == ROWS:
            flat = self.node(
                "Reshape", [value.name, self.integers(f"{name}.shape", 0, c, h * w)], f"{name}.flat"
            )
            return Value(self.node("Transpose", [flat], name, perm=[0, 2, 1]), value.shape, ROWS)
        turned = self.node("Transpose", [value.name], f"{name}.turned", perm=[0, 2, 1])
        return Value(
            self.node("Reshape", [turned, self.integers(f"{name}.shape", 0, c, h, w)], name),
            value.shape,
            MAP,
        )

    def each(self, kind, name, value, *constants, **attributes):
        """A node that works element by element."""
        return Value(
            self.node(kind, [value.name, *constants], name, **attributes), value.shape, value.layout
        )

    def window(self, op, stride, value):
        """(kernel, stride, padding, padding of the ceil mode, the new height and width)"""
        kernel, stride, padding = pair(op["kernel"]), pair(stride), pair(op.get("padding", 0))
        sizes, beyond = [], []
        for size, k, s, p in zip(value.shape, kernel, stride, padding):
            count = (size + 2 * p - k) // s + 1
            if op.get("ceil_mode") and (size + 2 * p - k) % s and count * s < size + p:
                count += 1
            sizes.append(count)
            beyond.append(max(0, (count - 1) * s + k - (size + 2 * p)))
        return kernel, stride, padding, beyond, sizes

    # ---- ops ----

    def conv2d(self, op, name, value):
        value = self.lay(value, MAP)
        channels, filters, groups = value.shape[2], op["filters"], op.get("groups", 1)
        kernel, stride, padding, _, sizes = self.window(op, op.get("stride", 1), value)
        inputs = [value.name, self.tensor(f"{name}.weight", filters, channels // groups, *kernel)]
        if op.get("bias", True):
            inputs.append(self.tensor(f"{name}.bias", filters))
        self.node(
            "Conv",
            inputs,
            name,
            kernel_shape=kernel,
            strides=stride,
            pads=padding * 2,
            group=groups,
        )
        return Value(name, (*sizes, filters), MAP)

    def linear(self, op, name, value):
        value = self.lay(value, ROWS)
        h, w, c = value.shape
        units, bias = op["units"], op.get("bias", True)
        weight = self.constant(f"{name}.weight", self.take(f"{name}.weight", units, c).T)
        product = self.node("MatMul", [value.name, weight], f"{name}.product" if bias else name)
        if bias:
            self.node("Add", [product, self.tensor(f"{name}.bias", units)], name)
        return Value(name, (h, w, units), ROWS)

    def batch_norm(self, op, name, value):
        value = self.lay(value, MAP)
        tensors = [
            self.tensor(f"{name}.{suffix}", value.shape[2])
            for suffix in ("weight", "bias", "running_mean", "running_var")
        ]
        return self.each(
            "BatchNormalization", name, value, *tensors, epsilon=op.get("epsilon", 1e-5)
        )

    def relu(self, _, name, value):
        return self.each("Relu", name, value)

    def relu6(self, _, name, value):
        return self.each(
            "Clip", name, value, self.number(f"{name}.least", 0), self.number(f"{name}.most", 6)
        )

    def silu(self, _, name, value):
        share = self.node("Sigmoid", [value.name], f"{name}.share")
        return self.each("Mul", name, value, share)

    def gelu(self, _, name, value):
        """The exact one: x / 2 (1 + erf(x / sqrt 2))."""
        scaled = self.node(
            "Mul", [value.name, self.number(f"{name}.scale", math.sqrt(0.5))], f"{name}.scaled"
        )
        erf = self.node("Erf", [scaled], f"{name}.erf")
        share = self.node("Add", [erf, self.number(f"{name}.one", 1)], f"{name}.share")
        whole = self.node("Mul", [value.name, share], f"{name}.whole")
        return Value(
            self.node("Mul", [whole, self.number(f"{name}.half", 0.5)], name),
            value.shape,
            value.layout,
        )

    def max_pool(self, op, name, value):
        value = self.lay(value, MAP)
        kernel, stride, padding, beyond, sizes = self.window(
            op, op.get("stride", op["kernel"]), value
        )
        # Neither padding nor positions beyond it win.
        self.node(
            "MaxPool",
            [value.name],
            name,
            kernel_shape=kernel,
            strides=stride,
            pads=padding + [p + more for p, more in zip(padding, beyond)],
        )
        return Value(name, (*sizes, value.shape[2]), MAP)

    def avg_pool(self, op, name, value):
        """Padding counts as zeros; positions beyond it do not count."""
        value = self.lay(value, MAP)
        kernel, stride, padding, beyond, sizes = self.window(
            op, op.get("stride", op["kernel"]), value
        )
        source = value.name
        if any(padding):
            around = self.integers(f"{name}.padding", 0, 0, *padding, 0, 0, *padding)
            source = self.node("Pad", [source, around], f"{name}.padded")
        self.node(
            "AveragePool", [source], name, kernel_shape=kernel, strides=stride, pads=[0, 0] + beyond
        )
        return Value(name, (*sizes, value.shape[2]), MAP)

    def global_avg_pool(self, _, name, value):
        value = self.lay(value, MAP)
        return Value(
            self.node("GlobalAveragePool", [value.name], name), (1, 1, value.shape[2]), MAP
        )

    def flatten(self, _, name, value):
        """In the order C, H, W, as in the weights of the file."""
        value = self.lay(value, MAP)
        h, w, c = value.shape
        self.node("Reshape", [value.name, self.integers(f"{name}.shape", 0, 1, h * w * c)], name)
        return Value(name, (1, 1, h * w * c), ROWS)

    def dropout(self, _op, _name, value):
        return value

    def layer_norm(self, op, name, value):
        value = self.lay(value, ROWS)
        tensors = [self.tensor(f"{name}.{suffix}", value.shape[2]) for suffix in ("weight", "bias")]
        return self.each(
            "LayerNormalization", name, value, *tensors, axis=-1, epsilon=op.get("epsilon", 1e-5)
        )

    def embedding(self, op, name, value):
        """Of the stored numbers [batch, T, 1, 1]."""
        length = value.shape[0]
        flat = self.node(
            "Reshape", [value.name, self.integers(f"{name}.shape", 0, length)], f"{name}.flat"
        )
        tokens = self.node("Cast", [flat], f"{name}.tokens", to=TensorProto.INT64)
        self.node(
            "Gather", [self.tensor(f"{name}.weight", op["rows"], op["units"]), tokens], name, axis=0
        )
        return Value(name, (length, 1, op["units"]), ROWS)

    def positions(self, _, name, value):
        value = self.lay(value, ROWS)
        return self.each(
            "Add", name, value, self.tensor(f"{name}.weight", value.shape[0], value.shape[2])
        )

    def attention(self, op, name, value):
        value = self.lay(value, ROWS)
        length, heads, channels = value.shape[0], op["heads"], value.shape[2] // 3
        size = channels // heads
        parts = [f"{name}.{part}" for part in "qkv"]
        self.nodes.append(
            helper.make_node("Split", [value.name], parts, name=f"{name}.split", axis=2)
        )
        shape = self.integers(f"{name}.heads", 0, length, heads, size)
        q, k, v = (
            self.node(
                "Transpose",
                [self.node("Reshape", [part, shape], f"{part}.heads")],
                f"{part}.turned",
                perm=[0, 2, 3, 1] if part.endswith("k") else [0, 2, 1, 3],
            )
            for part in parts
        )
        scores = self.node("MatMul", [q, k], f"{name}.products")
        scores = self.node(
            "Mul", [scores, self.number(f"{name}.scale", size**-0.5)], f"{name}.scores"
        )
        if op.get("causal", True):
            mask = np.triu(np.full((length, length), -np.inf, np.float32), 1)
            scores = self.node(
                "Add", [scores, self.constant(f"{name}.mask", mask)], f"{name}.masked"
            )
        shares = self.node("Softmax", [scores], f"{name}.shares", axis=-1)
        mixed = self.node("MatMul", [shares, v], f"{name}.mixed")
        turned = self.node("Transpose", [mixed], f"{name}.turned", perm=[0, 2, 1, 3])
        self.node("Reshape", [turned, self.integers(f"{name}.shape", 0, length, channels)], name)
        return Value(name, (length, 1, channels), ROWS)

    def select(self, op, name, value):
        first, axis = op["first"], 1 if value.layout == MAP else 2
        limits = [
            self.integers(f"{name}.{limit}", number)
            for limit, number in (("first", first), ("end", first + op["channels"]), ("axis", axis))
        ]
        self.node("Slice", [value.name, *limits], name)
        return Value(name, (*value.shape[:2], op["channels"]), value.layout)

    # ---- units ----

    def chain(self, ops, prefix, value):
        for name, op in description.named(ops):
            value = getattr(self, op["type"])(op, prefix + name, value)
        return value

    def unit(self, unit, value):
        name = unit["name"]
        if "residual" in unit:
            body = self.chain(unit["residual"]["body"], f"{name}.body.", value)
            shortcut = self.chain(unit["residual"].get("shortcut", []), f"{name}.shortcut.", value)
            shortcut = self.lay(shortcut, body.layout)
            value = self.each("Add", f"{name}.sum", body, shortcut.name)
        elif "branches" in unit:
            ends = [
                self.chain(ops, f"{name}.branches.{index}.", value)
                for index, ops in enumerate(unit["branches"])
            ]
            layout = ends[0].layout
            names = [self.lay(end, layout).name for end in ends]
            self.node("Concat", names, f"{name}.concat", axis=1 if layout == MAP else 2)
            value = Value(
                f"{name}.concat", (*ends[0].shape[:2], sum(end.shape[2] for end in ends)), layout
            )
        else:
            return self.chain(unit["ops"], f"{name}.", value)
        return self.chain(unit.get("then", []), f"{name}.then.", value)

    def stored(self, model):
        """The model's input, scaled and normalised, as a map; unchanged before an embedding."""
        shape = tuple(model["input"]["shape"])
        if next(description.ops(model))[1]["type"] == "embedding":
            return Value("input", shape, MAP)
        name = "input"
        if model["input"]["dtype"] == "uint8":
            name = self.node("Cast", [name], "input.float", to=TensorProto.FLOAT)
        if description.scale(model) != 1:
            name = self.node(
                "Mul", [name, self.number("input.scale", description.scale(model))], "input.scaled"
            )
        if model["input"].get("mean"):
            for kind, field in (("Sub", "mean"), ("Div", "std")):
                name = self.node(
                    kind,
                    [name, self.number(f"input.{field}", model["input"][field])],
                    f"input.{kind}",
                )
        return Value(self.node("Transpose", [name], "input.map", perm=[0, 3, 1, 2]), shape, MAP)


# The fields of each op beside its type; the code above handles all that change its result.
OPS = {
    "conv2d": {"filters", "kernel", "stride", "padding", "groups", "bias", "kernels"},
    "linear": {"units", "bias"},
    "batch_norm": {"epsilon", "momentum"},
    "relu": (),
    "relu6": (),
    "silu": (),
    "gelu": (),
    "max_pool": {"kernel", "stride", "padding", "ceil_mode"},
    "avg_pool": {"kernel", "stride", "padding", "ceil_mode"},
    "global_avg_pool": (),
    "flatten": (),
    "dropout": {"rate"},
    "layer_norm": {"epsilon"},
    "embedding": {"rows", "units"},
    "positions": (),
    "attention": {"heads", "causal"},
    "select": {"first", "channels"},
}
INPUT = {"shape", "dtype", "scale", "mean", "std", "reading"}


def check_fields(what, value, known):
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not an object")
    unknown = sorted(set(value) - set(known))
    if unknown:
        raise ValueError(f"{what} has unknown fields: {', '.join(unknown)}")


def check_list(what, value):
    if not isinstance(value, list) or not value:
        raise ValueError(f"{what} is not a list with at least one entry")


def check_description(model):
    """Reject unknown fields: they might change the model's result."""
    check_fields("the description", model, {"name", "input", "units", "loss", "class_names"})
    description.check_class_names(model)
    check_fields("the description's input", model.get("input", {}), INPUT)
    check_fields("the description's loss", model.get("loss", {}), {"type", "label_smoothing"})
    check_list("the description's units", model.get("units"))
    for index, unit in enumerate(model["units"]):
        check_fields(
            f"unit {index}", unit, {"name", "ops", "residual", "branches", "then", "frozen"}
        )
        if (
            not isinstance(unit.get("name"), str)
            or sum(kind in unit for kind in ("ops", "residual", "branches")) != 1
        ):
            raise ValueError(f"unit {index} has no name, or not one of ops, residual and branches")
        check_fields(f"unit {index}'s residual", unit.get("residual", {}), {"body", "shortcut"})
        for part in ("ops", "branches"):
            if part in unit:
                check_list(f"unit {index}'s {part}", unit[part])
    for name, op in description.ops(model):
        kind = op.get("type") if isinstance(op, dict) else None
        if not isinstance(kind, str) or kind not in OPS:
            raise ValueError(f"{name}: unknown op '{kind}'")
        check_fields(name, op, {"type", *OPS[kind]})


def build_graph(model, arrays):
    """The ONNX model of a completed description and its tensors."""
    graph = Graph(arrays)
    value = graph.stored(model)
    for unit in model["units"]:
        value = graph.unit(unit, value)
    extra = sorted(set(arrays) - graph.used)
    if extra:
        raise ValueError(
            f"tensor '{extra[0]}' is not part of the model"
            + (f"; {len(extra) - 1} more" if extra[1:] else "")
        )
    value = graph.lay(value, ROWS)
    length, _, classes = value.shape
    shape = [length, classes] if length > 1 else [classes]
    graph.node("Reshape", [value.name, graph.integers("logits.shape", 0, *shape)], "logits")
    graph.node("Softmax", ["logits"], "probabilities", axis=-1)
    number = getattr(TensorProto, NUMBERS[model["input"]["dtype"]])
    inputs = [helper.make_tensor_value_info("input", number, ["batch", *model["input"]["shape"]])]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])
        for name in ("logits", "probabilities")
    ]
    whole = helper.make_graph(
        graph.nodes, model["name"], inputs, outputs, list(graph.weights.values())
    )
    return helper.make_model(
        whole,
        producer_name="paceline",
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )


def export(arguments):
    tensor_file.check_output(arguments.output)
    arrays, note = tensor_file.read(arguments.safetensors)
    if arguments.model and note:
        raise ValueError(f"{arguments.safetensors} contains its description; omit --model")
    if not arguments.model and not note:
        raise ValueError(
            f"{arguments.safetensors} contains no model description; name it by --model"
        )
    if note:
        check_fields(f"the metadata of {arguments.safetensors}", note, {"model", "evaluation"})
        check_fields("its evaluation", note.get("evaluation", {}), {"micro_batch", "classes"})
    stated = description.read(arguments.model) if arguments.model else note.get("model")
    check_description(stated)
    model = description.close(stated, arguments.input, arguments.dtype, arguments.classes)
    if sum(array.nbytes for array in arrays.values()) >= FILE_BYTES_MAX:
        raise ValueError("a model of 2 GiB or more does not fit into an ONNX file")
    built = build_graph(model, arrays)
    helper.set_model_props(built, {tensor_file.NOTE_KEY: json.dumps({"model": model})})
    onnx.checker.check_model(built, full_check=True)
    temporary = arguments.output + ".new"
    onnx.save(built, temporary)
    os.replace(temporary, arguments.output)
    print(
        f"{arguments.output}: {len(built.graph.node)} nodes, {len(arrays)} tensors, input "
        f"{model['input']['dtype']} batch x {' x '.join(map(str, model['input']['shape']))}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("safetensors", metavar="MODEL.safetensors", help="file of a trained model")
    parser.add_argument("output", metavar="OUTPUT.onnx", help="ONNX file to write")
    parser.add_argument(
        "--model",
        metavar="DESCRIPTION",
        help=("description of a model whose file has none: a JSON file, or a model of the zoo"),
    )
    parser.add_argument(
        "--input",
        metavar="H,W,C",
        type=description.input_shape,
        help="shape of a sample, if --model leaves it open",
    )
    parser.add_argument(
        "--dtype",
        choices=description.DTYPES,
        help="of a stored sample, if --model leaves it open; default: uint8",
    )
    parser.add_argument(
        "--classes",
        metavar="N",
        type=description.count,
        help="number of classes, if --model leaves it open",
    )
    arguments = parser.parse_args()
    if onnx is None:
        print(
            (
                "export_onnx: needs Debian's python3-onnx (apt-get install python3-onnx), run with"
                " /usr/bin/python3"
            ),
            file=sys.stderr,
        )
        return 1
    try:
        export(arguments)
    except KeyError as error:
        print(f"export_onnx: the description has an op or a unit without {error}", file=sys.stderr)
        return 1
    except (
        OSError,
        ValueError,
        AttributeError,
        TypeError,
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
    ) as error:
        print(f"export_onnx: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
