#!/usr/bin/python3
"""onnx_runtime.py WRITE_EXPORT AGENT DIRECTORY: models of tools/export_onnx.py give the
probabilities of `paceline-agent predict` in ONNX Runtime for Node.

npm installs the runtime below DIRECTORY from the committed lock file, without package scripts (a
download of some 120 MB, 300 MB on disk). It stays there. Exit status 77 (skipped) if that is not
possible.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "support")]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


try:
    import numpy as np
    import onnx  # noqa: F401  pylint: disable=unused-import
except ImportError:
    skip("no ONNX (apt-get install python3-onnx)")

import npm
import tensor_file

WRITE_EXPORT, AGENT, DIRECTORY = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
PACKAGE = ROOT / "tests" / "slow" / "onnx"
SAMPLES = 3
SEED = 7
LOGITS = 2  # their standard deviation

# The allowed relative difference of a probability from predict's. Small nets: single precision,
# summed in another order. The deep ones add rounding up over their layers, and Winograd's
# convolutions differ in the fifth digit.
SMALL, LARGE = 1e-5, 2e-4

# Small samples for the models, and the allowed differences.
ZOO = {
    "mlp": ([28, 28, 1], SMALL),
    "lenet5": ([28, 28, 1], SMALL),
    "resnet8": ([32, 32, 3], SMALL),
    "dscnn-kws": ([49, 10, 1], SMALL),
    "gpt-mini": ([64, 1, 1], SMALL),
    "alexnet-cifar": ([32, 32, 3], LARGE),
    "vgg11-bn": ([32, 32, 3], LARGE),
    "vgg16-bn": ([32, 32, 3], LARGE),
    "resnet18": ([32, 32, 3], LARGE),
    "resnet50": ([64, 64, 3], LARGE),
    "googlenet": ([96, 96, 3], LARGE),
    "mobilenetv2": ([32, 32, 3], LARGE),
    "mobilenetv2-224": ([64, 64, 3], LARGE),
}

# Cases without a model in the zoo: float samples, groups, silu, windows beyond the padding, a
# shortcut after a sequence, non-causal attention, branches of vectors, selects.
OTHERS = {
    "odd": {
        "name": "odd",
        "input": {"shape": [11, 8, 4], "dtype": "float32", "scale": 0.5},
        "units": [
            {
                "name": "a",
                "ops": [
                    {
                        "type": "conv2d",
                        "filters": 8,
                        "kernel": [3, 2],
                        "stride": [2, 1],
                        "padding": [1, 0],
                        "groups": 2,
                    },
                    {"type": "silu"},
                    {"type": "avg_pool", "kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True},
                ],
            },
            {
                "name": "b",
                "branches": [
                    [
                        {
                            "type": "max_pool",
                            "kernel": 3,
                            "stride": 2,
                            "padding": 1,
                            "ceil_mode": True,
                        }
                    ],
                    [
                        {
                            "type": "avg_pool",
                            "kernel": [2, 3],
                            "stride": 2,
                            "padding": 1,
                            "ceil_mode": True,
                        },
                        {"type": "relu6"},
                    ],
                ],
                "then": [{"type": "gelu"}],
            },
            {
                "name": "c",
                "ops": [
                    {"type": "flatten"},
                    {"type": "dropout", "rate": 0.3},
                    {"type": "linear", "units": 9},
                ],
            },
            {"name": "d", "branches": [[], [{"type": "linear", "units": 5, "bias": False}]]},
            {"name": "e", "ops": [{"type": "linear", "units": 7}]},
        ],
    },
    "ahead": {
        "name": "ahead",
        "input": {"shape": [9, 1, 1], "dtype": "uint8", "scale": 1},
        "units": [
            {
                "name": "a",
                "ops": [{"type": "embedding", "rows": 256, "units": 12}, {"type": "positions"}],
            },
            {
                "name": "b",
                "residual": {
                    "body": [
                        {"type": "linear", "units": 36},
                        {"type": "attention", "heads": 3, "causal": False},
                    ],
                    "shortcut": [{"type": "layer_norm", "epsilon": 0.001}],
                },
            },
            {"name": "c", "ops": [{"type": "global_avg_pool"}, {"type": "linear", "units": 6}]},
        ],
    },
    "selects": {
        "name": "selects",
        "input": {"shape": [7, 6, 4], "dtype": "uint8"},
        "units": [
            {"name": "a", "ops": [{"type": "conv2d", "filters": 12, "kernel": 3}]},
            {
                "name": "b",
                "residual": {
                    "body": [{"type": "conv2d", "filters": 5, "kernel": 1}],
                    "shortcut": [{"type": "select", "first": 3, "channels": 5}],
                },
            },
            {
                "name": "c",
                "ops": [
                    {"type": "select", "first": 1, "channels": 4},
                    {"type": "silu"},
                    {"type": "flatten"},
                    {"type": "linear", "units": 9},
                    {"type": "select", "first": 2, "channels": 5},
                    {"type": "linear", "units": 4},
                ],
            },
        ],
    },
}


def install():
    """The directory with the runtime."""
    try:
        target = npm.install(PACKAGE, DIRECTORY / "onnx")
    except npm.NotInstalled as reason:
        skip(reason)
    shutil.copy(PACKAGE / "run.mjs", target)
    return target


def run(*command):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{command}: {done.returncode}: {done.stdout[-1000:]} {done.stderr[-1000:]}")
    return done.stdout


def settle(arrays, random):
    """The tensors without equal values, as after training."""
    settled = {}
    for name, array in arrays.items():
        if name.endswith("running_var"):
            array = random.uniform(0.5, 1.5, array.shape)
        elif array.ndim == 1:
            array = array + random.uniform(-0.1, 0.1, array.shape)
        settled[name] = array.astype(np.float32)
    return settled


def scale_head(arrays, factor):
    """Multiply the last layer's tensors by a factor, and so the logits."""
    last = [name for name, array in arrays.items() if array.ndim == 2][-1].rsplit(".", 1)[0]
    for name in arrays:
        if name.rsplit(".", 1)[0] == last:
            arrays[name] = arrays[name] * np.float32(factor)


def tensors_of(description, random):
    """Random tensors of a small model; the agent's error messages give their shapes."""
    arrays = {}
    with tempfile.TemporaryDirectory() as directory:
        path, data = pathlib.Path(directory) / "model", samples_of(description, random, directory)
        while True:
            tensor_file.write(path, arrays, {"model": description})
            done = subprocess.run(
                [AGENT, "predict", path, *data], capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                return arrays
            if "is missing" not in done.stderr:
                sys.exit(f"{description['name']}: {done.stderr}")
            name, shape = done.stderr.split("tensor '")[1].split(" F32) is missing")[0].split("' (")
            shape = [int(size) for size in shape.split(" x ")]
            arrays[name] = random.uniform(-0.5, 0.5, shape).astype(np.float32)


def samples_of(description, random, directory):
    """Random samples; the words that name them to predict. Also writes them as raw bytes to the
    file `raw`.
    """
    shape = description["input"]["shape"]
    path = pathlib.Path(directory)
    if description["input"]["dtype"] == "float32":
        samples = random.uniform(-1, 1, (SAMPLES, *shape)).astype(np.float32)
    else:
        samples = random.integers(0, 256, (SAMPLES, *shape), dtype=np.uint8)
    (path / "raw").write_bytes(samples.tobytes())
    if text_model(description):
        (path / "data").write_bytes(samples.tobytes() + b"x")
        return [path / "data", "--as", f"text={shape[0]}"]
    np.save(path / "data.npy", samples)
    return [path / "data.npy"]


def text_model(description):
    """A score for each position of a text."""
    return description["name"] == "gpt-mini"


class Runtime:
    def __init__(self, directory):
        self.process = subprocess.Popen(
            ["node", "run.mjs"],
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, description, model, directory):
        """(logits, probabilities) [samples][classes]; of a sequence, after its last position."""
        stated = description["input"]
        work = {
            "model": f"{directory}/model.onnx",
            "input": f"{directory}/raw",
            "type": stated["dtype"],
            "dims": [SAMPLES, *stated["shape"]],
            "output": f"{directory}/out",
        }
        self.process.stdin.write(json.dumps(work) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{model}: the runtime failed")
        dims = json.loads(answer)["dims"]
        logits, shares = (
            np.fromfile(f"{directory}/out", np.float32).reshape(2, *dims).astype(np.float64)
        )
        own = np.exp(logits - logits.max(axis=-1, keepdims=True))
        own /= own.sum(axis=-1, keepdims=True)
        if not np.allclose(own, shares, rtol=1e-4, atol=1e-30):
            sys.exit(f"{model}: logits and probabilities do not belong together")
        return (logits, shares) if shares.ndim == 2 else (logits[:, -1], shares[:, -1])

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


def export(path, arrays, note):
    tensor_file.write(path, arrays, note)
    run(sys.executable, "-B", ROOT / "tools" / "export_onnx.py", path, path.parent / "model.onnx")


def check(runtime, model, arrays, note, limit, random):
    description = note["model"]
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "model.safetensors"
        data = samples_of(description, random, directory)
        arrays = settle(arrays, random)
        export(path, arrays, note)
        # Random weights give logits larger than those of any trained model.
        scale_head(arrays, LOGITS / runtime.run(description, model, directory)[0].std())
        export(path, arrays, note)
        lines = [
            json.loads(line)
            for line in run(AGENT, "predict", path, *data, "--json", "--top", 100).splitlines()
        ]
        found = runtime.run(description, model, directory)[1]
        worst = 0
        for sample, line in enumerate(line for line in lines if "top" in line):
            for item in line["top"]:
                share = item["probability"]
                worst = max(worst, abs(found[sample, item["class"]] - share) / share)
        if not worst <= limit:
            sys.exit(
                f"{model}: {worst:.1e} of a probability away from predict, {limit:.0e} are allowed"
            )
        print(
            f"{model}: {worst:.1e} of a probability away from predict (limit {limit:.0e})",
            flush=True,
        )


def check_normalise(runtime, random):
    """Samples normalised by the model give the results of samples normalised before."""
    plain = {
        "name": "plain",
        "input": {"shape": [6, 5, 3], "dtype": "float32", "scale": 0.5},
        "units": [
            {
                "name": "a",
                "ops": [
                    {"type": "conv2d", "filters": 4, "kernel": 3},
                    {"type": "flatten"},
                    {"type": "linear", "units": 7},
                ],
            }
        ],
    }
    mean, std = [0.25, -1.0, 0.5], [0.5, 2.0, 0.125]
    normalised = {**plain, "input": {**plain["input"], "mean": mean, "std": std}}
    arrays = tensors_of(plain, random)
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory)
        samples_of(plain, random, directory)
        export(path / "model", arrays, {"model": normalised})
        logits = runtime.run(plain, "normalised", directory)[0]
        raw = np.fromfile(path / "raw", np.float32).reshape(-1, 3)
        (((raw * 0.5 - mean) / std) / 0.5).astype(np.float32).tofile(path / "raw")
        export(path / "model", arrays, {"model": plain})
        if not np.allclose(logits, runtime.run(plain, "plain", directory)[0], rtol=1e-5, atol=1e-5):
            sys.exit("a model with mean and std is not the one without on normalised samples")


def main():
    runtime = Runtime(install())
    random = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as directory:
        for model, (shape, limit) in ZOO.items():
            path = f"{directory}/{model}"
            run(WRITE_EXPORT, model, *shape, SEED, path)
            check(runtime, model, *tensor_file.read(path), limit, random)
    for model, description in OTHERS.items():
        check(
            runtime, model, tensors_of(description, random), {"model": description}, SMALL, random
        )
    check_normalise(runtime, random)
    runtime.close()
    print(f"{len(ZOO) + len(OTHERS)} models")


if __name__ == "__main__":
    main()
