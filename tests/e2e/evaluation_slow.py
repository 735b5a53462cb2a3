"""Evaluations longer than any step: a slow device with a test set twenty times the train set."""

import gzip
import struct

from paceline import data_files, fashion_fleet, fashion_job, must, on_devices, tar_of
from runner import run

TIMES = 20


def repeated(path, times):
    """An IDX file whose samples are repeated `times` times."""
    raw = gzip.decompress(path.read_bytes())
    dimensions = raw[3]
    header = 4 + 4 * dimensions
    count = struct.unpack(">I", raw[4:8])[0]
    return raw[:4] + struct.pack(">I", times * count) + raw[8:header] + times * raw[header:]


def upload_large_test_set(fleet):
    files = []
    for path in data_files("fashion-mini", "train"):
        file = fleet.path / path.name.removesuffix(".gz")
        file.write_bytes(repeated(path, TIMES))
        files.append(file)
    fleet.request(
        "PUT",
        "/v1/datasets/large-test",
        tar_of(*files),
        {"Content-Type": "application/x-tar"},
        expect=201,
    )


def check_that_it_ends_in_one_generation(agents, **fields):
    dataset = {"train": "fashion-train", "test": "large-test"}
    with fashion_fleet(agents, "--slowdown", 4) as fleet:
        upload_large_test_set(fleet)
        job = fleet.submit(
            fashion_job(dataset=dataset, batch=64, **on_devices(agents, agents), **fields)
        )
        done = fleet.wait(job, "succeeded", seconds=300)
        must(done["generation"] == 1, f"generation {done['generation']}")
        must(done["deadlines"]["evaluation_ms"] > 30000, f"{done['deadlines']}")
        accuracies = fleet.get(f"/v1/jobs/{job['id']}/metrics?name=test_accuracy")["items"]
        must([item["step"] for item in accuracies] == [done["progress"]["steps"]], f"{accuracies}")


def test_steps_that_end_inside_an_epoch():
    check_that_it_ends_in_one_generation(1, steps=20)


def test_epochs_that_every_epochs_does_not_divide():
    check_that_it_ends_in_one_generation(2, epochs=1, evaluate={"every_epochs": 2})


if __name__ == "__main__":
    run(globals())
