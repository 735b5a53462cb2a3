"""CIFAR-10 as the benchmarks take it: two files in its binary format, of which a part trains."""

import pathlib

RECORD = 1 + 32 * 32 * 3


def add_arguments(parser, required):
    parser.add_argument(
        "--cifar10",
        nargs=2,
        type=pathlib.Path,
        metavar=("TRAIN", "TEST"),
        required=required,
        help="CIFAR-10's images in its binary format.",
    )


def write_part(train_file, images, part):
    """Write the first images of the training set to `part`."""
    with open(train_file, "rb") as file:
        data = file.read(images * RECORD)
    if len(data) < images * RECORD:
        raise SystemExit(f"{train_file}: {images} images expected, it has {len(data) // RECORD}")
    part.write_bytes(data)
