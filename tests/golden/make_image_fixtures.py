#!/usr/bin/python3
"""Make images/* and images.safetensors: small images of every supported kind, and Pillow's pixels,
               * for tests that need no Pillow.

    /usr/bin/python3 tests/golden/make_image_fixtures.py

Needs Debian's python3-pil, python3-numpy, python3-torch.

Of each image NAME: NAME.3 and NAME.1 [height, width, channels]: its pixels; NAME.3.HxW: resized.
All bytes, so nothing is rounded.
"""
import os
import struct
import zlib

import numpy as np
import torch
from PIL import Image

from make_fixtures import HERE, save

DIRECTORY = os.path.join(HERE, "images")
SIZES = (
    (8, 8),
    (13, 40),
    (23, 5),
    (1, 1),
)  # of an image of 17 x 22: both smaller, larger, mixed, one pixel


def picture(channels, height=17, width=22):
    """Slopes, an edge and noise."""
    random = np.random.RandomState(channels)
    h, w, c = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    values = (
        40 * c
        + 9 * h
        + 5 * w
        + 90 * (w > 11)
        + random.randint(0, 25, size=(height, width, channels))
    )
    return (values % 256).astype(np.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels, depth, colour, interlaced):
    """PNG files that Pillow cannot write: 16 bits, Adam7."""
    height, width = pixels.shape[:2]
    starts = (
        (0, 0, 8, 8),
        (0, 4, 8, 8),
        (4, 0, 8, 4),
        (0, 2, 4, 4),
        (2, 0, 4, 2),
        (0, 1, 2, 2),
        (1, 0, 2, 1),
    )
    lines = b""
    for top, left, down, right in starts if interlaced else ((0, 0, 1, 1),):
        for line in pixels[top::down, left::right]:
            lines += (
                b"\0" + line.astype(">u2" if depth == 16 else "u1").tobytes() if line.size else b""
            )
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines))
        + chunk(b"IEND", b"")
    )


def write_files():
    colour, grey = Image.fromarray(picture(3)), Image.fromarray(picture(1)[:, :, 0])
    alpha = Image.fromarray((picture(1)[:, :, 0] // 2 + 60).astype(np.uint8))
    palette = colour.quantize(16)
    palette.info["transparency"] = 3

    def path(name):
        return os.path.join(DIRECTORY, name)

    colour.save(path("colour.jpg"), quality=90)
    colour.save(path("fine.jpg"), quality=90, subsampling=0)
    colour.save(path("progressive.jpg"), quality=90, progressive=True)
    grey.save(path("grey.jpg"), quality=90)
    colour.convert("CMYK").save(path("cmyk.jpg"), quality=90)
    colour.save(path("colour.png"))
    grey.save(path("grey.png"))
    grey.convert("1").save(path("bits.png"))
    palette.save(path("palette.png"), transparency=3)
    Image.merge("LA", (grey, alpha)).save(path("grey-alpha.png"))
    Image.merge("RGBA", (*colour.split(), alpha)).save(path("alpha.png"))
    deep = picture(3).astype(np.uint16) * 257
    deep[:, :, 0] ^= 0x55
    for name, data in (
        ("deep.png", png(deep, 16, 2, False)),
        ("interlaced.png", png(picture(3), 8, 2, True)),
        ("interlaced-grey.png", png(picture(1), 8, 0, True)),
    ):
        with open(path(name), "wb") as file:
            file.write(data)


def read(name, channels):
    """As in a data set: no transparency, a JPEG's own luminance."""
    image = Image.open(os.path.join(DIRECTORY, name))
    mode = "RGB" if channels == 3 else "L"
    if name == "deep.png":  # Pillow drops the low bits
        deep = picture(3).astype(np.int64) * 257
        deep[:, :, 0] ^= 0x55
        image = Image.fromarray(((deep * 255 + 32895) >> 16).astype(np.uint8))
    if name.endswith(".jpg"):
        image.draft(mode, image.size)
    if image.mode == "RGBA":
        image = Image.merge("RGB", image.split()[:3])
    if image.mode == "LA":
        image = image.split()[0]
    if image.mode == "P":
        image.info.pop("transparency", None)
        image = image.convert("RGB")
    return image.convert(mode)


def main():
    os.makedirs(DIRECTORY, exist_ok=True)
    write_files()
    tensors = {}

    def add(key, image):
        pixels = np.asarray(image)
        tensors[key] = torch.from_numpy(pixels.reshape(pixels.shape[0], pixels.shape[1], -1).copy())

    for name in sorted(os.listdir(DIRECTORY)):
        if name == "cmyk.jpg":
            continue
        for channels in (3, 1):
            add(f"{name}.{channels}", read(name, channels))
        for height, width in SIZES:
            add(f"{name}.3.{height}x{width}", read(name, 3).resize((width, height), Image.BILINEAR))
    print(f"images: {len(tensors)} tensors, {save('images', tensors)} bytes")


if __name__ == "__main__":
    main()
