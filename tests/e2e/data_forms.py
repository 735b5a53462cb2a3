"""Data sets that are no byte images: uploaded, they train on three agents to the weights that one process makes of the same file."""

import gzip
import pathlib
import struct
import tempfile

from paceline import Fleet, data_files, must, on_devices, tar_of, train
from runner import run

BINARY = {"Content-Type": "application/octet-stream"}


def check_form(name, contents, reading, job, shape):
    """contents: {data set: bytes of one file}; shape: what the coordinator must make of the first."""
    with tempfile.TemporaryDirectory(prefix="paceline-forms-") as directory:
        paths = {}
        for data_set, content in contents.items():
            paths[data_set] = [pathlib.Path(directory) / data_set]
            paths[data_set][0].write_bytes(content)
        expected, output = train(job, paths, 2, ["--as", reading] if reading else [])
    with Fleet() as fleet:
        fleet.start_coordinator("--heartbeat-ms", 100)
        query = "?" + reading.replace(",", "&") if reading else ""
        seen = [fleet.request("PUT", f"/v1/datasets/{data_set}{query}", content, BINARY, expect=201).json
                for data_set, content in contents.items()][0]
        must([seen[field] for field in ("samples", "height", "width", "channels", "dtype", "classes")] == shape, f"{seen}")
        fleet.start_agents(3)
        submitted = fleet.submit({**job, **on_devices(3, 3)})
        done = fleet.wait(submitted, "succeeded")
        sha256 = fleet.checkpoint_sha256(submitted)
        must(sha256 == expected, f"{name} over three agents: {sha256}, not {expected}")
        accuracy = fleet.get(f"/v1/jobs/{done['id']}/metrics?name=test_accuracy")["items"][-1]["value"]
        must(f"accuracy {accuracy:.4f}" in output, f"{accuracy}, not that of {output}")
        return accuracy


def npy(descr, shape, data):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x03\x00" + struct.pack("<I", len(text)) + text + data


def npy_digits(part, directory):
    """The digits as big-endian doubles around 0 and labels of 2 bytes: a tar of two NPY files."""
    pixels, labels = (gzip.decompress(path.read_bytes()) for path in data_files("digits", part))
    count = len(labels) - 8
    values = [(byte - 128) / 64 for byte in pixels[16:]]
    files = {"features.npy": npy(">f8", (count, 8, 8), struct.pack(f">{len(values)}d", *values)),
             "classes.npy": npy("<i2", (count,), struct.pack(f"<{count}h", *labels[8:]))}
    for name, content in files.items():
        (pathlib.Path(directory) / name).write_bytes(content)
    return tar_of(*(pathlib.Path(directory) / name for name in files))


def test_float_arrays_with_labels_train_over_three_agents():
    with tempfile.TemporaryDirectory(prefix="paceline-npy-") as directory:
        contents = {f"floats-{part}": npy_digits(part, directory) for part in ("train", "test")}
    units = [{"name": "hidden", "ops": [{"type": "flatten"}, {"type": "linear", "units": 32}, {"type": "relu"}]},
             {"name": "deeper", "ops": [{"type": "linear", "units": 32}, {"type": "relu"}]},
             {"name": "head", "ops": [{"type": "linear", "units": "classes"}]}]
    job = {"name": "floats", "model": {"description": {"name": "features", "input": {"dtype": "float32"}, "units": units}},
           "dataset": {"train": "floats-train", "test": "floats-test"}, "epochs": 3}
    accuracy = check_form("float arrays", contents, None, job, [1437, 8, 8, 1, "F32", 10])
    must(accuracy > 0.8, f"accuracy {accuracy}")


if __name__ == "__main__":
    run(globals())
