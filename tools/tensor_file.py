"""Safetensors files as numpy arrays, and what the file of a trained model says of itself. Needs numpy alone."""
import json
import struct

import numpy as np

NOTE_KEY = "paceline"
HEADER_BYTES_MAX = 8 << 20
DTYPES = {"U8": "|u1", "I32": "<i4", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8"}
DTYPES["BF16"] = "<u2"  # numpy has none: the upper half of an F32, which it is read as


def read(path):
    """({name: array}, note): note is {"model": description, "evaluation": {...}} or None. ValueError for another file."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        (length,) = struct.unpack_from("<Q", data)
        if length > HEADER_BYTES_MAX:
            raise ValueError("a header of that length")
        header = json.loads(data[8 : 8 + length])
        note = header.pop("__metadata__", {}).get(NOTE_KEY)
        return _arrays(header, data[8 + length :]), None if note is None else json.loads(note)
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: not a safetensors file") from error


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
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for array in arrays.values():
            file.write(array.tobytes())
