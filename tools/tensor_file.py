"""Safetensors files as numpy arrays, with the metadata of a trained model's file. Needs numpy
alone.
"""
import json
import os
import struct

import numpy as np

NOTE_KEY = "paceline"
HEADER_BYTES_MAX = 8 << 20
DTYPES = {
    "U8": "|u1",
    "I32": "<i4",
    "I64": "<i8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
    "BF16": "<u2",
}  # numpy has no BF16, the upper half of an F32: it is read as F32


def check_output(path):
    """Refuse a target that is not a file: the rename at the end would replace a device."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"{path}: is not a regular file")


def read(path):
    """({name: array}, note): note is {"model": description, "evaluation": {...}} or None.
    ValueError for other files.
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        (length,) = struct.unpack_from("<Q", data)
        if length > HEADER_BYTES_MAX:
            raise ValueError("a header of that length")
        header = json.loads(data[8 : 8 + length])
        note = header.pop("__metadata__", {}).get(NOTE_KEY)
        unknown = [
            (name, entry["dtype"]) for name, entry in header.items() if entry["dtype"] not in DTYPES
        ]
        arrays = {} if unknown else _arrays(header, data[8 + length :])
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path}: not a safetensors file") from error
    if unknown:
        raise ValueError(
            f"{path}: tensor '{unknown[0][0]}' holds {unknown[0][1]}; supported types are"
            f" {', '.join(DTYPES)}"
        )
    return arrays, None if note is None else _note(path, note)


def _note(path, text):
    try:
        note = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: its metadata is damaged: '{NOTE_KEY}' is not JSON") from error
    if not isinstance(note, dict):
        raise ValueError(f"{path}: its metadata is damaged: '{NOTE_KEY}' is not an object")
    return note


def _arrays(header, data):
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        if not 0 <= begin <= end <= len(data):
            raise ValueError(name)
        dtype = np.dtype(DTYPES[entry["dtype"]])
        array = np.frombuffer(data[begin:end], dtype) if end > begin else np.empty(0, dtype)
        if entry["dtype"] == "BF16":
            array = (array.astype("<u4") << 16).view("<f4")
        arrays[name] = array.reshape(entry["shape"])
    return arrays


def write(path, arrays, note=None):
    """Write {name: array} in the given order; the data starts at a multiple of 64 bytes."""
    names = {np.dtype(code): name for name, code in DTYPES.items()}
    header = {}
    if note is not None:
        header["__metadata__"] = {NOTE_KEY: json.dumps(note, separators=(",", ":"))}
    offset = 0
    for name, array in arrays.items():
        end = offset + array.nbytes
        header[name] = {
            "dtype": names[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for array in arrays.values():
            file.write(array.tobytes())
