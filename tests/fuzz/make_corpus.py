#!/usr/bin/env python3
"""Write the first inputs of the fuzz targets for tensor files and model descriptions.

Usage: make_corpus.py [DIRECTORY]; the default is corpus/ beside this file. The same call gives the
same bytes.
"""
import gzip
import io
import json
import pathlib
import struct
import sys
import tarfile
import zlib


def idx(dimensions, data):
    return (
        struct.pack(">BBBB", 0, 0, 8, len(dimensions))
        + struct.pack(f">{len(dimensions)}I", *dimensions)
        + data
    )


def npy(descr, shape, data, version=1):
    """A file without its magic bytes, which the target prepends."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return bytes([version, 0]) + length + text + data


def pair(first, second):
    return struct.pack("<H", len(first)) + first + second


def safetensors(tensors, metadata=None, data=b""):
    header = {"__metadata__": metadata} if metadata else {}
    offset = 0
    for name, dtype, shape, size in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tar(entries, form=tarfile.USTAR_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, data in entries:
            entry = tarfile.TarInfo(name)
            if data is None:
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            else:
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    # tarfile pads to 10 KiB: one end mark is enough.
    content = out.getvalue().rstrip(b"\0")
    return content + bytes(-len(content) % 512 + 1024)


def chunk(name, data):
    return name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def wav(data, kind=1, channels=1, bits=16, rate=8000, before=b"", size=None):
    block = channels * bits // 8
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * block & 0xFFFFFFFF, block, bits)
    content = b"WAVE" + before + chunk(b"fmt ", form) + chunk(b"data", data)
    return b"RIFF" + struct.pack("<I", len(content) if size is None else size) + content


IMAGES = pathlib.Path(__file__).parent.parent / "golden" / "images"


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, colour, lines, *chunks):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = [
        png_chunk(b"IHDR", header),
        *(png_chunk(*each) for each in chunks),
        png_chunk(b"IDAT", zlib.compress(lines, 9)),
        png_chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def image(name):
    return (IMAGES / name).read_bytes()


def model(units, **members):
    return json.dumps({"name": "m", **members, "units": units}).encode()


def trained(units, tensors):
    """The header of a model's file."""
    description = {"name": "m", "input": {"shape": [2, 2, 1], "dtype": "uint8"}, "units": units}
    document = {"model": description, "evaluation": {"micro_batch": 4}}
    return safetensors(tensors, {"paceline": json.dumps(document)})


def zstd_frame(size, content):
    """A frame of one block of one repeated byte, which claims to have `size` bytes."""
    block = struct.pack("<I", content << 3 | 1 << 1 | 1)[:3]
    return bytes.fromhex("28b52ffd") + b"\xa0" + struct.pack("<I", size) + block + b"\7"


def message(counts, tensors, metadata=None):
    """The header of a body of workers and servers, and what is expected of it."""
    return bytes(counts) + safetensors(tensors, metadata)


def coded(codec, values, entries, codes):
    """A tensor of a codec (its place in the table, from bfloat16 on), as fuzz_codec reads it."""
    table = b"".join(struct.pack("<ff", *entry) for entry in entries)
    return bytes([codec]) + struct.pack("<H", values) + table + codes


def corpora():
    images = idx([3, 2, 2], bytes(range(12)))
    labels = idx([3], bytes([0, 2, 1]))
    record = bytes([7]) + bytes(i % 251 for i in range(3072))
    linear = [
        ("a.0.weight", "F32", [2, 3], 24),
        ("a.0.bias", "F32", [2], 8),
        *(
            (f"a.1.{name}", "F32", [2], 8)
            for name in ("weight", "bias", "running_mean", "running_var")
        ),
        ("a.1.num_batches_tracked", "I64", [], 8),
        ("b.0.bias", "F32", [2], 8),
        ("b.0.weight", "F32", [2, 2], 16),
        ("c.0.weight", "F32", [3], 12),
    ]
    form = safetensors(
        [("inputs", "U8", [2, 1, 2, 1], 4), ("labels", "I32", [2], 8)],
        None,
        b"abcd" + struct.pack("<2i", 1, 0),
    )
    conv = {"type": "conv2d", "filters": 4, "kernel": 3, "padding": 1}
    conv16 = {**conv, "filters": 16}
    head = {
        "name": "head",
        "ops": [{"type": "global_avg_pool"}, {"type": "linear", "units": "classes"}],
    }
    stated = {"input": {"shape": [8, 8, 2], "dtype": "float32", "scale": 2.5}}
    numbers, sums = ("numbers", "F64", [2], 16), ("data", "F32", [5], 20)
    statistics = ("statistics", "F32", [3], 12)
    mark = {"snapshot": "neighbor,center", "keep": "1,2,3"}
    copy = {"group": 1, "generation": 1048577, "version": 40, "mixes": 2}
    moves = [
        {
            "xid": {"life": 1, "counter": counter},
            "kind": kind,
            "own": copy,
            "peers": [{**copy, "group": group} for group in range(peers)],
            "alpha": 0.5,
            "applied_step": 41,
        }
        for counter, (kind, peers) in enumerate((("pair", 1), ("average", 32), ("adopt", 1)))
    ]
    return {
        "body": {
            "all": message([2, 5, 3], [numbers, sums, statistics], {"parked_seconds": "0.25"}),
            "data": message([0, 5, 0], [sums]),
            "last": message([0, 5, 0], [], {"last": "1", "version": "12"}),
            "commit": message([0, 0, 0], [], mark),
            "order": message([2, 5, 0], [sums, numbers]),
            "more": message([0, 5, 0], [sums, statistics]),
            "version": message([0, 5, 0], [sums], {"version": "12"}),
            "parked_nan": message([0, 5, 0], [sums], {"parked_seconds": "nan"}),
            "keep": message([0, 0, 0], [], {"snapshot": "center", "keep": "1,2"}),
        },
        "mix": {
            "copy": message([5, 0], [sums], {"mix": json.dumps({"copy": copy})}),
            "statistics": message([5, 3], [sums, statistics], {"mix": json.dumps({"copy": copy})}),
            "records": message(
                [5, 0],
                [sums],
                {"mix": json.dumps({"copy": copy, "parked_seconds": 0.5, "records": moves})},
            ),
            "many": message(
                [5, 0], [sums], {"mix": json.dumps({"copy": copy, "records": moves * 33})}
            ),
            "no_copy": message([5, 0], [sums], {"mix": "{}"}),
            "no_note": message([5, 0], [sums]),
            "group": message([5, 0], [sums], {"mix": json.dumps({"copy": {**copy, "group": 32}})}),
            "parked": message(
                [5, 0], [sums], {"mix": json.dumps({"copy": copy, "parked_seconds": -1})}
            ),
            "more": message([5, 0], [sums, statistics], {"mix": json.dumps({"copy": copy})}),
        },
        "codec": {
            "bfloat16": coded(0, 4, [], bytes(8)),
            "q8": coded(1, 256, [(0, 0.5)], bytes(range(256))),
            "q6": coded(2, 257, [(-1, 0.25), (2, 0)], bytes(192 + 1)),
            "q4": coded(3, 300, [(-7, 1), (0, 1)], bytes(128 + 22)),
            "q3": coded(4, 5, [(0, 1)], bytes(2)),
            "q2_raw": coded(5, 260, [(0, -1), (-1, 1)], bytes(1024 + 1)),
            "empty": coded(1, 0, [], b""),
            "short": coded(1, 256, [(0, 0.5)], bytes(255)),
            "scale_nan": coded(1, 256, [(0, float("nan"))], bytes(256)),
            "scale_huge": coded(1, 256, [(0, 3e38)], bytes(256)),
            "zstd": coded(7, 1024, [(0, 1)] * 4, zstd_frame(1024, 1024)),
            "zstd_bomb": coded(7, 1024, [(0, 1)] * 4, zstd_frame(1024, 1 << 20)),
            "zstd_claims_more": coded(9, 1024, [(0, 1)] * 4, zstd_frame(1 << 31, 512)),
        },
        "idx": {
            "pair": pair(images, labels),
            "labels_first": pair(labels, images),
            "channels": pair(idx([3, 1, 2, 2], bytes(12)), labels),
            "gzip": pair(gzip.compress(images, 9, mtime=0), gzip.compress(labels, 9, mtime=0)),
            "truncated": pair(images[:-3], labels),
            "huge": pair(idx([2**32 - 1, 2**32 - 1, 2**32 - 1], b""), labels),
            "counts": pair(images, idx([2], bytes(2))),
        },
        "npy": {
            "bytes": pair(
                npy("|u1", (2, 2, 2), bytes(8)), npy("<i8", "(2,)", struct.pack("<2q", 0, 3))
            ),
            "floats": pair(
                npy("<f4", (2, 3), struct.pack("<6f", *range(6))),
                npy("<i4", "(2,)", struct.pack("<2i", 0, 1)),
            ),
            "version2": pair(npy("|u1", (1, 1, 1, 3), bytes(3), 2), npy("|u1", "(1,)", b"\x05")),
            "doubles": pair(
                npy(">f8", (2, 3), struct.pack(">6d", *range(6)), 3),
                npy(">u2", "(2,)", struct.pack(">2H", 0, 9)),
            ),
            "halves": pair(
                npy("<f2", (2, 3), struct.pack("<6e", *range(6))), npy("|b1", "(2,)", b"\1\0")
            ),
            "not_finite": pair(
                npy("<f4", (1, 2), struct.pack("<2f", 1, float("nan"))), npy("|i1", "(1,)", b"\0")
            ),
            "negative": pair(
                npy("|u1", (1, 1), bytes(1)), npy("<i8", "(1,)", struct.pack("<q", -1))
            ),
            "fortran": pair(npy("|u1", (2, 2), bytes(4)).replace(b"False", b"True "), b""),
        },
        "cifar": {
            "one": record,
            "two": record + bytes([0]) + bytes(3072),
            "cut": record[:100],
            "form": form,
        },
        "sound": {
            "directories": tar(
                [
                    ("no/1.wav", wav(struct.pack("<4h", 0, 99, -99, 32767))),
                    ("yes/a_1.wav", wav(bytes(range(9)), bits=8)),
                    ("yes/._a_1.wav", b"junk"),
                ]
            ),
            "prefixes": tar(
                [
                    ("x/1_a.wav", wav(bytes(12), channels=2, bits=24)),
                    ("x/0_b.wav", wav(bytes(8), bits=32)),
                ]
            ),
            "floats": tar(
                [
                    ("a/0_a.wav", wav(struct.pack("<2f", 0.5, -1.5), kind=3, bits=32)),
                    ("b/1_a.wav", wav(struct.pack("<2d", 0.5, float("nan")), kind=3, bits=64)),
                ]
            ),
            "chunks": tar([("a/0_a.wav", wav(bytes(4), before=chunk(b"LIST", b"odd")))]),
            "packed": gzip.compress(
                tar([("a/0_a.wav.gz", gzip.compress(wav(bytes(4)), 9, mtime=0))]), 9, mtime=0
            ),
            "size_lies": tar([("a/0_a.wav", wav(bytes(4), size=0xFFFFFFFF))]),
            "no_samples": tar([("a/0_a.wav", wav(b""))]),
            "gigantic_rate": tar([("a/0_a.wav", wav(bytes(4), rate=0xFFFFFFFF))]),
            "no_class": tar([("a.wav", wav(bytes(4)))]),
        },
        "archive": {
            "idx": tar([("set/", None), ("set/images", images), ("set/labels", labels)]),
            "cifar": tar([("data_batch_2.bin", record), ("data_batch_1.bin", record)]),
            "npy": tar(
                [
                    ("x.npy", b"\x93NUMPY" + npy("|u1", (2, 1), bytes(2))),
                    (
                        "y.npy.gz",
                        gzip.compress(b"\x93NUMPY" + npy("|u1", "(2,)", bytes(2)), 9, mtime=0),
                    ),
                ]
            ),
            "gzip": gzip.compress(tar([("images", images), ("labels", labels)]), 9, mtime=0),
            "outside": tar([("../images", images)]),
            "gnu_names": tar(
                [("d" * 120 + "/images", images), ("labels", labels)], tarfile.GNU_FORMAT
            ),
            "pax_names": tar(
                [("d" * 120 + "/images", images), ("\u00e9/labels", labels)], tarfile.PAX_FORMAT
            ),
            "form": tar([("a.safetensors", form)]),
            "flat": tar([("1.jpg", image("colour.jpg")), ("2.png", image("palette.png"))]),
            "images": tar(
                [
                    ("set/", None),
                    ("set/b/1.jpg", image("colour.jpg")),
                    ("set/a/1.png", image("palette.png")),
                ]
            ),
        },
        "image": {
            "announced": png(1, 1, 8, 0, b"\0a")[:33]
            + struct.pack(">I", 0x40C00000)
            + b"zTXtk\0\0",
            "cut": image("colour.jpg")[:-200],
            "bits": png(9, 3, 1, 0, b"\0\xff\x80" * 3),
            "filters": png(
                2, 5, 8, 2, b"".join(bytes([kind, 1, 2, 3, 4, 5, 6]) for kind in range(5))
            ),
            "texts": png(
                1,
                1,
                8,
                6,
                b"\0abcd",
                *[(b"zTXt", b"k\0\0" + zlib.compress(bytes(5000)))] * 20,
                (b"gAMA", struct.pack(">I", 45455)),
            ),
            "wide": png(16384, 2048, 8, 0, b""),
        },
        "safetensors": {
            "one": safetensors([("stem.0.weight", "F32", [2, 3], 24)]),
            "metadata": safetensors(
                [("x", "U8", [4], 4), ("y", "I64", [], 8)], {"codec": "none", "last": "1"}
            ),
            "escapes": safetensors([('a"\\\n\u00e9\U0001F600', "I32", [1, 1], 4)]),
            "empty": safetensors([]),
            "zero": safetensors([("z", "F64", [0, 5], 0), ("w", "F32", [1], 4)]),
            "overflow": safetensors([("z", "F64", [2**62, 2**62], 0)]),
            "length": b"\xff" * 8 + b"{}",
            "long": safetensors([("x", "U8", [4], 4)], {"note": '"v"' * 50, "last": "1"}),
        },
        "trained": {
            "whole": trained(
                [{"name": "a", "ops": [{"type": "flatten"}, {"type": "linear", "units": 3}]}],
                [("a.1.weight", "F32", [3, 4], 48), ("a.1.bias", "F32", [3], 12)],
            ),
            "other": trained(
                [
                    {"name": "a", "ops": [{"type": "batch_norm"}, {"type": "flatten"}]},
                    {"name": "b", "ops": [{"type": "linear", "units": 3}]},
                ],
                [("b.0.weight", "F32", [3], 12)],
            ),
            "bare": safetensors([("a.1.weight", "F32", [3, 4], 48)]),
        },
        "checkpoint": {
            "fits": safetensors(linear, {"format": "pt"}, bytes(range(108))),
            "head": safetensors(linear[:6], None, bytes(72)),
            "shape": safetensors(
                [("a.0.weight", "F32", [3, 2], 24), *linear[1:]], None, bytes(108)
            ),
            "cut": safetensors(linear, None, bytes(50)),
            "stranger": safetensors([("a.0.scale", "F32", [2], 8), *linear], None, bytes(116)),
        },
        "model": {
            "chain": model(
                [{"name": "a", "ops": [conv, {"type": "batch_norm"}, {"type": "relu"}]}, head]
            ),
            "stated": model(
                [
                    {"name": "a", "ops": [conv, {"type": "max_pool", "kernel": 2, "padding": 1}]},
                    {
                        "name": "b",
                        "ops": [
                            {"type": "flatten"},
                            {"type": "dropout", "rate": 0.1},
                            {"type": "linear", "units": 3, "bias": False},
                        ],
                    },
                ],
                **stated,
            ),
            "residual": model(
                [
                    {
                        "name": "a",
                        "residual": {"body": [conv], "shortcut": [conv]},
                        "then": [{"type": "relu6"}],
                    },
                    head,
                ]
            ),
            "branches": model(
                [
                    {
                        "name": "a",
                        "branches": [
                            [conv],
                            [],
                            [{"type": "avg_pool", "kernel": 3, "stride": 1, "padding": 1}],
                        ],
                    },
                    head,
                ]
            ),
            "groups": model(
                [{"name": "a", "ops": [conv, {**conv, "groups": 4, "stride": 2}]}, head]
            ),
            "select": model(
                [
                    {"name": "a", "ops": [conv]},
                    {
                        "name": "b",
                        "ops": [
                            {"type": "select", "first": 2, "channels": 2},
                            {"type": "batch_norm"},
                        ],
                    },
                    head,
                ]
            ),
            "slices": model(
                [
                    {"name": "a", "ops": [conv16]},
                    {
                        "name": "b",
                        "residual": {"body": [{**conv, "filters": 16, "groups": 16}, conv16]},
                    },
                    {"name": "c", "branches": [[], [conv16, {"type": "batch_norm"}]]},
                    head,
                ]
            ),
            "sequence": model(
                [
                    {
                        "name": "a",
                        "ops": [
                            {"type": "embedding", "rows": 256, "units": 12},
                            {"type": "positions"},
                        ],
                    },
                    {
                        "name": "b",
                        "residual": {
                            "body": [
                                {"type": "layer_norm"},
                                {"type": "linear", "units": 36},
                                {"type": "attention", "heads": 3},
                                {"type": "gelu"},
                            ]
                        },
                    },
                    {"name": "c", "ops": [{"type": "silu"}, {"type": "linear", "units": 256}]},
                ],
                input={"shape": [9, 1, 1], "dtype": "uint8", "scale": 1},
            ),
            "faults": model(
                [{"name": "a", "ops": [{"type": "conv2d"}, {"type": "rel"}], "then": 1}, 7],
                inputs=1,
            ),
        },
    }


def main():
    target = (
        pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "corpus"
    )
    for name, inputs in corpora().items():
        directory = target / name
        directory.mkdir(parents=True, exist_ok=True)
        for label, data in inputs.items():
            (directory / label).write_bytes(data)


if __name__ == "__main__":
    main()
