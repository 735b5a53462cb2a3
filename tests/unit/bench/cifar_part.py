"""CIFAR-10 for benchmarks: the option, and the part of the images that trains."""

import argparse
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bench"))

import cifar  # noqa: E402
from paceline import must  # noqa: E402
from runner import run  # noqa: E402


def test_the_option_takes_two_files():
    parser = argparse.ArgumentParser()
    cifar.add_arguments(parser, required=True)
    options = parser.parse_args(["--cifar10", "train.bin", "test.bin"])
    must(options.cifar10 == [pathlib.Path("train.bin"), pathlib.Path("test.bin")], f"{options}")


def test_the_first_images_train_and_too_few_are_an_error():
    with tempfile.TemporaryDirectory() as directory:
        train, part = pathlib.Path(directory) / "train.bin", pathlib.Path(directory) / "part.bin"
        images = [bytes([number]) * cifar.RECORD for number in range(3)]
        train.write_bytes(b"".join(images))
        cifar.write_part(train, 2, part)
        must(part.read_bytes() == images[0] + images[1], "the first two images")
        try:
            cifar.write_part(train, 4, part)
        except SystemExit as error:
            must("4 images expected, it has 3" in str(error), f"{error}")
        else:
            raise AssertionError("4 of 3 images were written")


if __name__ == "__main__":
    run(globals())
