"""Data sets that no content gives away, or that are not bytes: float arrays, texts."""

import gzip
import io
import struct
import tarfile

from api import BINARY, Api
from paceline import data_files, must, tar_of


def test_a_text_is_cut_into_samples_of_bytes():
    text = bytes(range(256)) * 20
    with Api(data=False) as api:
        first = api.request("PUT", "/v1/datasets/text?text=64", text, BINARY, expect=201).json
        must((first["samples"], first["height"], first["width"], first["channels"]) == (79, 64, 1, 1), f"{first}")
        must((first["classes"], first["positions"], first["dtype"]) == (256, 64, "U8"), f"{first}")
        packed = api.request("PUT", "/v1/datasets/packed?text=64", gzip.compress(text), BINARY, expect=201).json
        must(packed["sha256"] == first["sha256"], "gzip changed the text")
        content = api.request("GET", "/v1/datasets/text/content", expect=200).body
        must(text[:79 * 64] in content, "the inputs are not the bytes of the text")
        view = api.get("/v1/models/gpt-mini?dataset=text")
        must(view["classes"] == 256 and view["units"][-1]["output"] == {"height": 64, "width": 1, "channels": 256}, f"{view}")
        api.problem("GET", "/v1/models/lenet5?dataset=text", code="invalid_fields")
        must(api.get("/v1/models/gpt-mini")["assumed"], "an input that nobody named is not assumed")
        api.problem("PUT", "/v1/datasets/x?text=0", text, BINARY, code="invalid_parameter", words=("text",))
        api.problem("PUT", "/v1/datasets/x?text=40000", text, BINARY, code="invalid_parameter", words=("text",))
        api.problem("PUT", "/v1/datasets/x?text=6000", text, BINARY, code="invalid_dataset", words=("5120 bytes of text",))
        images = api.request("PUT", "/v1/datasets/images", tar_of(*data_files("digits", "train")), BINARY, expect=201).json
        must("positions" not in images, f"{images}")
        job = {"model": {"name": "gpt-mini"}, "dataset": {"train": "text", "test": "images"}}
        api.problem("POST", "/v1/jobs?dry_run=true", job, code="invalid_fields", words=("/dataset/test",))


def npy(descr, shape, data):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def tar_of_bytes(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def test_float_arrays_become_float32_whatever_their_size_and_order():
    values = [0.5, -2.0, 3.25, 0.0, 1e-3, -1e30]
    labels = npy(">i2", "(2,)", struct.pack(">2h", 4, 1))
    with Api(data=False) as api:
        first = api.request("PUT", "/v1/datasets/f4", tar_of_bytes({"x": npy("<f4", "(2, 3)", struct.pack("<6f", *values)),
                                                                   "y": labels}), BINARY, expect=201).json
        must((first["samples"], first["channels"], first["classes"], first["dtype"]) == (2, 3, 5, "F32"), f"{first}")
        second = api.request("PUT", "/v1/datasets/f8", tar_of_bytes({"y": labels, "x": npy(">f8", "(2, 3)",
                                                                    struct.pack(">6d", *values))}), BINARY, expect=201).json
        must(second["sha256"] == first["sha256"], "the order of bytes changed the numbers")
        must(struct.pack("<6f", *values) in api.request("GET", "/v1/datasets/f8/content", expect=200).body, "other numbers")
        values[4] = float("nan")
        bad = tar_of_bytes({"x": npy("<f4", "(2, 3)", struct.pack("<6f", *values)), "y": labels})
        api.problem("PUT", "/v1/datasets/x", bad, BINARY, code="invalid_dataset", words=("x: number 1 of sample 1",))
        floats = tar_of_bytes({"x": npy("<f4", "(2, 3)", bytes(24)), "y": npy("<f4", "(2,)", bytes(8))})
        api.problem("PUT", "/v1/datasets/x", floats, BINARY, code="invalid_dataset", words=("integer type",))
