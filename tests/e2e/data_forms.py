"""Data sets other than byte images: after an upload, three agents train to the same weights as one
process with the same file.
"""

import gzip
import io
import math
import pathlib
import struct
import tarfile
import tempfile
import zlib

from paceline import Fleet, data_files, must, on_devices, tar_of, train
from runner import run

BINARY = {"Content-Type": "application/octet-stream"}


def check_form(name, contents, reading, job, shape):
    """contents: {data set: bytes of one file}; shape: the first one's, as converted."""
    with tempfile.TemporaryDirectory(prefix="paceline-forms-") as directory:
        paths = {}
        for data_set, content in contents.items():
            paths[data_set] = [pathlib.Path(directory) / data_set]
            paths[data_set][0].write_bytes(content)
        expected, output = train(job, paths, 2, ["--as", reading] if reading else [])
    with Fleet() as fleet:
        fleet.start_coordinator("--heartbeat-ms", 100)
        query = "?" + reading.replace(",", "&") if reading else ""
        seen = [
            fleet.request(
                "PUT", f"/v1/datasets/{data_set}{query}", content, BINARY, expect=201
            ).json
            for data_set, content in contents.items()
        ][0]
        must(
            [
                seen[field]
                for field in ("samples", "height", "width", "channels", "dtype", "classes")
            ]
            == shape,
            f"{seen}",
        )
        fleet.start_agents(3)
        submitted = fleet.submit({**job, **on_devices(3, 3)})
        done = fleet.wait(submitted, "succeeded")
        sha256 = fleet.checkpoint_sha256(submitted)
        must(sha256 == expected, f"{name} over three agents: {sha256}, not {expected}")
        accuracy = fleet.get(f"/v1/jobs/{done['id']}/metrics?name=test_accuracy")["items"][-1][
            "value"
        ]
        must(f"accuracy {accuracy:.4f}" in output, f"{accuracy}, not that of {output}")
        return accuracy


def npy(descr, shape, data):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x03\x00" + struct.pack("<I", len(text)) + text + data


def npy_digits(part, directory):
    """The digits as a tar of two NPY files: big-endian doubles around 0, labels of 2 bytes."""
    pixels, labels = (gzip.decompress(path.read_bytes()) for path in data_files("digits", part))
    count = len(labels) - 8
    values = [(byte - 128) / 64 for byte in pixels[16:]]
    files = {
        "features.npy": npy(">f8", (count, 8, 8), struct.pack(f">{len(values)}d", *values)),
        "classes.npy": npy("<i2", (count,), struct.pack(f"<{count}h", *labels[8:])),
    }
    for name, content in files.items():
        (pathlib.Path(directory) / name).write_bytes(content)
    return tar_of(*(pathlib.Path(directory) / name for name in files))


def test_float_arrays_with_labels_train_over_three_agents():
    with tempfile.TemporaryDirectory(prefix="paceline-npy-") as directory:
        contents = {f"floats-{part}": npy_digits(part, directory) for part in ("train", "test")}
    units = [
        {
            "name": "hidden",
            "ops": [{"type": "flatten"}, {"type": "linear", "units": 32}, {"type": "relu"}],
        },
        {"name": "deeper", "ops": [{"type": "linear", "units": 32}, {"type": "relu"}]},
        {"name": "head", "ops": [{"type": "linear", "units": "classes"}]},
    ]
    job = {
        "name": "floats",
        "model": {
            "description": {"name": "features", "input": {"dtype": "float32"}, "units": units}
        },
        "dataset": {"train": "floats-train", "test": "floats-test"},
        "epochs": 3,
    }
    accuracy = check_form("float arrays", contents, None, job, [1437, 8, 8, 1, "F32", 10])
    must(accuracy > 0.8, f"accuracy {accuracy}")


def words(part, count):
    """Three words of synthetic speakers as WAV files, one directory each: rising, falling and
    constant chirps.
    """
    files = {}
    for number in range(count):
        for word, (start, end) in {
            "rise": (400, 2500),
            "fall": (2500, 400),
            "stay": (1200, 1200),
        }.items():
            phase, samples = 0.0, []
            for at in range(2400 + 160 * (number % 10)):
                pitch = start + (end - start) * at / 4000 + 7 * number
                phase += 2 * math.pi * pitch / 8000
                samples.append(
                    int(6000 * math.sin(phase)) + (at * 7919 + number * 104729) % 601 - 300
                )
            data = struct.pack(f"<{len(samples)}h", *samples)
            header = struct.pack(
                "<4sI8sIHHIIHH4sI",
                b"RIFF",
                36 + len(data),
                b"WAVEfmt ",
                16,
                1,
                1,
                8000,
                16000,
                2,
                16,
                b"data",
                len(data),
            )
            files[f"{part}/{word}/{number}.wav"] = header + data
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def test_key_words_train_over_three_agents():
    contents = {"words-train": words("train", 32), "words-test": words("test", 12)}
    job = {
        "name": "words",
        "model": {"name": "dscnn-kws"},
        "dataset": {"train": "words-train", "test": "words-test"},
        "batch": 16,
        "steps": 24,
        "epochs": 100,
        "learning_rate": {"type": "cosine", "value": 0.05},
    }
    accuracy = check_form(
        "key words", contents, "sound=8000,clip_ms=500", job, [96, 24, 10, 1, "F32", 3]
    )
    must(accuracy > 0.8, f"accuracy {accuracy}")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels, height, width):
    lines = b"".join(b"\0" + pixels[row * width : (row + 1) * width] for row in range(height))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def png_digits(part):
    """The digits, made brighter, as PNG files in a directory for each class."""
    pixels, labels = (gzip.decompress(path.read_bytes()) for path in data_files("digits", part))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for index, label in enumerate(labels[8:]):
            content = png(pixels[16 + 64 * index : 80 + 64 * index], 8, 8)
            entry = tarfile.TarInfo(f"{part}/digit-{label}/{index:05}.png")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def test_images_train_over_three_agents_augmented():
    contents = {f"images-{part}": png_digits(part) for part in ("train", "test")}
    augment = [{"type": "crop", "padding": 1}, {"type": "normalise", "mean": [0.3], "std": [0.4]}]
    job = {
        "name": "images",
        "model": {"name": "lenet5"},
        "dataset": {"train": "images-train", "test": "images-test"},
        "epochs": 2,
        "augment": augment,
    }
    accuracy = check_form(
        "images", contents, "size=16x16,channels=1", job, [1437, 16, 16, 1, "U8", 10]
    )
    must(accuracy > 0.5, f"accuracy {accuracy}")


if __name__ == "__main__":
    run(globals())
